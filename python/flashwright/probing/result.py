"""A probe as a run folder: result, tables, and two drives side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from flashwright._core import InputError
from flashwright.probing.consistency import consistent
from flashwright.probing.plan import label_of
from flashwright.probing.session import in_order
from flashwright.runs import Job, Run

if TYPE_CHECKING:
    from flashwright.probing.plan import ProbePlan
    from flashwright.probing.session import ProbeOutcome
    from flashwright.probing.store import Finding
    from flashwright.probing.targets import Region

COMMAND = "probe"
VALUES = pa.schema(
    [(name, pa.string()) for name in ("drive", "experiment", "key")]
    + [
        ("number", pa.float64()),
        ("word", pa.string()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
    + [("least", pa.float64()), ("most", pa.float64())]
    + [("verdict", pa.string()), ("why", pa.string())]
)
CURVES = pa.schema(
    [(name, pa.string()) for name in ("drive", "experiment", "chart", "series")]
    + [(name, pa.float64()) for name in ("x", "y", "low", "high")]
    + [("x_unit", pa.string()), ("y_unit", pa.string())]
)
SUMS = ("device_seconds", "requests", "read_bytes", "written_bytes")


def identity(device: Mapping[str, Any], region: Region, seed: int) -> dict[str, Any]:
    """Give what decides on a finding besides the experiment.

    A run folder holds those of one identity.
    """
    keys = ("kind", "model", "capacity_bytes", "sector_bytes", "profile_hash", "state")
    return {
        "device": {key: device.get(key) for key in keys},
        "region": region.document(),
        "seed": seed,
    }


def make_run(
    device: Mapping[str, Any],
    region: Region,
    plan: ProbePlan,
    outcome: ProbeOutcome,
    *,
    job: Job,
    may_write: bool,
) -> Run:
    """Give what a probe found as a run."""
    name = str(device["name"])
    findings = list(consistent(in_order(outcome.findings)).values())
    result = {
        "drive": name,
        "device": dict(device),
        "region": region.document(),
        "seed": job.seed,
        "set": plan.set_name,
        "budget_seconds": plan.budget_seconds,
        "may_write": may_write,
        "complete": outcome.is_complete,
        "error": outcome.error,
        **{key: sum(finding[key] for finding in findings) for key in SUMS},
        "findings": [_without_points(finding) for finding in findings],
        "left_out": [{"experiment": label, "reason": reason} for label, reason in outcome.left_out],
        "missing": outcome.missing,
        "identity": job.identity,
    }
    tables = {
        "values": pa.Table.from_pylist(list(_value_rows(name, findings)), VALUES),
        "curves": pa.Table.from_pylist(list(_curve_rows(name, findings)), CURVES),
    }
    return job.run(result, tables)


def _value_rows(drive: str, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        for value in finding["values"]:
            low, high = value.get("interval") or (None, None)
            least, most = value.get("range") or (None, None)
            row = {key: value.get(key) for key in ("key", "number", "word", "verdict", "why")}
            ends = {"low": low, "high": high, "least": least, "most": most}
            yield {"drive": drive, "experiment": label_of(finding["experiment"]), **row, **ends}


def _curve_rows(drive: str, findings: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        for chart in finding["charts"]:
            place = {
                "drive": drive,
                "experiment": label_of(finding["experiment"]),
                "chart": chart["name"],
            }
            units = {"x_unit": chart["x"]["unit"], "y_unit": chart["y"]["unit"]}
            for series in chart["series"]:
                for point in series["points"]:
                    low, high = point.get("interval") or (None, None)
                    yield {
                        **place,
                        "series": series["name"],
                        "x": point["x"],
                        "y": point["y"],
                        "low": low,
                        "high": high,
                        **units,
                    }


def _without_points(finding: Finding) -> Finding:
    """Give a finding whose points are in the table of curves alone."""
    charts = [
        {
            **chart,
            "series": [
                {key: value for key, value in series.items() if key != "points"}
                for series in chart["series"]
            ],
        }
        for chart in finding["charts"]
    ]
    return {**finding, "label": label_of(finding["experiment"]), "charts": charts}


def read(folder: Path) -> Run:
    """Read the probe of one drive from a run folder; of two that lie over each other, the first.

    Raises InputError if it holds something else.
    """
    run = Run.read(folder)
    if run.command != COMMAND:
        raise InputError(
            f"{folder}: a run of `{run.command}`, not of `{COMMAND}`: there are no curves to lay "
            "beside"
        )
    run.result.pop("against", None)
    tables = {
        name: table.filter(pc.field("drive") == run.result["drive"])
        for name, table in run.tables.items()
    }
    return Run(run.command, run.result, tables)


def overlay(run: Run, other: Run) -> Run:
    """Lay another drive's probe over this one's.

    Its findings go into `against`, its rows below those of this drive.
    """
    name, drive = str(run.result["drive"]), _other_name(run.result, other.result)
    against = {key: value for key, value in other.result.items() if key != "provenance"} | {
        "drive": drive
    }
    tables = {}
    for key, table in run.tables.items():
        theirs = other.tables[key]
        names = pa.array([drive] * theirs.num_rows, pa.string())
        # A folder of an earlier version lacks what was added since.
        tables[key] = pa.concat_tables(
            [table, theirs.set_column(0, "drive", names)], promote_options="default"
        )
    return replace(run, result={**run.result, "drive": name, "against": against}, tables=tables)


def _other_name(result: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Give the other drive's name: if both have one, with what distinguishes them."""
    name = str(other["drive"])
    if name != result["drive"]:
        return name
    state = other["device"].get("state", {}).get("kind")
    if state is not None and state != result["device"].get("state", {}).get("kind"):
        return f"{name} ({state})"
    return f"{name} (other)"


def points(run: Run) -> dict[tuple[str, str, str, str], list[dict[str, Any]]]:
    """Give the points of each curve: by drive, experiment, chart and series."""
    found: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
    for row in run.tables["curves"].to_pylist():
        found.setdefault((row["drive"], row["experiment"], row["chart"], row["series"]), []).append(
            row
        )
    return found
