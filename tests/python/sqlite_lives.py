"""Lives of a database that SQLite keeps on a volume itself, without a mount or root.

Each is ended by force. As a script it is the long campaign:
`python tests/python/sqlite_lives.py --kills 200 --cuts 200`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from flashwright import _core, sqlite
from volume_lives import campaign

JOURNALS = ("delete", "truncate", "persist", "wal")
_POWER_WENT = 137
_COMMITS = """
import sys
from flashwright import sqlite
volume, journal, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = sqlite.connect(volume, "db", isolation_level=None)
base.execute(f"pragma journal_mode={journal}")
base.execute("pragma synchronous=full")
# Small, so that it is used again and again, and that pages leave it before the commit.
base.execute("pragma wal_autocheckpoint=100")
base.execute("pragma cache_size=20")
while True:
    base.execute("begin")
    base.execute("insert into t values (?, ?)", (number, bytes([number % 251]) * (number % 9000)))
    base.execute("update t set body = body where n > ?", (number - number % 30,))
    base.execute("commit")
    print(number, flush=True)
    number += 1
"""


@dataclass
class Life:
    """A database, from one violent end to the next."""

    folder: Path
    stack: str
    journal: str
    seed: int
    by_cut: bool
    acknowledged: int = 0
    """The last commit that was acknowledged."""
    ends: list[str] = field(default_factory=list)

    def volume(self, cut_after: int = 0) -> str:
        """Give the volume: on a drive whose power may be cut, or on a file."""
        data = self.folder / "drive"
        if not self.by_cut:
            return str(data)
        return (
            f"emulated(profile=intel-x25e,size=256Mi,state=fresh,data={data},seed={self.seed},"
            f"cut_after={cut_after})"
        )

    def begin(self) -> None:
        """Make the volume and the database."""
        if not self.by_cut:
            _core.allocate_file(Path(self.volume()), 256 << 20)
        _core.create_volume(self.volume(), self.stack, seed=self.seed)
        with contextlib.closing(sqlite.connect(self.volume(), "db")) as base:
            base.execute("create table t (n integer primary key, body blob)")
            base.commit()

    def end(self, draw: random.Random) -> None:
        """Let a client commit until it is killed, or its drive loses power, and look."""
        # A cut while the volume is opened is one, too.
        cut_after = draw.randrange(1, 2000) if self.by_cut else 0
        words = [self.volume(cut_after), self.journal, str(self.acknowledged + 1)]
        client = subprocess.Popen(
            [sys.executable, "-c", _COMMITS, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        seen, commits = 0, None if self.by_cut else draw.randrange(1, 150)
        for line in client.stdout:
            if line.endswith("\n"):
                self.acknowledged = int(line)
                seen += 1
            if seen == commits:
                os.kill(client.pid, signal.SIGKILL)
        _, said = client.communicate(timeout=60)
        wanted = _POWER_WENT if self.by_cut else -signal.SIGKILL
        assert client.returncode == wanted, (self, client.returncode, said)
        self.ends.append("under load" if seen else "before the first commit")
        self._look()

    def _look(self) -> None:
        """Open it again: the database is whole, and every acknowledged commit is there."""
        with contextlib.closing(sqlite.connect(self.volume(), "db")) as base:
            said = base.execute("pragma integrity_check").fetchone()[0]
            assert said == "ok", (self, said)
            count, last = base.execute("select count(*), coalesce(max(n), 0) from t").fetchone()
            assert count == last, (self, count, last)
            assert last >= self.acknowledged, f"{self}: acknowledged commits are lost, after {last}"
            for number, body in base.execute("select n, body from t"):
                assert body == bytes([number % 251]) * (number % 9000), (self, number)
            # A commit that was under way may be there, too.
            self.acknowledged = last


def live(folder: Path, stack: str, journal: str, ends: int, *, by_cut: bool, seed: int) -> Life:
    """Let a database live and end `ends` times; raises AssertionError if something is lost."""
    life = Life(folder, stack, journal, seed, by_cut)
    life.begin()
    draw = random.Random(f"{stack} {journal} {by_cut} {seed}")
    for _ in range(ends):
        life.end(draw)
    return life


if __name__ == "__main__":
    campaign(live, JOURNALS, __doc__)
