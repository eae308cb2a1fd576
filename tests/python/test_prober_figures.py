"""The papers' figures by the prober: which there are, and some of them drawn."""

from __future__ import annotations

import pytest

from experiments.figures import papers, parallelism, prober, scheduler, written_order
from experiments.figures.drawing import Drawing


def drawing(number: str) -> Drawing:
    """Give a figure by its number."""
    found = [one for paper in prober.PAPERS for one in paper.drawings() if one.number == number]
    assert len(found) == 1, number
    return found[0]


def test_every_figure_is_there() -> None:
    numbers = [one.number for one in scheduler.drawings()]
    assert numbers == [f"4.{number}" for number in range(3, 33)]
    parts = {one.number.split()[0] for one in parallelism.drawings()}
    assert parts == {"2", "3", "4", "5", "table", "6", "7"}


@pytest.mark.parametrize("number", ["4.19", "table 2"])
def test_a_figure_is_drawn_with_what_was_published_on_it(number: str) -> None:
    one = drawing(number)
    paper = next(
        paper
        for paper in prober.PAPERS
        if one.number in [other.number for other in paper.drawings()]
    )
    made = one.figure(paper.name)
    assert made.data
    assert len(one.chart()["marks"]) >= len(one.marks) > 0
    rows = papers.rows_of(paper, [one])
    assert rows
    assert not [row.what for row in rows if row.falls_short]
    text = papers.document(prober.GROUP, [(paper, [one], rows)], "command")
    assert all(row.what in text for row in rows)


def test_the_order_of_writes_decides_which_domain_a_writer_gets() -> None:
    in_turn, at_random = (written_order.of_a_writer(16, is_random=one) for one in (False, True))
    assert at_random > 2 * in_turn
    same, other = (written_order.by_stride(stride, is_mixed=True) for stride in (10, 9))
    assert same < 0.9 * other
