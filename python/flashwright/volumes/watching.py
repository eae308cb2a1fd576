"""View of running volumes: tables for a terminal, and a document for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flashwright._core import InputError
from flashwright._text import count, size

from . import places
from .metrics import OPS, Between

_WHERE = (("request", "asked"), ("device", "to the device"))
_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Watched:
    """A volume that is watched: a name to show, and its file of metrics or its server's socket."""

    name: str
    path: Path
    lives: Callable[[], bool] = lambda: False
    """Tells whether there is a server, which may still be opening the volume."""


def find(named: str | None) -> list[Watched]:
    """Give the volume of this name, or a file of metrics; all that are served for none.

    Raises InputError if it is not there, or none is served.
    """
    if named is not None:
        return [_find_one(named)]
    served = [_of_served(one) for one in places.all_served()]
    if not served:
        raise InputError(
            "no volume is served; of an emulated drive, name the file that its --metrics keeps"
        )
    return served


def _find_one(named: str) -> Watched:
    served = places.find_served(named)
    if served is not None:
        return _of_served(served)
    path = Path(named)
    if path.is_file():
        return Watched(named, path)
    there = ", ".join(one.device for one in places.all_served()) or "none"
    raise InputError(
        f"{named}: neither a volume that is served (there: {there}) nor a file of metrics"
    )


def _of_served(one: places.Served) -> Watched:
    where = places.mounted_at(one) or one.where
    name = f"{one.device} at {where}" if where else one.device
    return Watched(name, one.place.control, lambda: one.is_served)


def document(between: Between) -> dict[str, Any]:
    """Give what a volume did, with names that end in their units."""
    now = between.now
    made: dict[str, Any] = {
        "uuid": now.uuid,
        "open_s": now.seconds,
        "seconds": between.seconds,
        "is_broken": bool(now.number("volume_broken")),
        "capacity_bytes": int(now.number("volume_capacity_bytes")),
        "outstanding": int(now.number("volume_requests_outstanding")),
        "layers_write_amplification": between.layers_amplification(),
        "flash_write_amplification": between.flash_amplification(),
        "dies_busy_share": between.dies_busy(),
        "layers": [
            {
                "level": int(level),
                "layer": layer,
                "name": name,
                "is_level": is_level,
                "value": value,
            }
            for level, layer, name, is_level, value in _layers(between)
        ],
    }
    for what, _ in _WHERE:
        made[what] = {op: _of_op(between, what, op) for op in OPS}
    if now.get("flash_page_bytes") is not None:
        made["flash"] = {
            **{
                f"{name}_per_s": between.rate(f"flash_{name}_total")
                for name in ("page_reads", "page_programs", "erases")
            },
            **{
                f"wear_erases_{name}": now.get(f"flash_wear_erases_{name}")
                for name in ("mean", "most", "rated")
            },
        }
    return made


def _of_op(between: Between, what: str, op: str) -> dict[str, float | None]:
    times = f"volume_{what}_seconds"
    return {
        "per_s": between.rate(f"volume_{what}s_total", op=op),
        "bytes_per_s": between.rate(f"volume_{what}_bytes_total", op=op),
        "failed": between.grown(f"volume_{what}_failures_total", op=op),
        "mean_us": between.mean_us(times, op),
        "half_below_us": between.below_us(times, op, 0.5),
        "p99_below_us": between.below_us(times, op, 0.99),
    }


def _layers(between: Between) -> list[tuple[str, str, str, bool, float]]:
    """Give counters of layers: what is there now of those that go up and down, else the growth."""
    found = []
    for name, labels in between.now.values:
        if not name.startswith("layer_"):
            continue
        known = dict(labels)
        is_level = not name.endswith("_total")
        value = between.now.number(name, **known) if is_level else between.grown(name, **known)
        short = name.removeprefix("layer_").removesuffix("_total")
        found.append((known["level"], known["layer"], short, is_level, value))
    return found


def drawn(watched: Watched, between: Between | None, wrong: str | None = None) -> RenderableType:
    """Give the tables of one volume, or why there are none."""
    if between is None:
        return Group(Text(watched.name, style="bold"), Text(wrong or "", style="red"))
    now = between.now
    head = Text.assemble(
        (watched.name, "bold"), f"  {size(int(now.number('volume_capacity_bytes')))}"
    )
    head.append(f"  open for {now.seconds:.0f} s, over the last {between.seconds:.1f} s")
    if now.number("volume_broken"):
        head.append("  of no use any more: its log says why", style="bold red")
    parts: list[RenderableType] = [head, _requests(between)]
    if now.get("flash_page_bytes") is not None:
        parts.append(_flash(between))
    layers = _of_layers(between)
    if layers is not None:
        parts.append(layers)
    if wrong is not None:
        parts.append(Text(wrong, style="red"))
    return Group(*parts)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        first = number == 0
        table.add_column(name, justify="left" if first else "right", no_wrap=first)
    return table


def _requests(between: Between) -> Table:
    table = _table("", "a second", "MB/s", "mean us", "half below", "99 % below", "failed")
    for what, shown in _WHERE:
        for op in OPS:
            if not between.now.number(f"volume_{what}_seconds_count", op=op):
                continue
            one = _of_op(between, what, op)
            bytes_per_s = one["bytes_per_s"] or 0.0
            table.add_row(
                f"{op}s {shown}" if op != "flush" else f"flushes {shown}",
                count(one["per_s"]),
                f"{bytes_per_s / 1e6:.1f}",
                *(count(one[name]) for name in ("mean_us", "half_below_us", "p99_below_us")),
                count(one["failed"]),
            )
    table.add_section()
    amplification = between.layers_amplification()
    table.add_row(
        "written a byte asked", "", "" if amplification is None else f"{amplification:.2f}"
    )
    return table


def _flash(between: Between) -> RenderableType:
    table = _table("flash", "now")
    amplification = between.flash_amplification()
    for name, shown in (
        ("page_programs", "pages programmed a second"),
        ("page_reads", "pages read a second"),
        ("erases", "erase blocks erased a second"),
    ):
        table.add_row(shown, count(between.rate(f"flash_{name}_total")))
    if amplification is not None:
        table.add_row("programmed a byte sent", f"{amplification:.2f}")
    for name in ("mean", "most", "rated"):
        erases = between.now.get(f"flash_wear_erases_{name}")
        if erases is not None:
            shown = f"{erases:.1f}" if name == "mean" else count(erases)
            table.add_row(f"{name} erases of a block", shown)
    busy = between.dies_busy()
    if busy:
        bars = "".join(_BARS[round(share * (len(_BARS) - 1))] for share in busy[:64])
        table.add_row(f"{len(busy)} dies busy", f"{sum(busy) / len(busy):.0%} {bars}")
    return table


def _of_layers(between: Between) -> Table | None:
    table = _table("layers", "now", "a second")
    for level, layer, name, is_level, value in _layers(between):
        if not value:
            continue
        shown = f"{layer} ({level}): {name.replace('_', ' ')}"
        per_second = value / between.seconds if between.seconds > 0 else 0.0
        table.add_row(
            shown,
            count(value) if is_level else "",
            "" if is_level else f"{per_second:,.1f}",
        )
    return table if table.row_count else None
