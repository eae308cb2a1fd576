"""`replay --record`: records what the device gets, and holds it against the trace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright._core import InputError
from flashwright.runs import command_line
from flashwright.sources import REQUESTS_FILE

if TYPE_CHECKING:
    from flashwright.probing.targets import Target
    from flashwright.recording.device import BlockDevice
    from flashwright.workloads.supervisor import Supervisor

_PATIENCE_S = 60.0
_NO_MERGES = "2"


def is_recorded_by_us(target: Target) -> bool:
    """Tell whether a layer of ours has to record: the kernel traces its own block devices alone."""
    return not Path(target.given).is_block_device()


def file_in(folder: Path) -> Path:
    """Give the file for such a recording in a folder, which is made.

    Raises InputError if there is something in it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(path.name != REQUESTS_FILE for path in folder.iterdir()):
            raise InputError(f"--record {folder}: the folder is not empty; choose another")
    except OSError as error:
        raise InputError(f"--record {folder}: {error.strerror}") from error
    return folder / REQUESTS_FILE


def check() -> None:
    """Raise InputError if what a block device gets cannot be recorded."""
    from flashwright.recording.tools import need_root

    need_root("--record")


@contextlib.contextmanager
def recorded(target: Target, folder: Path, buffer_kib: int) -> Iterator[None]:
    """Record what the device gets meanwhile, with merging of requests in the block layer off.

    Raises InputError if it cannot be recorded here.
    """
    from flashwright.recording import device
    from flashwright.recording.recorder import Recorder
    from flashwright.workloads.supervisor import Supervisor

    found = device.find(Path(target.given))
    with Supervisor() as supervisor:
        recorder = Recorder(
            supervisor,
            found,
            folder,
            command=command_line(),
            buffer_kib=buffer_kib,
            patience_s=_PATIENCE_S,
        )
        try:
            # First: while another recording goes on, its device's setting is not ours to change,
            # nor to remember.
            recorder.prepare()
            with _unmerged(supervisor, found):
                recorder.start()
                yield
                recorder.stop()
        finally:
            recorder.close()


@contextlib.contextmanager
def _unmerged(supervisor: Supervisor, device: BlockDevice) -> Iterator[None]:
    """Keep the block layer from merging requests that lie side by side.

    A trace holds what was merged already.
    """
    setting = device.queue / "nomerges"
    before = setting.read_text().strip()
    number = supervisor.undo("sh", "-c", '[ ! -e "$1" ] || echo "$2" > "$1"', "sh", setting, before)
    try:
        setting.write_text(_NO_MERGES)
        yield
    finally:
        if setting.exists():
            setting.write_text(before)
        supervisor.forget(number)
