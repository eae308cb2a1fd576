"""PARALLELISM's figures 8 and 9 as a set, and which plan a cost model would have taken.

Figures are made twice: measured on a real server over emulated drives, on the wall clock, and
played in virtual time, where nothing hangs on the machine but the processor time of plans.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from experiments.figures.drawing import Drawing, Published, Shape, is_hard_disk
from experiments.figures.papers import Paper, PaperSet, document, outcome, report, rows_of
from experiments.pages import OUT, markdown_table, writable, write_report
from experiments.registry import Made, Part, Request, Set, option
from experiments.ssb import played
from experiments.ssb.cells import FIGURE_8, FIGURE_9, Cell, Load, cells
from experiments.ssb.choosing import BAR, Choice, choices
from experiments.ssb.drives import default_drives
from experiments.ssb.kept import Kept
from experiments.ssb.measuring import Measuring
from experiments.ssb.model import as_numbers, settings
from experiments.ssb.played import Playing
from experiments.ssb.queries import BY_HASH, BY_INDEX, COMPARED, STREAMS, Plan
from experiments.ssb.server import MEMORY_SHARE
from flashwright._core import Cancelled, InputError
from flashwright._text import significant
from flashwright.progress import follow

PAPERS_DRIVE = "intel-x25e"
FOLDER = Path("/var/tmp")  # noqa: S108
Times = Callable[[str, Load, int], float]
"""Seconds of a load on a drive in so many streams."""
_NONE = 1.2
"""Speed-up up to which there is none to speak of."""


@dataclass(frozen=True)
class Wanted(Part):
    """A figure, and how its times are found."""

    loads: tuple[Load, ...]
    is_played: bool
    """In virtual time; otherwise measured on a server."""


_CHOSEN = tuple(Load(query, plan) for query in (*BY_INDEX, "Q1.2n") for plan in Plan)
PARTS = (
    Wanted(
        "parallelism-8",
        "PARALLELISM",
        "speed-up of parallel sub-queries, on a server over emulated drives",
        FIGURE_8,
        is_played=False,
    ),
    Wanted(
        "parallelism-9",
        "PARALLELISM",
        "index join against hash join, on a server over emulated drives",
        FIGURE_9,
        is_played=False,
    ),
    Wanted(
        "parallelism-8-played",
        "PARALLELISM",
        "speed-up of parallel sub-queries, in virtual time",
        FIGURE_8,
        is_played=True,
    ),
    Wanted(
        "parallelism-9-played",
        "PARALLELISM",
        "index join against hash join, in virtual time",
        FIGURE_9,
        is_played=True,
    ),
    Wanted(
        "queries-choice",
        "",
        "the plan and the streams that a cost model takes, beside the best of all played",
        _CHOSEN,
        is_played=True,
    ),
)


@dataclass
class _Said:
    """What is being done, and whether it is to stop."""

    what: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    def say(self, what: str) -> None:
        """Note it.

        Raises:
            Cancelled: it is to stop; a database is loaded for minutes.
        """
        if self.stop.is_set():
            raise Cancelled("stopped")
        self.what = what


@dataclass
class _Work:
    """Cells that are made, one after the other, and how far that is."""

    kept: Kept
    wanted: Sequence[tuple[Cell, bool]]
    """Cells, each with whether it is played."""
    playing: Playing
    measurings: Mapping[str, Measuring]
    said: _Said

    def name_of(self, cell: Cell, is_played: bool) -> str:
        """Name of a result."""
        return self.playing.name_of(cell) if is_played else cell.name

    def state(self) -> tuple[int, int]:
        """See `Tracker`."""
        done = sum(self.kept.get(self.name_of(*one)) is not None for one in self.wanted)
        return done, len(self.wanted)

    def cancel(self) -> None:
        """See `Tracker`."""
        self.said.stop.set()

    def label(self) -> str:
        """Say what is being done."""
        return self.said.what

    def make(self) -> None:
        """Make all that is missing."""
        for drive, measuring_of in self.measurings.items():
            own = [one for one, is_played in self.wanted if one.drive == drive and not is_played]
            measuring_of.run(own, self.said.stop)
        self.playing.run([one for one, is_played in self.wanted if is_played], self.said.stop)


def _chart(title: str, unit: str, series: Mapping[str, Mapping[int, float]]) -> dict[str, Any]:
    return {
        "name": title.replace(" ", "_"),
        "title": title,
        "x": {"label": "sub-queries at once", "unit": "", "is_log": True},
        "y": {"label": title, "unit": unit, "is_log": False},
        "series": [
            {"name": name, "points": [{"x": x, "y": y} for x, y in curve.items()]}
            for name, curve in series.items()
        ],
    }


def _speed_ups(times: Times, drive: str, load: Load, streams: Sequence[int]) -> dict[int, float]:
    return {count: times(drive, load, streams[0]) / times(drive, load, count) for count in streams}


def _most(times: Times, drive: str, loads: Sequence[Load], streams: Sequence[int]) -> float:
    return max(max(_speed_ups(times, drive, load, streams).values()) for load in loads)


def _figure_8(number: str, times: Times, drive: str, streams: Sequence[int]) -> Drawing:
    index = [Load(query, Plan.INDEX) for query in BY_INDEX]
    hash_joins = [Load(query, Plan.HASH) for query in BY_HASH[1:]]
    scan = [Load(BY_HASH[0], Plan.HASH)]
    rows = (
        ("index joins: the greatest speed-up", index, 5.0),
        ("hash joins: the greatest speed-up", hash_joins, 2.0),
        ("Q0, which joins nothing: speed-up", scan, 1.4),
    )

    def draw() -> dict[str, Any]:
        curves = {load.name: _speed_ups(times, drive, load, streams) for load in FIGURE_8}
        return _chart("speed-up", "", curves)

    def none() -> tuple[str, bool]:
        most = _most(times, drive, index, streams)
        return f"at most {significant(most, 3)} x", most < _NONE

    published = [
        Published(what, "6.2, figure 8", value, "x", partial(_most, times, drive, loads, streams))
        for what, loads, value in rows
        if drive == PAPERS_DRIVE
    ]
    disk = Shape("index joins on a hard disk", "6.2", "no speed-up", none)
    shapes = [disk] if is_hard_disk(drive) else []
    title = f"speed-up of parallel sub-queries over one, {drive}"
    return Drawing(number, title, drive, draw, published=published, shapes=shapes)


def _figure_9(number: str, times: Times, drive: str, streams: Sequence[int]) -> Drawing:
    one, many = streams[0], streams[-1]

    def ratio(query: str, count: int) -> float:
        """Give the time of the index join over that of the hash join."""
        index, hashed = (times(drive, Load(query, plan), count) for plan in Plan)
        return index / hashed

    def draw() -> dict[str, Any]:
        curves = {
            load.name: {count: times(drive, load, count) for count in streams} for load in FIGURE_9
        }
        return _chart("execution time", "s", curves)

    def words(count: int, *, is_slower: bool) -> tuple[str, bool]:
        ratios = {query: ratio(query, count) for query in COMPARED}
        said = ", ".join(f"{query} {significant(value, 3)}" for query, value in ratios.items())
        agrees = all((value > 1) == is_slower for value in ratios.values())
        return f"index over hash: {said}", agrees

    where = "6.3, figure 9"
    published = [
        Published("Q2.2, one: index over hash", where, 1.9, "x", partial(ratio, "Q2.2", one)),
        Published(
            f"Q2.2, {many}: hash over index", where, 1.4, "x", lambda: 1 / ratio("Q2.2", many)
        ),
    ]
    shapes = [
        Shape("one sub-query", where, "hash is faster, both", partial(words, one, is_slower=True)),
        Shape(
            f"{many} sub-queries",
            where,
            "index is faster, both",
            partial(words, many, is_slower=False),
        ),
    ]
    is_papers = drive == PAPERS_DRIVE
    title = f"index join against hash join, {drive}"
    return Drawing(
        number,
        title,
        drive,
        draw,
        published=published if is_papers else (),
        shapes=shapes if is_papers else (),
    )


def _drawings(part: Wanted, times: Times, drives: Sequence[str], streams: Any) -> list[Drawing]:
    figure = _figure_8 if part.loads == FIGURE_8 else _figure_9
    number = part.name.removeprefix("parallelism-").replace("-", " ")
    return [figure(f"{number} {drive}", times, drive, streams) for drive in drives]


def _choice_text(
    part: Wanted, found: Sequence[Choice], told: Mapping[str, Mapping[str, float]]
) -> str:
    rows = [one.cells() for one in found]
    near = sum(one.regret <= 1 + BAR for one in found)
    table = markdown_table(Choice.HEADINGS, rows)
    of_drives = [[drive, *(f"{value:g}" for value in own.values())] for drive, own in told.items()]
    headings = ("drive", *next(iter(told.values())))
    return (
        f"## {part.name}: {part.title}\n\nWithin {BAR:.0%} of the best of both plans in all "
        f"numbers of streams: {near} of {len(found)}. The model knows what the prober measures of "
        f"the drive and counts of the plan; no time of a query goes into it. {_CIRCLE}"
        f"\n\n{table}\n\n"
        "What PostgreSQL should be told of these drives, by the same costs (`seq_page_cost` 1):\n\n"
        f"{markdown_table(headings, of_drives)}"
    )


_CIRCLE = (
    ""
    if played.takes_single_reads()
    else "The drives here are those same curves: what is judged is the model's queueing, caching "
    "and overlap, and not what it knows of drives."
)


def _numbers(text: str) -> list[int]:
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1 or found[-1] > max(STREAMS):
        raise InputError(f"--streams {text}: numbers from 1 to {max(STREAMS)}, such as 1,4,16")
    return found


def _note(values: Mapping[str, Any]) -> str:
    stands_in = (
        "simulated drives, read by read"
        if played.takes_single_reads()
        else "drives that are nothing but the curves that the prober measured of them"
    )
    return (
        f"Star Schema Benchmark at scale factor {values['scale_factor']:g}, "
        f"rows of our own generator. Cold: a server started anew. It may use "
        f"{MEMORY_SHARE:.0%} of the database's size as memory. What is played in virtual "
        f"time is on {stands_in}, with this machine's processor time of each plan times "
        f"{values['slower']:g}, on two processors."
    )


def _make(request: Request[Wanted]) -> Made:
    values = request.options
    out = writable(values["out"] / SET_NAME)
    streams = _numbers(values["streams"])
    drives = values["drives"].split(",") if values["drives"] else default_drives()
    kept = Kept(out / "cells.json")
    scale, folder = values["scale_factor"], values["folder"]
    said = _Said()
    shapes = Kept(out / "shapes.json")
    playing = Playing(scale, folder, kept, shapes, said.say, values["slower"])
    measurings = {drive: Measuring(drive, scale, folder, kept, said.say) for drive in drives}
    wanted = [
        (cell, part.is_played)
        for part in request.parts
        for drive in drives
        for cell in cells(scale, drive, part.loads, streams)
    ]
    work = _Work(kept, list(dict.fromkeys(wanted)), playing, measurings, said)
    follow(work.label, "", work, work.make)

    def times(is_played: bool, drive: str, load: Load, count: int) -> float:
        cell = Cell(scale, drive, load, count)
        return float(kept.get(work.name_of(cell, is_played))["seconds"])

    drawings = [
        drawing
        for part in request.parts
        if part.paper
        for drawing in _drawings(part, partial(times, part.is_played), drives, streams)
    ]
    paper = Paper("PARALLELISM", "PARALLELISM figures 8 and 9", lambda: drawings, lambda: ())
    group = PaperSet(SET_NAME, TITLE, [paper], _note(values), NEEDS)
    found = [(paper, drawings, rows_of(paper, drawings))] if drawings else []
    page = document(group, found, request.command)
    numbers: dict[str, Any] = {"rows": [row.__dict__ for _, _, rows in found for row in rows]}
    for part in request.parts:
        if not part.paper:
            chosen = choices(playing, drives, part.loads, streams, partial(times, True))  # noqa: FBT003
            told = {drive: as_numbers(settings(playing.costs(drive))) for drive in drives}
            page += "\n" + _choice_text(part, chosen, told) + "\n"
            numbers[part.name] = [one.as_dict() for one in chosen]
            numbers["settings"] = told
    if drawings:
        write_report(out, report(group, found, dict(request.provenance)), numbers)
    return Made(page, numbers, outcomes=[outcome(row) for _, _, rows in found for row in rows])


SET_NAME = "figures-queries"
TITLE = "Parallel queries of the Star Schema Benchmark"
NEEDS = "measured: root, PostgreSQL, hours; played: PostgreSQL, minutes"
OPTIONS = (
    option("--scale-factor", 1.0, click.FloatRange(0.01, 100), "Size of the benchmark; 5 there."),
    option("--streams", ",".join(map(str, STREAMS)), click.STRING, "Sub-queries at once."),
    option(
        "--drives",
        None,
        click.STRING,
        "Profiles, joined by commas.  [default: intel-x25e, two of today and a hard disk]",
    ),
    option(
        "--slower",
        1.0,
        click.FloatRange(0.01, 100),
        "Played: processor time of plans is so many times this machine's.",
    ),
    option("--folder", FOLDER, click.Path(path_type=Path), "Where drives' bytes lie."),
    OUT,
)
SET: Set[Wanted] = Set(SET_NAME, TITLE[0].lower() + TITLE[1:], NEEDS, PARTS, _make, OPTIONS)
