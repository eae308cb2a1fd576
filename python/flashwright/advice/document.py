"""The answer as a result: JSON that says all that was said, and a table of what was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashwright.advice import words
from flashwright.advice.answer import Answer, Weighed
from flashwright.advice.engine import years
from flashwright.advice.gain import beside, gain_said

if TYPE_CHECKING:
    import pyarrow as pa


def document(answer: Answer) -> dict[str, Any]:
    """Give the answer for `result.json`."""
    case = answer.case
    lives = years(case.figures, case.loads_a_day)
    return {
        "goal": case.goal,
        "risk": words.risk_said(case.risk),
        "headline": words.headline(answer),
        "as_things_stand": {
            "written_bytes": case.load.written_bytes,
            "seconds": case.load.seconds,
            "written_by": dict(case.load.written_by),
            "written_bytes_per_day": case.writes_per_day,
            "rate": case.rate_said,
            "figures": case.figures.document(),
            "write_amplification": case.figures.write_amplification,
            "recorded_commits": None if case.load.commits is None else case.load.commits.document(),
            "waiting_share": None if case.loop is None else case.loop.waiting_share,
            "life_years": None if lives is None else lives.document(),
            "drive": case.drive_said,
            "drive_known": case.drive_known,
            "rows": [list(row) for row in words.as_things_stand(answer)],
        },
        "changes": [_weighed(answer, one) for one in answer.changes],
        "combination": None if answer.combination is None else _weighed(answer, answer.combination),
        "other_drives": [_weighed(answer, one) for one in answer.others],
        "with_more_risk": [_weighed(answer, one) for one in answer.risky],
        "would_not_help": [
            {"action": one.action, "what": one.what, "why": one.why} for one in answer.useless
        ],
        "not_known": [
            {"action": one.action, "what": one.what, "why": one.why, "how": one.how}
            for one in answer.not_known
        ],
        "told": [{"action": one.action, "says": one.says} for one in answer.told],
        "rests_on": words.rests_on(answer),
        "out_of_time": list(answer.out_of_time),
        "complete": answer.is_complete,
    }


def _weighed(answer: Answer, one: Weighed) -> dict[str, Any]:
    candidate = one.candidate
    lives = years(one.figures, answer.case.loads_a_day)
    return {
        "action": candidate.action,
        "name": candidate.name,
        "what": candidate.what,
        "gain": one.gain.of(answer.case.goal).document(),
        "gain_said": gain_said(one.gain, answer.case.goal),
        "beside": beside(one.gain, answer.case.goal),
        "ratios": one.gain.document(),
        "why": candidate.why,
        "cost": candidate.cost,
        "loss": {"level": words.risk_said(candidate.loss.level), "says": candidate.loss.says},
        "do": list(candidate.do),
        "undo": list(candidate.undo),
        "assumes": list(candidate.assumes),
        "settings": dict(candidate.settings),
        "life_years": None if lives is None else lives.document(),
        "figures": one.figures.document(),
    }


def table(answer: Answer) -> pa.Table:
    """Give a row for each candidate that was simulated."""
    import pyarrow as pa  # noqa: PLC0415  (only where it is written)

    rows = []
    for one in answer.weighed:
        gain = one.gain.of(answer.case.goal)
        rows.append(
            {
                "action": one.candidate.action,
                "name": one.candidate.name,
                "loss": words.risk_said(one.candidate.loss.level),
                "gain": gain.value,
                "gain_low": gain.low,
                "gain_high": gain.high,
                "flash_bytes": one.figures.flash_bytes.value,
                "flash_ratio": one.gain.flash.value,
                "commit_p99_ratio": one.gain.latency,
                "throughput_ratio": one.gain.throughput,
                "steady": one.figures.steady,
                "slices": one.figures.slices,
            }
        )
    return pa.Table.from_pylist(rows)
