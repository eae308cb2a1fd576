"""`count`: a workload through a pair of policies, as `flashwright compare` counts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from flashwright import _core, sources
from flashwright._core import InputError
from flashwright.comparing.policies import OFFLINE, check_victim, own_victim
from flashwright.engine.task import Found
from flashwright.jobs.schema import wrong
from flashwright.runs import table
from flashwright.sources import SYNTHETIC, Reading

if TYPE_CHECKING:
    from flashwright._core import Progress, Workload

GOAL = ("write_amplification", "less")
_OF_THE_MACHINE = ("wall_seconds", "flash_page_programs_per_second")


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of a simulation that counts."""

    source: str
    placement: str = "none"
    victim: str | None = None
    """None is that of the placement's authors."""
    over_provisioning: float | str = 0.2
    pages_per_erase_block: int = 64
    start: Literal["filled", "fresh"] = "filled"
    seed: int = 1
    page_size: int | str = 4096
    repeat: int = 1


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """See `Kind`."""
    try:
        found = msgspec.convert(dict(asked), Settings)
    except msgspec.ValidationError as error:
        raise _said(error) from None
    source, reading = sources.part_of(found.source)
    if reading.repeat != 1:
        found.repeat = reading.repeat
    own = _known("placement", own_victim, found.placement)
    victim = found.victim or own
    if victim != own:
        _known("victim", check_victim, victim)
    return {
        **msgspec.to_builtins(found),
        "source": source,
        "format": reading.format,
        "skip_bad": reading.skip_bad,
        "sample": reading.sample,
        "victim": victim,
        "over_provisioning": _share(found.over_provisioning),
        "page_size": _bytes(found.page_size),
    }


def _known(option: str, check: Callable[[str], str], given: str) -> str:
    try:
        return check(given)
    except InputError as error:
        raise wrong(option, str(error)) from None


def _said(error: msgspec.ValidationError) -> Exception:
    said, _, where = str(error).partition(" - at `$.")
    if "unknown field" in said:
        name = said.split("`")[1]
        known = ", ".join(Settings.__struct_fields__)
        return wrong(name, f"there is no such option; known are: {known}")
    return wrong(where.rstrip("`") or "source", said)


def _share(given: float | str) -> float:
    text = str(given).strip()
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= 100:
        raise wrong("over_provisioning", f"{given}: right would be such as 0.2 or 20%")
    return found


def _bytes(given: int | str) -> int:
    found = _core.parse_bytes(str(given))
    if not found:
        raise wrong("page_size", f"{given}: right would be bytes, such as 4096 or 16Ki")
    return found


def inputs(settings: Mapping[str, Any]) -> list[str]:
    """See `Kind`."""
    source = settings["source"]
    return [] if source.startswith(SYNTHETIC) else [str(sources.on_disk(Path(source)))]


def levels(option: str) -> list[str] | None:
    """Give all that an option may be, where that is a list: None elsewhere."""
    if option not in ("placement", "victim"):
        return None
    return [one["name"] for one in _core.registry()[option] if one["name"] != OFFLINE]


@lru_cache(maxsize=1)
def _workload(source: str, reading: Reading) -> Workload:
    """Read a source, once for all jobs of it that come one after another."""
    return sources.load(source, reading)


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    # A trace is the same with any seed, and is not read again for each.
    seed = settings["seed"] if settings["source"].startswith(SYNTHETIC) else 1
    reading = Reading(
        settings["page_size"],
        settings["format"],
        settings["skip_bad"],
        seed,
        settings["repeat"],
        settings["sample"],
    )
    names = (
        "placement", "victim", "over_provisioning", "pages_per_erase_block", "start", "seed",
    )  # fmt: skip
    asked = {name: settings[name] for name in names}
    figures = _core.simulate(_workload(settings["source"], reading), **asked, progress=progress)
    tables = {name: table(columns) for name, columns in figures.pop("tables").items()}
    kept = {key: one for key, one in figures.items() if key not in (*_OF_THE_MACHINE, *asked)}
    return Found({**kept, "spare_share": figures["over_provisioning"]}, tables)
