"""Results of a comparison for reports: rows by workload and policy, and some of its words."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from flashwright._text import percent, significant, size
from flashwright.comparing.policies import NO_PLACEMENT
from flashwright.lifetime import ASSUMED, COUNTED, RECORDED, recorded_of
from flashwright.pages.figures import Colours
from flashwright.reports.names import proper
from flashwright.runs import Run

USUAL_OVER_PROVISIONING = 0.2
BASELINES = ("Greedy", "LRU")


class Results:
    """The rows of a comparison, as its report asks for them.

    A row is a run of a placement with a victim policy. A *method* is what is drawn and ranked: a
    placement policy with whichever victim policy serves it best at that over-provisioning; without
    placement each victim policy is a method of its own.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        rows = [
            {
                **row,
                "label": row["policy"],
                "policy": proper(row["policy"]),
                "method": proper(row["victim"] if _is_none(row) else row["placement"]),
            }
            for row in run.result["results"]
        ]
        self.rows: list[dict[str, Any]] = [row for row in rows if "error" not in row]
        self.failed: list[dict[str, Any]] = [row for row in rows if "error" in row]
        self.workloads: list[dict[str, Any]] = run.result["workloads"]
        self.alphas: list[float] = sorted(
            {row["over_provisioning"] for row in run.result["bounds"]}
        )
        self.methods: list[str] = list(dict.fromkeys(row["method"] for row in rows))
        self.colours = Colours(self.methods)
        self.reference = min(self.alphas, key=lambda op: abs(op - USUAL_OVER_PROVISIONING))

    def of(
        self, workload: str, *, method: str | None = None, op: float | None = None
    ) -> list[dict[str, Any]]:
        """Give the best row of each method at each over-provisioning.

        Of a workload, a method, an over-provisioning; least over-provisioning first.
        """
        best: dict[tuple[str, float], dict[str, Any]] = {}
        for row in self.all_of(workload, op=op):
            place = (row["method"], row["over_provisioning"])
            if method not in (None, row["method"]):
                continue
            known = best.get(place)
            if known is None or row["write_amplification"] < known["write_amplification"]:
                best[place] = row
        return sorted(best.values(), key=lambda row: row["over_provisioning"])

    def all_of(self, workload: str, *, op: float | None = None) -> list[dict[str, Any]]:
        """Give every row of a workload at an over-provisioning, the one that writes least first."""
        rows = [
            row
            for row in self.rows
            if row["workload"] == workload and op in (None, row["over_provisioning"])
        ]
        return sorted(rows, key=lambda row: row["write_amplification"])

    def ranked(self, workload: str) -> list[dict[str, Any]]:
        """Give the methods at the reference over-provisioning, the one that writes least first."""
        return sorted(
            self.of(workload, op=self.reference), key=lambda row: row["write_amplification"]
        )

    def best(self, workload: str) -> dict[str, Any] | None:
        """Give the run that writes least of those that a drive can have.

        Oracles are left out if there are others.
        """
        ranked = self.ranked(workload)
        real = [row for row in ranked if not row.get("oracle", False)]
        return next(iter(real or ranked), None)

    def baseline(self, workload: str) -> dict[str, Any] | None:
        """Give what a plain drive does.

        Greedy or else LRU if they were run without placement, or else the method that writes most.
        """
        ranked = self.ranked(workload)
        best = self.best(workload)
        others = [row for row in ranked if best is not None and row["method"] != best["method"]]
        named = [row for name in BASELINES for row in others if row["method"] == name]
        return next(iter(named or others[-1:]), None)

    @cache  # noqa: B019  (one object a report)
    def table_rows(self, name: str) -> list[dict[str, Any]]:
        """Give the rows of a stacked table."""
        rows: list[dict[str, Any]] = self.run.tables[name].to_pylist()
        return rows

    def named(self, workload: str) -> set[str]:
        """Give the methods that the answer names."""
        return {
            row["method"]
            for row in (self.best(workload), self.baseline(workload))
            if row is not None
        }

    def bounds(self, workload: str) -> list[dict[str, Any]]:
        """Give the frequency bound and the offline minimum, least over-provisioning first."""
        rows = [row for row in self.run.result["bounds"] if row["workload"] == workload]
        return sorted(rows, key=lambda row: row["over_provisioning"])

    def bound(self, workload: str, op: float) -> dict[str, Any]:
        """Give the frequency bound and the offline minimum at an over-provisioning."""
        return next(row for row in self.bounds(workload) if row["over_provisioning"] == op)

    def lifetime(self, workload: str) -> dict[str, Any]:
        """Give what a workload's life is computed from."""
        found: dict[str, Any] = next(
            item["lifetime"] for item in self.workloads if item["name"] == workload
        )
        return found


def _is_none(row: dict[str, Any]) -> bool:
    return bool(row["placement"] == NO_PLACEMENT)


def amplification(row: dict[str, Any]) -> str:
    """Give a write amplification with its 95 % interval, marked if it is not steady."""
    text = significant(row["write_amplification"], 4)
    low, high = row.get("write_amplification_low"), row.get("write_amplification_high")
    if low is not None and high is not None:
        text += f" \u00b1{significant((high - low) / 2, 2)}"
    return text + ("" if row["steady"] else " *")


def against(gap_percent: float) -> str:
    """Give a distance to a bound in words."""
    return f"{significant(abs(gap_percent), 2)} % {'above' if gap_percent >= 0 else 'below'}"


def wear_words(lifetime: dict[str, Any]) -> str:
    """Say what a life is computed from: the drive, its endurance, how much is written."""
    drive = "a drive as large as the data"
    if lifetime.get("capacity_bytes"):
        fill = percent(lifetime["fill"], 2)
        drive = f"a drive of {size(lifetime['capacity_bytes'])}, {fill} full"
    return (
        f"{drive}, {significant(lifetime['endurance_cycles'])} erases for each erase block, "
        f"{drive_writes(lifetime)}"
    )


def drive_writes(lifetime: dict[str, Any]) -> str:
    """Give how much is written a day, in words."""
    if lifetime["drive_writes_per_day"] is None:
        recorded = recorded_of(lifetime)
        return "an unknown volume a day" if recorded is None else recorded.at_this_rate()
    rate = f"{lifetime['drive_writes_per_day']:.3g}"
    whose = {
        RECORDED: ", as recorded",
        ASSUMED: ", assumed",
        COUNTED: ", by the drive's own counters",
    }.get(lifetime["rate"], "")
    return f"{rate} drive {'write' if rate == '1' else 'writes'} a day{whose}"


def life(row: Mapping[str, Any]) -> str:
    """Give the life of a run in words, or why it is not known."""
    if row["life_years"] is None:
        return f"not known: {row['life_unknown']}"
    return years(row["life_years"])


def years(value: float) -> str:
    """Give a life in words."""
    if value >= 0.3:
        return f"{significant(value, 2)} years"
    days = value * 365.25
    return f"{significant(days, 2)} days" if days >= 1 else f"{significant(days * 24, 2)} hours"
