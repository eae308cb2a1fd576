"""Options of commands that play a recorded trace on a device.

Its part, its pace, what becomes of addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flashwright.cli.lists import OneDepth
from flashwright.cli.options import Count, Duration, Number, at_most_one, option

if TYPE_CHECKING:
    from flashwright.probing.targets import Region
    from flashwright.replays import Pace, ReplayPlan, TracePart

OPEN_LOOP, ONE_BY_ONE = "open_loop", "one_by_one"
DEFAULT = {name: {name: "  [default]"} for name in (OPEN_LOOP, ONE_BY_ONE)}
"""What the help of a pace says where that pace is taken if none is named."""


@dataclass(frozen=True)
class TraceOptions:
    """How a trace is played."""

    open_loop: bool = option(
        "Send each request at its time in the trace, however late the device is."
    )
    depth: int | None = option("Keep so many requests outstanding.", type=OneDepth(1, 4096))
    one_by_one: bool = option("Send a request when the one before it is done: --depth 1.")
    waiting: bool = option(
        "With --depth or --one-by-one: not before the trace's interval since the request before "
        "was sent."
    )
    factor: float | None = option(
        "Times as fast as recorded: 2 plays an hour in half an hour.  [default: 1]",
        type=Number(0, 1e9, min_open=True),
        metavar="F",
    )
    remap: str = option(
        "Addresses that the device does not have: an error; taken modulo its size; all shrunk (or "
        "stretched) onto it; or what the trace touches moved together, in extents of 1 MiB.",
        type=click.Choice(["refuse", "fold", "scale", "dense"]),
        default="refuse",
    )
    skip: float = option(
        "Begin so many seconds into the trace.", type=Duration(), default=0.0, metavar="S"
    )
    seconds: float | None = option(
        "Play so many seconds of the trace.  [default: all]",
        type=Duration(least_open=True),
        metavar="S",
    )
    limit: int | None = option("Play at most so many requests.", type=Count())
    reads_only: bool = option("Play the reads alone: nothing is written.")
    writes_only: bool = option("Play all but the reads.")

    def plan(
        self, default: str, region: Region, *, keep_going: bool = False, drop_flushes: bool = False
    ) -> ReplayPlan:
        """Give the plan that is asked for; `default` is the pace if none is named.

        Raises click.UsageError if options contradict each other.
        """
        from flashwright.replays import ReplayPlan

        pace, part = self._pace(default), self._part(drop_flushes=drop_flushes)
        return ReplayPlan(pace, part, self.remap, region, keep_going)

    def _pace(self, default: str) -> Pace:
        from flashwright.replays import Pace

        given = {
            "--open-loop": self.open_loop,
            "--depth": self.depth,
            "--one-by-one": self.one_by_one,
        }
        at_most_one(given, "a replay has one pace, so give one of them")
        is_open = self.open_loop or (default == OPEN_LOOP and not any(given.values()))
        if is_open and self.waiting:
            raise click.UsageError(
                "--waiting: it is of --depth and --one-by-one; an open loop keeps the trace's "
                "times anyhow"
            )
        if self.factor is not None and not is_open and not self.waiting:
            raise click.UsageError(
                "--factor: without --waiting a closed loop takes no notice of the trace's times"
            )
        factor = 1.0 if self.factor is None else self.factor
        if is_open:
            return Pace("open_loop", 1, factor)
        depth = self.depth or 1
        return Pace("one_by_one" if depth == 1 else "closed_loop", depth, factor, self.waiting)

    def _part(self, *, drop_flushes: bool) -> TracePart:
        from flashwright.replays import OPERATIONS, TracePart

        if self.reads_only and self.writes_only:
            raise click.UsageError("--reads-only and --writes-only: together they leave nothing")
        if self.limit == 0:
            raise click.UsageError("--limit 0: nothing would be played; write 1 or more")
        ops: tuple[str, ...] = (
            ("read",) if self.reads_only else OPERATIONS[1:] if self.writes_only else OPERATIONS
        )
        if drop_flushes:
            ops = tuple(op for op in ops if op != "flush")
        return TracePart(self.skip, self.seconds, self.limit, ops)
