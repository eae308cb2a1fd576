"""Writes the tables of README.md that come from the registry. A test fails when they are out of date."""

from __future__ import annotations

import re
from pathlib import Path

from flashwright import registry
from flashwright.cli.listing import markdown_table

README = Path(__file__).resolve().parents[2] / "README.md"


def main() -> None:
    """Put the table of each kind between its two markers."""
    text = README.read_text(encoding="utf-8")
    for kind, entries in registry().items():
        begin, end = f"<!-- list {kind} -->\n", f"\n<!-- end of list {kind} -->"
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        table = begin + markdown_table(kind, entries) + end
        text = re.sub(pattern, lambda _, table=table: table, text, flags=re.DOTALL)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
