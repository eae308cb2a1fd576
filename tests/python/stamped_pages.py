"""A process that writes pages with stamps, flushes and is killed, and what is there after that."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from flashwright import _core

PAGE_BYTES = 4096
_WORKER = """
import json, random, sys
from flashwright import _core
device, life = sys.argv[1], int(sys.argv[2])
volume, draw, stamp = _core.Volume(device), random.Random(life), life * 1_000_000
while True:
    written = {}
    for _ in range(20):
        page, stamp = draw.randrange(2000), stamp + 1
        volume.write(page * 4096, stamp.to_bytes(8, "little") * 512)
        written[page] = stamp
    volume.flush()
    print(json.dumps(written), flush=True)
"""


def live(device: str, life: int, flushes: int) -> dict[int, int]:
    """Write to the volume on a device until that many flushes were reported, then kill -9.

    Gives the stamp of each page that a reported flush covers. Stamps of a later life are greater.
    """
    worker = subprocess.Popen(
        [sys.executable, "-c", _WORKER, device, str(life)], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    reported: list[str] = []
    for line in worker.stdout:
        reported.append(line)
        if len(reported) >= flushes:
            worker.send_signal(signal.SIGKILL)
            break
    reported += worker.stdout.readlines()
    worker.wait()
    assert len(reported) >= flushes, "it ended before it was killed"
    durable: dict[int, int] = {}
    for line in reported:
        # The last one may be cut short.
        if line.endswith("\n"):
            durable.update({int(page): stamp for page, stamp in json.loads(line).items()})
    return durable


def check(volume: _core.Volume, durable: dict[int, int], where: object) -> None:
    """Hold a volume against what has to be there: that stamp or a newer one, in all of the page."""
    for page, stamp in durable.items():
        held = volume.read(page * PAGE_BYTES, PAGE_BYTES)
        newest = int.from_bytes(held[:8], "little")
        assert newest >= stamp, (where, page)
        assert held == newest.to_bytes(8, "little") * (PAGE_BYTES // 8), (where, page)
