"""What writes so much: by purpose, and how the bytes multiply on their way."""

from __future__ import annotations

from collections.abc import Iterator

from flashwright._text import percent, significant, size
from flashwright.advice.action import Finding, NotKnown, Told
from flashwright.advice.case import Case
from flashwright.advice.words import by_purpose

NAME = "who_writes"
QUESTIONS = (
    "What writes so much, and how long will the drive live?",
    "Why does a tiny database write terabytes?",
)


def findings(case: Case) -> Iterator[Finding]:
    """Name the parts of what the disk gets, and the multiples from calls to flash."""
    load, found = case.load, case.figures
    if not load.knows_purposes:
        yield NotKnown(
            NAME,
            "What writes so much",
            "the source does not say whose its requests are",
            "`flashwright record --database KIND PATH` does.",
        )
        return
    yield Told(NAME, f"The disk's bytes are: {by_purpose(load.written_by)}.")
    layers = case.recording.get("waterfall", {}).get("layers", {})
    calls = layers.get("calls", {}).get("write", {}).get("bytes")
    if calls:
        own = load.written_bytes * (1 - load.share("others"))
        yield Told(
            NAME,
            f"Of {size(calls)} that the database's calls wrote, {size(own)} reached the disk "
            f"(x {significant(own / calls)}), and its flash programs "
            f"{significant(found.write_amplification)} bytes for each of those.",
        )
    others = load.share("others")
    if others >= 0.01:
        yield Told(NAME, f"{percent(others, 2)} of what the disk got was other programs'.")
