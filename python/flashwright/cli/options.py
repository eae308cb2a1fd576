"""Options that several commands share, and the reading of their values."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Fractions(click.ParamType[tuple[float, ...]]):
    """A comma-separated list of over-provisionings: `0.1,0.2` or `10%,20%`."""

    name = "LIST"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Read the list: every value above 0 and at most 100, none twice."""
        if isinstance(value, tuple):
            return value
        values = tuple(Fraction().convert(part, param, ctx) for part in str(value).split(","))
        if len(set(values)) != len(values):
            self.fail(f"{value!r} names a value twice", param, ctx)
        return tuple(sorted(values))


class Fraction(click.ParamType[float]):
    """An over-provisioning: `0.2` or `20%`."""

    name = "FRACTION"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the value: above 0 and at most 100 (which is 10000 %)."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = float("nan")
        if not 0 < number <= 100:
            self.fail(
                f"{text!r} is not an over-provisioning: write a number above 0, such as 0.2 or 20%",
                param,
                ctx,
            )
        return number


class Size(click.ParamType[int]):
    """A size in bytes: `4096`, `4k`, `16KiB`, `2G`."""

    name = "BYTES"
    _units: ClassVar[dict[str, int]] = {"": 1} | {
        f"{letter}{end}": 1024**power
        for power, letter in enumerate("kmg", 1)
        for end in ("", "i", "ib")
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the size: at least 1 byte; k, M and G are powers of two."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)\s*([a-zA-Z]*)", str(value).strip())
        unit = self._units.get(match[2].lower()) if match else None
        if match is None or unit is None or int(match[1]) == 0:
            self.fail(f"{value!r} is not a size in bytes: write 4096 or 4k", param, ctx)
        return int(match[1]) * unit


class Number(click.FloatRange):
    """A number in a range. "nan" and "inf" are none, though Python reads them as such."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Count(click.ParamType[int]):
    """A count: `4096`, `10k`, `1M`, `64Ki`."""

    name = "N"
    _units = {  # noqa: RUF012
        "": 1,
        "k": 10**3,
        "m": 10**6,
        "g": 10**9,
        "ki": 2**10,
        "mi": 2**20,
        "gi": 2**30,
    }

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the count: a whole number; k, M, G are thousands, Ki, Mi, Gi powers of two."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+)\s*([a-zA-Z]*)", str(value).strip())
        unit = self._units.get(match[2].lower()) if match else None
        if match is None or unit is None or int(match[1]) * unit >= 2**63:
            self.fail(f"{value!r} is not a count: write 4096, 10k or 1M", param, ctx)
        return int(match[1]) * unit


class WritesPerDay(click.ParamType["float | str"]):
    """Drive writes a day: a number, or `trace` for the rate at which the trace was recorded."""

    name = "N|trace"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Read the rate: `trace` or a number above 0."""
        if isinstance(value, float):
            return value
        if value == "trace":
            return "trace"
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            self.fail(
                f"{value!r} is not a rate: write drive writes a day, such as 1, or `trace`",
                param,
                ctx,
            )
        return number


def split_names(text: str) -> list[str]:
    """Split `a,b(x=1,y=2),c` at the commas outside of brackets."""
    return [name for name in (part.strip() for part in re.split(r",(?![^(]*\))", text)) if name]


def apply_options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Make one decorator of many options, in this order."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _json_target(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Give the path back if a file can be written there.

    Nobody shall learn otherwise after an hour of simulating.
    """
    if value is not None and value != "-":
        _check_folder(Path(value).parent, value, option, context)
        if Path(value).is_dir():
            raise click.BadParameter(
                f"'{value}' is a folder: name a file, or - for standard output", context, option
            )
    return value


def _run_folder(context: click.Context, option: click.Parameter, value: Path | None) -> Path | None:
    """Give the folder back if it can be made.

    Its nearest parent that exists has to be a folder that is writable.
    """
    if value is not None:
        existing = next(
            path for path in (value.absolute(), *value.absolute().parents) if path.exists()
        )
        _check_folder(existing, str(value), option, context)
        if (value / "result.json").is_file():
            from flashwright.runs import refuse_recording

            refuse_recording(value)
    return value


def _check_folder(
    folder: Path, value: str, option: click.Parameter, context: click.Context
) -> None:
    if not folder.exists():
        raise click.BadParameter(
            f"'{value}' cannot be written: there is no folder '{folder}'", context, option
        )
    if not folder.is_dir():
        raise click.BadParameter(
            f"'{value}' cannot be written: '{folder}' is not a folder", context, option
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise click.BadParameter(
            f"'{value}' cannot be written: no permission for '{folder}'", context, option
        )


def _json_option(help_text: str) -> Callable[[Command], Command]:
    return click.option(
        "--json", "json_path", metavar="PATH|-", callback=_json_target, help=help_text
    )


json_option = _json_option(
    "Write the result as JSON there. `-` prints nothing but JSON, on standard output."
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_run_folder,
    metavar="DIR",
    help="The run folder: result.json, tables as Parquet, report.html.  [default: "
    "runs/COMMAND-HASH of what goes in]",
)
output_options = apply_options(
    _json_option(
        "Write the result as JSON there. `-` prints nothing but JSON, on standard output, and "
        "writes a run folder only with --out."
    ),
    out_option,
)


def seed_option(help_text: str, *, bits: int = 64) -> Callable[[Command], Command]:
    """Give the option of a seed of so many bits."""
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**bits - 1),
        default=1,
        show_default=True,
        metavar="N",
        help=help_text,
    )


skip_bad_option = click.option(
    "--skip-bad",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Allow so many malformed lines, and count them.",
    show_default=True,
)
read_options = apply_options(
    click.option(
        "--format",
        "format_name",
        metavar="NAME",
        help="Format of the trace, if its content does not tell (see `flashwright list`).",
    ),
    skip_bad_option,
)

workload_options = apply_options(
    click.option(
        "--page-size",
        type=Size(),
        default=4096,
        show_default=True,
        help="Bytes in a flash page; with --device, of a page of `synth:` and .u32, and --set "
        "media.page_bytes for the drive's.",
    ),
    read_options,
    seed_option("Seed of everything random."),
    click.option(
        "--repeat",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        metavar="K",
        help="Play the source so many times.",
    ),
)

device_options = apply_options(
    click.option(
        "--pages-per-erase-block",
        type=click.IntRange(2, 4096),
        default=64,
        show_default=True,
        metavar="N",
        help="Pages that are erased together.",
    ),
    click.option(
        "--start",
        type=click.Choice(["filled", "fresh"]),
        default="filled",
        show_default=True,
        help="filled: every page of the footprint is written once, in order, before the trace, and "
        "left out of the steady state.",
    ),
)

lifetime_options = apply_options(
    click.option(
        "--endurance",
        type=Number(1),
        default=3000,
        show_default=True,
        metavar="CYCLES",
        help="Times that an erase block can be erased.",
    ),
    click.option(
        "--writes-per-day",
        type=WritesPerDay(),
        default=1.0,
        show_default=True,
        metavar="N|trace",
        help="How often a day the host writes the logical capacity once over; `trace`: as fast as "
        "recorded.",
    ),
)

set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a key of the profile, such as ftl.over_provisioning=28%. Again for each key.",
)

drive_options = apply_options(
    set_option,
    click.option(
        "--depth",
        type=click.IntRange(1, 65_535),
        metavar="N",
        help="Keep so many requests outstanding.  [default: 32]",
    ),
    click.option(
        "--open-loop",
        is_flag=True,
        help="Send each request at its time in the trace, however late the drive is.",
    ),
    click.option(
        "--one-by-one",
        is_flag=True,
        help="Send a request when the one before it is done: --depth 1.",
    ),
    click.option(
        "--think-time",
        "think_time_us",
        type=Number(0),
        default=0.0,
        metavar="US",
        help="Microseconds between the end of a request and the next in its place.",
    ),
    click.option(
        "--state",
        type=click.Choice(["fresh", "loaded", "filled", "aged"]),
        default="filled",
        show_default=True,
        help="The drive before the first request: erased; only what SOURCE touches written; every "
        "page written once, in order; then overwritten at random.",
    ),
    click.option(
        "--overwrites",
        type=Number(0, 1000),
        metavar="X",
        help="With --state aged: random page writes, in capacities of the drive.  [default: 2]",
    ),
    click.option(
        "--requests",
        "most_requests",
        type=Count(),
        metavar="N",
        help="Stop after so many requests.  [default: all; 1M of a source without end]",
    ),
    click.option(
        "--seconds",
        "most_seconds",
        type=Number(0, min_open=True),
        metavar="S",
        help="Stop after so much simulated time.",
    ),
    click.option(
        "--warm-up",
        "warm_up_requests",
        type=Count(),
        default=0,
        metavar="N",
        help="Leave the first N requests out of what is measured.",
    ),
    click.option(
        "--fold",
        is_flag=True,
        help="Let a trace that is larger than the drive begin again at its start (addresses modulo "
        "capacity).",
    ),
)
"""Of `simulate` and `compare` with `--device`."""
