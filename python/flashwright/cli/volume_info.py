"""`flashwright volume info`: what volumes run, what one is, and whether all of it can be read."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import size as shown
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.options import all_of, argument, at_most_one, option, options
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutPlace
from flashwright.cli.volume_options import only_with
from flashwright.cli.volume_reading import check_all, salvage_to, scrub_all
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.volumes.metrics import Between, Sample
    from flashwright.volumes.watching import Watched

_LONGEST_WAIT_SECONDS = 30.0
"""For the second look at a file that is seldom written."""


@click.command(
    cls=GroupedCommand,
    groups={
        "Read all of it": ("check", "scrub", "no_wait", "salvage", "rebuild"),
        "Watch it": ("live", "every"),
    },
)
@options
def info(
    *,
    device: str | None = argument(required=False, metavar="[VOLUME]"),
    check: bool = option(
        "Read all of it and verify what has checksums; nothing is changed. One that was not "
        "closed is recovered in memory; one that is in use is refused."
    ),
    scrub: bool = option(
        "Read all of it that has checksums, also while it is in use. One that is not is opened "
        "for it, and closed."
    ),
    no_wait: bool = option(
        "With --scrub of a volume in use: do not wait for the end; its server goes on with it."
    ),
    salvage: Path | None = option(
        "Copy what is left of it to this new file, also if it cannot be opened. The volume is "
        "only read.",
        type=OutPlace("an image"),
        metavar="IMAGE",
    ),
    rebuild: bool = option(
        "With --salvage: rebuild the map of a log from its segments, even if its tables can be "
        "read."
    ),
    live: bool = option(
        "Show requests, times, write amplification, layers, wear and dies until Ctrl-C; of all "
        "that run, if none is named. Where no terminal is, or as JSON: once."
    ),
    every: float | None = option(
        "With --live: seconds between two looks.  [default: 1]",
        type=click.FloatRange(min=0.1),
        metavar="S",
    ),
    staging: str | None = option(
        "Where the volume's staging device is now.  [default: where it was last]", metavar="DEVICE2"
    ),
    to: Json = all_of(Json),
) -> None:
    """List the volumes that are in use, or say what volume VOLUME is; it is only read.

    VOLUME is a device; of a volume in use also its directory, socket or UUID; with --live also a
    file that --metrics keeps.

    \b
    Examples:
      flashwright volume info
      flashwright volume info volume.img --check
      sudo flashwright volume info /mnt/db --scrub
      sudo flashwright volume info --live
      flashwright volume info drive.prom --live --json -
      flashwright volume info /dev/sdb --salvage contents.img

    --check and --scrub end with exit code 1 if something is bad. A scrub reads a log volume, the
    pages of a StableBuffer that are not written back yet, and what `checksums` covers, in time that
    nobody else wants, or else at 1.3 MB/s. What is bad is an error of whoever reads it, until it is
    written again. A server does so by itself each 7 days (--scrub-every).

    --salvage is for a volume that cannot be opened: IMAGE gets the bytes that its users had, as a
    file system or a database sees them. A log volume whose tables, roots or superblocks are gone is
    rebuilt: each segment says at its end which pages lie in it. Its staging device may be missing.
    What cannot be read is zeros in IMAGE and is listed. What was rebuilt is not certain: what was
    written last may be missing or old, above all if the volume was not closed, and pages that were
    trimmed may come back. Check a copy of IMAGE before you use it. Exit code 1 if something could
    not be read, or was rebuilt.

    --live shows rates of the time between the last two looks, by the volume's own clock. Times are
    the bound that half, or 99 %, of the requests stayed below; bounds double from one to the next,
    so the true percentile may be half of it. Wear is over the whole life of the drive.
    """
    verbs = {"--check": check, "--scrub": scrub, "--salvage": salvage, "--live": live}
    at_most_one(verbs, "ask for one of them at a time")
    only_with("--no-wait", no_wait, ("--scrub", scrub))
    only_with("--rebuild", rebuild, ("--salvage", salvage))
    only_with("--every", every, ("--live", live))
    if live:
        only_with("--staging", staging, ("a volume that is not in use", None))
        _watch(device, every or 1.0, to)
    elif device is None:
        for name, given in (*verbs.items(), ("--staging", staging)):
            only_with(name, given, ("one volume: name it", None))
        _list(to)
    elif check:
        check_all(device, staging, to)
    elif scrub:
        scrub_all(device, staging, to, waits=not no_wait)
    elif salvage is not None:
        salvage_to(salvage, _device(device), staging, to, rebuild=rebuild)
    else:
        _describe(_device(device), staging, to)


def _device(named: str) -> str:
    """Give the device of a volume, which may be named by where it is served."""
    from flashwright.volumes import places

    served = places.find_served(named)
    if served is None or places.is_same(places.whole(named), served.device):
        return named
    return served.device


def _list(to: Json) -> None:
    """Print which volumes are mounted, or served otherwise."""
    from flashwright.volumes import places

    every = places.listed()
    to.write(every)
    if to.is_only_json:
        return
    rows = [
        [
            one["device"],
            one["directory"] or one["where"],
            one["loop"] or one["way"],
            str(one["pid"]),
            "yes" if one["is_served"] else "no: `umount` takes away what is left",
        ]
        for one in every
    ]
    columns = ["device", "at", "over", "server", "lives"]
    print_table([(name, "left") for name in columns], rows, "Volumes in use")


def _describe(device: str, staging: str | None, to: Json) -> None:
    """Print what volume is on a device."""
    about = _core.volume_about(device, staging=staging)
    to.write(about)
    if to.is_only_json:
        return
    rows = [
        ["UUID", about["uuid"]],
        ["stack", about["stack"]],
        ["what the layers know of the device", about["facts"]],
        ["closed", "yes" if about["is_clean"] else _not_closed(device, about["user"])],
        ["opened", f"{about['openings']} times"],
        ["made", _when(about["created_unix_s"])],
        ["last scrub", _when(about["scrubbed_unix_s"])],
        ["device", f"{shown(about['device_bytes'])}, sectors of {about['sector_bytes']} bytes"],
        ["the stack's part", f"{shown(about['data_bytes'])} from byte {about['data_offset']}"],
    ]
    second = about["staging"]
    if about["role"] == "staging":
        rows.append(
            ["this device", f"the staging device; the pages lie on {about['other_device']}"]
        )
    elif second is not None:
        size = f", {shown(second['device_bytes'])}" if second["problem"] is None else ""
        rows.append(["staging device", f"{second['device']}{size}"])
    rows.append(["most memory", _memory(about["memory"])])
    print_table([("", "left"), ("", "left")], rows, f"{device}: volume")
    for note in about["notes"]:
        say(f"Note: {note}")
    if second is not None and second["problem"] is not None:
        say(f"It cannot be opened: {second['problem']}")


def _when(unix_s: int) -> str:
    if not unix_s:
        return "never"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(unix_s))


def _not_closed(device: str, user: str | None) -> str:
    """Say why a volume is not closed."""
    from flashwright.volumes import places

    served = places.find_served(device)
    if served is not None:
        return f"no: process {served.pid} serves it ({served.way} {served.where})"
    if user is not None:
        return f"no: {user.partition(';')[0]}"
    return "no: it was left open, and will be recovered when it is opened"


def _memory(memory: Mapping[str, Any]) -> str:
    """Say what a volume takes in memory at most."""
    if memory["layers"] is None:
        return f"unknown: {memory['problem']}"
    parts = [
        f"{name} {shown(tables)} of tables, {shown(held)} held"
        for name, tables, held, _ in memory["layers"]
    ]
    parts += [
        f"commands below {shown(memory['device_bytes'])}",
        f"requests {shown(memory['request_bytes'])}",
    ]
    return f"{shown(memory['most_bytes'])}: {'; '.join(parts)}"


def _watch(named: str | None, every: float, to: Json) -> None:
    """Show what volumes do, until Ctrl-C where there is a terminal."""
    from flashwright.volumes import watching

    watched = watching.find(named)
    if to.json_path is None and sys.stdout.isatty():
        with contextlib.suppress(KeyboardInterrupt):
            _show(watched, every)
        return
    found = [_looked_at_twice(one, every) for one in watched]
    to.write([watching.document(between) for between in found])
    if not to.is_only_json:
        from rich.console import Console

        console = Console()
        for one, between in zip(watched, found, strict=True):
            console.print(watching.drawn(one, between))


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
