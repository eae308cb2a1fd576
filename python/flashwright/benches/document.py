"""The result of benches: what was asked for, what each run found, and the tables."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from flashwright.reports.bench_summary import cells
from flashwright.runs import Job, Run
from flashwright.workloads.session import Finding, versions

from .plan import Bench, Benches
from .session import Outcome


def run_of(asked: Benches, job: Job, outcome: Outcome) -> Run:
    """Give all that is known by now as a run."""
    done, life = len(outcome.rows), asked.life
    result = {
        "benches": [one.document() for one in asked.each],
        "axis": asdict(asked.axis),
        "repeats": asked.options.repeat,
        "runs": {"done": done, "of": asked.runs},
        "complete": done == asked.runs and not outcome.is_stopped,
        "stopped_by": None if outcome.error is None else str(outcome.error),
        "violations": outcome.violations,
        "cells": cells(outcome.rows),
        "has_layers": asked.has_layers,
        "database": outcome.place,
        "drive": outcome.drive,
        "drive_caveats": sorted(
            {row["drive_caveats"] for row in outcome.rows if row.get("drive_caveats")}
        ),
        "life": {"endurance_cycles": life.cycles, "guaranteed_bytes": life.guaranteed_bytes},
        "preset": asked.preset,
        "machine": machine(),
        "remarks": asked.remarks,
        "versions": versions(),
    }
    if outcome.finding is not None:
        result |= _of_one(asked.each[0], outcome.finding)
    tables = {
        name: pa.concat_tables(parts, promote_options="permissive")
        for name, parts in outcome.tables.items()
    }
    if outcome.rows:
        names = dict.fromkeys(name for row in outcome.rows for name in row)
        tables["runs"] = pa.table(
            {name: pa.array([row.get(name) for row in outcome.rows]) for name in names}
        )
    return job.run(result, tables)


def _of_one(bench: Bench, finding: Finding) -> dict[str, Any]:
    """Give what is said of a run that is the only one."""
    measured, about = finding.result, bench.document()
    weights = bench.plan.load.mix.weights
    broken = finding.violations
    return {
        **measured.as_dict(),
        "workload": about["workload"],
        "settings": about["settings"],
        "expected_shares": {
            str(kind): weight / sum(weights.values()) for kind, weight in weights.items()
        },
        "database": {
            "name": bench.plan.database.name,
            **finding.place,
            "bytes": finding.database_bytes,
            "bytes_at_end": finding.database_bytes_at_end,
            "buffer_bytes": finding.buffer_bytes,
            "load_seconds": finding.load_seconds,
            "driver": finding.driver,
        },
        "checkpoints": finding.checkpoints,
        "consistency": {
            "checked": broken is not None,
            "holds": None if broken is None else not broken,
            "violations": [str(violation) for violation in broken or ()],
        },
        "kept_in": None if finding.kept_in is None else str(finding.kept_in),
    }


def machine() -> dict[str, Any]:
    """Give what the figures of this machine depend on."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
    }
