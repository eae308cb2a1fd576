"""Facts about a device that layers need.

They are found by a probe, or measured on a simulated drive of the same profile.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError, __version__
from flashwright._text import size
from flashwright.probing import plan as probe_plan
from flashwright.probing import result as probe_result
from flashwright.probing.consistency import consistent
from flashwright.probing.session import Session
from flashwright.probing.store import FOLDER, Finding, Store
from flashwright.probing.targets import Region

if TYPE_CHECKING:
    from flashwright._core import Device
    from flashwright.probing.plan import ProbePlan
    from flashwright.probing.session import ProbeOutcome
    from flashwright.probing.targets import Target

PAGE_BYTES = 4096
"""Bytes of a database's page, whose times are measured."""
EXPERIMENTS = (
    f"write_patterns(size={PAGE_BYTES},area=0)",
    "equations_write(sizes=4Ki..1Mi)",
    "write_buffer",
    "erase_block_size",
    "focused",
    f"thresholds(page={PAGE_BYTES})",
)
"""Experiments that are made on a simulated drive."""
MINUTES = 2.0
"""Device time of all of them."""
LITTLE_MORE = 0.05
"""Share by which twice and four times as large writes raise the throughput at most where the device
is saturated.
"""
AS_FAST_AT_RANDOM = 1.5
"""Times as long as a sequential write that one at random may take for a drive to be called as fast
at it.
"""
_SECTOR_BYTES = 512
_PATTERNS = ("sequential", "partitioned", "focused")


@dataclass(frozen=True)
class Value:
    """One value of a finding, with what is to be believed of it."""

    key: str
    experiment: str
    number: float | None
    word: str | None
    verdict: str
    why: str

    @property
    def is_sure(self) -> bool:
        """True if it may be taken without a remark."""
        return self.verdict == "sure"

    def said(self) -> str:
        """Say what is not sure of it."""
        if self.verdict == "not_found":
            return f"{self.key} was not found ({self.why})"
        return f"{self.key} is not sure ({self.why})"


@dataclass(frozen=True)
class Facts:
    """Facts about a device."""

    values: dict[str, Any] = field(default_factory=dict)
    """Values by key, as the layers take them."""
    origin: str = "nothing is known of the device"
    """Origin of the values, for people."""
    remarks: tuple[str, ...] = ()
    """Remarks on what is not sure, or not known."""
    random_over_sequential: float | None = None
    """Time of a random write relative to a sequential one: why layers help, or do not."""

    def document(self) -> dict[str, Any]:
        """Tell them for a result."""
        return {
            "values": self.values,
            "origin": self.origin,
            "remarks": list(self.remarks),
            "random_over_sequential": self.random_over_sequential,
        }


def of_folder(folder: Path) -> Facts:
    """Take what a probe found, from its run folder.

    Raises InputError if it is none, or found nothing that layers can use.
    """
    run = probe_result.read(folder)
    findings = Store(folder).read()
    if not findings:
        raise InputError(
            f"{folder / FOLDER}: no findings are there; right would be the folder of `flashwright "
            "probe`"
        )
    found = of_findings(findings, f"`flashwright probe` of {run.result['drive']}, {folder}")
    if not found.values:
        named = ", ".join(spec.partition("(")[0] for spec in EXPERIMENTS)
        raise InputError(
            f"{folder}: it has nothing that layers can use; right would be a probe with --write of "
            f"these experiments: {named}"
        )
    return found


def wanted() -> ProbePlan:
    """Give the experiments that are made on a simulated drive, with their shares of the time."""
    return probe_plan.make(probe_plan.ONLY, EXPERIMENTS, MINUTES, may_write=True)


def cache_folder(target: Target) -> Path:
    """Name the folder in the user's cache for what was measured of a simulated drive.

    It is that of this profile and state.
    """
    if target.drive is None:
        raise AssertionError("only what is measured of a simulated drive is the same each time")
    text = repr(
        [
            target.drive.profile_hash,
            target.state,
            target.overwrites,
            *([] if target.array is None else [target.array.document()]),
            EXPERIMENTS,
            MINUTES,
            __version__,
        ]
    )
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "flashwright" / "facts" / hashlib.sha256(text.encode()).hexdigest()[:24]


def session(target: Target, device: Device) -> Session:
    """Give the measurement of a simulated drive.

    What is in the user's cache already is not measured again. The device is a second one of the
    same profile: the experiments write to it.
    """
    return Session(
        device,
        Region().on(device.info),
        wanted(),
        seed=1,
        may_write=True,
        store=Store(cache_folder(target)),
    )


def is_cached(target: Target) -> bool:
    """Tell whether all was measured before."""
    specs = {step.spec for step in wanted().steps}
    return specs <= Store(cache_folder(target)).read().keys()


def measured(target: Target, outcome: ProbeOutcome) -> Facts:
    """Give what was measured on a simulated drive."""
    left_out = tuple(f"{name} was not possible: {reason}" for name, reason in outcome.left_out)
    found = of_findings(
        outcome.findings,
        f"measured on a second simulated drive {target.name}, {MINUTES:g} min of its time",
    )
    return Facts(
        found.values, found.origin, (*found.remarks, *left_out), found.random_over_sequential
    )


def of_cache(target: Target) -> Facts:
    """Give what was measured before on such a simulated drive."""
    findings = Store(cache_folder(target)).read()
    return of_findings(
        findings, f"measured before on a simulated drive {target.name}, {MINUTES:g} min of its time"
    )


def of_findings(findings: Mapping[str, Finding], origin: str) -> Facts:
    """Take from findings what layers have to know."""
    reader = _Reader(consistent(findings))
    values: dict[str, Any] = {}
    area, block = (
        reader.number("focused_area_bytes") or reader.any_area(),
        reader.number("superblock_bytes"),
    )
    if area is not None:
        values["focused_area_bytes"] = round(area)
    if block is not None:
        values["erase_block_bytes"] = round(block)
    times = [reader.number(f"{name}_write_us") for name in _PATTERNS]
    if None not in times:
        values["times"] = {
            f"{name}_ns": 1e3 * us
            for name, us in zip(_PATTERNS, times, strict=True)
            if us is not None
        }
    thetas = [reader.number(f"theta_{name}_pages") for name in _PATTERNS]
    if None not in thetas:
        values["thresholds"] = {
            f"{name}_pages": theta for name, theta in zip(_PATTERNS, thetas, strict=True)
        }
    for order in ("sequential", "random"):
        pieces = reader.pieces(f"{order}_write")
        if pieces:
            values[f"{order}_write"] = pieces
    write_bytes = _saturated_from(reader.points("equations_write", "sequential write"))
    if write_bytes is not None:
        values["write_bytes"] = write_bytes
    ratio = reader.value("random_over_sequential")
    return Facts(values, origin, tuple(reader.remarks), None if ratio is None else ratio.number)


def _saturated_from(points: Sequence[tuple[float, float]]) -> int | None:
    """Give the least size of a write from which on larger ones bring little more.

    Points are (bytes, time). SCHEDULER 7.3.2 aligns to "the size where SSD bandwidth is beginning
    to get saturated" in such a curve (figure 4.4).
    """
    rates = {bytes_: bytes_ / us for bytes_, us in points if us > 0}
    for bytes_, rate in sorted(rates.items()):
        larger = [rates[other] for other in (2 * bytes_, 4 * bytes_) if other in rates]
        if larger and max(larger) <= (1 + LITTLE_MORE) * rate:
            return round(bytes_)
    return round(max(rates)) if rates else None


class _Reader:
    """Takes values out of findings, and notes what is not sure of those that are taken."""

    def __init__(self, findings: Mapping[str, Finding]) -> None:
        self._findings = dict(findings)
        self._values: dict[str, Value] = {}
        for spec, finding in findings.items():
            for one in finding["values"]:
                value = Value(
                    one["key"],
                    spec,
                    one.get("number"),
                    one.get("word"),
                    str(one["verdict"]),
                    str(one["why"]),
                )
                # Of several findings of an experiment the one with pages of a database counts.
                if value.key not in self._values or _is_of_pages(spec):
                    self._values[value.key] = value
        self.remarks: list[str] = []
        self._sizes_told: set[str] = set()

    def value(self, key: str) -> Value | None:
        return self._values.get(key)

    def number(self, key: str) -> float | None:
        """Give a number that layers use; what is not sure of it becomes a remark."""
        value = self._values.get(key)
        if value is None:
            return None
        if not value.is_sure:
            self.remarks.append(value.said())
        self._tell_size(value)
        return value.number

    def any_area(self) -> float | None:
        """Give the area of focused writes, if random ones are as fast wherever they go.

        It is the one in which they were measured: any area is as good.
        """
        ratio, focused = (
            self._values.get("random_over_sequential"),
            self._values.get("focused_write_area_bytes"),
        )
        area = None if focused is None else focused.number
        if (
            ratio is None
            or ratio.number is None
            or ratio.number > AS_FAST_AT_RANDOM
            or area is None
        ):
            return None
        said = (
            f"as writes at random are as fast as in sequence, the {size(int(area))} are taken in "
            "which focused ones were measured"
        )
        self.remarks.append(said)
        return area

    def _tell_size(self, value: Value) -> None:
        request = re.search(r"\b(?:size|page)=(\d+)", value.experiment)
        if (
            value.key.endswith("_write_us")
            and request is not None
            and int(request[1]) != PAGE_BYTES
        ):
            said = (
                f"times of patterns are those of writes of {size(int(request[1]))}, not of pages "
                f"of {size(PAGE_BYTES)}"
            )
            if said not in self._sizes_told:
                self._sizes_told.add(said)
                self.remarks.append(said)

    def pieces(self, label: str) -> list[tuple[int, float, float]]:
        """Give a performance equation by ascending length.

        Rows are (to_bytes, intercept in ns, ns a byte).
        """
        shape = self._values.get(f"{label}_shape")
        if shape is None:
            return []
        if shape.word == "none" or not shape.is_sure:
            self.remarks.append(
                f"the equation of {label.replace('_', ' ')}s is not sure ({shape.why})"
            )
        number = 1
        lines = []
        while (slope := self._values.get(f"{label}_piece_{number}_us_per_sector")) is not None:
            lines.append(self._line(f"{label}_piece_{number}_", slope, number))
            number += 1
        if not lines:
            slope = self._values.get(f"{label}_us_per_sector")
            return [] if slope is None else [self._line(f"{label}_", slope, 0)]
        return lines

    def _line(self, prefix: str, slope: Value, number: int) -> tuple[int, float, float]:
        at_zero = self._values[f"{prefix}us_at_zero"].number or 0.0
        following = (
            self._values.get(prefix.replace(f"_{number}_", f"_{number + 1}_") + "from_sectors")
            if number
            else None
        )
        ends = (
            _SECTOR_BYTES * following.number
            if following is not None and following.number
            else float(1 << 62)
        )
        return round(ends), 1e3 * at_zero, 1e3 * (slope.number or 0.0) / _SECTOR_BYTES

    def points(self, experiment: str, series: str) -> list[tuple[float, float]]:
        """Give the measured points of a chart."""
        for spec, finding in self._findings.items():
            if spec.partition("(")[0] != experiment:
                continue
            for chart in finding["charts"]:
                for one in chart["series"]:
                    if one["name"] == series and one.get("is_scatter"):
                        return [(point["x"], point["y"]) for point in one["points"]]
        return []


def _is_of_pages(spec: str) -> bool:
    return re.search(rf"\b(?:size|page)={PAGE_BYTES}\b", spec) is not None
