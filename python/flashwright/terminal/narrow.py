"""Lines and tables as wide as a terminal, or 80 columns where there is none."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

GAP = 2
"""Between two columns."""
_USUAL = (80, 24)
_WHOLE = re.compile(r"\s*(\w[\w ]*:\s+)?((sudo |\$ )?flashwright |\S+$)")
"""A command, or a single path or the like, after a word that says what it is."""
_WORD = re.compile(r"`[^`]*`[^ ]*|[^ ]+")
"""A number has narrow spaces in it, which are no ends of words."""
_LONGEST_WORD = 32
"""Longer ones are cut where a table would not fit otherwise."""
_MOST_OF_A_FIGURE = 24
"""Columns of a cell on the right that is not taken apart."""
_LEAST_OF_PROSE = 24
"""Columns of sentences: narrower ones would be all height."""


def width() -> int:
    """Give the columns that there are: of the terminal, or as COLUMNS says."""
    return shutil.get_terminal_size(_USUAL).columns


def wrapped(text: str, most: int | None = None) -> str:
    """Break lines between words so that they fit into so many columns.

    A command stays in one line, to be copied, and so does what stands in backquotes. Further lines
    are indented as the first is.
    """
    most = width() if most is None else most
    return "\n".join(_broken(line, most) for line in text.split("\n"))


def _broken(line: str, most: int) -> str:
    if cell_len(line) <= most or _WHOLE.match(line):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    lines, room = [indent], most
    for word in _WORD.findall(line):
        begun = lines[-1] + ("" if lines[-1] == indent else " ") + word
        if cell_len(begun) <= room or lines[-1] == indent:
            lines[-1] = begun
        else:
            lines.append(indent + word)
    return "\n".join(lines)


class Column:
    """A column of a table: how wide it is, and how narrow it may be."""

    def __init__(self, heading: str, cells: Sequence[str], *, is_right: bool) -> None:
        words = re.split(r"\s+|(?<=-)(?=\w)", heading)
        self.heading = heading
        self.cells = max((_widest(cell) for cell in cells), default=0)
        self.unbroken = max(self.cells, *map(cell_len, words))
        """As wide as no cell is broken, only the heading."""
        self.whole = max(self.cells, cell_len(heading))
        words_of = (word for cell in cells for word in _WORD.findall(cell))
        longest = min(max(map(cell_len, words_of), default=0), _LONGEST_WORD)
        is_figure = is_right and self.cells <= _MOST_OF_A_FIGURE
        least = max(longest, min(self.cells, _LEAST_OF_PROSE), *map(cell_len, words))
        self.least = self.unbroken if is_figure else min(self.unbroken, least)

    def cell_in(self, cell: str, columns: int) -> str:
        """Give a cell in lines of so many columns."""
        return "\n".join(_broken(line, columns) for line in cell.split("\n"))

    def heading_in(self, columns: int) -> str:
        """Give the heading in lines of so many columns."""
        return "\n".join(textwrap.wrap(self.heading, columns, break_long_words=False))


def _widest(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))


def parts_that_fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], most: int
) -> list[list[tuple[int, int]]]:
    """Tell which columns of a table to print together, and how wide: (number, width) of each.

    All of them, if headings and texts broken into lines make room. Else columns that name the rows
    (all on the left without which two rows would look the same) stand in every part. What does not
    fit even so is wider.
    """
    everything = list(range(len(columns)))
    if _total([one.least for one in columns]) <= most or len(columns) == 1:
        return [_laid_out(columns, everything, most)]
    keys = next(
        (n for n in range(1, len(columns)) if len({tuple(row[:n]) for row in rows}) == len(rows)),
        1,
    )
    parts: list[list[int]] = []
    for number in everything[keys:]:
        joined = [*parts[-1], number] if parts else []
        if not parts or _total([columns[one].least for one in joined]) > most:
            parts.append([*range(keys), number])
        else:
            parts[-1] = joined
    return [_laid_out(columns, part, most) for part in parts]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _laid_out(columns: Sequence[Column], part: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Take from the widest until all fit: first from headings, then from texts."""
    chosen = [columns[number] for number in part]
    widths = [one.whole for one in chosen]
    for floors in ([one.unbroken for one in chosen], [one.least for one in chosen]):
        while _total(widths) > most:
            place = max(range(len(widths)), key=lambda at: (widths[at] > floors[at], widths[at]))
            if widths[place] <= floors[place]:
                break
            widths[place] -= 1
    return list(zip(part, widths, strict=True))
