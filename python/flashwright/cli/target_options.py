"""Options of commands that take any device, real or simulated.

Which part of it, what may be done to it, how it is at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from flashwright import _core
from flashwright.cli.lists import Listed
from flashwright.cli.options import Number, Overrides, Size, option

if TYPE_CHECKING:
    from flashwright.probing.targets import DriveArray, Region, Target


class RegionText(click.ParamType["tuple[int, int]"]):
    """A part of a device: `LENGTH` from its start, or `OFFSET+LENGTH`.

    Sizes as `512Mi`, `1G`, `4096`.
    """

    name = "[OFFSET+]LENGTH"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Read offset and length in bytes."""
        if isinstance(value, tuple):
            return value
        first, plus, second = str(value).partition("+")
        offset, length = map(_core.parse_bytes, (first, second) if plus else ("0", first))
        if offset is None or not length:
            self.fail(
                f"{value!r} is not a region: write 1Gi, or 512Mi+1Gi for the 1 GiB behind the "
                "first 512 MiB",
                param,
                ctx,
            )
        return offset, length


@dataclass(frozen=True)
class TargetOptions(Overrides):
    """Which part of a device is touched, what may be done to it, how it is at first.

    Options of `probe`, `replay` and `layers`.
    """

    region_given: tuple[int, int] | None = option(
        "Touch only this part of the device.  [default: all of it]", "--region", type=RegionText()
    )
    write: bool = option(
        "Allow writes to a block device or file: what is in the region is lost. Simulated drives "
        "and memory are always written."
    )
    destroy_data: tuple[str, ...] = option(
        "Confirm overwriting a device that holds a file system, partitions or other data, by "
        "repeating its path.",
        cls=Listed,
        metavar="DEVICE",
    )
    create: int | None = option(
        "First make DEVICE a file of this size, filled with data, if it does not exist.",
        type=Size(),
    )
    polled: bool = option(
        "Ask a real device for completions instead of waiting for its interrupts, if the kernel "
        "allows."
    )
    endurance_tbw: float | None = option(
        "Terabytes that the drive's maker lets be written to it: for what share of its life a run "
        "takes.",
        type=Number(0, min_open=True),
        metavar="TB",
    )
    state: str | None = option(
        "A simulated drive before the first request: erased; every page written once; then "
        "overwritten at random.  [default: filled]",
        type=click.Choice(["fresh", "filled", "aged"]),
    )
    overwrites: float | None = option(
        "With --state aged: random page writes, in capacities of the drive.  [default: 2]",
        type=Number(0, 1000),
        metavar="X",
    )
    array: str | None = option(
        "Make one device of several such simulated drives, as docs/arrays.md has it: mirrored, "
        "striped, raid5, diff_raid(shares=70); `flashwright list array`.",
        metavar="KIND",
    )
    drives: int | None = option(
        "With --array: how many drives.  [default: 2 mirrored, else 4]",
        type=click.IntRange(2, 64),
        metavar="N",
    )
    missing: int | None = option(
        "With --array: take this drive away, from 0; the array has parity then.",
        type=click.IntRange(min=0),
        metavar="N",
    )
    seed: int = option("Seed of all that is random.", type=click.IntRange(0, 2**63 - 1), default=1)

    @property
    def region(self) -> Region:
        """The part that is touched."""
        from flashwright.probing.targets import Region

        return Region(*(self.region_given or ()))

    def check(self, *devices: str) -> None:
        """Raise click.UsageError if options of these devices contradict each other."""
        if self.destroy_data and not self.write:
            raise click.UsageError("--destroy-data: it confirms --write; give both")
        if self.overwrites is not None and self.state != "aged":
            raise click.UsageError("--overwrites: it is of --state aged")
        if self.array is None and (self.drives is not None or self.missing is not None):
            raise click.UsageError("--drives and --missing are of --array")
        for path in self.destroy_data:
            if path not in devices:
                raise click.UsageError(
                    f"--destroy-data {path}: it must repeat the device, {devices[0]}"
                )

    def target(self, device: str) -> Target:
        """Find a device, made first if that is asked for, with what may be done to it.

        Raises InputError if there is none of that name, or it cannot have this state.
        """
        from flashwright.cli import probe_runs
        from flashwright.probing.targets import Target

        if self.create is not None:
            probe_runs.create(device, self.create)
        return self.opened(
            Target.find(
                device,
                self.overrides,
                state=self.state,
                overwrites=self.overwrites,
                array=self._array(),
            )
        )

    def _array(self) -> DriveArray | None:
        from flashwright.probing.targets import DriveArray

        if self.array is None:
            return None
        few = 2 if self.array.startswith("mirrored") else 4
        return DriveArray(self.array, self.drives or few, self.missing)

    def opened(self, target: Target) -> Target:
        """Give the device with what may be done to it, if it is a real one."""
        access = (
            "destroy_data"
            if target.given in self.destroy_data
            else "write"
            if self.write
            else "read_only"
        )
        return target.opened_by(access, self.seed, region=self.region, is_polled=self.polled)
