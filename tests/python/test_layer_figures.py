"""The papers' figures of layers.

Which there are, and some of them drawn on a little of the trace.
"""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from flashwright import data
from flashwright.reproduce.figures import book, layered, layers, scheduler_layers, stable_buffer
from flashwright.reproduce.figures.drawing import Drawing


def drawing(number: str) -> Drawing:
    """Give a figure by its number."""
    found = [one for paper in layers.PAPERS for one in paper.drawings() if one.number == number]
    assert len(found) == 1, number
    return found[0]


def test_every_figure_is_there() -> None:
    numbers = [one.number for one in scheduler_layers.drawings()]
    assert numbers == [f"7.{number}" for number in range(4, 22)]
    figures = {one.number.split()[0] for one in stable_buffer.drawings()}
    assert figures == {"4a", "4b", "5", "6", "7"}
    assert [device.profile for device in stable_buffer.DEVICES] == [
        "mtron-sata7035",
        "usb-stick",
        "sd-card",
    ]


def test_the_trace_has_pages_of_the_papers_size() -> None:
    """With 8 KiB in slots of 4 KiB each page took two of them.

    The buffer held half the pages of the paper's.
    """
    recorded, smaller = (pq.read_table(layered.with_pages_of(size)) for size in (8192, 4096))
    assert layered.with_pages_of(8192) == data.TPCC_DATA
    assert smaller.schema == recorded.schema
    assert smaller.select(["time_ns", "op", "stream"]) == recorded.select(
        ["time_ns", "op", "stream"]
    )
    offset, length, small_offset, small_length = (
        table[name].to_numpy().astype(np.int64)
        for table in (recorded, smaller)
        for name in ("offset", "length")
    )
    has_bytes = length > 0
    assert np.array_equal(small_offset // 4096, offset // 8192)
    assert not (small_offset % 4096).any()
    assert np.array_equal(has_bytes, small_length > 0)
    last, small_last = (
        (o + n - 1)[has_bytes] for o, n in ((offset, length), (small_offset, small_length))
    )
    assert np.array_equal(small_last // 4096, last // 8192)


def test_figures_of_staging_are_by_our_rules_and_by_the_papers() -> None:
    numbers = [one.number for one in stable_buffer.drawings() if one.number[0] in "47"]
    ours = [number for number in numbers if "paper rules" not in number]
    assert len(numbers) == 2 * len(ours)
    case = stable_buffer.case(
        stable_buffer.by_paper_rules(stable_buffer.DEVICES[0]), "ondemand+passive"
    )
    assert "partitions=1024,partition_pages=1,run_pages=1" in case.stack


@pytest.mark.parametrize("device", stable_buffer.DEVICES, ids=lambda device: device.name)
def test_the_drives_like_focused_writes_as_the_papers_do(device: stable_buffer.Device) -> None:
    """The card that mapped whole blocks gives nothing to build a buffer on.

    It wanted 200 times a sequential write for one within the buffer.
    """
    said, is_efficient = stable_buffer.patterns(device)
    assert is_efficient, said


@pytest.mark.parametrize("device", stable_buffer.DEVICES[1:], ids=lambda device: device.name)
def test_two_threads_on_stick_and_card_are_as_fast_as_published(
    device: stable_buffer.Device,
) -> None:
    said, agrees = stable_buffer.parallel(device)
    assert agrees, said


@pytest.mark.parametrize("number", ["4a SSD", "7 SD card throughput", "7.16"])
def test_a_figure_is_drawn(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_buffer, "WRITES", 3_000)
    monkeypatch.setattr(scheduler_layers, "SECONDS", 6.0)
    monkeypatch.setattr(scheduler_layers, "ONLINE_INTERVAL", 30.0)
    monkeypatch.setattr(layered, "known", lambda _profile: {})
    one = drawing(number)
    paper = next(
        paper for paper in layers.PAPERS if number in [other.number for other in paper.drawings()]
    )
    assert one.figure(paper.name).data
    rows = book.rows_of(paper, [one])
    text = book.document(layers.BOOK, [(paper, [one], rows)], "command")
    assert all(row.what in text for row in rows)
    assert f"| {number} " in text
