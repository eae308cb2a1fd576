"""Pages that a plan asks for, in order, derived from the rows and the real shape of the trees.

Rows of LINEORDER have one width, so that the n-th row lies on page n / (rows of a page), and a
B+-tree has its entries in the order of key and row. What pages a tree has, and how many entries
each, is read from PostgreSQL by pageinspect. So a lookup is a descent and then leaves and heap
pages, as the executor asks for them. `EXPLAIN (BUFFERS)` counts the same accesses; a test compares
both.

What is simplified: pages of a dimension, and the leaves of its primary key, hold equally many rows
each, which is so to a few percent; root pages of primary keys are not asked for, as they are always
in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.ssb import generator, schema
from experiments.ssb.generator import Rows
from experiments.ssb.queries import FACT, Plan, Query
from experiments.ssb.schema import KEYS, TREES
from experiments.ssb.server import Warehouse

Pages = npt.NDArray[np.int64]

RELATIONS = (*KEYS, *(f"{table}_pkey" for table in KEYS), FACT, *TREES.values())
"""Relations in the order in which they are taken to lie on the drive: dimensions first."""


@dataclass(frozen=True)
class Tree:
    """A B+-tree: its leaves from left to right, and the pages above each."""

    leaves: Pages
    """Blocks of the leaves."""
    firsts: Pages
    """Number of the first entry of each leaf, counted from 0 in the order of keys."""
    above: Pages
    """Blocks from the root down to the parent of each leaf: one row a level."""

    @classmethod
    def of(cls, pages: Mapping[str, npt.NDArray[Any]]) -> Tree:
        """Make it of what pageinspect says: block, level, items and next of each page.

        The first item of a page that has a next one is its high key, and no entry.
        """
        rows = {
            int(block): (int(level), int(items) - (following != 0), int(following))
            for block, level, items, following in zip(
                *(pages[name] for name in ("block", "level", "items", "next")), strict=True
            )
        }
        levels: dict[int, list[int]] = {}
        for level in sorted({one[0] for one in rows.values()}):
            of_level = [block for block, one in rows.items() if one[0] == level]
            first = set(of_level) - {rows[block][2] for block in of_level}
            [block] = first
            chain = []
            while block:
                chain.append(block)
                block = rows[block][2]
            levels[level] = chain
        leaves = np.array(levels[0], np.int64)
        counts = np.array([rows[block][1] for block in levels[0]], np.int64)
        above = []
        place = np.arange(len(leaves))
        for level in sorted(levels)[1:]:
            children = np.array([rows[block][1] for block in levels[level]])
            place = np.searchsorted(np.cumsum(children), place, side="right")
            above.append(np.array(levels[level], np.int64)[place])
        shape = (len(above), len(leaves))
        return cls(
            leaves,
            np.cumsum(counts) - counts,
            np.array(above[::-1], np.int64).reshape(shape),
        )

    def leaf_of(self, entries: Pages) -> Pages:
        """Give the place, from left to right, of the leaf that an entry is on."""
        return np.searchsorted(self.firsts, entries, side="right") - 1


@dataclass(frozen=True)
class Shape:
    """The database on its disk: relations one after the other, as they were loaded."""

    rows_per_page: int
    """Of LINEORDER."""
    pages: Mapping[str, int]
    """Pages of each relation."""
    trees: Mapping[str, Tree]
    """Trees on foreign keys, by column."""

    @classmethod
    def of(cls, warehouse: Warehouse) -> Shape:
        """Read it from a running server."""
        rows = warehouse.number(f"SELECT count(*) FROM {FACT} WHERE ctid < '(1,0)'")  # noqa: S608
        sizes = {
            name: warehouse.number(f"SELECT pg_relation_size('{name}')") // schema.PAGE_BYTES
            for name in RELATIONS
        }
        trees = {column: Tree.of(warehouse.tree_pages(name)) for column, name in TREES.items()}
        return cls(rows, sizes, trees)

    def as_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        trees = {
            column: {name: array.tolist() for name, array in tree.__dict__.items()}
            for column, tree in self.trees.items()
        }
        return {"rows_per_page": self.rows_per_page, "pages": dict(self.pages), "trees": trees}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Shape:
        """Make it of what `as_dict` gave."""
        trees = {
            column: Tree(**{name: np.array(values, np.int64) for name, values in tree.items()})
            for column, tree in kept["trees"].items()
        }
        return cls(kept["rows_per_page"], {name: kept["pages"][name] for name in RELATIONS}, trees)

    def first(self, relation: str) -> int:
        """Give the first page of a relation, counted through the database."""
        names = list(self.pages)
        return sum(self.pages[name] for name in names[: names.index(relation)])

    @property
    def total(self) -> int:
        """Pages of all relations."""
        return sum(self.pages.values())


class Database:
    """The rows of LINEORDER and of the dimensions that plans need, in memory.

    At scale factor 5 they take some 1.5 GB.
    """

    def __init__(self, shape: Shape, scale: float, seed: int) -> None:
        """Draw the rows again, as they were loaded."""
        self.shape = shape
        self.dimensions = schema.dimensions(scale, seed)
        kept = (*TREES, "lo_discount", "lo_quantity")
        chunks = [
            {name: rows[name] for name in kept} for rows in generator.all_lineorders(scale, seed)
        ]
        self.fact: Rows = {
            name: np.concatenate([chunk.pop(name) for chunk in chunks]) for name in kept
        }
        self._sorted: dict[str, tuple[Pages, Pages]] = {}

    def keys(self, query: Query) -> list[int]:
        """Give the keys of the first dimension's rows that the filters let by, ascending."""
        first = query.joins[0]
        table = self.dimensions[first.table]
        return [int(key) for key in table[first.key][first.mask(table)]]

    def accesses(self, query: Query, plan: Plan, part: tuple[int, int]) -> Pages:
        """Give the pages that a part of a query asks for, counted through the database."""
        return self._by_hash(query, part) if plan is Plan.HASH else self._by_index(query, part)

    def _by_hash(self, query: Query, part: tuple[int, int]) -> Pages:
        shape = self.shape
        # Hash tables are built before LINEORDER is read.
        tables = [
            shape.first(join.table) + np.arange(shape.pages[join.table]) for join in query.joins
        ]
        return np.concatenate([*tables, shape.first(FACT) + np.arange(*part)])

    def _entries(self, column: str) -> tuple[Pages, Pages]:
        """Give rows of LINEORDER in the order of a tree, and their keys."""
        if column not in self._sorted:
            order = np.argsort(self.fact[column], kind="stable")
            self._sorted[column] = order, self.fact[column][order].astype(np.int64)
        return self._sorted[column]

    def _by_index(self, query: Query, part: tuple[int, int]) -> Pages:
        """Put together what each entry of the tree asks for, by the entry and the turn in it."""
        first, shape = query.joins[0], self.shape
        table = self.dimensions[first.table]
        numbers = np.arange(len(table[first.key]))
        numbers = numbers[(table[first.key] >= part[0]) & (table[first.key] < part[1])]
        order, sorted_keys = self._entries(first.fact_key)
        keys = table[first.key][numbers]
        starts = np.searchsorted(sorted_keys, keys, side="left")
        ends = np.searchsorted(sorted_keys, keys, side="right")
        # The outer side: rows of the dimension in the order of its key, before their entries.
        found = _Ordered()
        for turn, page in enumerate(self._of_dimension(first.table, numbers)):
            found.add(starts, turn, page, is_kept=True)
        passing = first.mask(table)[numbers]
        starts, ends = starts[passing], ends[passing]
        tree, root = shape.trees[first.fact_key], shape.first(TREES[first.fact_key])
        lengths = ends - starts
        entries = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(
            lengths.sum()
        )
        leaves = tree.leaf_of(starts)
        for level, blocks in enumerate(tree.above):
            found.add(starts, 2 + level, root + blocks[leaves])
        found.add(entries, 10, root + tree.leaves[tree.leaf_of(entries)], is_kept=True)
        rows = order[entries]
        found.add(entries, 11, shape.first(FACT) + rows // shape.rows_per_page, is_kept=True)
        alive = np.ones(len(rows), bool)
        for one in query.filters:
            alive &= one.mask({one.column: self.fact[one.column][rows]})
        for place, join in enumerate(query.joins[1:]):
            rows, entries = rows[alive], entries[alive]
            other = self.dimensions[join.table]
            numbers = np.searchsorted(other[join.key], self.fact[join.fact_key][rows])
            for turn, page in enumerate(self._of_dimension(join.table, numbers)):
                found.add(entries, 12 + 2 * place + turn, page)
            alive = join.mask(other)[numbers]
        return found.pages()

    def _of_dimension(self, table: str, numbers: Pages) -> tuple[Pages, Pages]:
        """Give the leaf of the primary key and the page of rows of a dimension."""
        rows, shape = len(self.dimensions[table][KEYS[table]]), self.shape
        tree = f"{table}_pkey"
        # Besides leaves there are the metapage and, of more than one leaf, a root.
        leaves = max(1, shape.pages[tree] - 2)
        return (
            shape.first(tree) + 1 + numbers * leaves // rows,
            shape.first(table) + numbers * shape.pages[table] // rows,
        )


class _Ordered:
    """Accesses with the entry that they belong to and their turn within it."""

    def __init__(self) -> None:
        self._parts: list[tuple[Pages, Pages, Pages]] = []

    def add(self, entries: Pages, turn: int, pages: Pages, *, is_kept: bool = False) -> None:
        """Add accesses; a page that is kept is not asked for again until another one is."""
        if is_kept and len(pages):
            fresh = np.r_[True, pages[1:] != pages[:-1]]
            entries, pages = entries[fresh], pages[fresh]
        self._parts.append((entries, np.full(len(entries), turn), pages))

    def pages(self) -> Pages:
        """Give all pages in order."""
        entries, turns, pages = (
            np.concatenate([part[place] for part in self._parts]) for place in range(3)
        )
        return pages[np.lexsort((turns, entries))]


def parts_of(
    database: Database, query: Query, plan: Plan, parts: Sequence[tuple[int, int]]
) -> list[Pages]:
    """Give the accesses of each part."""
    return [database.accesses(query, plan, part) for part in parts]
