"""Reading all of a volume: checked, scrubbed, or copied out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright._text import size as shown
from flashwright.cli.output import Json
from flashwright.progress import follow, whole, work

if TYPE_CHECKING:
    from flashwright.volumes import scrubbing


def check_all(device: str, staging: str | None, to: Json) -> None:
    """Read all of a volume and verify what has checksums.

    Raises:
        InputError: it is in use, or there is none.
        RunError: something cannot be read.
    """
    from flashwright.volumes import places

    served = places.find_served(device)
    if served is not None:
        raise InputError(
            f"{device}: process {served.pid} serves it; close it first, or let that process look "
            f"at it: `flashwright volume info {device} --scrub`"
        )
    found = whole(
        f"Reading {device}",
        "bytes",
        lambda progress: _core.check_volume(device, staging=staging, progress=progress),
    )
    to.write(found)
    about = found["about"]
    for note in about["notes"]:
        to.say(f"Note: {note}")
    recovery = found["recovery_sectors"] * about["sector_bytes"]
    to.say(
        f"{device}: {shown(found['read_bytes'])} were read"
        + (f"; opening it will write {shown(recovery)} to recover it" if recovery else "")
    )
    for name, held in found["files"] or ():
        to.say(f"It holds SQLite's `{name}`, {shown(held)}")
    for offset, length, why in found["bad"]:
        to.say(f"byte {offset}, {length} bytes: {why}")
    if found["bad_bytes"]:
        raise RunError(f"{device}: {shown(found['bad_bytes'])} cannot be read")


def scrub_all(target: str, staging: str | None, to: Json, *, waits: bool) -> None:
    """Read all that has checksums in a volume, by its server if it has one.

    Raises:
        InputError: nothing of it has checksums, there is none, or one that is not in use is not to
            be waited for.
        RunError: something is bad.
    """
    from flashwright.volumes import control, places, scrubbing

    served = places.find_served(target)
    if served is not None:
        there = served
        one = scrubbing.Pass(
            target,
            lambda begins: control.ask(
                there.place.control, "scrub" if begins else "scrub?", lambda: there.is_served
            ),
        )
        _follow_scrub(one, to, waits=waits)
        return
    if not waits:
        raise InputError(f"{target}: nobody serves it, and --no-wait is for a volume in use")
    opened = _core.Volume(target, staging=staging)
    try:
        _follow_scrub(
            scrubbing.Pass(target, lambda begins: opened.scrub(begin=begins)), to, waits=True
        )
    finally:
        opened.close()


def _follow_scrub(one: scrubbing.Pass, to: Json, *, waits: bool) -> None:
    """Wait for the end of a pass, and say what it found.

    Raises RunError if something is bad.
    """
    if waits:
        follow(f"Reading {one.name}", "bytes", one, one.run)
    found = one.document()
    to.write(found)
    if not found["is_over"]:
        to.say(f"{one.name}: it goes on; {shown(one.now.left_bytes)} are left to be looked at")
        return
    read = ", ".join(f"{shown(held)} of {name}" for name, held in found["read_bytes"].items())
    to.say(f"{one.name}: read {read}")
    for layer in one.now.layers:
        for first, length in layer.bad:
            to.say(
                f"{layer.name}: byte {first}, {length} bytes: not what was written there, or it "
                "cannot be read"
            )
    wrong = []
    if found["bad_bytes"]:
        wrong.append(
            f"{shown(found['bad_bytes'])} are bad: reads of them fail until they are written again"
        )
    if found["unread_bytes"]:
        wrong.append(f"{shown(found['unread_bytes'])} could not be read: look at the device")
    if wrong:
        raise RunError(f"{one.name}: {'; '.join(wrong)}")


def salvage_to(out: Path, device: str, staging: str | None, to: Json, *, rebuild: bool) -> None:
    """Copy what is left of a volume to a new file; the volume is only read.

    Raises RunError if something could not be read, or was rebuilt.
    """
    found = work(
        f"Copying {device}",
        "bytes",
        lambda progress: _core.salvage_volume(
            device, out, staging=staging, rebuild=rebuild, progress=progress
        ),
    )
    to.write(found)
    for note in [*found["about"]["notes"], *found["notes"]]:
        to.say(f"Note: {note}")
    for offset, length, why in found["bad"]:
        to.say(f"byte {offset}, {length} bytes: {why}")
    to.say(f"{out}: {shown(found['image_bytes'])}, the contents of volume {found['about']['uuid']}")
    wrong = []
    if found["bad_bytes"]:
        wrong.append(f"{shown(found['bad_bytes'])} could not be read and are zeros in {out}")
    if found["is_rebuilt"]:
        wrong.append(
            "it was rebuilt, so that what was written last may be missing or old: let the file "
            "system's check, and the database's, look at a copy of it"
        )
    if wrong:
        raise RunError(f"{device}: {'; '.join(wrong)}")
