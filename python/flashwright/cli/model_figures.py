"""`flashwright model figures`: the run behind it."""

from __future__ import annotations

import re

import plotly.graph_objects as go

from flashwright.cli.output import Output, print_table
from flashwright.progress import work
from flashwright.reproduce import multilog_models
from flashwright.runs import Job


def run_figures(output: Output) -> None:
    """Compute the figures and their tables, and print what they are.

    Writes the run folder and the JSON.
    """
    tables, figures = work(
        "Computing figures 1 to 3",
        "figures",
        lambda _: (multilog_models.tables(), multilog_models.figures()),
    )
    drawn = [_plain(figure) for figure in figures]
    if not output.is_only_json:
        rows = [(re.sub(r"<[^>]+>", "", str(figure["title"])),) for figure in drawn]
        print_table([("figure", "left")], rows)
        table_rows = [
            (name, str(table.num_rows), ", ".join(table.column_names))
            for name, table in tables.items()
        ]
        print_table([("table", "left"), ("rows", "right"), ("columns", "left")], table_rows)
    output.finish(Job("model figures", ["figures"]).run({"figures": drawn}, tables))


def _plain(figure: go.Figure) -> dict[str, object]:
    """Give a figure without Plotly's own theme: the report has one."""
    drawn = figure.to_plotly_json()
    layout = {
        key: value for key, value in drawn["layout"].items() if key not in ("template", "title")
    }
    return {"title": figure.layout.title.text, "data": drawn["data"], "layout": layout}
