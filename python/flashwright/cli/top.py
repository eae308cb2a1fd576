"""`flashwright top`: what running volumes and emulated drives are doing, live."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

from flashwright.cli.options import takes
from flashwright.cli.output import Json

if TYPE_CHECKING:
    from flashwright.volumes.metrics import Between, Sample
    from flashwright.volumes.watching import Watched

_LONGEST_WAIT_SECONDS = 30.0
"""For the second look at a file that is seldom written."""


@click.command(short_help="What running volumes and emulated drives are doing, live.")
@click.argument("which", nargs=-1, metavar="[VOLUME]...")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds between two looks.",
)
@click.option("--once", is_flag=True, help="Look twice, show what was done between, and end.")
@takes(Json, "to")
def top(which: tuple[str, ...], *, every: float, once: bool, to: Json) -> None:
    """Show requests, times, write amplification, layers, wear and dies of volumes, until Ctrl-C.

    VOLUME is the directory, device, socket or UUID of a volume that is mounted or served, or a file
    that --metrics keeps (of `flashwright volume serve`, `mount` or `emulate`). Without one: all
    volumes that are mounted or served.

    \b
    Examples:
      sudo flashwright top
      flashwright emulate sd-card --nbd drive.sock --metrics drive.prom --metrics-every 1
      flashwright top drive.prom
      flashwright top drive.prom --once --json -

    Rates are of the time between the last two looks, by the volume's own clock. Times are the
    bound that half, or 99 %, of the requests stayed below; bounds double from one to the next, so
    the true percentile may be half of it. Wear is over the whole life of the drive.
    """
    from flashwright.volumes import watching

    watched = watching.find(which)
    if once or to.is_only_json or not sys.stdout.isatty():
        found = [_looked_at_twice(one, every) for one in watched]
        to.write([watching.document(between) for between in found])
        if not to.is_only_json:
            from rich.console import Console

            console = Console()
            for one, between in zip(watched, found, strict=True):
                console.print(watching.drawn(one, between))
        return
    with contextlib.suppress(KeyboardInterrupt):
        _show(watched, every)


def _looked_at_twice(one: Watched, every: float) -> Between:
    """Wait until the file was written again; what was done since the opening if it is not."""
    from flashwright.volumes import metrics

    before = metrics.read(one.path, one.lives)
    end = time.monotonic() + max(every, _LONGEST_WAIT_SECONDS)
    time.sleep(every)
    while (now := metrics.read(one.path)).seconds == before.seconds:
        if time.monotonic() > end:
            return metrics.Between(now)
        time.sleep(min(every, 0.1))
    return metrics.Between(now, before)


def _show(watched: list[Watched], every: float) -> None:
    from rich.console import Group
    from rich.live import Live

    from flashwright._core import InputError
    from flashwright.volumes import metrics, watching

    looks: list[tuple[Sample | None, Sample | None]] = [(None, None)] * len(watched)
    with Live(screen=True, auto_refresh=False) as live:
        while True:
            parts = []
            for number, one in enumerate(watched):
                before, last = looks[number]
                wrong = None
                try:
                    now = metrics.read(one.path)
                    if last is None or now.seconds != last.seconds:
                        # A clock that went back is that of a volume that was opened again.
                        kept = last if last is not None and last.seconds < now.seconds else None
                        before, last = kept, now
                except InputError as error:
                    wrong = f"{error} ({'it opens' if one.lives() else 'it is closed, perhaps'})"
                looks[number] = before, last
                between = None if last is None else metrics.Between(last, before)
                parts.append(watching.drawn(one, between, wrong))
            live.update(Group(*parts), refresh=True)
            time.sleep(every)
