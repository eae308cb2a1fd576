"""Remarks of a result on the slice of a drive that was simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright import reading_words
from flashwright._text import count, percent, short_count, significant, size

FEW_REQUESTS = 1000


def lines(found: Mapping[str, Any] | None) -> list[str]:
    """Say which part of which drive was simulated, and why; nothing of a profile's own drive."""
    if found is None:
        return []
    said = [_drive(found), _part(found)]
    if found["taken_of"] < found["requests_of"]:
        said.append(
            f"Of the trace the first {percent(found['taken_of'] / found['requests_of'])} were "
            "played: all of it would take longer than a run may. slices=N in profile(...) plays "
            "all."
        )
    if found["way"] == "sampled" and found["requests"] < FEW_REQUESTS:
        said.append(
            f"That are only {count(found['requests'])} requests, so the figures are rough; "
            "slices=1 in profile(...) takes all of them, and longer."
        )
    return [*said, *reading_words.lines(found["reading"])]


def _drive(found: Mapping[str, Any]) -> str:
    text = f"The drive has {size(found['disk_bytes'])}, from {found['size_from']}"
    if found["way"] == "packed":
        return f"{text}."
    text += f", and {percent(found['fill'])} of it holds data"
    if found["fill_from"] == "the file system":
        return f"{text}, as the file system said: this is right if it trims what it frees."
    if found["fill_from"] == "fill=":
        return f"{text}, from fill=."
    return (
        f"{text}: how much held data is not known, so it is taken as full; fill=40% in "
        "profile(...) says it."
    )


def _part(found: Mapping[str, Any]) -> str:
    if found["way"] == "whole":
        return f"All of it was simulated: {found['why']}."
    if found["way"] == "packed":
        return (
            f"Simulated were the {size(found['slice_bytes'])} of it that are touched: "
            f"{found['why']}."
        )
    return (
        f"Simulated was one of {found['slices']} slices, {size(found['slice_bytes'])}: "
        f"{found['why']}. On it fell {short_count(found['requests'])} of "
        f"{short_count(found['taken_of'])} requests, with "
        f"{significant(100 * found['written_bytes'] / max(1, found['written_bytes_of']))} % of "
        "the bytes written; times of the trace are divided by the slices, too."
    )
