"""Lives of a database on a mounted volume, each ended by force, and what is there afterwards.

As a script it is the long campaign: `python tests/python/volume_lives.py --kills 200 --cuts 200`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flashwright import _core
from flashwright._core import FlashwrightError
from flashwright.volumes import mounting

STACKS = (
    "direct",
    "scheduler(coalesce)",
    "stable_buffer(size=1Mi,page=4Ki)",
    "stable_buffer(size=1Mi,page=4Ki)|checksums(delay=20ms)",
    "log_volume(segment=256Ki)",
    "scheduler(coalesce)|log_volume(segment=256Ki)",
    "replicas(partitions=8,patience=200us)",
)
ASIDE = ", staging aside"
"""Behind a stack: the area of a layer lies on a drive of its own."""
TWO_DEVICES = (
    "stable_buffer(size=1Mi,page=4Ki)" + ASIDE,
    "log_volume(segment=256Ki)" + ASIDE,
    "log_volume(segment=256Ki)|stable_buffer(size=1Mi,page=4Ki,ack=written)" + ASIDE,
)
JOURNALS = ("delete", "wal")
_COMMITS = """
import sqlite3, sys
path, journal, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = sqlite3.connect(path, isolation_level=None)
base.execute(f"pragma journal_mode={journal}")
# With `full` a rollback journal's removal, which is the commit, may still be undone by a power cut.
base.execute("pragma synchronous=extra")
while True:
    base.execute("begin")
    base.execute("insert into t values (?, ?)", (number, bytes([number % 251]) * (number % 9000)))
    base.execute("update t set body = body where n = ?", (number // 2,))
    base.execute("commit")
    print(number, flush=True)
    number += 1
"""


@dataclass
class Life:
    """A database on a volume, from one violent end to the next."""

    folder: Path
    stack: str
    journal: str
    seed: int
    acknowledged: int = 0
    """The last commit that was acknowledged."""
    ends: list[str] = field(default_factory=list)

    def device(self, name: str = "drive", cut_after: int = 0) -> str:
        """Give the volume's device: a drive whose power may be cut."""
        data = self.folder / name
        return (
            f"emulated(profile=intel-x25e,size=256Mi,state=fresh,data={data},seed={self.seed},"
            f"cut_after={cut_after})"
        )

    def begin(self) -> None:
        """Make the volume, the file system and the database."""
        stack, is_aside = self.stack.removesuffix(ASIDE), self.stack.endswith(ASIDE)
        staging = self.device("staging") if is_aside else None
        _core.create_volume(self.device(), stack, seed=self.seed, staging=staging)
        (self.folder / "mount").mkdir()
        mounted = mounting.mount(self._plan(make="ext4"))
        directory = self.folder / "mount"
        base = sqlite3.connect(directory / "db")
        base.execute("create table t (n integer primary key, body blob)")
        base.commit()
        base.close()
        mounting.unmount(mounted)

    def _plan(
        self, make: str | None = None, *, cut_after: int = 0, is_cut_aside: bool = False
    ) -> mounting.MountPlan:
        """Give what is mounted: with two drives, one of both may lose its power."""
        staging = None
        if self.stack.endswith(ASIDE):
            staging = self.device("staging", cut_after if is_cut_aside else 0)
        device = self.device(cut_after=0 if is_cut_aside else cut_after)
        return mounting.MountPlan(device, self.folder / "mount", make, staging=staging)

    def end(self, *, by_cut: bool, draw: random.Random) -> None:
        """Let clients commit until the server is killed, or its drive loses power, and look."""
        # A cut while the volume is opened or the file system is mounted is one, too.
        cut_after = draw.randrange(1, 3000) if by_cut else 0
        is_cut_aside = self.stack.endswith(ASIDE) and draw.random() < 0.5
        try:
            mounted = mounting.mount(self._plan(cut_after=cut_after, is_cut_aside=is_cut_aside))
        except FlashwrightError as error:
            if not by_cut:
                raise
            self.ends.append(f"while it was mounted: {error}")
        else:
            self._commit_until_the_end(mounted.pid, None if by_cut else draw.randrange(1, 60))
            mounting.unmount(mounted)
            self.ends.append("under load")
        self._look()

    def _commit_until_the_end(self, server: int, commits: int | None) -> None:
        path = self.folder / "mount" / "db"
        words = [
            sys.executable,
            "-c",
            _COMMITS,
            str(path),
            self.journal,
            str(self.acknowledged + 1),
        ]
        client = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert client.stdout is not None
        seen = 0
        for line in client.stdout:
            if line.endswith("\n"):
                self.acknowledged = int(line)
                seen += 1
            if seen == commits:
                os.kill(server, signal.SIGKILL)
        # Without its server it gets an error from the system, and ends.
        client.wait(60)

    def _look(self) -> None:
        """Mount it again: the database is whole, and every acknowledged commit is there."""
        mounted = mounting.mount(self._plan())
        base = sqlite3.connect(self.folder / "mount" / "db")
        try:
            said = base.execute("pragma integrity_check").fetchone()[0]
            assert said == "ok", (self, said)
            count, last = base.execute("select count(*), coalesce(max(n), 0) from t").fetchone()
            assert count == last, (self, count, last)
            assert last >= self.acknowledged, f"{self}: acknowledged commits are lost, after {last}"
            for number, body in base.execute("select n, body from t"):
                assert body == bytes([number % 251]) * (number % 9000), (self, number)
            # A commit that was under way may be there, too.
            self.acknowledged = last
        finally:
            base.close()
            mounting.unmount(mounted)


def live(folder: Path, stack: str, journal: str, ends: int, *, by_cut: bool, seed: int) -> Life:
    """Let a database live and end `ends` times; raises AssertionError if something is lost."""
    return live_through(folder, stack, journal, [by_cut] * ends, seed=seed)


def live_through(
    folder: Path, stack: str, journal: str, ends_by_cut: Sequence[bool], *, seed: int
) -> Life:
    """Let a database live through ends, each by a power cut or by a kill."""
    life = Life(folder, stack, journal, seed)
    life.begin()
    draw = random.Random(f"{stack} {journal} {ends_by_cut[0]} {seed}")
    for by_cut in ends_by_cut:
        life.end(by_cut=by_cut, draw=draw)
    return life


class Ended(Protocol):
    """History of a database: its ends, and the transactions that it acknowledged."""

    ends: list[str]
    acknowledged: int


class Live(Protocol):
    """Lets a database live and end; raises AssertionError if something is lost."""

    def __call__(
        self, folder: Path, stack: str, journal: str, ends: int, *, by_cut: bool, seed: int
    ) -> Ended:
        """Let it end `ends` times, by power cuts or kills."""


def campaign(
    live: Live, journals: Sequence[str], about: str | None, stacks: Sequence[str] = STACKS
) -> None:
    """Run a campaign as the command line wants it: each stack with each journal."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--stack", action="append", help="instead of all; again for each")
    given = parser.parse_args()
    pairs = [(stack, journal) for stack in given.stack or stacks for journal in journals]
    for by_cut, wanted in ((False, given.kills), (True, given.cuts)):
        for number, (stack, journal) in enumerate(pairs):
            ends = wanted // len(pairs) + (number < wanted % len(pairs))
            if ends == 0:
                continue
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                life = live(Path(folder), stack, journal, ends, by_cut=by_cut, seed=given.seed)
            what = "power cuts" if by_cut else "kills"
            loaded = sum(end == "under load" for end in life.ends)
            sys.stdout.write(
                f"{stack}, journal {journal}: {ends} {what}, {loaded} of them under load, "
                f"{life.acknowledged} commits, none lost\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    campaign(live, JOURNALS, __doc__, STACKS + TWO_DEVICES)
