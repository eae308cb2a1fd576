"""The papers' figures of layers.

Which there are, and some of them drawn on a little of the trace.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from experiments.data import TPCC_DATA, TPCC_FILE_SYSTEMS, TPCC_SCHEDULER
from experiments.drives.raw_device import STRETCH_BYTES, requests
from experiments.figures import (
    layered,
    layers,
    papers,
    scheduler_layers,
    scheduler_path,
    stable_buffer,
    thresholds,
)
from experiments.figures.drawing import Drawing
from flashwright import _core
from flashwright.devices import DriveProfile
from flashwright.sources import REQUESTS_FILE


def drawing(number: str) -> Drawing:
    """Give a figure by its number."""
    found = [one for paper in layers.PAPERS for one in paper.drawings() if one.number == number]
    assert len(found) == 1, number
    return found[0]


def test_every_figure_is_there() -> None:
    numbers = [one.number for one in scheduler_layers.drawings()]
    assert numbers == [f"7.{number}" for number in range(4, 22)]
    figures = {one.number.split()[0] for one in stable_buffer.drawings()}
    assert figures == {"3", "3.2", "4a", "4b", "5", "6", "7"}
    assert [one.number for one in scheduler_path.drawings()] == [
        "5.5",
        "7.2",
        "7.3",
        "7.4 file systems",
    ]
    assert [device.profile for device in stable_buffer.DEVICES] == [
        "mtron-sata7035",
        "usb-stick",
        "sd-card",
    ]


@pytest.mark.parametrize("name", ["log alone", *scheduler_layers.CONVERTING])
def test_the_log_has_room_for_every_trace(name: str) -> None:
    is_alone = name == "log alone"
    text = f"log_volume({scheduler_layers.LOG})" if is_alone else scheduler_layers.stack(name)
    drive = DriveProfile.load(scheduler_layers.MTRON)
    profile = {"name": "drive", "state": "fresh", "toml": drive.toml, "label": "drive"}
    asked = json.dumps({"source": {"of": "io:random"}, "on": [{"profile": profile}]}).encode()
    offered = _core.offered_bytes(asked, text, drive.capacity_bytes, 512)
    ends = []
    for path in (*TPCC_SCHEDULER.rglob(REQUESTS_FILE), *TPCC_FILE_SYSTEMS.rglob(REQUESTS_FILE)):
        places = pq.read_table(path, columns=["offset", "length"])
        end = pc.add(places["offset"], places["length"].cast("uint64"))
        ends.append(pc.max(end).as_py())
    assert len(ends) >= 7
    assert max(ends) <= offered


def test_the_trace_has_pages_of_the_papers_size() -> None:
    """With 8 KiB in slots of 4 KiB each page took two of them.

    The buffer held half the pages of the paper's.
    """
    recorded, smaller = (pq.read_table(layered.with_pages_of(size)) for size in (8192, 4096))
    assert layered.with_pages_of(8192) == TPCC_DATA
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
    numbers = [number for number in numbers if not number.endswith(" paced")]
    ours = [number for number in numbers if "paper rules" not in number]
    assert len(numbers) == 2 * len(ours)
    case = stable_buffer.case(
        stable_buffer.by_paper_rules(stable_buffer.DEVICES[0]), "ondemand+passive"
    )
    assert "partitions=1024,partition_pages=1,run_pages=1" in case.stack


@pytest.mark.parametrize("device", stable_buffer.DEVICES, ids=lambda device: device.name)
def test_the_drives_like_focused_writes_as_the_papers_do(device: stable_buffer.PaperDevice) -> None:
    """The card that mapped whole blocks gives nothing to build a buffer on.

    It wanted 200 times a sequential write for one within the buffer.
    """
    said, is_efficient = stable_buffer.patterns(device)
    assert is_efficient, said


@pytest.mark.parametrize("device", stable_buffer.DEVICES[1:], ids=lambda device: device.name)
def test_two_threads_on_stick_and_card_are_as_fast_as_published(
    device: stable_buffer.PaperDevice,
) -> None:
    said, agrees = stable_buffer.parallel(device)
    assert agrees, said


def test_the_batches_of_the_profile_decide_the_thresholds() -> None:
    """Batches of 8 KiB give thresholds of 2 pages, of 32 KiB the paper's 8.

    Table 1, of writes of 32 KiB, is the same with both.
    """
    for batch, pages in (((), 2), (thresholds.BATCH, 8)):
        values = {one["key"]: one.get("number") for one in thresholds.found(batch)["values"]}
        assert values["theta_sequential_pages"] == pages
        assert values["stable_write_bytes"] == pages * 4096
    rows = [row for one in thresholds.drawings() for row in papers.rows_of(layers.PAPERS[0], [one])]
    assert [row.agrees for row in rows if row.where == "table 1"] == [True]


def test_one_by_one_throughput_times_response_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published products below 1 are of responses that leave something out."""
    monkeypatch.setattr(stable_buffer, "WRITES", 3_000)
    monkeypatch.setattr(layered, "known", lambda _profile: {})
    for method in stable_buffer.METHODS:
        assert stable_buffer.product(stable_buffer.DEVICES[0], method) == pytest.approx(1, rel=0.02)


def test_a_stretched_trace_keeps_its_intervals_so_many_times_longer() -> None:
    paced = layered.Case("sd-card", waits=True, stretch=4.0)
    assert (paced.pace, layered.Case("sd-card").pace) == ("intervals(1,factor=0.25)", "closed(1)")


def test_calls_of_data_files_are_requests_of_a_raw_device() -> None:
    """Each file has a stretch of its own; the log, opens and what moved nothing are left out.

    So is what came before the measurement.
    """
    marks = pa.table(
        {
            "time_ns": [0, 5],
            "end_ns": [100, 90],
            "kind": ["recording", "measurement"],
        }
    )
    files = pa.table({"file": [0, 1, 2], "purpose": ["heap", "wal", "index"]})
    calls = pa.table(
        {
            "time_ns": [30, 10, 20, 40, 50, 60, 1],
            "op": ["write", "read", "write", "open", "read", "read", "read"],
            "file": pa.array([2, 0, 1, 0, None, 0, 0], pa.uint32()),
            "offset": pa.array([8192, STRETCH_BYTES, 0, 0, 0, 4096, 4096], pa.uint64()),
            "result": [8192, 4096, 8192, 3, 4096, -5, 4096],
            "pid": [7, 8, 7, 7, 7, 7, 7],
        }
    )
    assert requests(calls, files, marks).to_pylist() == [
        {"time_ns": 0, "op": "read", "offset": STRETCH_BYTES, "length": 4096, "stream": 8},
        {
            "time_ns": 20,
            "op": "write",
            "offset": 2 * STRETCH_BYTES + 8192,
            "length": 8192,
            "stream": 7,
        },
    ]


@pytest.mark.parametrize(
    "number", ["4a SSD", "6 SSD", "7 SD card throughput", "7.4 file systems", "7.16"]
)
def test_a_figure_is_drawn(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stable_buffer, "WRITES", 3_000)
    monkeypatch.setattr(scheduler_layers, "SECONDS", 6.0)
    monkeypatch.setattr(scheduler_path, "SECONDS", 6.0)
    monkeypatch.setattr(scheduler_layers, "ONLINE_INTERVAL", 30.0)
    monkeypatch.setattr(layered, "known", lambda _profile: {})
    one = drawing(number)
    paper = next(
        paper for paper in layers.PAPERS if number in [other.number for other in paper.drawings()]
    )
    assert one.figure(paper.name).data
    rows = papers.rows_of(paper, [one])
    text = papers.document(layers.GROUP, [(paper, [one], rows)], "command")
    assert all(row.what in text for row in rows)
    assert f"| {number} " in text
