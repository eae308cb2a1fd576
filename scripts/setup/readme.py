"""Writes the tables of README.md that come from the registry. A test fails when they are out of date."""

from __future__ import annotations

from pathlib import Path

from flashwright.cli.listing import everything, markdown_table

README = Path(__file__).resolve().parents[2] / "README.md"


def main() -> None:
    """Put the table of each kind between its two markers."""
    text = README.read_text(encoding="utf-8")
    for kind, entries in everything().items():
        begin, end = f"<!-- list {kind} -->\n", f"\n<!-- end of list {kind} -->"
        before, found, rest = text.partition(begin)
        if found:
            _, closed, after = rest.partition(end)
            if not closed:
                raise SystemExit(
                    f"{README}: the table of {kind} has no end: write `{end.strip()}` two lines below its begin"
                )
            text = before + begin + markdown_table(kind, entries) + end + after
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
