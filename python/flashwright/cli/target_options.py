"""Options of commands that take any device, real or simulated.

Which part of it, what may be done to it, how it is at first.
"""

from __future__ import annotations

import re
from typing import Any

import click

from flashwright.cli.options import Number, apply_options, seed_option, set_option

_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}i": 1024**power for power, unit in enumerate("kmgt", 1)},
}


def _size(text: str) -> int | None:
    """Read bytes: k, M, G, T are thousands, Ki, Mi, Gi, Ti powers of two. None if it is no size."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]i?|)b?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else None


class ByteSize(click.ParamType["int"]):
    """A size of a file in bytes: `1Gi`, `500M`."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the size: at least 1 byte."""
        found = value if isinstance(value, int) else _size(str(value))
        if not found:
            self.fail(f"{value!r} is not a size in bytes: write 1Gi or 500M", param, ctx)
        return found


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
        offset, length = (_size(text) for text in ((first, second) if plus else ("0", first)))
        if offset is None or not length:
            self.fail(
                f"{value!r} is not a region: write 1Gi, or 512Mi+1Gi for the 1 GiB behind the "
                "first 512 MiB",
                param,
                ctx,
            )
        return offset, length


target_options = apply_options(
    click.option(
        "--region",
        type=RegionText(),
        help="Touch only this part of the device.  [default: all of it]",
    ),
    click.option(
        "--write",
        is_flag=True,
        help="Allow writes to a block device or file: what is in the region is lost. Simulated "
        "drives and memory are always written.",
    ),
    click.option(
        "--destroy-data",
        multiple=True,
        metavar="DEVICE",
        help="The second telling: write even if DEVICE holds a file system, partitions, or other "
        "data. Repeat the path.",
    ),
    click.option(
        "--create",
        type=ByteSize(),
        help="First make DEVICE a file of this size, filled with data, if it does not exist.",
    ),
    click.option(
        "--polled",
        is_flag=True,
        help="Ask a real device for completions instead of waiting for its interrupts, if the "
        "kernel allows.",
    ),
    click.option(
        "--endurance-tbw",
        type=Number(0, min_open=True),
        metavar="TB",
        help="Terabytes that the drive's maker lets be written to it: for what share of its life a "
        "run takes.",
    ),
    set_option,
    click.option(
        "--state",
        type=click.Choice(["fresh", "filled", "aged"]),
        help="A simulated drive before the first request: erased; every page written once; then "
        "overwritten at random.  [default: filled]",
    ),
    click.option(
        "--overwrites",
        type=Number(0, 1000),
        metavar="X",
        help="With --state aged: random page writes, in capacities of the drive.  [default: 2]",
    ),
    seed_option("Seed of all that is random.", bits=63),
)
"""Of `probe` and `replay`."""


def check_targets(
    devices: tuple[str, ...],
    destroy_data: tuple[str, ...],
    *,
    write: bool,
    state: str | None,
    overwrites: float | None,
) -> None:
    """Raise click.UsageError if options of these devices contradict each other."""
    if destroy_data and not write:
        raise click.UsageError(
            "--destroy-data: it is the second telling, and --write is the first; give both"
        )
    if overwrites is not None and state != "aged":
        raise click.UsageError("--overwrites: it is of --state aged")
    for path in destroy_data:
        if path not in devices:
            raise click.UsageError(
                f"--destroy-data {path}: it must repeat the device, {devices[0]}"
            )
