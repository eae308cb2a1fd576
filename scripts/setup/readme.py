"""Writes the tables of the docs that come from the registry.

A test fails when they are out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flashwright.advice.actions import ALL
from flashwright.advice.questions import answered_by
from flashwright.cli.listing import (
    experiments_in_full,
    layers_in_full,
    markdown_table,
    settings_tables,
)
from flashwright.cli.named import everything

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = "flashwright.advice.actions"
FILES = "../../python/flashwright/advice/actions"


def main() -> None:
    """Put the table of each kind between its two markers.

    And the experiments between those of their page.
    """
    tables = {
        f"list {kind}": markdown_table(kind, entries) for kind, entries in everything().items()
    }
    tables |= {"actions": actions_in_full(), "questions": questions_in_full()}
    for page in (ROOT / "docs" / "reference").glob("*.md"):
        replace(page, tables)
    replace(ROOT / "docs" / "workloads.md", settings_tables())
    replace(ROOT / "docs" / "traces.md", tables)
    replace(ROOT / "docs" / "probing.md", {"experiments": experiments_in_full()})
    replace(ROOT / "docs" / "layers.md", {"layers": layers_in_full()})


def actions_in_full() -> str:
    """Give a row for each action of advice: its file, and what it is about."""
    rows = ["| action | what it does |", "|---|---|"]
    for action in ALL:
        about = (sys.modules[type(action).__module__].__doc__ or "").splitlines()[0]
        own = sys.modules.get(f"{ACTIONS}.{action.NAME}")
        about = ((own.__doc__ if own is not None else None) or about).splitlines()[0]
        rows.append(f"| [`{action.NAME}`]({FILES}/{action.NAME}.py) | {about.rstrip('.')} |")
    return "\n".join(rows)


def questions_in_full() -> str:
    """Give a row for each question that people ask, with the files that answer it."""
    rows = ["| question | answered by |", "|---|---|"]
    for question, actions in answered_by(ALL).items():
        files = ", ".join(f"[`{one.NAME}`]({FILES}/{one.NAME}.py)" for one in actions)
        rows.append(f"| {question} | {files} |")
    return "\n".join(rows)


def replace(path: Path, tables: dict[str, str]) -> None:
    """Put each table between its two markers, if the file has them."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        if found:
            _, closed, after = rest.partition(end)
            if not closed:
                raise SystemExit(
                    f"{path}: {name} has no end: write `{end.strip()}` two lines below its begin"
                )
            text = before + begin + table + end + after
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
