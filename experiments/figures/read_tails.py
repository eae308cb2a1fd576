"""Techniques against the tail of reads under cleaning, beside the drive that does not clean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from experiments.drives import read_tails as runs
from experiments.pages import markdown_table, page
from experiments.registry import Made, Part, Request, Set
from flashwright._text import percent, short_time, significant

BAR = 1.3
"""Greatest tail of reads that replication may have, relative to the drive that does not clean."""


@dataclass(frozen=True)
class Drives(Part):
    """One drive."""

    kind: runs.Kind


PARTS = tuple(
    Drives(
        f"read-tails-{kind.profile}",
        "",
        f"reads of 4 KiB on `{kind.profile}` at parts of its highest load",
        kind,
    )
    for kind in runs.KINDS
)
HEADINGS = (
    "technique",
    "99 %",
    "beside no cleaning",
    "99.9 %",
    "beside no cleaning",
    "dies: cleaning",
    "dies: idle",
    "slowest percent waits for",
)
KEPT_UP = 0.98
"""Share of a load below which a drive is overloaded; what is offered varies by 0.2 % itself."""
LEAST = 0.05
"""Share of the time of the slowest reads below which a cause is left out."""


def _causes(found: Mapping[str, Any]) -> str:
    """Name what the slowest percent of reads spends its time on, the most first."""
    if "tail" not in found:
        counts = found["reads"]
        failed, hedged = (
            counts[f"{kind}_reads"] / counts["reads"] for kind in ("failed", "hedged")
        )
        parts = [("failed", failed), ("hedged", hedged)]
        return ", ".join(f"{percent(share)} of reads {name}" for name, share in parts if share)
    whole = sum(found["tail"].values())
    by_size = sorted(found["tail"].items(), key=lambda delay: -delay[1])
    large = [(name, time) for name, time in by_size if time >= LEAST * whole]
    return ", ".join(f"{name} {short_time(time)}" for name, time in large)


def _row(kind: runs.Kind, technique: runs.Technique, load: float) -> list[str]:
    found, tail = runs.play(kind, technique, load), runs.tail(kind, technique, load)
    kept_up, causes = runs.kept_up(kind, technique, load), _causes(found)
    if kept_up < KEPT_UP:
        causes = f"overloaded ({percent(kept_up)} of the load): {causes}"
    return [
        technique.name,
        short_time(tail.p99),
        significant(tail.p99_ratio, 3),
        short_time(tail.p999),
        significant(tail.p999_ratio, 3),
        percent(found["die_share"]["cleaning"]),
        percent(found["die_share"]["idle"]),
        causes,
    ]


def _document(kind: runs.Kind, technique: runs.Technique, load: float) -> dict[str, Any]:
    found = runs.play(kind, technique, load)
    kept = (
        "latency_ns",
        "delays",
        "die_share",
        "tail",
        "reads",
        "iops",
        "event_hash",
        "replication",
    )
    return {
        "technique": technique.name,
        "load": load,
        "keys": runs.keys_of(kind, technique),
        **asdict(runs.tail(kind, technique, load)),
        **{name: found[name] for name in kept if found.get(name) is not None},
    }


def _verdict(kind: runs.Kind, load: float) -> str:
    """Say whether replication keeps to the bar, and which technique is best."""
    tails = {one.name: runs.tail(kind, one, load) for one in runs.TECHNIQUES if one.cleans}
    copies = tails[runs.REPLICATION.name]
    worst = max(copies.p99_ratio, copies.p999_ratio)
    kept = "within" if worst <= BAR else "not within"
    single = [one.name for one in runs.TECHNIQUES if one.cleans and not one.array]
    names = sorted(tails, key=lambda name: (tails[name].p999, tails[name].p99))
    best, of_one = names[0], next(name for name in names if name in single)
    return (
        f"Replication is at {copies.p99_ratio:.2f} and {copies.p999_ratio:.2f} times of the drive "
        f"that does not clean: {kept} {BAR}. Lowest 99.9th percentile: {best} "
        f"({tails[best].p999_ratio:.2f} times); of one drive: {of_one} "
        f"({tails[of_one].p999_ratio:.2f} times)."
    )


def _make(request: Request[Drives]) -> Made:
    parts: list[str] = []
    document: dict[str, Any] = {}
    for part in request.parts:
        kind = part.kind
        parts += [f"## {part.name}: {part.title}"]
        parts += [f"Highest load: {runs.highest(kind):,.0f} requests/s of the plain drive."]
        for load in runs.LOADS:
            rows = [_row(kind, technique, load) for technique in runs.TECHNIQUES]
            parts += [f"### At {percent(load)} of it", _verdict(kind, load)]
            parts += [markdown_table(HEADINGS, rows)]
        document[part.name] = [
            _document(kind, technique, load) for load in runs.LOADS for technique in runs.TECHNIQUES
        ]
    title = "Reads past a die that cleans"
    return Made(page(title, request.command, "", parts), document)


SET: Set[Drives] = Set(
    "figures-read-tails",
    "techniques against the tail of reads under cleaning",
    "half an hour",
    PARTS,
    _make,
)
