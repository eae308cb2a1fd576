"""The page of advice: predicted and measured side by side, and the bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.advice.judged import CLEAR, FAR, FIRST, NEAR, PROMISED, SURE, Judged, Pair, judge
from experiments.pages import markdown_table, page
from flashwright._text import percent, short_time, significant, size
from flashwright.advice import words
from flashwright.advice.proving import FIGURES, Figure, Proof, Proven, Ratio
from flashwright.advice.trials import Measured, Trial

_SURE = f"those measured within a factor of {SURE:g}"
BUSY = 0.9
"""Share of busy processors from which they may be the limit, and not the drive."""
_BARS = (
    "pairs",
    "median error",
    f"within {NEAR:.0%}",
    f"within {FAR:.0%}",
    f"measured above {CLEAR:.0%}",
    "of those, sign right",
    f"Kendall's tau of the first {FIRST}",
    f"predicted above {PROMISED:.0%}, measured below {CLEAR:.0%}",
)


@dataclass(frozen=True)
class Row:
    """A part that was measured, with what was predicted of it."""

    name: str
    title: str
    database: str
    trial: Trial
    proof: Proof
    pairs: tuple[Pair, ...]
    unknown: Mapping[str, str]
    """Why nothing was predicted, by change."""

    @property
    def is_whole(self) -> bool:
        """True if every change that was not refused has a run."""
        return all(one.runs or one.refused for one in self.proof.changes)


def _bars(what: str, judged: Judged) -> list[str]:
    shares = (judged.median_error, judged.near, judged.far)
    return [
        what,
        str(judged.pairs),
        *("" if one is None else percent(one) for one in shares),
        str(judged.clear),
        "" if judged.sign_right is None else percent(judged.sign_right),
        "" if judged.tau is None else f"{judged.tau:.2f} of {judged.cases}",
        str(judged.false_promises),
    ]


def _groups(rows: Sequence[Row]) -> list[tuple[str, list[Pair]]]:
    """Give the pairs of all, of each figure, of each database."""
    pairs = [pair for row in rows for pair in row.pairs]
    of_figures = [
        (figure.title, [one for one in pairs if one.figure.name == figure.name])
        for figure in FIGURES
    ]
    of_databases = [
        (name, [pair for row in rows if row.database == name for pair in row.pairs])
        for name in dict.fromkeys(row.database for row in rows)
    ]
    sure = [one for one in pairs if one.is_sure]
    return [("all", pairs), *of_figures, *of_databases, (_SURE, sure)]


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    value = significant(ratio.value)
    if ratio.low is None or ratio.high is None:
        return value
    return f"{value} ({significant(ratio.low)} to {significant(ratio.high)})"


def _cells(row: Row, change: Proven) -> list[str]:
    said = {one.figure.name: one for one in row.pairs if one.change == change.name}
    found = [f"`{change.name}`"]
    for figure in FIGURES:
        pair = said.get(figure.name)
        found.append(_ratio(row.proof.ratio(change, figure)))
        found.append("" if pair is None else significant(pair.predicted))
    return [*found, _busy(change.runs), change.refused or ""]


def _busy(runs: Sequence[Measured]) -> str:
    shares = [one.busy_share for one in runs if one.busy_share is not None]
    return percent(max(shares)) if shares else ""


def _headings() -> list[str]:
    both = [word for figure in FIGURES for word in (f"{figure.title}: measured", "predicted")]
    return ["change", *both, "processors busy", "not run, or not again"]


def _said(figure: Figure, value: float) -> str:
    said: Mapping[str, Callable[[float], str]] = {
        "flash_bytes": size,
        "p99": lambda seconds: short_time(seconds * 1e9),
    }
    return said.get(figure.name, significant)(value)


def _standing(runs: Sequence[Measured]) -> str:
    """Say the figures as things stand, by the middle run of each."""
    parts = []
    for figure in FIGURES:
        values = sorted(value for one in runs if (value := figure.of(one)) is not None)
        if values:
            parts.append(f"{figure.title}: {_said(figure, values[len(values) // 2])}")
    return "; ".join(parts)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _section(row: Row) -> str:
    trial, proof = row.trial, row.proof
    settings = "".join(f", {name}={value}" for name, value in trial.settings.items())
    checks = ", ".join(proof.baseline.runs[0].checks)
    table = markdown_table(_headings(), [_cells(row, one) for one in proof.changes])
    return "\n\n".join(
        (
            f"## {row.name}: {row.title}",
            f"`{trial.workload}` on `{trial.database}`{settings}, clients: {trial.clients}; "
            f"{trial.seconds:g} s after a warm-up of {trial.warm_up:g} s; "
            f"{_times(len(proof.baseline.runs))} as things stand, and each change "
            f"{_times(max((len(one.runs) for one in proof.changes), default=0))}. A drive of "
            f"{size(trial.drive.size_bytes)}, {trial.drive.state}. As things stand: "
            f"{_standing(proof.baseline.runs)}; processors busy {_busy(proof.baseline.runs)}. "
            f"Found whole afterwards by {checks}.",
            table,
            *words.unpredicted({f"`{name}`": why for name, why in row.unknown.items()}),
        )
    )


def page_of(rows: Sequence[Row], command: str) -> str:
    """Give the Markdown page."""
    note = (
        "Figures of a change are ratios to those without it, with the 95 % interval over repeats. "
        "Predictions are made of a recording of the load as things stood, and of nothing that was "
        f"measured with a change. Where processors are busy above {BUSY:.0%}, they may be the "
        "limit, and not the drive."
    )
    bars = [_bars(what, judge(pairs)) for what, pairs in _groups(rows) if pairs]
    summary = "No change was predicted." if not bars else markdown_table(("", *_BARS), bars)
    return page(
        "Advice, held against what was measured",
        command,
        note,
        [
            summary,
            *(_section(row) for row in rows),
        ],
    )


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Give all numbers for JSON."""
    return {
        "bars": {what: judge(pairs).document() for what, pairs in _groups(rows)},
        "parts": {
            row.name: {
                "trial": row.trial.document(),
                **row.proof.document(),
                "predicted": [
                    {
                        "change": one.change,
                        "figure": one.figure.name,
                        "predicted": one.predicted,
                        "measured": one.measured.document(),
                        "error": one.error,
                        "is_within_interval": one.is_within,
                    }
                    for one in row.pairs
                ],
            }
            for row in rows
        },
    }
