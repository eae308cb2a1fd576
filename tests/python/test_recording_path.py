"""The way from the database to the flash.

Layers side by side, of tables made by hand, of known writes, and of real databases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flashwright import InputError, devices, drive_runs, steady
from flashwright._core import write_synthetic
from flashwright.pages.page import Page, render
from flashwright.recording import file_systems
from flashwright.recording.files import Named, dictionary
from flashwright.recording.finish import _marks, finish
from flashwright.recording.of_run import RunRecorder
from flashwright.recording.owners import SHARES
from flashwright.recording.path import Names, PathRecorder
from flashwright.recording.recorder import MARKS, MARKS_OF_RUN, RAW, Recorder
from flashwright.recording.tables import add_waterfall
from flashwright.recording.tracefs import ROOT, Tracefs
from flashwright.recording.volume import Volume
from flashwright.recording.waterfall import program_flash, read_tables, requests_within, waterfall
from flashwright.reports import waterfall as report
from flashwright.runs import Run
from flashwright.workloads import registry
from flashwright.workloads.databases.cluster import Postgres
from flashwright.workloads.databases.embedded import Sqlite
from flashwright.workloads.driver import RunConfig
from flashwright.workloads.measure import RunResult
from flashwright.workloads.session import BenchPlan, Folder, Session
from flashwright.workloads.supervisor import Supervisor
from recordings import require
from servers import find_server

MIB = 1 << 20
PAGE = 4096
S = 1_000_000_000


def strings(values: list[str]) -> pa.Array:
    return pa.array(values).dictionary_encode()


def by_hand() -> dict[str, pa.Table]:
    """Two seconds.

    A log in small pieces, pages of a table of which one is written twice, and what came of them.
    """
    calls = [
        # time in s, op, file, offset, result
        (0.1, "write", 1, 0, 24),
        (0.2, "write", 1, 24, PAGE),
        (0.3, "sync", 1, None, 0),
        (1.0, "write", 0, 8192, PAGE),
        (1.5, "write", 0, 8192, PAGE),
        (1.6, "write", None, None, 10),
        (1.7, "read", 0, 0, 3 * PAGE),
        (1.8, "read", 0, 0, -5),
        # Outside of the measurement.
        (2.0, "write", 0, 0, PAGE),
        (-0.1, "write", 0, 0, PAGE),
    ]
    time_s, op, file, offset, done = zip(*calls, strict=True)
    queued = [
        # time in s, op, length, purpose
        (0.3, "write", PAGE, "wal"),
        (0.31, "write", PAGE, "wal"),
        (1.7, "write", PAGE, "heap"),
        (1.71, "write", 3 * PAGE, "journal"),
        (1.8, "read", PAGE, "heap"),
        (3.0, "write", PAGE, "heap"),
    ]
    sent = [
        (0.3, "write", 2 * PAGE, "wal"),
        (0.4, "flush", 0, "other"),
        (1.7, "write", PAGE, "heap"),
        (1.71, "write", 3 * PAGE, "journal"),
        (1.8, "read", PAGE, "heap"),
    ]

    def requests(
        rows: list[tuple[float, str, int, str]], shift_s: float
    ) -> tuple[pa.Table, pa.Table]:
        times = pa.array([round((row[0] - shift_s) * S) for row in rows], pa.int64())
        lengths = pa.array([row[2] for row in rows], pa.uint32())
        table = pa.table(
            {"time_ns": times, "op": strings([row[1] for row in rows]), "length": lengths}
        )
        purposes = [row[3] for row in rows]
        owners = {"purpose": dictionary(purposes)}
        for share in SHARES:
            mine = [share == ("own" if one == "journal" else "data") for one in purposes]
            owners[f"{share}_bytes"] = pa.array(np.where(mine, lengths, 0), pa.uint32())
        return table, pa.table(owners)

    # Of the queued ones, times count from the first.
    queued_table, queued_owners = requests(queued, 0.3)
    sent_table, owners = requests(sent, 0.0)
    return {
        "calls": pa.table(
            {
                "time_ns": pa.array([round(one * S) for one in time_s], pa.int64()),
                "op": strings(list(op)),
                "file": pa.array(file, pa.uint32()),
                "offset": pa.array(offset, pa.uint64()),
                "result": pa.array(done, pa.int64()),
            }
        ),
        "files": pa.table(
            {"file": pa.array([0, 1], pa.uint32()), "purpose": dictionary(["heap", "wal"])}
        ),
        "requests": sent_table,
        "queued": queued_table,
        "owners": owners,
        "queued_owners": queued_owners,
        "marks": pa.table({"kind": ["measurement"], "time_ns": [0], "end_ns": [2 * S]}),
    }


ABOUT = {"calls": {"from_ns": -S, "to_ns": 5 * S}, "queued_shift_ns": round(0.3 * S)}


def test_layers_are_what_was_written_by_hand() -> None:
    flash = {
        "by_part": {"host": 6 * PAGE, "relocated": 3 * PAGE},
        "page_bytes": PAGE,
        "device": {"name": "x"},
        "plays": 1,
        "write_amplification": 1.5,
        "steady": {},
    }
    found = waterfall(by_hand(), ABOUT, flash=flash)
    layers = found.result["layers"]
    assert found.result["seconds"] == 2
    calls, cached = layers["calls"]["write"], layers["pages"]["write"]
    assert calls["by_purpose"] == {"heap": 2 * PAGE, "wal": PAGE + 24, "unknown": 10}
    assert (calls["requests"], calls["bytes"], calls["requests_per_second"]) == (
        5,
        3 * PAGE + 34,
        2.5,
    )
    assert layers["calls"]["read"]["bytes"] == 3 * PAGE
    # The piece after the first 24 bytes of the log lies in two pages.
    assert cached["by_purpose"] == {"heap": 2 * PAGE, "wal": 3 * PAGE, "unknown": PAGE}
    assert layers["queued"]["write"]["by_purpose"] == {
        "heap": PAGE,
        "wal": 2 * PAGE,
        "journal": 3 * PAGE,
    }
    assert layers["device"]["write"]["by_purpose"] == layers["queued"]["write"]["by_purpose"]
    assert (layers["queued"]["write"]["requests"], layers["device"]["write"]["requests"]) == (4, 3)
    assert layers["queued"]["write"]["to_previous"] == pytest.approx(1.0)
    assert layers["device"]["write"]["to_first"] == pytest.approx(6 * PAGE / (3 * PAGE + 34))
    # Bytes of a file that nobody has seen may be another's.
    most = layers["device"]["write"]["to_first_most"]
    assert most == pytest.approx(6 * PAGE / (3 * PAGE + 24))
    assert layers["flash"]["write"]["to_previous"] == pytest.approx(1.5)
    assert layers["flash"]["write"]["requests"] == 9
    assert found.result["absorbed"] == {"read": 2 * PAGE, "write": 3 * PAGE}
    assert found.result["merging"] == {"read": 1.0, "write": 4 / 3}
    assert found.result["syncs"] == {"calls": 1, "flushes": 1}
    assert found.result["device"] == {
        "name": "x",
        "plays": 1,
        "write_amplification": 1.5,
        "steady": {},
    }
    rows = found.tables["waterfall"].to_pylist()
    assert {
        "layer": "flash",
        "op": "write",
        "purpose": "relocated",
        "bytes": 3 * PAGE,
        "requests": 3,
    } in rows
    rates = found.tables["path_rates"].to_pylist()
    in_time = {
        (one["layer"], one["op"], one["second"]): (one["requests"], one["bytes"]) for one in rates
    }
    assert in_time["calls", "write", 0] == (2, PAGE + 24)
    assert in_time["calls", "write", 1] == (3, 2 * PAGE + 10)
    assert in_time["device", "write", 1] == (2, 4 * PAGE)
    seconds = found.result["seconds"]
    lengths = {one["second"]: one["seconds"] for one in rates}
    assert sum(lengths.values()) == pytest.approx(seconds)


def test_pages_of_a_database_tell_what_calls_are_for() -> None:
    tables = by_hand()
    tables["pages"] = pa.table(
        {
            "file": pa.array([0, 0, 0], pa.uint32()),
            "file_offset": pa.array([0, PAGE, 2 * PAGE], pa.uint64()),
            "length": pa.array([PAGE] * 3, pa.uint32()),
            "purpose": dictionary(["catalog", "heap", "index"]),
        }
    )
    layers = waterfall(tables, ABOUT).result["layers"]
    assert layers["calls"]["write"]["by_purpose"] == {
        "index": 2 * PAGE,
        "wal": PAGE + 24,
        "unknown": 10,
    }
    assert layers["calls"]["read"]["by_purpose"] == {"catalog": 3 * PAGE}


def test_a_recording_without_calls_in_its_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no time in common"):
        waterfall(by_hand(), {"calls": {"from_ns": 3 * S, "to_ns": 4 * S}})
    with pytest.raises(InputError, match="a recording with the calls of its database"):
        read_tables(tmp_path)


def test_a_recording_whose_calls_ended_before_it_began_is_finished_without_layers() -> None:
    about: dict[str, Any] = {
        "calls": {"from_ns": -2 * S, "to_ns": -S},
        "queued_shift_ns": 0,
        "not_told": [],
    }
    run = Run("record", {"path": about}, by_hand())
    add_waterfall(run)
    assert "waterfall" not in run.result
    assert len(about["not_told"]) == 1
    assert "no time in common" in about["not_told"][0]


def test_flash_programs_what_a_recording_wrote(tmp_path: Path) -> None:
    path = tmp_path / "requests.parquet"
    write_synthetic("synth:uniform(pages=1Ki,updates=4x)", path)
    written = int(pq.read_table(path)["length"].to_numpy().sum())
    found = program_flash(path, devices.DriveProfile.load("usb-stick"))
    assert found["by_part"]["host"] >= written
    assert found["device"]["name"] == "usb-stick"
    assert sum(found["by_part"].values()) / found["by_part"]["host"] == pytest.approx(
        found["write_amplification"]
    )


def test_half_of_the_plays_on_a_drive_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ("host", "relocated", "wear_moved", "mapping", "parity", "replica")
    names = ("page_writes", "pages", "pages", "page_writes", "page_writes", "page_writes")
    outcome: dict[str, Any] = {f"{part}_{name}": 6 for part, name in zip(parts, names, strict=True)}
    outcome |= {"host_page_writes": 12, "write_amplification": 1.5}
    warmed_up: list[int] = []

    def played(*_what: Any, warm_up: int, **_more: Any) -> dict[str, Any]:
        warmed_up.append(warm_up)
        return outcome

    held = SimpleNamespace(requests=600)
    monkeypatch.setattr(drive_runs, "load", lambda *_what, **_how: held)
    monkeypatch.setattr(drive_runs, "run", played)
    monkeypatch.setattr(steady, "of_drive", lambda *_what: {})
    drive = devices.DriveProfile.load("usb-stick")
    page_bytes = drive.profile["media"]["page_bytes"]
    found = program_flash(Path("requests"), drive, plays=6)
    assert warmed_up == [300]
    assert found["by_part"]["host"] == 4 * page_bytes
    assert found["by_part"]["relocated"] == 2 * page_bytes


def test_flash_is_held_against_requests_of_the_same_time_as_calls(tmp_path: Path) -> None:
    table = pa.table(
        {
            "time_ns": pa.array([0, 10, 19, 20], pa.uint64()),
            "op": pa.array(["write", "write", "read", "write"]).dictionary_encode(),
            "offset": pa.array([0, 1, 2, 3], pa.uint64()),
            "length": pa.array([1, 2, 4, 8], pa.uint32()),
        }
    )
    pq.write_table(table, tmp_path / "all")
    assert requests_within(tmp_path / "all", 10, 20, tmp_path / "part") == 2
    assert pq.read_table(tmp_path / "part")["offset"].to_pylist() == [1, 2]
    # A measurement may begin before the first request.
    assert requests_within(tmp_path / "all", -5, 11, tmp_path / "part") == 3
    assert requests_within(tmp_path / "all", -5, -1, tmp_path / "part") == 0


def test_checkpoints_that_were_asked_for_count_once(tmp_path: Path) -> None:
    """The database reports all of its own, where it does."""
    asked = [
        {"kind": kind, "time_ns": time_ns, "end_ns": time_ns + 5, "name": ""}
        for kind, time_ns in (("recording", 100), ("checkpoint", 150))
    ]
    (tmp_path / MARKS).write_text("".join(f"{json.dumps(mark)}\n" for mark in asked))
    assert [
        (mark["kind"], mark["time_ns"], mark["end_ns"])
        for mark in _marks(tmp_path, 110).to_pylist()
    ] == [("recording", -10, -5), ("checkpoint", 40, 45)]
    pq.write_table(
        pa.table({"time_ns": [151], "end_ns": [160], "kind": ["checkpoint"], "name": ["its own"]}),
        tmp_path / MARKS_OF_RUN,
    )
    assert [
        (mark["kind"], mark["time_ns"], mark["name"]) for mark in _marks(tmp_path, 110).to_pylist()
    ] == [("recording", -10, ""), ("checkpoint", 41, "its own")]


def test_what_a_run_told_is_on_the_clock_of_the_recording(tmp_path: Path) -> None:
    """It counts transactions in nanoseconds from its measurement, and checkpoints in seconds."""
    (tmp_path / RAW).mkdir()
    recorder = RunRecorder(tmp_path, [], 1)
    recorder._begun_ns = 7 * S
    told: dict[str, Any] = {}
    recorder.recorder = cast("Recorder", SimpleNamespace(add=told.update))
    transactions = {"start_ns": [5], "end_ns": [9], "kind": ["order"]}
    result = RunResult(1.0, {}, transactions_log=transactions, processor_seconds=0.25)
    recorder.tell(result, [{"start_s": 1.5, "end_s": 2, "cause": "time"}, {"start_s": 3}])
    assert pq.read_table(tmp_path / RAW / MARKS_OF_RUN).to_pylist() == [
        {"time_ns": 8 * S + S // 2, "end_ns": 9 * S, "kind": "checkpoint", "name": "time"},
        {"time_ns": 7 * S + 5, "end_ns": 7 * S + 9, "kind": "transaction", "name": "order"},
    ]
    assert told["processors"]["clients_seconds"] == 0.25
    assert told["processors"]["server_seconds"] is None


def test_a_device_that_issues_nothing_is_not_called_idle() -> None:
    tables = by_hand()
    tables |= {name: tables[name].slice(0, 0) for name in ("requests", "owners")}
    said = report.headline(waterfall(tables, ABOUT).result)
    assert "the file system queued" in said
    assert "issued no write" in said


def test_the_report_shows_every_layer() -> None:
    found = waterfall(by_hand(), ABOUT)
    about: dict[str, Any] = {
        "calls": {"calls": 9, "lost_events": 4, "unresolved_calls": 1},
        "owners": {"mixed": 1},
        "whose": {"data": 3 * MIB, "own": MIB, "shared": 0, "others": 4 * MIB},
        "not_told": ["where the log is"],
    }
    remarks = report.remarks(about)
    assert remarks[0].startswith("4 events of calls were LOST")
    assert "1 on files that nobody has seen" in remarks[1]
    assert remarks[2] == (
        "Of the 8 MiB that the device was written in all: 3 MiB the database's files, 1 MiB the "
        "file system's own data for it, 0 B not known whose, 4 MiB others'."
    )
    assert "Not known: where the log is." in remarks
    page = Page(
        "recording", "title", report.headline(found.result), [],
        report.sections(found.result, found.tables),
        {"command": ["x"], "flashwright": "0", "revision": None, "seed": None, "inputs": []},
        remarks,
    )  # fmt: skip
    html = render(page)
    assert "For every byte the database wrote, the device received 1.99" in html
    assert [figure.id for figure in page.figures()] == [
        "waterfall-writes",
        "path-rates",
        "path-sizes",
        "path-over-time",
    ]
    assert len(report.rows(found.result)[0]) == len(report.HEADINGS)


def test_names_are_read_back_as_they_were(tmp_path: Path) -> None:
    names = Names([tmp_path], "postgres", tmp_path, {"base/5/16384": Named("heap", "stock")})
    names.write(tmp_path)
    assert Names.read(tmp_path) == names
    (tmp_path / "names.json").write_text("{")
    with pytest.raises(InputError, match=r"names.json: no names of a database's files"):
        Names.read(tmp_path)


# Real recordings.


@pytest.fixture
def recordable() -> None:
    tracers = ROOT / "available_tracers"
    there = os.geteuid() == 0 and tracers.exists() and "blk" in tracers.read_text()
    there = there and (ROOT / "events/syscalls/sys_enter_pwrite64").exists()
    require(
        there, "recording needs root, and a kernel with the blk tracer and events of system calls"
    )
    with Supervisor() as supervisor:
        # Whoever records beside us may take longer than a recording waits.
        Tracefs(supervisor, 400.0).close()


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as made:
        yield made


def volume_of(supervisor: Supervisor, size_bytes: int) -> Volume:
    made = Volume(supervisor, file_systems.find("ext4"))
    made.on_image(Path("/var/tmp"), size_bytes)  # noqa: S108
    return made


def finished(folder: Path) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Make the run folder of a recording; give its tables, and what is known of its path."""
    run = finish(folder)
    run.write(folder)
    return {path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}, run.result["path"]


WRITER = """
import mmap, os, sys
sys.stdin.readline()
page = mmap.mmap(-1, 4096)
page.write(b"x" * 4096)
for name, places in (("d", range(0, 100, 2)), ("d-wal", range(1, 60, 2))):
    file = os.open(f"{sys.argv[1]}/{name}", os.O_RDWR | os.O_DIRECT)
    for place in places:
        os.pwrite(file, page, place * 4096)
    if name == "d":
        print(flush=True)
        sys.stdin.readline()
        os.preadv(file, [page], 4096)
    else:
        print(flush=True)
        sys.stdin.readline()
"""


@pytest.mark.usefixtures("recordable")
def test_known_writes_come_through_every_layer(supervisor: Supervisor, tmp_path: Path) -> None:
    volume = volume_of(supervisor, 64 * MIB)
    data, folder = volume.mount_point / "data", tmp_path / "rec"
    data.mkdir()
    for name in ("d", "d-wal"):
        (data / name).write_bytes(b"y" * 100 * PAGE)
    os.sync()
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(data)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    recorder = Recorder(supervisor, volume.device, folder, command=["test"], patience_s=120)
    recorder.prepare()
    path = PathRecorder(supervisor, folder / RAW, Names([data], "sqlite", data / "d"))
    try:
        path.prepare("ext4", volume.device, volume.mount_point)
        path.start([child.pid])
        recorder.start()
        for _ in range(2):
            child.stdin.write("on\n")
            child.stdout.readline()
            # The copier looks at each new number twice a second.
            time.sleep(0.7)
        child.stdin.write("on\n")
        child.wait()
        recorder.stop()
        path.stop()
    finally:
        child.kill()
        path.close()
        recorder.close()
    tables, about = finished(folder)
    owners, requests = tables["owners"], tables["requests"]
    assert len(owners) == len(requests)
    names = [Path(one).name for one in tables["files"]["path"].to_pylist()]
    written = [
        (names[file], offset)
        for file, offset, op in zip(
            owners["file"].to_pylist(),
            owners["file_offset"].to_pylist(),
            requests["op"].to_pylist(),
            strict=True,
        )
        if op == "write" and file is not None and names[file].startswith("d")
    ]
    assert [one for one in written if one[0] in ("d", "d-wal")] == [
        *(("d", place * PAGE) for place in range(0, 100, 2)),
        *(("d-wal", place * PAGE) for place in range(1, 60, 2)),
    ]
    result = waterfall(read_tables(folder), about).result
    expected = {"heap": 50 * PAGE, "wal": 30 * PAGE}
    assert result["layers"]["calls"]["write"]["by_purpose"] == expected
    for layer in ("queued", "device"):
        purposes = result["layers"][layer]["write"]["by_purpose"]
        assert {name: purposes[name] for name in expected} == expected
    assert result["layers"]["device"]["read"]["by_purpose"]["heap"] == PAGE
    assert (about["owners"]["others"], about["owners"]["unknown"]) == (0, 0)
    # It is no database that could be asked what its pages hold.
    assert [one.partition(":")[0] for one in about["not_told"]] == [
        "which pages of the database are of tables and which of indexes",
        "transactions",
    ]


@pytest.mark.usefixtures("recordable")
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_benchmark_is_recorded_from_its_calls_to_the_device(
    database: str, supervisor: Supervisor, tmp_path: Path
) -> None:
    if database == "postgres":
        find_server()
    volume = volume_of(supervisor, 512 * MIB)
    workload, _, load = registry.find("tpcc(items=300,customers=30)")
    recorder = RunRecorder(tmp_path / "rec", ["test"], 4096)
    # So many that pages are written to the tables, however fast the machine: SQLite does so after
    # each 1000 of its log.
    is_server = database == "postgres"
    settings = Postgres(buffer=MIB, checkpoint=0.5) if is_server else Sqlite(buffer=MIB)
    config = RunConfig(2, transactions=600, warm_up_seconds=0.3)
    plan = BenchPlan(workload, load, settings, config, Folder(volume.mount_point))
    assert Session(plan, recorder).run().violations == []
    tables, about = finished(tmp_path / "rec")
    calls = about["calls"]
    assert (calls["lost_events"], calls["contradicted_files"], calls["torn_sightings"]) == (0, 0, 0)
    result = waterfall(read_tables(tmp_path / "rec"), about).result
    layers = result["layers"]
    for layer in ("calls", "queued", "device"):
        purposes = layers[layer]["write"]["by_purpose"]
        assert {"heap", "index", "wal"} <= set(purposes), layer
        assert sum(purposes.values()) == layers[layer]["write"]["bytes"]
    # Commits sync the log; what a small buffer for it makes the database write before may be
    # written again in the cache.
    log = [layers[layer]["write"]["by_purpose"]["wal"] for layer in ("calls", "queued", "device")]
    assert log[1] >= 0.1 * log[0]
    # A request that was merged from those of two files is of the first.
    assert log[1] == pytest.approx(log[2], rel=0.05)
    assert result["syncs"]["flushes"] > 10
    names = {one["name"] for one in tables["files"].to_pylist()}
    if database == "postgres":
        assert {"stock", "stock_key", "customer"} <= names
    else:
        assert {"stock", "customer"} <= set(tables["pages"]["name"].to_pylist())
    unresolved = [
        one for one in tables["calls"].to_pylist() if one["file"] is None and one["op"] == "write"
    ]
    assert sum(one["result"] for one in unresolved) <= 0.02 * layers["calls"]["write"]["bytes"]
    assert np.all(tables["extents"]["length"].to_numpy() > 0)
