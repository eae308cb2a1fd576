"""The papers' figures of layers: which there are, and some of them drawn on a little of the trace."""

from __future__ import annotations

import pytest

from flashwright.reproduce import layer_figures
from flashwright.reproduce.figures import book, layered, scheduler_layers, stable_buffer
from flashwright.reproduce.figures.drawing import Drawing


def drawing(number: str) -> Drawing:
    """Give a figure by its number."""
    found = [one for paper in layer_figures.PAPERS for one in paper.drawings() if one.number == number]
    assert len(found) == 1, number
    return found[0]


def test_every_figure_is_there() -> None:
    numbers = [one.number for one in scheduler_layers.drawings()]
    assert numbers == [f"7.{number}" for number in range(4, 22)]
    figures = {one.number.split()[0] for one in stable_buffer.drawings()}
    assert figures == {"4a", "4b", "5", "6", "7"}
    assert [device.profile for device in stable_buffer.DEVICES] == ["mtron-pro-7500", "usb-stick", "sd-card"]


@pytest.mark.parametrize("number", ["4a SSD", "7.16"])
def test_a_figure_is_drawn(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_buffer, "WRITES", 3_000)
    monkeypatch.setattr(scheduler_layers, "SECONDS", 2.0)
    monkeypatch.setattr(scheduler_layers, "ONLINE_INTERVAL", 6.0)
    monkeypatch.setattr(layered, "known", lambda _profile: {})
    one = drawing(number)
    paper = next(paper for paper in layer_figures.PAPERS if number in [other.number for other in paper.drawings()])
    assert one.figure(paper.name).data
    rows = book.rows_of(paper, [one])
    text = book.document(layer_figures.BOOK, [(paper, [one], rows)], "command")
    assert all(row.what in text for row in rows)
    assert f"| {number} " in text
