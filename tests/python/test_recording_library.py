"""Recording from Python, on a loop device: `flashwright.record` and `flashwright.waterfall`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import flashwright as fw
from flashwright.recording import file_systems
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from kill_recording import settings_at_rest
from recordings import require

TRACERS = Path("/sys/kernel/tracing/available_tracers")
PAGES = 300


@pytest.fixture
def volume() -> Iterator[Volume]:
    can = os.geteuid() == 0 and TRACERS.exists() and "blk" in TRACERS.read_text()
    require(can, "recording needs root, and a kernel with the blk tracer")
    with Supervisor() as supervisor:
        made = Volume(supervisor, file_systems.find("ext4"))
        made.on_image(Path("/var/tmp"), 64 << 20)  # noqa: S108
        yield made


def _write(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    for number in range(PAGES):
        os.pwrite(file, os.urandom(4096), number * 4096)
        os.fsync(file)
    os.close(file)


def test_what_is_written_within_is_recorded(volume: Volume, tmp_path: Path) -> None:
    assert volume.mount_point is not None
    before = settings_at_rest()
    with fw.record(volume.mount_point, tmp_path / "rec"):
        _write(volume.mount_point / "file")
    assert settings_at_rest() == before
    found = fw.open_run(tmp_path / "rec")
    assert found["recording"]["state"] == "stopped"
    assert (found.table("requests")["op"] == "write").sum() >= PAGES
    assert found.provenance["command"][0].startswith("flashwright.record(")
    assert fw.simulate(tmp_path / "rec", attainable=False)["host_page_writes"] >= PAGES
    with pytest.raises(fw.InputError, match="no recording with the calls of a database"):
        fw.waterfall(tmp_path / "rec")


def test_an_error_within_ends_the_recording(volume: Volume, tmp_path: Path) -> None:
    assert volume.mount_point is not None
    before = settings_at_rest()
    with pytest.raises(ZeroDivisionError), fw.record(volume.mount_point, tmp_path / "rec"):
        raise ZeroDivisionError
    assert settings_at_rest() == before
