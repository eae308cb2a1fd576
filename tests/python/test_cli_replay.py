"""`play` of traces: what it sends, measures and says, on simulated drives, memory and files.

What it refuses; how it stops.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

from browsing import check_report
from flashwright import _core, data
from flashwright.jobs.play import beside, remarks
from flashwright.jobs.play import run as playing
from flashwright.recording import file_systems
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from processes import descendants, is_alive, until
from recordings import require
from support import Cli, find_program, wait_until_used

MIB = 1 << 20
SMALL = "profile(intel-x25e, media.erase_blocks_per_plane=64)"
DRIVE = ["--on", SMALL, "--pace", "open"]
MEMORY = ["--on", "memory(bytes=64Mi)"]


def write_trace(path: Path, rows: list[tuple[int, str, int, int]]) -> Path:
    """Write (time in ns, operation, offset, length) as a trace."""
    times, ops, offsets, lengths = zip(*rows, strict=True)
    pq.write_table(
        pa.table({"time_ns": times, "op": ops, "offset": offsets, "length": lengths}), path
    )
    return path


def mixed(count: int, gap_ns: int, pages: int = 1024) -> list[tuple[int, str, int, int]]:
    """Reads and writes of a page, each so long after the one before, with a flush now and then."""
    random = np.random.default_rng(7)
    rows = []
    for number in range(count):
        op = "flush" if number % 50 == 49 else ("read", "write")[number % 2]
        offset, length = (0, 0) if op == "flush" else (int(random.integers(pages)) * 4096, 4096)
        rows.append((number * gap_ns, op, offset, length))
    return rows


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "small.parquet", mixed(500, 100_000))


WRONG_USE = [
    (["small.parquet"], "--on: no device is named"),
    (["nope.parquet", *MEMORY], "no such file"),
    (["-", *MEMORY], "a trace is read more than once here"),
    ([".", *MEMORY], "a folder without a requests.parquet"),
    (["small.parquet", "--on", "nope"], "no such device, file or profile"),
    (["small.parquet", *MEMORY, "--pace", "2,2"], "it is given twice"),
    (["small.parquet", *MEMORY, "--pace", "0"], "--pace"),
    (["small.parquet", *MEMORY, "--pace", "closed(2, factor=2)"], "--pace"),
    (["small.parquet", *MEMORY, "--pace", "open(factor=0)"], "--pace"),
    (["small.parquet", *MEMORY, "--pace", "open(factor=nan)"], "--pace"),
    (["part(small.parquet, ops=erase)", *MEMORY], "is none of read, write, trim and flush"),
    (["part(small.parquet, limit=0)", *MEMORY], "no request of it is selected"),
    (["part(small.parquet, skip=10s)", *MEMORY], "no request of it is selected"),
    (["small.parquet", "--on", "memory(bytes=64Mi, state=aged)"], "has no parameter `state`"),
    (["small.parquet", *MEMORY, "--destroy-data", "x"], "it confirms --write"),
    (
        ["small.parquet", "--on", "disk(file, region=1Mi)", "--write"],
        "a larger device, --fold",
    ),
    (["small.parquet", "--on", "disk(file, region=9Mi)", "--write"], "has 8388608 bytes"),
    (["part(small.parquet, fit=dense)", "--on", "memory(bytes=1Mi)"], "would be a larger device"),
    (
        ["small.parquet", "--on", "file"],
        "add --write if what is on the device may go, or play `part(small.parquet, ops=read)`",
    ),
    (["small.parquet", "--on", "data", "--write"], "--destroy-data data"),
    (["small.parquet", *MEMORY, "--against", "nope"], "no run folder"),
    (["timeless.u32", *MEMORY, "--pace", "open"], "has no times; take a closed pace"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG_USE)
def test_wrong_use_is_one_line_and_nothing_is_left_behind(
    cli: Cli, trace: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_bytes(bytes(8 * MIB))
    (tmp_path / "data").write_bytes(b"somebody's data " * (MIB // 2))
    np.arange(100, dtype="<u4").tofile(tmp_path / "timeless.u32")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = cli("play", *arguments, code=2)
    assert said in done.stderr
    assert done.stderr.splitlines()[-1].startswith("flashwright: error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def counts(row: dict[str, Any]) -> dict[str, int]:
    """Give how many requests of each operation were measured."""
    return {op: one["count"] for op, one in row["latency_ns"].items() if op != "all"}


MIX = {"read": 250, "write": 240, "flush": 10}


def test_the_run_folder_holds_what_was_measured(cli: Cli, trace: Path, tmp_path: Path) -> None:
    done = cli("play", trace, *MEMORY, "--pace", "open", "--out", "run")
    assert "Report: run/report.html" in done.stdout
    assert done.stderr == ""
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["command"], result["complete"]) == ("play", True)
    (row,), source = result["runs"], result["source"]
    assert row["error"] is None
    assert counts(row) == MIX
    assert (row["sent"]["sent"], source["totals"]["requests"], row["requests"]) == (500, 500, 500)
    assert row["sent"]["lateness_ns"]["count"] == 500
    assert source["duration_ns"] == 49_900_000
    assert row["seconds"] > 0.0499
    assert len(source["sources"][0]["sha256"]) == 64
    assert {"flashwright", "command", "seed", "inputs"} <= result["provenance"].keys()
    windows = pl.read_parquet(tmp_path / "run" / "windows.parquet")
    assert windows["requests"].sum() == 500
    assert windows["bytes"].sum() == 490 * 4096
    ends = windows["start_s"] + windows["seconds"]
    assert ends.max() == pytest.approx(row["seconds"]), "the last window ends with the run"
    cells = pl.read_parquet(tmp_path / "run" / "latency_over_time.parquet")
    counted = dict(cells.group_by("op").agg(pl.col("count").sum()).iter_rows())
    assert counted == MIX
    assert (cells["start_s"] + cells["seconds"]).max() == pytest.approx(row["seconds"])
    classes = pl.read_parquet(tmp_path / "run" / "latency.parquet")
    for op, count in MIX.items():
        of_op = classes.filter((pl.col("of") == "latency") & (pl.col("op") == op))
        assert of_op["count"].sum() == count
        assert of_op["to_ns"].max() >= row["latency_ns"][op]["max"]
    (tmp_path / "run" / "report.html").unlink()
    cli("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_paces_take_the_time_that_they_say(cli_json: Callable[..., Any], trace: Path) -> None:
    def seconds(pace: str) -> float:
        return float(cli_json("play", trace, "--on", SMALL, "--pace", pace)["runs"][0]["seconds"])

    assert seconds("open(factor=0.5)") == pytest.approx(0.0998, abs=0.005)
    assert seconds("intervals(1)") >= 0.0499
    one = seconds("1")
    assert seconds("intervals(1, factor=1e6)") == pytest.approx(one, rel=0.02)
    assert seconds("16") < one
    (row,) = cli_json("play", trace, *MEMORY, "--pace", "16")["runs"]
    assert row["sent"]["most_outstanding"] == 16


def test_parts_of_a_trace(cli_json: Callable[..., Any], trace: Path) -> None:
    part = cli_json("play", f"part({trace}, skip=10ms, for=20ms, limit=150)", *DRIVE)
    assert part["runs"][0]["requests"] == 150
    assert part["source"]["totals"]["duration_ns"] == 149 * 100_000

    def of(ops: str) -> dict[str, int]:
        return counts(cli_json("play", f"part({trace}, ops={ops})", *DRIVE)["runs"][0])

    assert of("read") == {"read": 250}
    assert of("write+trim+flush") == {"write": 240, "flush": 10}


def test_what_is_changed_or_left_out_is_told(cli: Cli, tmp_path: Path) -> None:
    rows = [
        (0, "write", 512, 1000),
        (10, "trim", 0, 512),
        (20, "read", 40 * MIB, 3 * MIB),
        (30, "write", 900 * MIB, 4096),
    ]
    trace = write_trace(tmp_path / "odd.parquet", rows)
    drive = ["--on", "memory(bytes=64Mi,sector=4096)", "--pace", "1"]
    for fit, moved in (("fold", 1), ("scale", 3), ("dense", 0)):
        done = cli("play", f"part({trace}, fit={fit})", *drive, "--out", fit)
        result = json.loads((tmp_path / fit / "result.json").read_text())
        said = result["runs"][0]["sent"]["fitted"]
        assert (said["widened"], said["trims_too_short"]) == (1, 1), fit
        assert "not of whole sectors" in " ".join(done.stdout.split())
        assert said["moved"] == moved


def test_a_file_gets_what_the_trace_says_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(16 * MIB))
    trace = write_trace(
        tmp_path / "t.parquet", [(0, "write", MIB, 8192), (0, "read", 0, 4096), (0, "flush", 0, 0)]
    )
    device = ["--on", f"disk({file}, region=4Mi+8Mi)", "--write"]
    done = cli("play", trace, *device, "--pace", "2", "--out", "run")
    assert "8 KiB are written by 1 write, with random data" in " ".join(done.stderr.split())
    after = file.read_bytes()
    written = [at for at in range(0, len(after), 4096) if any(after[at : at + 4096])]
    assert written == [5 * MIB, 5 * MIB + 4096]
    done = cli("play", trace, *device, "--dry-run")
    assert "not played, as asked" in " ".join(done.stdout.split())
    assert file.read_bytes() == after


def test_a_trace_without_times_is_played_in_a_closed_loop(cli: Cli, tmp_path: Path) -> None:
    np.arange(1000, dtype="<u4").tofile(tmp_path / "pages.u32")
    cli("play", "pages.u32", *MEMORY, "--pace", "4", "--out", "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (counts(result["runs"][0]), result["source"]["duration_ns"]) == ({"write": 1000}, None)


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    """A loop device over a file of its own, detached at the end."""
    losetup = find_program("losetup")
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    image = tmp_path / "image"
    image.write_bytes(bytes(16 * MIB))
    made = subprocess.run(
        [losetup, "--find", "--show", "--direct-io=on", image],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        assert not os.environ.get("CI"), made.stderr
        pytest.skip(f"no loop devices: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device
    subprocess.run([losetup, "--detach", device], check=True)


def test_a_loop_device_does_all_of_a_trace_at_every_pace(
    cli_json: Callable[..., Any], trace: Path, loop_device: str
) -> None:
    paces = "--pace=open(factor=5),8,intervals(1,factor=10)"
    result = cli_json("play", trace, "--on", loop_device, "--write", paces)
    assert result["complete"]
    assert result["devices"][0]["kind"] == "block_device"
    assert len(result["runs"]) == 3
    for row in result["runs"]:
        assert counts(row) == MIX
        lateness = row["sent"]["lateness_ns"]
        assert lateness is None or lateness["count"] == 500


def test_two_plays_side_by_side(cli: Cli, trace: Path, tmp_path: Path, browser: Browser) -> None:
    cli("play", trace, *DRIVE, "--out", "first")
    card = ["--on", "sd-card", "--pace", "open", "--fold"]
    done = cli("play", trace, *card, "--against", "first", "--out", "second")
    printed = " ".join(done.stdout.split())
    assert "Against small.parquet on intel-x25e" in printed
    assert "another trace" not in printed
    assert (tmp_path / "second" / "result.json").is_file()
    check_report(browser, tmp_path / "second" / "report.html", least_plots=6, has_titles=True)


def test_the_device_gets_exactly_what_was_recorded(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracers = Path("/sys/kernel/tracing/available_tracers")
    is_traced = os.geteuid() == 0 and tracers.exists() and "blk" in tracers.read_text()
    require(is_traced, "recording needs root, and a kernel with the blk tracer")
    with Supervisor() as supervisor:
        volume = Volume(supervisor, file_systems.find("ext4"))
        volume.on_image(Path("/var/tmp"), 64 * MIB)  # noqa: S108
        device, nomerges = volume.device.path, volume.device.queue / "nomerges"
        before = nomerges.read_text()
        # Long writes from the page cache, pages that are forced, flushes, and trims of what is
        # removed.
        work = (
            f"cd {volume.mount_point} && dd if=/dev/urandom of=a bs=1M count=8 conv=fsync "
            "status=none && dd if=/dev/urandom of=b bs=4k count=200 oflag=direct,dsync status=none "
            "&& rm a && sync -f b && fstrim ."
        )
        cli("record", device, "--out", "rec", "--", "sh", "-c", work)
        volume.unmount()
        write = ["--on", device, "--write", "--destroy-data", device]
        for number, pace in enumerate(("1", "16")):
            more = ["--pace", pace, "--record", f"again{number}", "--out", "run"]
            done = cli("play", "rec", *write, *more)
            result = json.loads((tmp_path / "run" / "result.json").read_text())
            (row,) = result["runs"]
            recorded = result["recorded"]
            # Of 16 at a time a busy kernel may hand one to a worker, and another overtakes it.
            assert recorded["same"] or pace == "16", done.stdout
            assert ("The device got exactly the" in done.stdout) == recorded["same"]
            assert _in_any_order(tmp_path / f"again{number}") == _in_any_order(tmp_path / "rec")
            assert recorded["trace_requests"] == row["sent"]["sent"] > 400
            assert {"write", "flush", "trim"} <= counts(row).keys()
        assert nomerges.read_text() == before
        # The check can fail: another sequence is told, with the first request that differs.
        again = pl.read_parquet(tmp_path / "rec" / "requests.parquet")
        (tmp_path / "other").mkdir()
        swapped = pl.concat([again[:10], again[11:12], again[10:11], again[12:]]).with_columns(
            again["time_ns"]
        )
        pq.write_table(swapped.to_arrow(), tmp_path / "other" / "requests.parquet")
        asked = {"source": "other", "on": [str(device)], "write": True}
        monkeypatch.chdir(tmp_path)
        runs = playing.Playing(playing.plan(playing.settings_of(asked)))
        said = beside.compared(runs, tmp_path / "again0", row)
        assert (said["same"], said["first_difference"]["request"]) == (False, 10)
        assert "did not get" in remarks.recorded(said)


def _in_any_order(recording: Path) -> list[tuple[Any, ...]]:
    requests = pl.read_parquet(recording / "requests.parquet")
    place = pl.when(pl.col("op") == "flush").then(0).otherwise(pl.col("offset"))
    is_played = (pl.col("op") == "flush") | (pl.col("length") > 0)
    return sorted(requests.filter(is_played).select(pl.col("op"), place, pl.col("length")).rows())


def test_a_layer_of_ours_records_where_the_kernel_cannot(cli: Cli, tmp_path: Path) -> None:
    pq.write_table(
        pl.read_parquet(data.TPCC_REQUESTS).head(5000).to_arrow(), tmp_path / "part.parquet"
    )
    for number, device in enumerate(("memory(bytes=4Gi)", "nvme-tlc")):
        into = f"rec{number}"
        words = ["--on", device, "--pace", "8", "--record", into, "--out", f"run{number}"]
        done = cli("play", "part.parquet", *words)
        result = json.loads((tmp_path / f"run{number}" / "result.json").read_text())
        (row,) = result["runs"]
        assert result["recorded"]["same"], done.stdout
        recorded = pl.read_parquet(tmp_path / into / "requests.parquet")
        assert len(recorded) == row["sent"]["sent"]
        assert recorded["latency_ns"].null_count() == 0
        assert recorded["time_ns"].is_sorted()
        assert dict(recorded.group_by("op").len().iter_rows()) == counts(row)
        assert cli("trace", "stats", f"{into}/requests.parquet")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    assert (
        "the folder is not empty"
        in cli("play", "part.parquet", "--on", "nvme-tlc", "--record", "full", code=2).stderr
    )


def test_a_recorded_replay_that_is_killed_leaves_nothing(tmp_path: Path, loop_device: str) -> None:
    tracers = Path("/sys/kernel/tracing/available_tracers")
    require(tracers.exists() and "blk" in tracers.read_text(), "a kernel with the blk tracer")
    write_trace(tmp_path / "slow.parquet", mixed(100, 10_000_000_000))
    queue = Path("/sys/block") / Path(loop_device).name
    before = (queue / "queue/nomerges").read_text()
    assert before.strip() != "2"
    device = ["--on", loop_device, "--write", "--pace", "open"]
    command = ["play", "slow.parquet", *device, "--record", "rec"]
    process = subprocess.Popen(
        [sys.executable, "-m", "flashwright", *command], cwd=tmp_path, stderr=subprocess.DEVNULL
    )

    def is_traced() -> bool:
        return (queue / "trace/enable").read_text().strip() != "0"

    assert until(is_traced, 90), "another recording did not end"
    everything = descendants(process.pid)
    process.kill()
    process.wait()
    assert until(lambda: (queue / "queue/nomerges").read_text() == before)
    assert until(lambda: not is_traced())
    assert until(lambda: not any(map(is_alive, everything)))


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    count = 1_000_000
    # So often that it never sleeps: the work that it did reports how far it is.
    columns = {
        "time_ns": np.arange(count, dtype="u8") * 50_000,
        "op": pa.array(["write"] * count).dictionary_encode(),
        "offset": np.arange(count, dtype="u8") % 1024 * 4096,
        "length": np.full(count, 4096, "u4"),
    }
    pq.write_table(pa.table(columns), tmp_path / "long.parquet")
    words = ["play", "long.parquet", *MEMORY, "--pace", "open", "--out", "run"]
    command = [sys.executable, "-m", "flashwright", *words]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until_used(process, 3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert stderr.startswith("flashwright: stopped after")
    assert stderr.count("\n") == 1
    assert "stopped" in stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (row,) = result["runs"]
    assert (result["complete"], row["ended"]) == (False, "stopped")
    assert 0 < row["sent"]["sent"] == counts(row)["write"] < count
    assert (
        pl.read_parquet(tmp_path / "run" / "windows.parquet")["requests"].sum()
        == row["sent"]["sent"]
    )


def test_a_play_that_is_stopped_before_it_begins_sends_nothing(trace: Path) -> None:
    asked = {"source": str(trace), "on": ["memory(bytes=64Mi)"], "pace": ["open"]}
    progress = _core.Progress()
    progress.cancel()
    with pytest.raises(_core.Cancelled):
        _core.run_job("play", json.dumps(asked).encode(), progress)
