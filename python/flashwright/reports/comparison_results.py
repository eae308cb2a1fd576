"""What reports ask of a comparison: its rows by workload and policy, and some of its words."""

from __future__ import annotations

from functools import cache
from typing import Any

from flashwright._text import significant
from flashwright.reports.figures import Colours
from flashwright.reports.names import proper
from flashwright.runs import Run

USUAL_OVER_PROVISIONING = 0.2
BASELINES = ("Greedy", "LRU")


class Results:
    """The rows of a comparison, as its report asks for them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        rows = [
            {**row, "label": row["policy"], "policy": proper(row["policy"])}
            for row in run.result["results"]
        ]
        self.rows: list[dict[str, Any]] = [row for row in rows if "error" not in row]
        self.failed: list[dict[str, Any]] = [row for row in rows if "error" in row]
        self.workloads: list[dict[str, Any]] = run.result["workloads"]
        self.alphas: list[float] = sorted(
            {row["over_provisioning"] for row in run.result["bounds"]}
        )
        self.policies: list[str] = list(dict.fromkeys(row["policy"] for row in rows))
        self.colours = Colours(self.policies)
        self.reference = min(self.alphas, key=lambda op: abs(op - USUAL_OVER_PROVISIONING))

    def of(
        self, workload: str, *, policy: str | None = None, op: float | None = None
    ) -> list[dict[str, Any]]:
        """Give the rows of a workload, a policy, an over-provisioning.

        Least over-provisioning first.
        """
        rows = [
            row
            for row in self.rows
            if row["workload"] == workload
            and policy in (None, row["policy"])
            and op in (None, row["over_provisioning"])
        ]
        return sorted(rows, key=lambda row: row["over_provisioning"])

    def ranked(self, workload: str) -> list[dict[str, Any]]:
        """Give the rows at the reference over-provisioning, the one that writes least first."""
        return sorted(
            self.of(workload, op=self.reference), key=lambda row: row["write_amplification"]
        )

    def best(self, workload: str) -> dict[str, Any] | None:
        """Give the policy that writes least of those that a drive can have.

        Oracles are left out if there are others.
        """
        ranked = self.ranked(workload)
        real = [row for row in ranked if not row.get("oracle", False)]
        return next(iter(real or ranked), None)

    def baseline(self, workload: str) -> dict[str, Any] | None:
        """Give what a plain drive does.

        Greedy or else LRU if they were run, or else the policy that writes most.
        """
        ranked = self.ranked(workload)
        best = self.best(workload)
        others = [row for row in ranked if best is not None and row["policy"] != best["policy"]]
        named = [row for name in BASELINES for row in others if row["policy"] == name]
        return next(iter(named or others[-1:]), None)

    @cache  # noqa: B019  (one object a report)
    def table_rows(self, name: str) -> list[dict[str, Any]]:
        """Give the rows of a stacked table."""
        rows: list[dict[str, Any]] = self.run.tables[name].to_pylist()
        return rows

    def told(self, workload: str) -> set[str]:
        """Give the policies that the answer names."""
        return {
            row["policy"]
            for row in (self.best(workload), self.baseline(workload))
            if row is not None
        }

    def bounds(self, workload: str) -> list[dict[str, Any]]:
        """Give the bound of a workload, least over-provisioning first."""
        rows = [row for row in self.run.result["bounds"] if row["workload"] == workload]
        return sorted(rows, key=lambda row: row["over_provisioning"])

    def bound(self, workload: str, op: float) -> dict[str, Any]:
        """Give the bound at an over-provisioning."""
        return next(row for row in self.bounds(workload) if row["over_provisioning"] == op)


def against(gap_percent: float) -> str:
    """Give a distance to the bound in words."""
    return f"{significant(abs(gap_percent), 2)} % {'above' if gap_percent >= 0 else 'below'}"


def drive_writes(lifetime: dict[str, Any]) -> str:
    """Give how much is written a day, in words."""
    rate = f"{lifetime['drive_writes_per_day']:.3g}"
    return f"{rate} drive {'write' if rate == '1' else 'writes'} a day"


def years(value: float) -> str:
    """Give a life in words."""
    if value >= 0.3:
        return f"{significant(value, 2)} years"
    days = value * 365.25
    return f"{significant(days, 2)} days" if days >= 1 else f"{significant(days * 24, 2)} hours"
