"""Reading of fio's JSON: what is taken, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fio_beside_text
from flashwright._core import InputError
from flashwright.measured import fio, play
from flashwright.measured.fit import Fit
from flashwright.measured.rows import WriteRow
from flashwright.measured.template import DataSheet, Estimate, profile
from support import Cli, find_program

NOTHING = {"io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "runtime": 0, "total_ios": 0}
BASE = {"rw": "randwrite", "bs": "4k", "direct": "1", "filename": "/dev/nvme0n1"}
CAPACITY_GB = 960.0
UNSTEADY = "whether the drive was steady is not known"
Job = dict[str, Any]


def way(
    mib_s: float = 100.0, seconds: float = 100.0, size: int = 4096, p50: int = 40_000, **more: Any
) -> dict[str, Any]:
    """Give fio's figures for one direction."""
    done = int(mib_s * (1 << 20) * seconds)
    return {
        "io_bytes": done,
        "io_kbytes": done >> 10,
        "bw_bytes": int(mib_s * (1 << 20)),
        "bw": int(mib_s * 1024),
        "iops": done / size / seconds,
        "runtime": int(seconds * 1e3),
        "total_ios": done // size,
        "clat_ns": {"percentile": {"50.000000": p50, "99.000000": 3 * p50}},
        "lat_ns": {"min": 1},
        **more,
    }


def job(name: str = "w", write: Any = None, more: Any = (), **options: Any) -> Job:
    """One job as fio tells of it: write and what else is there, and its options."""
    given = {key: value for key, value in {**BASE, **options}.items() if value is not None}
    told = {"read": NOTHING, "write": write or way(), "trim": NOTHING}
    return {
        "jobname": name,
        "groupid": 0,
        "error": 0,
        "elapsed": 101,
        "job options": given,
        **told,
        **dict(more),
    }


def run(*jobs: Job, **more: Any) -> str:
    return json.dumps(
        {"fio version": "fio-3.33", "timestamp_ms": 1_000_000, "jobs": jobs, **more}, indent=2
    )


def read(folder: Path, *texts: str, capacity_gb: float = CAPACITY_GB) -> fio.FioRows:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.json"
        path.write_text(text)
        paths.append(path)
    return fio.read(paths, "x", capacity_gb)


def one_row(folder: Path, *texts: str, capacity_gb: float = CAPACITY_GB) -> WriteRow:
    found = read(folder, *texts, capacity_gb=capacity_gb)
    assert not found.left_out
    (row,) = found.rows
    assert isinstance(row, WriteRow)
    return row


def why(folder: Path, *texts: str) -> str:
    found = read(folder, *texts)
    assert not found.rows
    assert len(found.left_out) == 1, found.left_out
    return found.left_out[0]


def writes(found: fio.FioRows) -> list[WriteRow]:
    return [row for row in found.rows if isinstance(row, WriteRow)]


def test_a_job_that_failed_is_left_out_with_its_error(tmp_path: Path) -> None:
    failed = run(job(more={"error": 28}))
    assert "it ended with error 28 (No space left on device)" in why(tmp_path, failed)
    assert "ended with error 999999999999999" in why(tmp_path, run(job(more={"error": 10**15 - 1})))
    passed_over = run(job(more={"total_err": 7, "first_error": 5}, continue_on_error="io"))
    assert "error 5 (Input/output error)" in why(tmp_path, passed_over)
    one_of_two = run(job(numjobs="2"), job(more={"error": 5}, numjobs="2"))
    assert "(Input/output error) in job 2" in why(tmp_path, one_of_two)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_around_the_documents_is_passed_over(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "out.txt"
    before = "fio: file hash not empty on exit {1}\nnote: both iodepth >= 1 and synchronous I/O\n"
    after = '\nw: (groupid=0, jobs=1): err= 0: pid=7\n  write: IOPS=9 { "x" }\n'
    path.write_text(before + run(job()) + after + run(job()) + after, encoding=encoding)
    found = fio.read([path], "x", CAPACITY_GB)
    assert [row.steady_mib_s for row in writes(found)] == [100]


def test_of_several_results_of_one_run_the_last_counts(tmp_path: Path) -> None:
    def result(at_s: int, mib_s: float, seconds: float) -> str:
        one = job(write=way(mib_s, seconds), more={"elapsed": at_s})
        return run(one, timestamp_ms=1_000_000 + at_s * 1000)

    # The second ends the ramp, at which fio begins to count anew; the last is the end.
    text = "\n".join(
        [result(2, 10, 2), result(4, 50, 1), result(6, 60, 3), result(6, 60, 3), result(8, 80, 5)]
    )
    found = read(tmp_path, text)
    assert [row.steady_mib_s for row in writes(found)] == [80]
    assert found.notes[0] == f"{tmp_path}/0.json: 5 results of one run: the last counts"
    cut = read(tmp_path, text[:-400])
    assert [row.steady_mib_s for row in writes(cut)] == [60]
    assert "cut off or damaged" in cut.notes[1]


def test_two_runs_in_one_file_are_two(tmp_path: Path) -> None:
    again = run(job(write=way(80)), timestamp_ms=1_000_000 + 150_000)
    found = read(tmp_path, run(job()) + "\n" + again)
    assert [row.steady_mib_s for row in writes(found)] == [100, 80]
    assert any("run 2: job 1" in note for note in found.notes)


def test_equal_jobs_are_one_row(tmp_path: Path) -> None:
    parts = [job(write=way(100, p50=p50), numjobs="4", iodepth="32") for p50 in range(40, 44)]
    row = one_row(tmp_path, run(*parts))
    assert (row.steady_mib_s, row.depth, row.p50_us) == (400, 4, None)
    assert row.written_capacities == 0.5
    found = read(tmp_path, run(*parts))
    assert any("p50 is between 0.04 and 0.043 us" in note for note in found.notes)
    assert any("p99 is between" in note for note in found.notes)
    same = one_row(tmp_path, run(*[job(numjobs="2")] * 2))
    assert (same.p50_us, same.p99_us) == (40, 120)


def test_percentiles_of_equal_jobs_come_of_the_bins_of_all(tmp_path: Path) -> None:
    def part(bins: dict[str, int], p50: int) -> Job:
        percentile = {"50.000000": p50, "99.000000": 9_000}
        return job(write=way(clat_ns={"percentile": percentile, "bins": bins}), numjobs="2")

    one, other = {"1000": 90, "9000": 10}, {"2000": 150, "9000": 50}
    row = one_row(tmp_path, run(part(one, 1_000), part(other, 2_000)))
    assert (row.p50_us, row.p99_us) == (2, 9)


def test_jobs_that_ended_at_different_times_are_no_sum_of_their_rates(tmp_path: Path) -> None:
    parts = [job(write=way(100, 100), numjobs="2"), job(write=way(100, 50), numjobs="2")]
    assert one_row(tmp_path, run(*parts)).steady_mib_s == pytest.approx(150)


def test_group_reporting_is_a_sum_already(tmp_path: Path) -> None:
    four = job(write=way(400), more={"job_runtime": 400_000}, numjobs="4", group_reporting="1")
    row = one_row(tmp_path, run(four))
    assert (row.steady_mib_s, row.depth, row.p50_us) == (400, 4, 40)
    more = job(write=way(400), more={"job_runtime": 500_000}, numjobs="4")
    assert "group_reporting has added other jobs" in why(tmp_path, run(more))
    reads = job(more={"read": way(5)})
    assert "it did reads, too" in why(tmp_path, run(reads))
    half = [job(numjobs="4")] * 2
    assert "numjobs=4, and 2 are in the file" in why(tmp_path, run(*half))


def test_jobs_at_the_same_time_share_the_drive(tmp_path: Path) -> None:
    beside = read(tmp_path, run(job("a"), job("b", bs="8k")))
    assert not beside.rows
    assert "it ran at the same time as job 2 (b)" in beside.left_out[0]
    reader = read(tmp_path, run(job("a"), job("b", write=NOTHING, rw="randread")))
    assert "it ran at the same time as job 2 (b)" in reader.left_out[0]
    after = job("b", more={"groupid": 1, "elapsed": 201})
    waits = read(tmp_path, run(job("a", more={"elapsed": 201}), after))
    assert len(waits.rows) == 2
    # `new_group` without a value is not in the JSON: the times show that nothing waited.
    groups = read(tmp_path, run(job("a"), job("b", more={"groupid": 1})))
    assert not groups.rows
    named = read(tmp_path, run(job("a"), job("b", more={"groupid": 1}, stonewall="1")))
    assert len(named.rows) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"direct": "0"}, "direct=0: what was measured is the page cache"),
        ({"direct": None}, "no direct=1: what was measured is the page cache"),
        ({"buffered": "1", "direct": None}, "page cache"),
        ({"direct": None, "sync": "1"}, "sync=1: it waits for flushes"),
        ({"fsync": "1"}, "fsync=1: it waits for flushes"),
        ({"fdatasync": "32"}, "fdatasync=32"),
        ({"sync": "dsync"}, "sync=dsync"),
        ({"sync_file_range": "write:1"}, "sync_file_range"),
        ({"bsrange": "4k-16k", "bs": None}, "bsrange=4k-16k: its requests have several sizes"),
        ({"blocksize_range": "1k-4k,2k-8k"}, "several sizes"),
        ({"bssplit": "4k/60:64k/40"}, "several sizes"),
        ({"bs": "four"}, "bs=four is no size"),
        ({"bs_unaligned": "1"}, "bs_unaligned=1"),
        ({"blockalign": "512"}, "ba=512: its requests begin within others"),
        ({"rate": "10m"}, "its rate is limited"),
        ({"rate": ",10m"}, "its rate is limited"),
        ({"rate_iops": "1000"}, "its rate is limited"),
        ({"thinktime": "2ms"}, "thinktime=2ms: its rate is limited"),
        ({"latency_target": "2ms"}, "its depth is changed"),
        ({"rw": "randrw"}, "rw=randrw is no job of writes alone"),
        ({"readwrite": "rw", "rw": None, "rwmixread": "70"}, "no job of writes alone"),
        ({"rw": None}, "rw=read is no job of writes alone"),
        ({"rw": "randtrim"}, "no job of writes alone"),
        ({"rw": "trimwrite"}, "no job of writes alone"),
        ({"rw": "randwrite:8"}, "neither in sequence nor at random"),
        ({"percentage_random": "50"}, "neither in sequence nor at random"),
        ({"random_distribution": "pareto:0.2"}, "is no pattern of rows"),
        ({"random_distribution": "zoned:60/10:40/90"}, "is no pattern of rows"),
        ({"verify": "crc32c"}, "verify=crc32c: it reads back"),
        ({"zonemode": "zbd"}, "zonemode=zbd"),
        ({"zonesize": "1m", "zoneskip": "1m"}, "zonesize=1m"),
        ({"read_iolog": "x"}, "it plays a trace"),
        ({"trim_percentage": "10"}, "it trims, too"),
        ({"ioengine": "null"}, "ioengine=null"),
        ({"ioengine": "mmap"}, "ioengine=mmap"),
        ({"ioengine": "rbd"}, "ioengine=rbd"),
        ({"ioengine": "io_uring_cmd", "write_mode": "zeroes"}, "its commands are not writes"),
        ({"filename": "/dev/nullb0"}, "is memory, and no drive"),
        ({"filename": "/dev/ram1", "size": "1g"}, "is memory, and no drive"),
        ({"filename": "/dev/sda:/dev/sdb"}, "several devices at once"),
        ({"filename": "f"}, "no size: how long f is"),
        ({"filename": "f", "size": "50%"}, "size=50% is of a file"),
        ({"bs": "16k"}, "4,096 bytes on average, and bs is 16384"),
        ({"numjobs": "nan"}, "numjobs=nan is no number"),
        ({"ioengine": "libaio", "iodepth": "inf"}, "iodepth=inf is no number"),
        ({"size": "0k"}, "in which no request has room"),
        ({"size": "x%"}, "size=x% is no share"),
    ],
)
def test_what_no_row_is_of_is_left_out(tmp_path: Path, options: Any, reason: str) -> None:
    assert reason in why(tmp_path, run(job(**options)))


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, 4096),
        ({"bs": None}, 4096),
        ({"bs": "4k,16k"}, 16_384),
        ({"bs": "8k,"}, 4096),
        ({"bs": ",8k,"}, 8192),
        ({"bs": None, "blocksize": "256KB"}, 262_144),
        # fio's units are the wrong way round unless kb_base says otherwise.
        ({"bs": "4KiB"}, 4000),
        ({"bs": "4KiB", "kb_base": "1000"}, 4096),
        ({"bs": "4k", "kb_base": "1000"}, 4000),
        ({"bs": "0x2000"}, 8192),
        ({"bsrange": "8k-8k"}, 8192),
        ({"bssplit": "4k/100,16k/100"}, 16_384),
        ({"bs": "4k,16k", "bs_is_seq_rand": "1"}, 16_384),
        ({"bs": "128k", "rw": "write", "ba": "4k"}, 131_072),
        ({"ba": "8k", "bs": "4k"}, 4096),
    ],
)
def test_the_size_is_that_of_writes(tmp_path: Path, options: Any, size: int) -> None:
    assert one_row(tmp_path, run(job(write=way(size=size), **options))).request_bytes == size


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({"iodepth": "32"}, 1),
        ({"iodepth": "32", "ioengine": "sync", "numjobs": "4"}, 4),
        ({"iodepth": "32", "ioengine": "libaio"}, 32),
        ({"iodepth": "8", "ioengine": "io_uring", "numjobs": "4"}, 32),
        ({"ioengine": "libaio"}, 1),
        ({"iodepth": "16", "ioengine": "io_uring_cmd", "direct": None}, 16),
        ({"iodepth": "16", "ioengine": "external:/usr/lib/spdk_nvme", "direct": None}, 16),
    ],
)
def test_the_depth_is_what_was_under_way(tmp_path: Path, options: Any, depth: int) -> None:
    assert one_row(tmp_path, run(job(**options))).depth == depth


def test_without_an_engine_the_depths_show_which_it_was(tmp_path: Path) -> None:
    deep = job(more={"iodepth_level": {"1": 0.1, "32": 99.9}}, iodepth="32")
    assert one_row(tmp_path, run(deep)).depth == 32


@pytest.mark.parametrize(
    "options",
    [
        {"fsync": "0", "sync": "0", "thinktime": "0", "verify": "0", "zonemode": "none"},
        {"rate": "10m,"},
        {"rate": "10m,0"},
        {"rw": "randrw", "rwmixread": "0"},
        {"rw": "randrw", "rwmixwrite": "100"},
        {"end_fsync": "1", "ramp_time": "10", "loops": "3", "io_size": "100g"},
        {"direct": None, "buffered": "0"},
        {"random_distribution": "random", "percentage_random": "100"},
    ],
)
def test_what_changes_nothing_for_writes_is_a_row(tmp_path: Path, options: Any) -> None:
    row = one_row(tmp_path, run(job(**options)))
    assert (row.pattern, row.steady_mib_s) == ("uniform", 100)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({}, "each_once"),
        ({"norandommap": "1"}, ""),
        ({"norandommap": ""}, ""),
        ({"norandommap": "0"}, "each_once"),
        ({"ba": "4k"}, ""),
        # Several maps over the same places: nearly uniform.
        ({"numjobs": "4"}, ""),
        ({"numjobs": "4", "filename": None, "size": "1g"}, "each_once"),
    ],
)
def test_without_norandommap_each_place_is_written_once_before_any_again(
    tmp_path: Path, options: Any, parameters: str
) -> None:
    text = run(job(more={"job_runtime": 1}, **options))
    assert one_row(tmp_path, text).parameters == parameters
    assert (fio.MAP in read(tmp_path, text).notes) == bool(parameters)


def test_options_of_all_jobs_hold_for_each(tmp_path: Path) -> None:
    shared = {"direct": "1", "bs": "4k", "filename": "/dev/nvme0n1"}
    bare: Any = dict.fromkeys(shared)
    whole = job("a", more={"elapsed": 201}, **bare)
    other = job("b", more={"groupid": 1, "elapsed": 201}, **{**bare, "buffered": "1"})
    found = read(tmp_path, run(whole, other, **{"global options": shared}))
    assert len(found.rows) == 1
    assert "page cache" in found.left_out[0]


def test_percentiles_are_where_the_job_was_asked_to_put_them(tmp_path: Path) -> None:
    points = {"50.000000": 38_144, "99.000000": 94_720}
    of_lat = job(write=way(clat_ns={"min": 1}, lat_ns={"percentile": points}))
    row = one_row(tmp_path, run(of_lat))
    assert (row.p50_us, row.p99_us) == (38.144, 94.72)
    other = job(write=way(clat_ns={"percentile": {"50.000000": 7000, "99.900000": 9000}}))
    row = one_row(tmp_path, run(other))
    assert (row.p50_us, row.p99_us) == (7, None)
    assert any("has no 99: p99 is not known" in note for note in read(tmp_path, run(other)).notes)
    bins = {"1000": 98, "9000": 2}
    with_bins = {"percentile": {"99.900000": 9000}, "bins": bins}
    row = one_row(tmp_path, run(job(write=way(clat_ns=with_bins))))
    assert (row.p50_us, row.p99_us) == (1, 9)
    none = run(job(write=way(clat_ns={"N": 0})))
    assert one_row(tmp_path, none).p50_us is None
    assert any("response times are not known" in note for note in read(tmp_path, none).notes)


def test_all_directions_as_one_are_writes_if_the_job_has_no_others(tmp_path: Path) -> None:
    mixed = job(more={"mixed": way()}, unified_rw_reporting="1")
    for name in ("read", "write", "trim"):
        del mixed[name]
    assert one_row(tmp_path, run(mixed)).steady_mib_s == 100


def test_older_versions_have_other_units(tmp_path: Path) -> None:
    old: dict[str, Any] = {"io_bytes": 96 << 20, "bw": 102_400, "runtime": 1_000_000}
    old["clat"] = {"percentile": {"50.000000": 40, "99.000000": 120, "0.00": 0}}
    row = one_row(tmp_path, run(job(write=old), **{"fio version": "fio-2.10"}))
    assert (row.steady_mib_s, row.p50_us, row.p99_us) == (100, 40, 120)
    assert row.written_capacities == 0.5
    again = read(tmp_path, *[run(job(write=old))] * 20)
    assert writes(again)[-1].written_capacities == pytest.approx(20 * (96 << 30) / 960e9)
    bare = job(write=old)
    del bare["job options"]
    assert "fio before 2.3 does not write a job's options" in why(tmp_path, run(bare))


def test_what_a_client_gathered_of_one_machine_is_read(tmp_path: Path) -> None:
    at = {"hostname": "db1", "port": 8765}
    part = job(more=at, numjobs="2")
    both = {**job("All clients", more=at, write=way(200))}
    del both["job options"]

    def told(*jobs: Job) -> str:
        return json.dumps({"fio version": "fio-3.33", "global options": {}, "client_stats": jobs})

    assert one_row(tmp_path, told(part, part, both)).steady_mib_s == 200
    assert "sums of clients have none" in why(tmp_path, told(both))
    other = job(more={**at, "hostname": "db2"})
    found = read(tmp_path, told(part, other, both))
    assert not found.rows
    assert "2 machines ran at the same time" in found.left_out[0]


@pytest.mark.parametrize(
    ("options", "gib"),
    [
        ({}, 960e9 / (1 << 30)),
        ({"size": "25%"}, 240e9 / (1 << 30)),
        ({"offset": "50%"}, 480e9 / (1 << 30)),
        ({"size": "64g", "offset": "8g"}, 64),
        ({"filename": "/mnt/f", "size": "16m"}, 1 / 64),
        ({"filename": "/mnt/f", "size": "1g", "numjobs": "4"}, 1),
        ({"filename": None, "directory": "/mnt", "size": "1g", "numjobs": "4"}, 4),
        ({"filename": None, "directory": "/mnt", "size": "4g", "nrfiles": "8"}, 4),
        ({"filename": None, "directory": "/mnt", "filesize": "1g", "nrfiles": "8"}, 8),
        ({"size": "8g", "offset_increment": "8g", "numjobs": "4"}, 32),
        ({"filename": "/mnt/a:/mnt/b", "size": "2g"}, 2),
        ({"filename": None}, 960e9 / (1 << 30)),
    ],
)
def test_what_is_used_is_what_the_job_writes_to(tmp_path: Path, options: Any, gib: float) -> None:
    row = one_row(tmp_path, run(job(more={"job_runtime": 100}, **options)))
    assert row.used_gib == pytest.approx(gib)


def test_what_was_written_before_and_is_kept_is_cold(tmp_path: Path) -> None:
    fill = run(job("fill", way(1000, 960e9 / (1000 << 20), 131_072), rw="write", bs="128k"))
    part = run(job(size="20%", write=way(1000, 1000), norandommap="1"))
    found = read(tmp_path, fill, part)
    assert [row.pattern for row in writes(found)] == ["sequential", "zones"]
    last = writes(found)[-1]
    assert last.parameters == "s0.8000 f0 s0.2000 f1"
    assert last.used_gib == pytest.approx(960e9 / (1 << 30))
    assert last.written_capacities == pytest.approx(1 + (1000 << 20) * 1000 / 960e9)
    skewed = read(tmp_path, fill, run(job(size="20%", random_distribution="zipf:0.8")))
    assert "keep their data, which no row of zipf 0.8 has" in skewed.left_out[0]
    once = read(tmp_path, fill, run(job(size="20%")))
    assert "keep their data, which no row of uniform each_once has" in once.left_out[0]
    # It is no row, and its data is there.
    cached = run(job("fill", way(1000, 960e9 / (1000 << 20)), direct="0"))
    assert [row.pattern for row in writes(read(tmp_path, cached, part))] == ["zones"]
    trim = {"write": NOTHING, "trim": way(1, 960e9 / (1 << 20), 1 << 20)}
    trimmed = read(tmp_path, fill, run(job("t", more=trim, rw="trim")), part)
    assert [row.pattern for row in writes(trimmed)] == ["sequential", "uniform"]


def test_a_row_says_when_it_may_not_be_of_a_steady_drive(tmp_path: Path) -> None:
    small = {"filename": "f", "size": "1g"}
    short = read(tmp_path, run(job(write=way(100, 2), **small)))
    assert len(short.rows) == 1
    assert (
        f"it ran 2 s, and what it uses was written 0.2 times in all: {UNSTEADY}" in short.notes[0]
    )
    large = read(tmp_path, run(job(write=way(100, 200), norandommap="1", **small)))
    assert not large.notes
    large = read(tmp_path, run(job(filename="f", size="2g")), run(job()))
    assert UNSTEADY in large.notes[0]
    assert "capacity_gb is not this drive's" in read_small(tmp_path)


def test_what_ran_less_than_a_second_is_no_measurement(tmp_path: Path) -> None:
    found = why(tmp_path, run(job(write=way(2000, 0.015))))
    assert found.endswith("it ran 15 ms, which is too short for a measurement")


def test_a_name_may_have_a_colon(tmp_path: Path) -> None:
    windows = {"filename": "C\\:\\fio", "size": "1g", "ioengine": "windowsaio"}
    assert one_row(tmp_path, run(job(**windows))).used_gib == 1


def read_small(folder: Path) -> str:
    return read(folder, run(job(filename="f", size="2g")), capacity_gb=1.0).notes[0]


def test_jobs_on_another_device_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, run(job(filename="/dev/nvme0n1p2")), run(job(filename="/dev/nvme1n1")))
    assert len(found.rows) == 1
    assert "it writes to /dev/nvme1n1, and jobs before to /dev/nvme0n1" in found.left_out[0]


def test_what_has_no_number_is_no_error(tmp_path: Path) -> None:
    text = run(job()).replace('"min": 1', '"min": 1, "stddev": -nan, "mean": inf')
    assert one_row(tmp_path, text).steady_mib_s == 100


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("\0\1\2{", "it is binary"),
        ("; fill\n[global]\ndirect=1\n[w]\nrw=write\n", "it is a job file"),
        ("3;fio-3.33;w;0;0;0;0;0\n", "it is terse output"),
        ("w: (g=0): rw=write\nw: (groupid=0, jobs=1): err= 0: pid=1\n", "it is fio's text"),
        ("1, 4096, 1, 4096, 0\n2, 4096, 1, 4096, 0\n", "it is a log of fio's"),
        ("fio version 2 iolog\n/dev/x add\n", "it is an I/O log of fio's"),
        ('{"a": 1}', "it is JSON, but not fio's"),
        ('{"jobs": 1}', "it is JSON, but not fio's"),
        (run(job())[:-300], "the JSON is cut off or damaged"),
        ("no json", "not fio's"),
    ],
)
def test_another_file_is_named_as_what_it_is(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=r"0\.json") as raised:
        read(tmp_path, text)
    assert what in str(raised.value)
    assert "fio --output-format=json" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_run_without_jobs_is_left_out(tmp_path: Path) -> None:
    assert why(tmp_path, run()).endswith("no job ran")


TRUTH = Estimate(
    sequential_mib_s=1500.0, over_provisioning=0.22, write_gap_us=6.0, relocation_gap_us=3.0
)
SHEET = DataSheet("made-up", 960.0)


def test_a_row_is_played_with_its_depth_and_the_size_of_its_requests() -> None:
    drive = play.PlayedProfile.of(profile(SHEET, TRUTH, 512, {}, "made up"))

    def played(pattern: str, parameters: str, size: int, depth: int | None) -> dict[str, Any]:
        row = WriteRow("x", 960.0, 894.0, pattern, parameters, size, 1.0, None, depth=depth)
        return play.write(row, drive, play.QUICK)

    alone, many = (played("uniform", "", 4096, depth) for depth in (1, None))
    assert alone["latency_ns"]["write"]["p50"] < many["latency_ns"]["write"]["p50"] / 50
    for pattern, parameters in (("zipf", "0.8"), ("zones", "s0.8 f0 s0.2 f1")):
        small, large = (played(pattern, parameters, size, None) for size in (4096, 65_536))
        assert large["requests"] * 16 == pytest.approx(small["requests"], rel=0.01)


def test_what_reaches_each_place_once_is_played_so() -> None:
    drive = play.PlayedProfile.of(profile(SHEET, TRUTH, 512, {}, "made up"))

    def copied(parameters: str, times: float) -> float:
        row = WriteRow("x", 960.0, 894.0, "uniform", parameters, 4096, times, None)
        return float(play.write(row, drive, play.QUICK)["write_amplification"])

    once = copied("each_once", 4.0)
    assert once < 0.7 * copied("", 4.0)
    # A drive copies nothing when a pass begins, and most towards its end.
    assert copied("each_once", 4.5) == pytest.approx(once, rel=0.02)


def test_the_fit_leaves_out_rows_in_which_the_drive_waited() -> None:
    said: list[str] = []

    def row(pattern: str, size: int, depth: int | None) -> WriteRow:
        return WriteRow("x", 960.0, 894.0, pattern, "", size, 1.0, 100.0, depth=depth)

    kept = [row("sequential", 131_072, 1), row("uniform", 4096, 32), row("uniform", 4096, None)]
    waited = [row("sequential", 4096, 4), row("uniform", 4096, 1)]
    fit = Fit(SHEET, [*kept, *waited], [], 64, said.append)
    assert fit.writes == kept
    assert len(said) == 2
    assert said[0].endswith("uniform, 894 GiB, depth 1") != said[1].endswith("depth 1")


def test_fio_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "drive.toml").write_text(profile(SHEET, TRUTH, 512, {}, "made up"))
    out = tmp_path / "fio.out"
    fill = job("fill", way(1400, 700, 131_072), rw="write", bs="128k")
    bad = job("cached", more={"groupid": 1}, direct="0", stonewall="1")
    out.write_text("fio: a warning\n" + run(fill, bad))
    predict = ("device", "drive.toml", "--against", out, "--drive", "x")
    reason = f"{out}: job 2 (cached): direct=0: what was measured is the page cache"
    said = cli(*predict).stdout
    assert f"Left out: {reason}" in said
    answer = json.loads(cli(*predict, "--json", "-").stdout)
    assert answer["left_out"][0].startswith(reason)
    assert answer["rows"][0]["row"]["steady_mib_s"] == 1400
    out.write_text(run(job(direct="0")))
    words = ("device", out, "--drive", "x", "--out", "p.toml")
    unsized = cli(*words, code=2)
    assert "right would be --data-sheet capacity_gb=960" in unsized.stderr
    empty = cli(*words, "--data-sheet", "capacity_gb=960", code=2)
    assert f"no job can be a row: {out}: job 1 (w): direct=0" in empty.stderr
    nameless = cli("device", "drive.toml", "--against", out, code=2)
    assert "right would be --drive NAME" in nameless.stderr


def test_rows_are_what_fio_itself_prints(tmp_path: Path) -> None:
    find_program("fio")
    lines = fio_beside_text.compared(tmp_path, seconds=1.1)
    assert {line.kind for line in lines} == {kind.name for kind in fio_beside_text.KINDS}
    assert [line for line in lines if not line.is_met] == []
