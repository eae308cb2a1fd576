"""What `simulate` and `compare` do with `--device`.

Their options, one run on a simulated drive, and its tables for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError
from flashwright.cli.flow_options import MOST_HANDLE, FlowOptions
from flashwright.cli.lists import Listed
from flashwright.cli.options import (
    SLICES,
    SLICES_HELP,
    Count,
    CountOrShare,
    Duration,
    Life,
    Number,
    Overrides,
    at_most_one,
    option,
)
from flashwright.cli.output import Output, print_table, say
from flashwright.runs import RUNS

if TYPE_CHECKING:
    from flashwright.devices import Load
    from flashwright.drive_runs import DriveRun
    from flashwright.slices import SizeAsked

INSTEAD_OF = {
    "pages_per_erase_block": "--set media.pages_per_erase_block=N",
    "start": "--state",
}
"""Parameters of the counting simulator alone, each with what a simulated drive has in its place."""


@dataclass(frozen=True)
class DriveOptions(Overrides):
    """How a source is played on a simulated drive.

    Options of `simulate` and `compare` with `--device`.
    """

    depth: tuple[int, ...] = option(
        "Keep so many requests outstanding; `compare` takes several, as 1,8,32.  [default: 32]",
        type=click.IntRange(1, 65_535),
        cls=Listed,
        default=(),
        show_default=False,
        metavar="N",
    )
    open_loop: bool = option(
        "Send each request at its time in the trace, however late the drive is."
    )
    one_by_one: bool = option("Send a request when the one before it is done: --depth 1.")
    think_time_us: float = option(
        "Microseconds between the end of a request and the next in its place.",
        "--think-time",
        type=Duration(1e-6),
        default=0.0,
        metavar="US",
    )
    state: str = option(
        "The drive before the first request: erased; only what SOURCE touches written; every page "
        "written once, in order; then overwritten at random.",
        type=click.Choice(["fresh", "loaded", "filled", "aged"]),
        default="filled",
    )
    overwrites: float | None = option(
        "With --state aged: random page writes, in capacities of the drive.  [default: 2]",
        type=Number(0, 1000),
        metavar="X",
    )
    most_requests: int | None = option(
        "Stop after so many requests.  [default: all; 1M of a source without end]",
        "--requests",
        type=Count(),
    )
    most_seconds: float | None = option(
        "Stop after so much simulated time.",
        "--seconds",
        type=Duration(least_open=True),
        metavar="S",
    )
    warm_up_requests: int = option(
        "Leave the first N requests out of what is measured.", "--warm-up", type=Count(), default=0
    )
    untimed: float = option(
        "First play N requests, or this share of SOURCE (85%), in no simulated time: mapping and "
        "cleaning do all that they would do, so that a drive comes into its steady state as fast "
        "as it can be counted. The rest is played with a clock; --requests and --warm-up count "
        "from there.",
        type=CountOrShare(),
        default=0,
    )
    handle: int | None = option(
        "Placement handle of the writes of SOURCE, for a drive with `--set fdp.handles=N`.  "
        "[default: that of each request: `handle=` of a pattern, the column of a trace, or 0]",
        type=click.IntRange(0, MOST_HANDLE),
        metavar="N",
    )
    slices: int | None = option(SLICES_HELP, **SLICES)
    fold: bool = option(
        "Let a trace that is larger than the drive begin again at its start (addresses modulo "
        "capacity)."
    )

    @property
    def depths(self) -> tuple[int | None, ...]:
        """What drives of a comparison differ in, if several depths were asked for."""
        twice = next((one for one in self.depth if self.depth.count(one) > 1), None)
        if twice is not None:
            raise click.UsageError(f"--depth {twice}: it is given twice; name each depth once")
        return self.depth if len(self.depth) > 1 else (None,)

    def one_depth(self, why: str) -> int | None:
        """Give the depth of a run that has one.

        Raises click.UsageError with the reason if there are several.
        """
        if len(self.depth) > 1:
            raise click.UsageError(f"--depth {','.join(map(str, self.depth))}: {why}")
        return self.depth[0] if self.depth else None

    def load(self, seed: int) -> Load:
        """Give the load that they ask for, with the first depth of several.

        Raises click.UsageError if they contradict each other.
        """
        from flashwright import beyond
        from flashwright.devices import Load

        paces = {
            "--depth": self.depth,
            "--open-loop": self.open_loop,
            "--one-by-one": self.one_by_one,
        }
        at_most_one(paces, "a run has one pace, so give one of them")
        if self.open_loop and self.think_time_us:
            raise click.UsageError(
                "--think-time: with --open-loop requests are sent at the times of the trace"
            )
        if self.overwrites is not None and self.state != "aged":
            raise click.UsageError(
                f"--overwrites: it is of --state aged, and the state is {self.state}"
            )
        if self.most_requests == 0:
            raise click.UsageError("--requests 0: nothing would be played; write 1 or more")
        if self.most_requests is not None and self.most_requests <= self.warm_up_requests:
            raise click.UsageError(
                f"--warm-up {self.warm_up_requests}: nothing is left of --requests "
                f"{self.most_requests} to measure"
            )
        return Load(
            pace="open" if self.open_loop else "closed",
            depth=1 if self.one_by_one or self.open_loop else next(iter(self.depth), 32),
            think_time_us=self.think_time_us,
            state=self.state,
            overwrites=(2.0 if self.overwrites is None else self.overwrites)
            if self.state == "aged"
            else None,
            most_requests=self.most_requests,
            most_seconds=self.most_seconds,
            warm_up_requests=self.warm_up_requests,
            untimed=self.untimed,
            seed=seed,
            fold=self.fold,
            choices=beyond.FOLD,
            handle=self.handle,
        )


def size_asked(drive: DriveOptions, life: Life) -> SizeAsked:
    """Give what is asked of the drive's size: --capacity and --fill speak of the drive here."""
    from flashwright.slices import SizeAsked

    return SizeAsked(life.capacity, life.fill if is_given("fill") else None, drive.slices)


ONLY_WITH_DEVICE = (
    *(one.name for one in (*fields(DriveOptions), *fields(FlowOptions))),
    "timeline_spans",
    "per_request",
)
OF_A_FILE = ("page_size", "format_name", "skip_bad", "fold")
"""Parameters that say how a trace file is read."""


def check_patterns(sources: Sequence[str]) -> None:
    """Raise click.UsageError if an option was given that says how a trace is read.

    And all sources are patterns of requests.
    """
    from flashwright.sources import PATTERN

    names = {
        parameter.name: parameter.opts[0]
        for parameter in click.get_current_context().command.params
    }
    if all(source.startswith(PATTERN) for source in sources):
        for parameter in OF_A_FILE:
            if parameter in names and is_given(parameter):
                raise click.UsageError(
                    f"{names[parameter]}: it says how a trace is read, and {', '.join(sources)} is "
                    "none; leave it out"
                )


def is_given(parameter: str) -> bool:
    """Tell whether the user gave the parameter, by its name in Python, a value of his own."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not None and source is not click.core.ParameterSource.DEFAULT


def check_use(*, with_device: bool) -> None:
    """Raise click.UsageError if an option was given that means nothing here.

    That is, nothing with --device, or nothing without it.
    """
    context = click.get_current_context()
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if with_device:
        for parameter, instead in INSTEAD_OF.items():
            if parameter in names and is_given(parameter):
                raise click.UsageError(
                    f"{names[parameter]}: it is not for a drive with --device; use {instead}"
                )
        return
    for parameter in ONLY_WITH_DEVICE:
        if parameter in names and is_given(parameter):
            raise click.UsageError(
                f"{names[parameter]}: it is for a simulated drive, so give --device PROFILE too"
            )


def policy_overrides(
    placement: str | None,
    victim: str | None,
    over_provisioning: float | None,
    overrides: Sequence[str],
) -> tuple[str, ...]:
    """Give the policies and the over-provisioning as overrides of a profile, after the others.

    A placement comes with the victim policy of its authors, and not with the profile's.

    Raises click.UsageError if --set sets one of them, too.
    """
    from flashwright.sweeps.policies import own_victim

    keys = {text.partition("=")[0].strip() for text in overrides}
    if placement is not None and victim is None and "ftl.victim" not in keys:
        victim = own_victim(placement)
    own = {
        "ftl.placement": ("--placement", placement),
        "ftl.victim": ("--victim", victim),
        "ftl.over_provisioning": (
            "--op",
            None if over_provisioning is None else f"{over_provisioning:.12g}",
        ),
    }
    added = []
    for key, (name, value) in own.items():
        if value is None:
            continue
        if key in keys:
            raise click.UsageError(f"{name}: --set {key} says the same thing; give one of them")
        added.append(f"{key}={value}")
    return (*overrides, *added)


def simulate_drive(
    profile: str, overrides: Sequence[str], asked: DriveRun, output: Output, *, per_request: bool
) -> None:
    """Play the source on the drive, print what came of it, and write the run folder."""
    from flashwright import devices
    from flashwright.drive_runs import play, request_file

    if output.is_only_json and output.out is None:
        for name, is_given in (
            ("--timeline", asked.timeline_spans),
            ("--per-request", per_request),
        ):
            if is_given:
                raise InputError(
                    f"{name}: it is a file of the run folder; with --json - give --out DIR"
                )
    asked = replace(asked, source=devices.check_load_source(asked.source))
    device = devices.Device.load(profile, overrides)
    beside = RUNS if output.out is None else output.out.absolute().parent
    with request_file(beside) if per_request else nullcontext() as file:
        run = play(device, replace(asked, requests_to=file))
        if not output.is_only_json:
            print_result(run.result)
        output.finish(run)
    for table in run.table_files.values():
        output.say(f"Each request: {table}")


def print_result(result: dict[str, Any]) -> None:
    """Print the tables of one run."""
    from flashwright._text import count, percent, short_time
    from flashwright.devices import caveats
    from flashwright.reports import drive_words as words

    left, right = "left", "right"
    print_table([("", left), ("", right)], words.figures(result), words.title(result))
    latencies = [
        (op, count(row["count"]), *(short_time(row[key]) for key in words.LATENCY_KEYS))
        for op, row in words.operations(result).items()
    ]
    headings = [
        ("latency", left),
        ("requests", right),
        *((name, right) for name in words.LATENCY_NAMES),
    ]
    print_table(headings, latencies)
    delays = [
        (op, *(percent(found[delay]["share_of_latency"], 2) for delay in words.DELAYS))
        for op, found in result["delays"].items()
        if op in words.operations(result)
    ]
    print_table(
        [("share of latency", left), *((name, right) for name in words.DELAYS.values())], delays
    )
    if len(result["flows"]) > 1:
        print_table(words.FLOW_HEADINGS, words.flow_rows(result["flows"]), "Flows")
    if "fdp" in result:
        print_table(words.HANDLE_HEADINGS, words.handle_rows(result), "Reclaim unit handles")
    if "replication" in result:
        print_table(words.COPIES_HEADINGS, words.copies_rows(result), "Copies on other dies")
    shares = [tuple(percent(result["die_share"][cause], 3) for cause in words.CAUSES)]
    print_table([(name, right) for name in words.CAUSES.values()], shares, "Time of the dies")
    for line in caveats(result):
        say(line)
