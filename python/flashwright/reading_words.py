"""Remarks on a trace, besides its requests: for results, reports and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashwright._text import count


def lines(*sources: Mapping[str, Any]) -> list[str]:
    """Give what to know of traces before their figures are believed, a sentence each.

    `sources` have what `reading` of a trace has: `warnings` and `left_out`. Of several traces each
    sentence begins with the `name`.
    """
    said = []
    for source in sources:
        of = f"{source['name']}: " if len(sources) > 1 else ""
        said += [
            f"{of}{text}." if of else f"{text[:1].upper()}{text[1:]}."
            for text in source.get("warnings", ())
        ]
        if "one_in" in source:
            said.append(
                f"{of}{'one' if of else 'One'} page in {source['one_in']} was followed; intervals "
                "do not hold how far that is from all pages (docs/scale.md)."
            )
        left = [f"{number} {reason}" for reason, number in rows(source)]
        if left:
            said.append(
                f"{of}Left out of the trace, or taken for something else: {'; '.join(left)}."
            )
    return said


def rows(source: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give what was left out of a trace or taken for something else: the reason, how many."""
    return [(reason, count(number)) for reason, number in source.get("left_out", {}).items()]
