"""The simulated drives against what the papers printed: those that take seconds."""

from collections.abc import Callable

import pytest

from flashwright.reproduce.drives import aging, equations, parallelism, patterns
from flashwright.reproduce.drives.experiment import Point, measure
from flashwright.reproduce.validations import drive


@pytest.mark.parametrize(
    "points", [parallelism.points, patterns.points], ids=["parallelism", "patterns"]
)
def test_published_figures_are_met(points: Callable[[], list[Point]]) -> None:
    missed = [
        (found.point.what, found.point.published, found.ours)
        for found in measure(points())
        if found.met is False
    ]
    assert missed == []


def test_half_of_parallelism_is_not_fitted() -> None:
    fitted = [point for point in parallelism.points() if point.fitted]
    assert 2 * len(fitted) <= len(parallelism.points())


def test_equations_are_met_where_requests_are_small() -> None:
    few = [
        point
        for point in equations.points()
        if any(f", {sectors} sectors" in point.what for sectors in (8, 64))
    ]
    assert [found.point.what for found in measure(few) if not found.met] == []


def test_mixed_sequential_access_is_slowest_in_the_middle() -> None:
    reads, half, writes = (equations.mix("sequential", percent) for percent in (100, 50, 0))
    assert half < 0.9 * min(reads, writes)


def test_random_writes_fall_into_two_belts() -> None:
    belts = equations.belts()
    assert belts["below 100 us"] > 0.4
    assert belts["10 ... 30 ms"] > 0.4
    assert belts["elsewhere"] < 0.02


def test_a_fragmented_drive_is_much_slower() -> None:
    assert aging.throughput() < 0.5
    assert aging.response() > 2


def test_the_page_names_every_point() -> None:
    group = next(group for group in drive.GROUPS if group.name == "patterns")
    page = drive.document([(group, measure(group.points()))], [], "command")
    assert all(point.what in page for point in group.points())
