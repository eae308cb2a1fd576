"""Parts of a report, and its one HTML file.

Plotly is embedded compressed, and unpacked by the browser: the file is then 2 MB instead of 5. A
content security policy forbids every request, so that a report can never call out.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from flashwright._core import InputError
from flashwright.pages.headlines import answer
from flashwright.runs import plain, said_command

FOOTER = Markup(
    "The numbers of this report are in <code>result.json</code> and the Parquet tables beside it; "
    "<code>flashwright report FOLDER</code> makes it again from them."
)
"""Footer of the report of a run folder."""
MOST_ROWS = 8
"""Most rows of a table that is open in a narrow window."""


@dataclass(frozen=True)
class Figure:
    """A plot with the one sentence that says what to read in it.

    `data` and `layout` are Plotly's, with colours as tokens (`@c0` ... `@c11`, `@ink`, `@muted`)
    that the theme resolves.
    """

    id: str
    title: str
    reading: str
    data: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    height_px: int = 440

    @property
    def caption(self) -> str:
        """Sentence below the plot: what to read in it, and the note of its layout."""
        note = self.layout.get("meta", {}).get("note", "")
        return f"{self.reading} {note}".strip()


@dataclass(frozen=True)
class Table:
    """A table; columns are (heading, "left", "right", or "prose" for sentences).

    A row of a single cell is a heading across all columns.
    """

    title: str
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str]]
    note: str = ""
    emphasised: frozenset[int] = frozenset()
    folded: bool = False

    @property
    def is_long(self) -> bool:
        """True if a narrow window shows it folded."""
        return len(self.rows) > MOST_ROWS

    @property
    def has_prose(self) -> bool:
        """True if a narrow window shows its cells below each other."""
        return any(kind == "prose" for _, kind in self.columns)


@dataclass(frozen=True)
class Fact:
    """One figure of the answer, large."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report.

    A `folded` one shows its title and `summary` until it is opened.
    """

    title: str
    blocks: Sequence[Figure | Table]
    intro: str = ""
    folded: bool = False
    summary: str = ""
    id: str = ""
    """Name that links within the page go to; none if it is empty."""


@dataclass(frozen=True)
class Page:
    """A report.

    The answer first: of `headline` two short sentences, large, and the rest below them. Then plots,
    tables, and what produced it. `remarks` are folded.
    """

    kind: str
    title: str
    headline: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    provenance: dict[str, Any]
    remarks: Sequence[str] = ()
    links: Sequence[tuple[str, str]] = ()
    """Other pages of the same book: words, and where they are."""
    footer: str = FOOTER
    """What stands below that which produced it: where the numbers are."""

    def figures(self) -> list[Figure]:
        """Give all figures in order."""
        return [
            block
            for section in self.sections
            for block in section.blocks
            if isinstance(block, Figure)
        ]


def shown(data: Sequence[dict[str, Any]], lines: Sequence[str]) -> list[dict[str, Any]]:
    """Leave those whose name has one of `lines` in it; the others wait in the legend.

    All of them stay if none is named so, or none is asked for.
    """
    wanted = [line.casefold() for line in lines]

    def is_wanted(trace: dict[str, Any]) -> bool:
        return any(line in str(trace.get("name", "")).casefold() for line in wanted)

    if not any(map(is_wanted, data)):
        return list(data)
    return [
        {key: value for key, value in trace.items() if key != "visible"}
        if is_wanted(trace)
        else {**trace, "visible": "legendonly"}
        for trace in data
    ]


def check_lines(page: Page, lines: Sequence[str]) -> None:
    """Raise InputError if no figure has a line of one of these names."""
    names = dict.fromkeys(
        str(trace["name"])
        for figure in page.figures()
        for trace in figure.data
        if trace.get("name")
    )
    for line in lines:
        if not any(line.casefold() in name.casefold() for name in names):
            known = ", ".join(names) or "none"
            raise InputError(f"{line}: no figure has a line of that name; there is: {known}")


def render(page: Page, lines: Sequence[str] = ()) -> str:
    """Give the report as one HTML document that needs nothing else.

    Figures show these `lines` alone, as `shown` chooses them.

    Raises InputError if there is none of such a name.
    """
    check_lines(page, lines)
    figures = {
        figure.id: {
            "data": shown(figure.data, lines),
            "layout": figure.layout,
            "height": figure.height_px,
        }
        for figure in page.figures()
    }
    if len(figures) != len(page.figures()):
        raise AssertionError("two figures of a report have the same id")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    return environment.from_string(_asset("report.html.j2")).render(
        page=page,
        answer=answer(page.headline),
        command=said_command(page.provenance["command"]),
        style=Markup(_asset("report.css")),  # noqa: S704  (our own file)
        script=Markup(_asset("report.js")),  # noqa: S704
        figures=_json_for_script(figures),
        plotly=Markup(plotly_script()) if figures else None,  # noqa: S704
    )


def _asset(name: str) -> str:
    return (resources.files("flashwright.pages") / "assets" / name).read_text(encoding="utf-8")


def _json_for_script(value: Any) -> Markup:
    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
    # A label that says `</script>` or `<!--` must not end the element that holds it.
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704


@cache
def plotly_script() -> str:
    """Give the script that draws figures, compressed and in letters."""
    raw = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    # Level 9 takes twice as long for 1 % less.
    return base64.b64encode(gzip.compress(raw, compresslevel=5, mtime=0)).decode("ascii")
