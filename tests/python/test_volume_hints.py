"""Hints of how long what is written lives: from Python down to a log volume, and to the kernel."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path

import pytest

from flashwright import _core
from flashwright._core import InputError

MEBIBYTE = 1 << 20
F_GET_RW_HINT = 1024 + 11
LIFETIMES = {"none": 0, "short": 2, "medium": 3, "long": 4, "extreme": 5}


def made(folder: Path, stack: str) -> str:
    device = folder / "device"
    _core.allocate_file(device, 16 * MEBIBYTE)
    _core.create_volume(str(device), stack)
    return str(device)


def counter(volume: _core.Volume, name: str) -> int:
    found = re.search(
        rf"^flashwright_layer_{name}(_total)?{{[^}}]*}} (\d+)$", volume.metrics(), re.M
    )
    assert found is not None, name
    return int(found[2])


def kernels_hint(device: str) -> int:
    fd = os.open(device, os.O_RDONLY)
    try:
        return int(struct.unpack("Q", fcntl.fcntl(fd, F_GET_RW_HINT, bytes(8)))[0])
    finally:
        os.close(fd)


@pytest.mark.parametrize("hints", ["yes", "no"])
def test_a_log_volume_counts_and_keeps_what_was_hinted(tmp_path: Path, hints: str) -> None:
    device = made(tmp_path, f"scheduler(coalesce)|log_volume(segment=64Ki,hints={hints})")
    volume = _core.Volume(device)
    before = counter(volume, "hinted_pages")
    for number, lifetime in enumerate(LIFETIMES):
        volume.write(number * 65536, bytes([number + 1]) * 8192, lifetime=lifetime)
    volume.flush()
    assert counter(volume, "hinted_pages") - before == 4 * 2
    volume.close()
    again = _core.Volume(device)
    for number in range(len(LIFETIMES)):
        assert again.read(number * 65536, 8192) == bytes([number + 1]) * 8192
    again.close()
    assert _core.check_volume(device)["bad_bytes"] == 0


@pytest.mark.parametrize("stack", ["direct", "log_volume(segment=64Ki,hints=yes)"])
def test_the_kernel_is_told_of_a_file(tmp_path: Path, stack: str) -> None:
    device = made(tmp_path, stack)
    volume = _core.Volume(device)
    for lifetime in ["long", "short", "extreme", "medium"]:
        volume.write(0, bytes(4096), lifetime=lifetime)
        assert kernels_hint(device) == LIFETIMES[lifetime]
    volume.write(0, bytes(4096))
    assert kernels_hint(device) == 0, "nobody says it any more"
    volume.write(0, bytes(4096), lifetime="short")
    volume.close()
    assert kernels_hint(device) == 0, "whoever writes next is not misled"


def test_a_log_volume_that_takes_no_hints_tells_none(tmp_path: Path) -> None:
    device = made(tmp_path, "log_volume(segment=64Ki)")
    volume = _core.Volume(device)
    volume.write(0, bytes(4096), lifetime="short")
    assert kernels_hint(device) == 0
    volume.close()


def test_an_unknown_lifetime_is_one_line(tmp_path: Path) -> None:
    volume = _core.Volume(made(tmp_path, "direct"))
    with pytest.raises(InputError, match="one of none, short, medium, long, extreme"):
        volume.write(0, b"x", lifetime="forever")
    volume.close()
