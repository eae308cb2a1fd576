"""The JSON documents in a file of fio's, whatever is printed around them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright._core import InputError

Document = dict[str, Any]

RIGHT = "right would be what `fio --output-format=json --output=OUT.json JOBFILE` writes"
_START = re.compile(r'\{\s*"(?:fio version|timestamp|global options|jobs|client_stats)"')
_NO_NUMBER = re.compile(r"(:\s*)[-+]?(?:nan|inf)\b", re.IGNORECASE)
"""Values that fio prints where a standard deviation is undefined; JSON does not know them."""
_OTHER = (
    (r"\d+;fio-", "terse output of fio's"),
    (r"fio version \d+ iolog", "an I/O log of fio's, which is a trace"),
    (r"\d+, ?\d+, ?\d+, ?\d+", "a log of fio's (write_bw_log or the like)"),
    (r"\{\s*\"", "JSON, but not fio's: it has no jobs"),
    (r"(?s).*\(groupid=\d+, jobs=\d+\): err=", "fio's text for people, without its JSON"),
    (r"(?s)(?:\s*[#;][^\n]*\n|\s*\n)*\s*\[[^\]\n]+\]\s*?(?:$|\n)", "a job file: what fio is to do"),
)
_APART_S = 2.0
"""Seconds by which the clock and fio's own count may differ between two results of one run."""


@dataclass
class Found:
    """Contents of a file of fio's."""

    runs: list[Document] = field(default_factory=list)
    """The last result of each run, in their order."""
    notes: list[str] = field(default_factory=list)
    """Remarks on what was passed over."""


def read(path: Path) -> Found:
    """Find the runs of a file.

    Text before, between and after the documents is passed over. Several results of one run, as
    `--status-interval` and several formats give them, are cumulative: the last one counts.

    Raises:
        InputError: a file that cannot be read, or is no JSON of fio's.
    """
    text, found = _text(path), Found()
    damaged: list[str] = []
    results: list[int] = []
    for document in _documents(text, damaged):
        if found.runs and _goes_on(found.runs[-1], document):
            found.runs[-1] = document
            results[-1] += 1
        else:
            found.runs.append(document)
            results.append(1)
    if not found.runs:
        where = f"{path}: {_kind(text)}" if not damaged else f"{path}:{damaged[0]}"
        raise InputError(f"{where}: {RIGHT}")
    found.notes += [f"{path}: {n} results of one run: the last counts" for n in results if n > 1]
    found.notes += [f"{path}:{where}: passed over" for where in damaged]
    return found


def is_fio(path: Path) -> bool:
    """Tell whether a file is to be read as fio's: named so, or with a document of fio's in it.

    Raises:
        InputError: a file that cannot be read.
    """
    return path.suffix == ".json" or _START.search(_text(path)) is not None


def jobs(document: Document) -> list[dict[str, Any]]:
    """Give what is told of each job; without the sum that a client adds."""
    found = [job for job in document.get("jobs", document.get("client_stats")) or [] if job]
    sums = [job for job in found if job.get("jobname") == "All clients" and "hostname" in job]
    return [job for job in found if job not in sums] or sums


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # A Windows shell writes this for `fio ... > out.json`.
        return data.decode("utf-16", errors="replace")
    return data.decode("utf-8-sig", errors="replace")


def _documents(text: str, damaged: list[str]) -> Iterator[Document]:
    decoder, at = json.JSONDecoder(strict=False), 0
    text = _NO_NUMBER.sub(r"\1null", text)
    while match := _START.search(text, at):
        try:
            document, at = decoder.raw_decode(text, match.start())
        except json.JSONDecodeError as error:
            line = text.count("\n", 0, error.pos) + 1
            damaged.append(f"{line}: the JSON is cut off or damaged ({error.msg})")
            at = match.end()
            continue
        told = document.get("jobs", document.get("client_stats"))
        if isinstance(told, list) and all(isinstance(job, dict) for job in told):
            yield document


def _kind(text: str) -> str:
    """Say what a file is that has no document of fio's."""
    if not text.strip():
        return "it is empty"
    if "\0" in text:
        return "it is binary"
    return next((f"it is {what}" for like, what in _OTHER if re.match(like, text)), "not fio's")


def _goes_on(before: Document, after: Document) -> bool:
    """Tell whether a document is a later result of the same run."""
    if [_named(job) for job in jobs(before)] != [_named(job) for job in jobs(after)]:
        return False
    clock = [_seconds(document) for document in (before, after)]
    own = [_elapsed(document) for document in (before, after)]
    if None not in clock and None not in own:
        return abs((clock[1] or 0) - (clock[0] or 0) - (own[1] or 0) + (own[0] or 0)) <= _APART_S
    pairs = zip(jobs(before), jobs(after), strict=True)
    return all(_done(old) <= _done(new) for old, new in pairs)


def _named(job: dict[str, Any]) -> tuple[Any, ...]:
    return job.get("jobname"), job.get("groupid"), job.get("job options"), job.get("hostname")


def _seconds(document: Document) -> float | None:
    if isinstance(document.get("timestamp_ms"), int | float):
        return float(document["timestamp_ms"]) / 1e3
    found = document.get("timestamp")
    return float(found) if isinstance(found, int | float) else None


def _elapsed(document: Document) -> float | None:
    found = [job["elapsed"] for job in jobs(document) if isinstance(job.get("elapsed"), int)]
    return float(max(found)) if found else None


def _done(job: dict[str, Any]) -> float:
    ways = (job.get(way) for way in ("read", "write", "trim", "mixed"))
    return float(sum(way.get("io_bytes", 0) for way in ways if isinstance(way, dict)))
