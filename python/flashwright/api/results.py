"""Results of runs: figures by name, tables, plots, and their provenance."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flashwright._core import InputError
from flashwright.outputs import REPORT, write_text
from flashwright.runs import Run, said_command, table

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go
    import polars

ROWS = {
    "compare": "results",
    "play": "runs",
    "probe": "values",
    "waterfall": "waterfall",
    "bench": "runs",
    "sweep": "points",
}
"""The table that a command's results are rows of. Of others all figures are one row."""
MOST_ROWS = 10
"""Rows of a table that a notebook shows."""


class Table:
    """A table of a run, in memory as Arrow has it.

    Polars, DuckDB and whoever else reads Arrow streams take it as it is.
    """

    def __init__(self, name: str, rows: pa.Table) -> None:
        self.name, self._rows = name, rows

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @property
    def columns(self) -> list[str]:
        """Names of its columns, in order."""
        return list(self._rows.column_names)

    def __getitem__(self, column: str) -> Any:
        """Give a column as a numpy array. Raises KeyError if there is none of that name."""
        return self._rows[column].to_numpy()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Give it as a pyarrow table; nothing is copied."""
        return self._rows

    def to_pandas(self) -> pandas.DataFrame:
        """Give it as a pandas data frame. Raises ImportError without pandas."""
        return self._rows.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Give it as a polars data frame. Raises ImportError without polars."""
        # Neither is needed by anything else here.
        import polars

        return polars.DataFrame(self._rows)

    def __repr__(self) -> str:
        return f"Table({self.name!r}, {len(self)} rows of {', '.join(self.columns)})"

    def _repr_html_(self) -> str:
        shown = self._rows.slice(0, MOST_ROWS).to_pylist()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_cell(value))}</td>' for value in row.values())}</tr>"
            for row in shown
        )
        more = len(self) - len(shown)
        rest = f"<p>{more:,} more rows</p>" if more else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else "" if value is None else str(value)


class Result(Mapping[str, Any]):
    """Result of a run.

    A mapping of its figures by name, as `result.json` has them; `tables` are by name, too.
    `provenance` says what produced it: version, revision, call, seed, hashes of inputs.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def command(self) -> str:
        """The command of the same work: `play`, `compare`, `probe` and so on."""
        return self._run.command

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the result: version, revision, call, seed, hashes of inputs."""
        return dict(self._run.result["provenance"])

    def __getitem__(self, name: str) -> Any:
        return self._run.result[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._run.result)

    def __len__(self) -> int:
        return len(self._run.result)

    @property
    def tables(self) -> list[str]:
        """Names of its tables."""
        return sorted({*self._run.tables, *self._run.table_files})

    def table(self, name: str) -> Table:
        """Give a table by its name. Raises InputError if there is none of that name."""
        if name in self._run.tables:
            return Table(name, self._run.tables[name])
        if name in self._run.table_files:
            return Table(name, pq.read_table(self._run.table_files[name]))
        raise InputError(f"{name}: no such table; there are: {', '.join(self.tables)}")

    @property
    def rows(self) -> Table:
        """Figures as rows: of a comparison one for each run, else all in one row."""
        name = ROWS.get(self.command)
        if name in self.tables:
            return self.table(str(name))
        return Table(self.command, table({key: [value] for key, value in _flat(self).items()}))

    def to_arrow(self) -> pa.Table:
        """Give its rows as a pyarrow table."""
        return self.rows.to_arrow()

    def to_pandas(self) -> pandas.DataFrame:
        """Give its rows as a pandas data frame. Raises ImportError without pandas."""
        return self.rows.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Give its rows as a polars data frame. Raises ImportError without polars."""
        return self.rows.to_polars()

    def plots(self, lines: Sequence[str] = ()) -> list[go.Figure]:
        """Give the plots of its report, for a notebook.

        With `lines` (names in the legend, or parts of them) the others wait in the legend.

        Raises InputError if it has no report, or there is no such line.
        """
        # They take a while to import, and most results are not plotted.
        from flashwright.pages.page import check_lines
        from flashwright.pages.plots import plot
        from flashwright.reports import page_of

        page = page_of(self._run)
        check_lines(page, lines)
        return [plot(figure, lines) for figure in page.figures()]

    def report(self, path: str | Path, lines: Sequence[str] = ()) -> Path:
        """Write its report, one HTML file that works offline, and give the path.

        With `lines` figures show these alone, as `plots` does.

        Raises InputError if it has no report, or no such line, or the file cannot be written.
        """
        from flashwright.reports import html_of

        write_text(Path(path), html_of(self._run, lines), REPORT)
        return Path(path)

    def save(self, folder: str | Path) -> Path:
        """Write it as a run folder: result.json, tables as Parquet, report.html. Give the folder.

        Raises InputError if the folder cannot be written, or holds something else.
        """
        from flashwright.reports import write_report

        self._run.write(Path(folder))
        write_report(Path(folder))
        return Path(folder)

    def __repr__(self) -> str:
        lines = [f"Result of {said_command(self.provenance['command'])}"]
        return "\n".join([*lines, *self._answer()[0].splitlines()])

    def _answer(self) -> tuple[str, list[tuple[str, str, str]]]:
        """Give the answer of its report: a sentence or some, and its most important figures."""
        from flashwright.reports import page_of

        page = page_of(self._run)
        remarks = "\n".join(page.remarks)
        return f"{page.headline}\n{remarks}".strip(), [
            (fact.label, fact.value, fact.note) for fact in page.facts
        ]

    def _repr_html_(self) -> str:
        said, facts = self._answer()
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in said.splitlines() if line)
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(part)}</td>' for part in fact)}</tr>"
            for fact in facts
        )
        made = html.escape(said_command(self.provenance["command"]))
        return (
            f"{paragraphs}<table><tbody>{rows}</tbody></table>"
            f"<p>Tables: {html.escape(', '.join(self.tables))}</p><p><code>{made}</code></p>"
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Give single figures, nested ones with joined names: `latency_ns_read_p99`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key in ("provenance", "identity"):
            continue
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}_")
        elif not isinstance(value, list):
            found[prefix + key] = value
    return found


def open_run(folder: str | Path) -> Result:
    """Open a run folder: what a command or `Result.save` wrote, or a recording.

    Raises InputError if it is none, or a file of it is missing or damaged.
    """
    return Result(Run.read(Path(folder)))
