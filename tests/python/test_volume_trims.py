"""Cost of trims: fstrim and btrfs's own discards on mounted volumes; holes over NBD."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from flashwright import _core
from flashwright.volumes import metrics, places
from support import find_program
from test_volumes import MEBIBYTE, made, mounted, served

STACKS = (
    "direct",
    "holes",
    "scheduler(coalesce)",
    "stable_buffer(size=4Mi)",
    "checksums",
    "replicas",
    "log_volume(segment=256Ki)",
    "scheduler(coalesce)|stable_buffer(size=4Mi)|log_volume(segment=256Ki)",
)
CONSTANT = 512 << 10
"""Bytes that marks, blocks and slots take, and parts of pages at the ends of what is trimmed.

A file system of this size has blocks of 1 KiB, and a buffer over a log makes 16 KiB of each part.
"""


def _done(one: places.Mounted, op: str) -> float:
    bytes_of = metrics.read(one.place.control).of("volume_device_bytes_total")
    return sum(value for labels, value in bytes_of if labels["op"] == op)


def _synced(directory: Path) -> None:
    subprocess.run(["sync", "--file-system", directory], check=True)


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("stack", STACKS)
def test_fstrim_writes_next_to_nothing(tmp_path: Path, stack: str) -> None:
    find_program("fstrim")
    device, directory = made(tmp_path, stack, 160), tmp_path / "mount"
    kept = b"kept" * (MEBIBYTE // 4)
    with mounted(device, directory):
        (directory / "kept").write_bytes(kept)
        filler = directory / "filler"
        filler.write_bytes(os.urandom(64 * MEBIBYTE))
        _synced(directory)
        filler.unlink()
    # Writes that layers held back are done by now, and are not counted.
    with mounted(device, directory, None) as one:
        _synced(directory)
        before = _done(one, "write")
        said = subprocess.run(
            ["fstrim", "--verbose", directory], check=True, capture_output=True, text=True
        ).stdout
        trimmed = int(said.split("(")[1].split()[0])
        assert trimmed > 48 * MEBIBYTE
        _synced(directory)
        cost = _done(one, "write") - before
        assert cost <= trimmed / 1000 + CONSTANT, said
    with mounted(device, directory, None):
        assert (directory / "kept").read_bytes() == kept
    assert _core.check_volume(device)["bad_bytes"] == 0


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("stack", STACKS)
def test_what_btrfs_discards_by_itself_writes_no_zeros(tmp_path: Path, stack: str) -> None:
    find_program("mkfs.btrfs")
    device, directory = made(tmp_path, stack, 256), tmp_path / "mount"
    with mounted(device, directory, "btrfs") as one:
        filler = directory / "filler"
        filler.write_bytes(os.urandom(48 * MEBIBYTE))
        _synced(directory)
        before = _done(one, "write")
        filler.unlink()
        _synced(directory)
        subprocess.run(["fstrim", directory], check=True)
        _synced(directory)
        # Its own trees take some; what it frees is 48 MiB and more.
        assert _done(one, "write") - before < 6 * MEBIBYTE


def test_a_trim_of_a_buffered_page_leaves_one_of_both(tmp_path: Path) -> None:
    """It gave the old bytes until it was opened again, and then zeros."""
    device = made(tmp_path, "stable_buffer(size=1Mi,page=4Ki)", 16)
    volume = _core.Volume(device)
    volume.write(0, b"old" * 4096)
    volume.trim(0, 8192)
    before = volume.read(0, 12_288)
    volume.close()
    again = _core.Volume(device)
    assert again.read(0, 12_288) == before
    assert before[:8192] == bytes(8192)
    again.close()


@pytest.mark.parametrize("stack", ["direct", "checksums", "log_volume(segment=256Ki)"])
def test_copy_tools_see_holes_over_nbd(tmp_path: Path, stack: str) -> None:
    nbdinfo, nbdcopy = find_program("nbdinfo"), find_program("nbdcopy")
    device, image, copy = made(tmp_path, stack, 32), tmp_path / "image", tmp_path / "copy"
    with image.open("wb") as file:
        file.truncate(16 * MEBIBYTE)
        file.seek(4 * MEBIBYTE)
        file.write(os.urandom(MEBIBYTE))
    with served(device, tmp_path / "nbd.sock") as uri:
        subprocess.run([nbdcopy, "--flush", image, uri], check=True)
        said = subprocess.run(
            [nbdinfo, "--map", "--json", uri], check=True, capture_output=True, text=True
        ).stdout
        extents = json.loads(said)
        holes = [(one["offset"], one["length"]) for one in extents if one["type"] == 3]
        data = [
            (one["offset"], one["length"])
            for one in extents
            if one["type"] == 0 and one["offset"] < 16 * MEBIBYTE
        ]
        assert sum(length for _, length in holes) >= 14 * MEBIBYTE, said
        assert data == [(4 * MEBIBYTE, MEBIBYTE)] or sum(length for _, length in data) <= (
            2 * MEBIBYTE
        ), said
        subprocess.run([nbdcopy, uri, copy], check=True)
    whole = copy.read_bytes()
    assert whole[: 16 * MEBIBYTE] == image.read_bytes()
    assert copy.stat().st_blocks * 512 < 12 * MEBIBYTE + (copy.stat().st_size - 16 * MEBIBYTE)
