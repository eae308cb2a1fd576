"""Drawings of a paper's figures, by experiments of the prober on a simulated drive.

Published values stand beside ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from flashwright import _core
from flashwright._core import RunError
from flashwright.pages.page import Figure
from flashwright.reports.probe_charts import Curve, figure

SEED = 1
GIB = 1 << 30

_HARD = ("hdd", "hard")


def is_hard_disk(drive: str) -> bool:
    """Tell whether a drive is a hard disk, with or without parameters (`hard_disk(rpm=5400)`)."""
    return drive.startswith(_HARD)


Curves = Mapping[str, Mapping[float, float]]
"""Series of a chart by name: y by x."""


class Probed:
    """A simulated drive, on which experiments run one by one.

    Filled in order if nothing is said; each runs on one as it was at the start. PARALLELISM section
    3.2 fills a drive before each experiment; making a new one is the same, and leaves no trace of
    the one before.
    """

    def __init__(
        self,
        profile: str,
        region_bytes: int | None = None,
        state: str = "filled",
        overrides: Sequence[str] = (),
    ) -> None:
        self.profile, self.region_bytes, self.state = profile, region_bytes, state
        self._toml = None
        if not is_hard_disk(profile):
            self._toml = _core.check_profile(_core.profile_toml(profile), profile, list(overrides))
        self._findings: dict[str, dict[str, Any]] = {}

    def device(self) -> _core.Device:
        """Make the drive anew."""
        if self._toml is None:
            return _core.open_device(self.profile, access="write")
        return _core.simulated_device(self._toml, name=self.profile, state=self.state, seed=SEED)

    def find(
        self, spec: str, budget_seconds: float, known: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Give the finding of an experiment, which runs only once."""
        if spec not in self._findings:
            found = _core.probe(
                self.device(),
                spec,
                region_bytes=self.region_bytes,
                seed=SEED,
                budget_seconds=budget_seconds,
                may_write=True,
                findings=json.dumps(list(known)),
            )
            self._findings[spec] = json.loads(found)
        return self._findings[spec]

    @property
    def device_seconds(self) -> float:
        """Device time of all experiments."""
        return sum(float(finding["device_seconds"]) for finding in self._findings.values())

    @property
    def requests(self) -> int:
        """Requests of all experiments."""
        return sum(int(finding["requests"]) for finding in self._findings.values())


@cache
def probed(
    profile: str,
    region_bytes: int | None = None,
    state: str = "filled",
    overrides: tuple[str, ...] = (),
) -> Probed:
    """Give a drive; the same for all figures.

    One that is `aged` was written twice over at random. `overrides`: values of the profile that
    are others here (`write_buffer.flush_pages=16`).
    """
    return Probed(profile, region_bytes, state, overrides)


def chart(finding: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Give a chart of a finding by its name.

    Raises RunError if there is none.
    """
    for one in finding["charts"]:
        if one["name"] == name:
            return dict(one)
    names = ", ".join(one["name"] for one in finding["charts"])
    raise RunError(f"{finding['experiment']}: no chart `{name}`; there are {names}")


def value(finding: Mapping[str, Any], key: str) -> Any:
    """Give a value of a finding: its number or word, or None if it was not found.

    Raises RunError if the finding does not speak of it.
    """
    for one in finding["values"]:
        if one["key"] == key:
            return one.get("number", one.get("word"))
    raise RunError(f"{finding['experiment']}: no value `{key}`")


def verdict(finding: Mapping[str, Any], key: str) -> str:
    """Give what is to be believed of a value: sure, unsure, not_found."""
    return next(
        (str(one["verdict"]) for one in finding["values"] if one["key"] == key), "not_found"
    )


def points(drawn: Mapping[str, Any], series: str) -> dict[float, float]:
    """Give the points of a series of a chart: y by x."""
    for one in drawn["series"]:
        if one["name"] == series:
            return {point["x"]: point["y"] for point in one["points"]}
    raise RunError(f"chart {drawn['name']}: no series `{series}`")


def renamed(drawn: Mapping[str, Any], series: str, name: str) -> dict[str, Any]:
    """Give a series of a chart under another name."""
    for one in drawn["series"]:
        if one["name"] == series:
            return {**one, "name": name}
    raise RunError(f"chart {drawn['name']}: no series `{series}`")


@dataclass(frozen=True)
class Mark:
    """Something published, on a chart: a vertical line, a horizontal one, or a point."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True)
class Published:
    """A number that was printed, and ours."""

    what: str
    where: str
    published: float
    unit: str
    ours: Callable[[], float]
    remark: str = ""


@dataclass(frozen=True)
class Shape:
    """Something that was said of a figure in words, and whether ours is so."""

    what: str
    where: str
    published: str
    ours: Callable[[], tuple[str, bool | None]]
    """Gives ours in words, and whether it agrees with the paper; None if that is not known."""


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper."""

    number: str
    """Number in the paper: `4.4`, `5a`."""
    title: str
    profile: str
    draw: Callable[[], dict[str, Any]]
    """Gives the chart, as the prober makes charts."""
    marks: Sequence[Mark] = ()
    lines: Callable[[], Mapping[str, Mapping[float, float]]] = field(default=dict)
    """Published curves, which are printed as equations."""
    published: Sequence[Published] = ()
    shapes: Sequence[Shape] = ()

    def chart(self) -> dict[str, Any]:
        """Give the chart with all that was published on it."""
        drawn = self.draw()
        published = [
            {"name": name, "points": [{"x": x, "y": y} for x, y in curve.items()]}
            for name, curve in self.lines().items()
        ]
        marks = [
            {
                key: given
                for key, given in (("label", mark.label), ("x", mark.x), ("y", mark.y))
                if given is not None
            }
            for mark in self.marks
        ]
        return {
            **drawn,
            "title": f"{self.number}: {self.title}",
            "series": [*drawn["series"], *published],
            "marks": [*drawn.get("marks", []), *marks],
        }

    def figure(self, paper: str) -> Figure:
        """Give the chart as a figure of a report."""
        drawn = self.chart()
        curves = [
            Curve(
                self.profile,
                one["name"],
                [_row(point) for point in one["points"]],
                is_scatter=bool(one.get("is_scatter")),
            )
            for one in drawn["series"]
        ]
        place = f"{paper.lower()}-{self.number.replace('.', '-')}".replace(" ", "-")
        made = figure(place, drawn, curves, drawn["marks"], [self.profile])
        if made is None:
            raise RunError(f"{paper} {self.number}: nothing to draw")
        return made


def _row(point: Mapping[str, Any]) -> dict[str, Any]:
    low, high = point.get("interval") or (None, None)
    return {"x": point["x"], "y": point["y"], "low": low, "high": high}
