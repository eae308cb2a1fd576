"""Random writes that go on, beside the data sheet: SCHEDULER table 2.3 on `intel-x25e`."""

from __future__ import annotations

from experiments.drives.experiment import Point, drive

REQUESTS = 200_000
BLOCKS = 512
"""Erase blocks of a plane, 8192 in the drive: the same shares of spare space and reserve, sooner
turned over.
"""
DATA_SHEET = 3300


def sustained() -> float:
    """Give the random writes of 4 KiB a second of an aged drive, 32 outstanding."""
    aged = drive("intel-x25e", [f"media.erase_blocks_per_plane={BLOCKS}"])
    writer = "random(size=4Ki,reads=0)"
    found = type(aged)(aged.profile, "aged").run([writer] * 32, REQUESTS, REQUESTS // 4)
    return float(found["iops"])


def points() -> list[Point]:
    """Give the point, which is not judged: the profile was not made for it."""
    remark = (
        "not met: the profile has what PARALLELISM measured on a drive that was filled in order; "
        "what holds the real drive down when all of it is written at random is not in it"
    )
    return [
        Point(
            "random writes of 4 KB, all of an aged drive",
            "SCHEDULER table 2.3",
            DATA_SHEET,
            "requests/s",
            sustained,
            None,
            remark=remark,
        )
    ]
