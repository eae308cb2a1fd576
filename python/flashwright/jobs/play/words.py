"""Output of a `play` on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from flashwright._text import several, size
from flashwright.jobs.play import remarks, said, tables
from flashwright.jobs.play.view import Row, View
from flashwright.probing.safety import share_of_life
from flashwright.sources import name_of
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.jobs.play.places import Place
    from flashwright.jobs.play.run import Plan
    from flashwright.pages.page import Table
    from flashwright.runs import Run

COMPARED = ("mean", "p50", "p99")
"""Response times that are compared of two runs; the report has all."""


def warning(plan: Plan, place: Place) -> str:
    """Say what is going to be written to a real device, and what that costs it."""
    info, region, totals = place.info, place.target.region.on(place.info, 1), place.source.totals
    end = region.offset + (region.length or 0)
    said_of = f"within bytes {region.offset} to {end} ({size(region.length or 0)})"
    if totals is None:
        text = f"{place.target.given}: it is written to, with random data, {said_of}."
    else:
        # Of memory and an emulated drive nobody promised a life.
        disk: Row = next((one["disk"] for one in place.settings["on"] if "disk" in one), {})
        life = share_of_life(totals["written_bytes"], info, disk.get("tbw"))
        text = f"{place.target.given}: {_changed(totals)}, with random data, {said_of}: {life}."
    number = len(plan.stacks) * len(plan.paces)
    if number > 1:
        what = "stacks" if len(plan.paces) == 1 else "runs"
        text += f" That is for each of {number} {what}"
        text += "; layers may write more or less." if len(plan.stacks) > 1 else "."
    if plan.settings["flow"]:
        text += " What is played beside it may write more."
    return text


def _changed(totals: Row) -> str:
    changes = [
        f"{size(totals[size_key])} are {done} by {several(totals[op], op)}"
        for op, done, size_key in (
            ("write", "written", "written_bytes"),
            ("trim", "trimmed", "trimmed_bytes"),
        )
        if totals[op]
    ]
    return " and ".join(changes) or "what layers write overwrites data of the region"


def planned(plan: Plan) -> str:
    """Say what would be played, on what, and how."""
    place = plan.places[0]
    source = {
        "name": name_of(place.given),
        "requests": place.source.requests,
        "totals": place.source.totals,
        "has_times": place.source.has_times,
    }
    on = ", ".join(place.label for place in plan.places)
    text = f"{said.source(source)}, on {on}"
    layers = [stack for stack in plan.stacks if stack is not None]
    if layers:
        text += f", under {', '.join(layers)}"
    paces = [said.pace(pace) for pace in plan.paces if pace is not None]
    return ", ".join([text, *paces])


def show(run: Run) -> None:
    """Print all tables of one run; of several a row each, what sets them apart, and remarks."""
    view = View(run)
    if view.is_one:
        _print(_one(view, view.rows[0]))
    for group in [] if view.is_one else view.groups():
        _print([tables.runs(group), tables.times(group, is_brief=True)])
        _print(map(tables.counted, group.rows))
        for line in remarks.verdicts(group):
            say(line)
    _print(tables.compared(view, COMPARED))
    if not view.is_one and not view.has_layers:
        say(remarks.headline(view))
    for line in remarks.choices(view):
        say(line)
    _print([tables.by_device(view)])
    for line in remarks.remarks(view):
        say(line)


def _print(found: Iterable[Table | None]) -> None:
    for table in found:
        if table is not None and table.rows:
            print_table(table.columns, table.rows, table.title or None)


def _one(view: View, row: Row) -> Sequence[Table | None]:
    found: list[Table | None] = [tables.figures(view, row), tables.times(view)]
    inside = row["simulated"]
    if inside is not None:
        found.append(tables.shares(row))
    found.append(tables.flows(row))
    if inside is not None:
        if inside["fdp"] is not None:
            found.append(tables.handles(row, view.devices[row["device"]]["page_bytes"]))
        if inside["replication"] is not None:
            found.append(tables.asked(row))
        found.append(tables.dies(row))
    return found
