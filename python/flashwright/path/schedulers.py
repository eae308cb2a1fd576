"""The kernel's I/O schedulers, on the device below the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashwright._core import InputError
from flashwright.recording import device as devices
from flashwright.recording.tools import need_root
from flashwright.recording.volume import VolumePlan
from flashwright.workloads.session import BenchPlan
from flashwright.workloads.supervisor import Supervisor

from .base import Axis, Level, Study, volume_of

_LOOP = Path("/sys/block/loop0/queue/scheduler")


@dataclass(frozen=True)
class Scheduled:
    """A volume whose device has a certain I/O scheduler."""

    volume: VolumePlan
    scheduler: str

    def make(self, supervisor: Supervisor, on: Path) -> Path:
        """Make the volume, then choose the scheduler; what was chosen before comes back at the end.

        Raises:
            InputError: it cannot be made here, or the kernel does not take the scheduler.
            RunError: a program of the system failed.
        """
        mount_point = self.volume.make(supervisor, on)
        path = _file_of(devices.find(mount_point).sys)
        before = _chosen(path)
        supervisor.undo("sh", "-c", '[ ! -e "$1" ] || echo "$2" > "$1"', "sh", path, before)
        try:
            path.write_text(self.scheduler)
        except OSError as error:
            raise InputError(
                f"{path}: the kernel does not take `{self.scheduler}`: {error.strerror}"
            ) from error
        return mount_point


def _file_of(sys: Path) -> Path:
    # A partition has the queue of its disk.
    own = sys / "queue" / "scheduler"
    return own if own.exists() else sys.resolve().parent / "queue" / "scheduler"


def _chosen(path: Path) -> str:
    return path.read_text().partition("[")[2].partition("]")[0]


def _offered(plan: BenchPlan) -> list[str]:
    device = volume_of(plan).device
    path = _LOOP if device is None else _file_of(devices.find(device).sys)
    try:
        return path.read_text().replace("[", "").replace("]", "").split()
    except OSError as error:
        raise InputError(
            f"{path}: the device's I/O schedulers cannot be read: {error.strerror}"
        ) from error


def _level(name: str) -> Level:
    return Level(name, None, lambda plan: replace(plan, ground=Scheduled(volume_of(plan), name)))


def _levels(plan: BenchPlan, given: Sequence[str]) -> list[Level]:
    need_root("choosing an I/O scheduler")
    offered = _offered(plan)
    for name in given:
        if name not in offered or list(given).count(name) > 1:
            wrong = "is named twice" if name in offered else "is not offered for this device"
            raise InputError(
                f"--levels of schedulers: `{name}` {wrong}; the kernel offers {', '.join(offered)}"
            )
    return [_level(name) for name in given or offered]


STUDY = Study(
    name="schedulers",
    summary="the I/O schedulers that the kernel offers",
    source="SCHEDULER 5.4.2, figure 5.12",
    axis=Axis("I/O scheduler"),
    levels=_levels,
)
