"""The answer in words: the same lines on a terminal and in the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flashwright._text import percent, significant, size, span
from flashwright.advice.action import Lost
from flashwright.advice.answer import ABOVE_THE_FOLD, Answer, Weighed
from flashwright.advice.case import Case
from flashwright.advice.engine import years
from flashwright.advice.gain import beside, gain_said, share
from flashwright.advice.nearest import NEAREST
from flashwright.advice.processors import IDLE_TAKES, Processors
from flashwright.advice.setup import Commits, Interval
from flashwright.lifetime import LEAST_SECONDS, volume

_PURPOSES = {
    "heap": "tables",
    "index": "indexes",
    "wal": "log",
    "temp": "temporary files",
    "catalog": "the database's catalog",
    "journal": "the file system's journal",
    "metadata": "the file system's metadata",
    "other": "other files of the database",
    "others": "other programs",
    "unknown": "not known whose",
}

_BUSY = 0.5
"""Share of their time from which on processors take no less for a transaction."""


def headline(answer: Answer) -> str:
    """Give the answer in two sentences."""
    first = _life(answer.case)
    if answer.changes:
        best = answer.changes[0]
        what = best.candidate.what[0].lower() + best.candidate.what[1:].rstrip(".")
        gained = gain_said(best.gain, answer.case.goal)
        return f"{first} What gains most: {what}: {gained}, simulated."
    if answer.out_of_time:
        return f"{first} Nothing that was tried gains; not all was tried in the time."
    return f"{first} Nothing that was tried gains 3 % or more."


def _life(case: Case) -> str:
    load, found = case.load, case.figures
    rate = "" if case.writes_per_day is None else f", {volume(case.writes_per_day)} a day"
    during = f" in {span(load.seconds)}" if load.seconds else ""
    first = (
        f"The disk got {size(load.written_bytes)}{during}{rate}; its flash would program "
        f"{significant(found.write_amplification)} bytes for each{_not_steady(case)}."
    )
    lives = years(found, case.loads_a_day)
    if lives is None:
        return f"{first} How long the drive lives is not known: {_why_no_life(case)}."
    return f"{first} It lives {_years(lives)} then ({case.rate_said})."


def _not_steady(case: Case) -> str:
    return "" if case.figures.steady else " (not steady)"


def _why_no_life(case: Case) -> str:
    if not case.loads_a_day:
        return case.rate_said
    return f"nothing is known of the endurance of {case.profile_name}"


def _years(found: Interval) -> str:
    if found.value > 200:
        return "more than 200 years"
    said = f"{significant(found.value, 2)} years"
    if found.low is not None and found.high is not None and found.high / found.low > 1.05:
        said += f" ({significant(found.low, 2)} to {significant(found.high, 2)})"
    return said


def commits_said(found: Commits) -> str:
    """Give the times of commits."""
    return (
        f"median {span(found.p50)}, 99 % within {span(found.p99)}, 99.9 % within {span(found.p999)}"
    )


def as_things_stand(answer: Answer) -> list[tuple[str, str]]:
    """Give the rows of the first part: name and figure."""
    case = answer.case
    load, found = case.load, case.figures
    rows = [("the disk got", _got(case))]
    if load.knows_purposes:
        rows.append(("of it", by_purpose(load.written_by)))
    rows.append(
        (
            "its flash programs",
            f"{size(found.flash_bytes.value)}, {significant(found.write_amplification)} bytes for "
            f"each{_not_steady(case)}; simulated",
        )
    )
    if load.commits is not None:
        rows.append(("commits waited for the disk", f"{commits_said(load.commits)}; recorded"))
    if found.commits is not None:
        rows.append(
            (
                "they would on this drive",
                f"{commits_said(found.commits)}; simulated, of which the flush is "
                f"{share(found.commits.flush_mean / found.commits.mean)}",
            )
        )
    if case.loop is not None:
        rows.append(
            (
                "of a client's time",
                f"{share(case.loop.waiting_share)} is waiting for commits; recorded",
            )
        )
    lives = years(found, case.loads_a_day)
    rows.append(
        (
            "the drive lives",
            f"not known: {_why_no_life(case)}"
            if lives is None
            else f"{_years(lives)}, {case.rate_said}",
        )
    )
    used = _used(case)
    if used:
        rows.append(("the drive itself counts", used))
    rows.append(("the drive", case.drive_said))
    return rows


def _got(case: Case) -> str:
    load = case.load
    said = f"{size(load.written_bytes)}"
    if load.seconds:
        said += f" in {span(load.seconds)}"
    if case.writes_per_day is not None:
        said += f": {volume(case.writes_per_day)} a day, {case.rate_said}"
    return said


def _used(case: Case) -> str:
    after = case.counters.get("after") or {}
    parts = []
    if after.get("host_written_bytes"):
        parts.append(f"{size(after['host_written_bytes'])} written in its life")
    if after.get("percentage_used") is not None:
        parts.append(f"{after['percentage_used']} % of its rated life used")
    return ", ".join(parts)


def by_purpose(written_by: Mapping[str, int]) -> str:
    """Say what the written bytes are for, the largest part first."""
    total = sum(written_by.values())
    order = sorted(written_by.items(), key=lambda one: -one[1])
    return ", ".join(
        f"{_PURPOSES[name]} {percent(amount / total, 2)}"
        for name, amount in order
        if amount / total >= 0.005
    )


def change_lines(answer: Answer, one: Weighed, number: int) -> list[str]:
    """Give the lines of one change: what, gain, cost and loss, how, how to undo."""
    goal, candidate = answer.case.goal, one.candidate
    more = beside(one.gain, goal)
    lines = [
        f"{number}. {candidate.what}: {gain_said(one.gain, goal)}{f' ({more})' if more else ''}.",
        f"   {candidate.why}",
        f"   Cost: {candidate.cost}. Lost after a crash: {candidate.loss.says}.",
        *(f"   $ {line}" for line in candidate.do),
        f"   Undo: {'; '.join(candidate.undo)}",
    ]
    if candidate.assumes:
        lines.append(f"   If: {'; '.join(candidate.assumes)}.")
    if one.figures.steady is False or not answer.case.figures.steady:
        lines.append("   Not steady: a longer recording would make it surer.")
    return lines


def other_rows(answer: Answer) -> list[tuple[str, str, str]]:
    """Give what replaces the rest, other drives: name, gain, years."""
    rows = []
    for one in answer.others:
        lives = years(one.figures, answer.case.loads_a_day)
        rows.append(
            (
                one.candidate.what,
                gain_said(one.gain, answer.case.goal),
                "not known" if lives is None else _years(lives),
            )
        )
    return rows


def rests_on(answer: Answer) -> list[str]:
    """Say what was recorded, measured, fitted and assumed, and what would make it surer."""
    case = answer.case
    lines = [
        "Recorded: the requests that the disk got"
        + (", whose they are, and how clients waited." if case.loop else "."),
        f"Simulated: all flash bytes and times of {case.drive_said.split(';')[0]}, on one of "
        f"{case.figures.slices} slices of it, each change by itself and all together.",
    ]
    if case.what_ifs is not None and case.what_ifs.refused is None:
        lines.append(
            "Computed: what other settings would send, from the database's own log, and held "
            "against what follows from it for the settings as they are. Of a server, how many "
            "commits share a flush is fitted to the flushes that the disk got. Reads (fewer "
            "with larger buffers), and what "
            "the file system writes for itself, are as recorded, but for its part of commits that "
            "make or delete a file."
        )
    if case.processors is not None and case.load.seconds:
        lines.append(_of_processors(case.processors, case.load.seconds))
    if case.drive_known == NEAREST:
        lines.append(
            "Assumed: the drive. `flashwright probe DISK --write` on an empty disk of the same "
            "model measures one; then `--device` takes the folder of the probe."
        )
    if case.load.seconds and case.load.seconds < LEAST_SECONDS:
        lines.append(
            f"{span(case.load.seconds)} were recorded; an hour would say more of a day: "
            "`flashwright advise ... --for 1h`."
        )
    if not case.figures.steady and case.figures.unsteady:
        lines.append(f"Not steady: {case.figures.unsteady}.")
    if answer.out_of_time:
        lines.append(
            f"Not tried, as the time was over: {', '.join(answer.out_of_time)}; --within gives it "
            "more, and what is done is kept."
        )
    return lines


def _of_processors(processors: Processors, seconds: float) -> str:
    busy = processors.busy(seconds)
    said = (
        f"Recorded: {span(processors.seconds)} of processor time, which is {percent(busy)} of "
        f"{processors.count} processors. With as much for each transaction they can do "
        f"{significant(processors.most(seconds), 2)} times as much, and no gain is taken to be "
        "above that"
    )
    if busy >= _BUSY:
        return f"{said}."
    return (
        f"{said}. It may be above: where processors sleep between commits, as these, a transaction "
        f"took up to {IDLE_TAKES} times as much as where they hardly do, on a machine of ours."
    )


def risk_said(level: Lost) -> str:
    """Name a level as `--risk` does."""
    return {Lost.NONE: "none", Lost.SECONDS: "seconds", Lost.ANY: "any"}[level]


def folded(changes: Sequence[Weighed]) -> tuple[Sequence[Weighed], Sequence[Weighed]]:
    """Give what stands above the fold, and what below."""
    return changes[:ABOVE_THE_FOLD], changes[ABOVE_THE_FOLD:]


def unpredicted(unknown: Mapping[str, str]) -> list[str]:
    """Say of which changes nothing is predicted: a line for each reason, by change."""
    changes: dict[str, list[str]] = {}
    for change, why in unknown.items():
        changes.setdefault(why, []).append(change)
    return [f"Nothing is predicted of {', '.join(of)}: {why}." for why, of in changes.items()]
