"""Findings of a probe on one page: a sentence, and a row for each question about a drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from flashwright._text import short_count, significant, size
from flashwright.pages.page import Table
from flashwright.reports import probe_words as words

Values = Mapping[str, Mapping[str, Any]]

MAPPINGS = {
    "write_order": "page-mapped",
    "lba": "mapped by address",
}
"""Mapping, by the order in which chunks lie."""


@dataclass(frozen=True)
class Question:
    """A row of the answer: what is asked, and the values that answer it, with what joins them."""

    asked: str
    keys: tuple[str, ...]
    joined: str = " / "


QUESTIONS = (
    Question("random reads of 4 KiB", ("random_read_4ki_requests_per_second",)),
    Question("one read at a time: median / 99 %", ("random_read_p50_us", "random_read_p99_us")),
    Question("random writes of 4 KiB", ("random_write_4ki_requests_per_second",)),
    Question("one write at a time: median / 99 %", ("random_write_p50_us", "random_write_p99_us")),
    Question("random writes, steady", ("steady_iops",)),
    Question("sequential reads, at most", ("sequential_read_most_mb_per_second",)),
    Question("sequential writes, at most", ("sequential_write_most_mb_per_second",)),
    Question("reads and writes mixed, 4 KiB", ("random_mix_4ki_requests_per_second",)),
    Question("outstanding reads that pay off", ("random_read_knee_depth",)),
    Question("outstanding writes that pay off", ("random_write_knee_depth",)),
    Question("channels × dies that work at once", ("domains", "sub_domains"), " × "),  # noqa: RUF001
    Question("bytes in a row in one unit", ("chunk_bytes",)),
    Question("page", ("page_bytes",)),
    Question("where a page lies follows", ("mapping",)),
    Question("merged and erased together", ("superblock_bytes",)),
    Question("write buffer", ("write_buffer_bytes",)),
    Question("random writes absorbed in a burst", ("burst_bytes",)),
    Question("read cache", ("read_cache_bytes",)),
    Question("read-ahead", ("read_ahead_window_bytes",)),
    Question("logs of random writes", ("log_bytes",)),
    Question("random overwrites until it cleans", ("cleaning_onset_bytes",)),
    Question("random writes are cheap within", ("focused_area_bytes",)),
    Question("sequential streams that stay cheap", ("partitioned_ways",)),
    Question("writes are cheapest aligned to", ("aligned_to_bytes",)),
    Question("pause that helps writes", ("helpful_pause_us",)),
)

ABOUT = "about "


def values_of(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Give all values by key; of one that several experiments found, the first."""
    found: dict[str, Mapping[str, Any]] = {}
    for finding in result["findings"]:
        for value in words.told_values(finding):
            found.setdefault(value["key"], value)
    return found


def sentence(result: Mapping[str, Any]) -> str:
    """Give the answer in one sentence: how fast, and how it is made.

    "about" stands before what is unsure; what was looked for and not found is named.
    """
    values = values_of(result)
    speeds, made = list(_speeds(result, values)), list(_made(values))
    parts = [", ".join(part) for part in (speeds, made) if part]
    if not parts:
        return f"{result['drive']}: {_others(result)}"
    return f"{result['drive']}: {'; '.join(parts)}.{_not_found(values)}"


def _others(result: Mapping[str, Any]) -> str:
    """Say what was looked at instead, if nothing of what the sentence is about was."""
    profile = result.get("profile") or {}
    if profile.get("cells"):
        return f"a profile was fitted; {words.closeness(profile)}."
    values = list(values_of(result).values())
    found = [value for value in values if value["verdict"] != "not_found"]
    if not found:
        return "nothing was found." if values else "no experiment has come to its end."
    first = [
        f"{value['key'].replace('_', ' ')} {_hedge(value)}{words.value_text(value)}"
        for value in found[:3]
    ]
    return f"{', '.join(first)}."


def _speeds(result: Mapping[str, Any], values: Values) -> Iterator[str]:
    state = result["device"].get("state", {}).get("kind")
    for op, note in (("read", ""), ("write", f" ({state})" if state else "")):
        value = values.get(f"random_{op}_4ki_requests_per_second")
        if _is_found(value):
            yield f"{_hedge(value)}{short_count(_rounded(value['number']))} random {op}s/s{note}"
    sequential = [
        (op, values[key])
        for op in ("read", "write")
        if _is_found(values.get(key := f"sequential_{op}_most_mb_per_second"))
    ]
    if sequential:
        rates = " / ".join(f"{_hedge(one)}{significant(one['number'])}" for _, one in sequential)
        which = "" if len(sequential) == 2 else f" {sequential[0][0]}s"
        yield f"{rates} MB/s sequential{which}"


def _made(values: Values) -> Iterator[str]:
    domains, parts = values.get("domains"), values.get("sub_domains")
    if _is_found(domains):
        text = f"{_hedge(domains)}{domains['number']:.0f} channels"
        if _is_found(parts):
            text += f" × {_hedge(parts)}{parts['number']:.0f} dies"  # noqa: RUF001
        yield text
    page = values.get("page_bytes")
    if _is_found(page):
        yield f"{_hedge(page)}{size(page['number'])} pages"
    mapping = values.get("mapping")
    if _is_found(mapping):
        hedge = "probably " if mapping["verdict"] == "unsure" else ""
        word = str(mapping["word"])
        yield f"{hedge}{MAPPINGS.get(word, word.replace('_', ' '))}"


NAMED = {
    "random_read_4ki_requests_per_second": "random reads",
    "random_write_4ki_requests_per_second": "random writes",
    "domains": "channels",
    "page_bytes": "page size",
    "mapping": "mapping",
}
"""Values that the sentence is about, and their names in it where they were not found."""


def _not_found(values: Values) -> str:
    missing = [
        name for key, name in NAMED.items() if key in values and not _is_found(values.get(key))
    ]
    return f" Not found: {', '.join(missing)}." if missing else ""


def _is_found(value: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    return value is not None and value["verdict"] != "not_found"


def _hedge(value: Mapping[str, Any]) -> str:
    return ABOUT if value["verdict"] == "unsure" else ""


def _rounded(number: float) -> float:
    """Give a number to three digits, as the rest of it says nothing in a sentence."""
    return float(f"{number:.3g}")


def table(results: Sequence[Mapping[str, Any]]) -> Table | None:
    """List the answers to what is asked of a drive, of one drive or of two beside each other.

    None if no question was looked at.
    """
    found = [values_of(result) for result in results]
    rows = []
    for question in QUESTIONS:
        own = [[one[key] for key in question.keys if key in one] for one in found]
        if any(own):
            rows.append(_row(question, own, [result["drive"] for result in results]))
    if not rows:
        return None
    answers = (
        [("answer", "right")] if len(results) == 1 else [(r["drive"], "right") for r in results]
    )
    columns = (("question", "left"), *answers, ("how sure", "prose"))
    return Table("What was found", columns, rows, words.VERDICTS_EXPLAINED)


def _row(
    question: Question, own: Sequence[Sequence[Mapping[str, Any]]], drives: Sequence[str]
) -> tuple[str, ...]:
    answers, doubts = [], []
    for drive, values in zip(drives, own, strict=True):
        answers.append(_answer(question, values))
        doubtful = [value for value in values if value["verdict"] != "sure"]
        lead = f"{drive}: " if len(drives) > 1 else ""
        doubts += [
            f"{lead}{words.VERDICTS[value['verdict']]}{_within(value)}: {value['why']}"
            for value in doubtful[:1]
        ]
    return (question.asked, *answers, "; ".join(doubts) or "sure")


def _within(value: Mapping[str, Any]) -> str:
    interval = words.interval_text(value)
    return f" ({interval})" if interval else ""


def _answer(question: Question, values: Sequence[Mapping[str, Any]]) -> str:
    if not values:
        return "not looked for"
    if all(value["verdict"] == "not_found" for value in values):
        return "not found"
    return question.joined.join(
        "not found" if value["verdict"] == "not_found" else _text(value) for value in values
    )


def _text(value: Mapping[str, Any]) -> str:
    if value["key"] == "mapping":
        return {"write_order": "the order of writes", "lba": "its address"}.get(
            str(value["word"]), words.value_text(value)
        )
    return words.value_text(value)
