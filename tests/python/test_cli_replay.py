"""`replay`: what it sends, measures and says, on simulated drives, memory, files and loop devices.

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
from flashwright import _core, data, replays
from flashwright.recording import file_systems
from flashwright.recording.volume import Volume
from flashwright.reports import replay_words
from flashwright.runs import Run
from flashwright.sources import Reading
from flashwright.workloads.supervisor import Supervisor
from processes import descendants, is_alive, until
from recordings import require
from support import Cli, find_program, wait_until_used

MIB = 1 << 20
DRIVE = ["--device", "intel-x25e", "--set", "media.erase_blocks_per_plane=64"]
MEMORY = ["--device", "memory(bytes=64Mi)"]


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
    (["small.parquet"], "Missing option '--device'"),
    (["nope.parquet", *MEMORY], "no such file"),
    (["-", *MEMORY], "reads its trace twice"),
    (["synth:uniform?pages=1Ki", *MEMORY], "trace synth"),
    ([".", *MEMORY], "a folder without a requests.parquet"),
    (["small.parquet", "--device", "nope"], "no such device, file or profile"),
    (["small.parquet", *MEMORY, "--depth", "2", "--one-by-one"], "give one of them"),
    (["small.parquet", *MEMORY, "--depth", "0"], "--depth"),
    (["small.parquet", *MEMORY, "--waiting"], "--waiting: it is of --depth"),
    (["small.parquet", *MEMORY, "--depth", "2", "--factor", "2"], "--factor: without --waiting"),
    (["small.parquet", *MEMORY, "--factor", "0"], "--factor"),
    (["small.parquet", *MEMORY, "--factor", "nan"], "--factor"),
    (["small.parquet", *MEMORY, "--reads-only", "--writes-only"], "leave nothing"),
    (["small.parquet", *MEMORY, "--limit", "0"], "--limit 0"),
    (["small.parquet", *MEMORY, "--skip", "10"], "no request of it is selected"),
    (["small.parquet", *MEMORY, "--state", "aged"], "--state: it is for a simulated drive"),
    (["small.parquet", *MEMORY, "--destroy-data", "x"], "it confirms --write"),
    (["small.parquet", *MEMORY, "--region", "1Mi"], "--remap fold lets"),
    (["small.parquet", *MEMORY, "--region", "65Mi"], "--region: memory(bytes=64Mi) has"),
    (
        ["small.parquet", "--device", "memory(bytes=1Mi)", "--remap", "dense"],
        "take a larger device",
    ),
    (
        ["small.parquet", "--device", "file"],
        "add --write if what is on the device may go, or --reads-only",
    ),
    (["small.parquet", "--device", "data", "--write"], "--destroy-data data"),
    (["small.parquet", *MEMORY, "--against", "nope"], "no run folder"),
    (["timeless.u32", *MEMORY], "it has no times; give --depth N or --one-by-one"),
    (["timeless.u32", *MEMORY, "--depth", "1", "--seconds", "1"], "--limit N takes requests"),
    (["volumes.iolog", *MEMORY], "--remap dense"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG_USE)
def test_wrong_use_is_one_line_and_nothing_is_left_behind(
    cli: Cli, trace: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_bytes(bytes(8 * MIB))
    (tmp_path / "data").write_bytes(b"somebody's data " * (MIB // 2))
    np.arange(100, dtype="<u4").tofile(tmp_path / "timeless.u32")
    (tmp_path / "volumes.iolog").write_text(
        "fio version 3 iolog\n0 a add\n0 b add\n1 a write 0 512\n2 b write 0 512\n"
    )
    before = sorted(path.name for path in tmp_path.iterdir())
    done = cli("replay", *arguments, code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_run_folder_holds_what_was_measured(cli: Cli, trace: Path, tmp_path: Path) -> None:
    done = cli("replay", trace, *DRIVE, "--out", "run")
    assert "Report: run/report.html" in done.stdout
    assert done.stderr == ""
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["command"], result["complete"], result["error"]) == ("replay", True, None)
    assert result["requests"] == {"read": 250, "write": 240, "flush": 10}
    assert (result["sent"], result["trace"]["totals"]["requests"]) == (500, 500)
    assert result["lateness_ns"]["max"] == 0, (
        "a drive that is fast and in virtual time is never late"
    )
    assert result["trace_seconds"] == pytest.approx(0.0499)
    assert result["trace_seconds"] < result["seconds"] < result["trace_seconds"] + 0.01
    assert len(result["trace"]["sources"][0]["sha256"]) == 64
    assert {"flashwright", "command", "seed", "inputs"} <= result["provenance"].keys()
    windows = pl.read_parquet(tmp_path / "run" / "windows.parquet")
    assert windows["requests"].sum() == 500
    assert windows["bytes"].sum() == 490 * 4096
    ends = windows["start_s"] + windows["seconds"]
    assert ends.max() == pytest.approx(result["seconds"]), "the last window ends with the replay"
    cells = pl.read_parquet(tmp_path / "run" / "latency_over_time.parquet")
    counted = dict(cells.group_by("op").agg(pl.col("count").sum()).iter_rows())
    assert counted == result["requests"]
    assert (cells["start_s"] + cells["seconds"]).max() == pytest.approx(result["seconds"])
    classes = pl.read_parquet(tmp_path / "run" / "latency.parquet")
    for op, count in result["requests"].items():
        of_op = classes.filter((pl.col("of") == "latency") & (pl.col("op") == op))
        assert of_op["count"].sum() == count
        assert of_op["to_ns"].max() >= result["latency_ns"][op]["max"]
    (tmp_path / "run" / "report.html").unlink()
    cli("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").is_file()


def test_paces_take_the_time_that_they_say(cli_json: Callable[..., Any], trace: Path) -> None:
    def seconds(*more: str) -> float:
        return float(cli_json("replay", trace, *DRIVE, *more)["seconds"])

    assert seconds("--factor", "0.5") == pytest.approx(0.0998, abs=0.005)
    assert seconds("--one-by-one", "--waiting") >= 0.0499
    assert seconds("--one-by-one", "--waiting", "--factor", "1e6") == pytest.approx(
        seconds("--one-by-one"), rel=0.02
    )
    assert seconds("--depth", "16") < seconds("--one-by-one")
    assert cli_json("replay", trace, *DRIVE, "--depth", "16")["most_outstanding"] == 16


def test_the_same_replay_on_a_simulated_drive_gives_the_same(
    cli_json: Callable[..., Any], trace: Path
) -> None:
    command = ("replay", trace, *DRIVE, "--factor", "20")
    assert cli_json(*command) == cli_json(*command)


def test_parts_of_a_trace(cli_json: Callable[..., Any], trace: Path) -> None:
    part = cli_json(
        "replay", trace, *DRIVE, "--skip", "0.01", "--seconds", "0.02", "--limit", "150"
    )
    assert part["sent"] == 150
    assert part["trace"]["totals"]["duration_ns"] == 149 * 100_000
    assert cli_json("replay", trace, *DRIVE, "--reads-only")["requests"] == {"read": 250}
    assert cli_json("replay", trace, *DRIVE, "--writes-only")["requests"] == {
        "write": 240,
        "flush": 10,
    }


def test_what_is_changed_or_left_out_is_told(cli: Cli, tmp_path: Path) -> None:
    rows = [
        (0, "write", 512, 1000),
        (10, "trim", 0, 512),
        (20, "read", 40 * MIB, 3 * MIB),
        (30, "write", 900 * MIB, 4096),
    ]
    trace = write_trace(tmp_path / "odd.parquet", rows)
    drive = ["--device", "memory(bytes=64Mi,sector=4096)", "--one-by-one"]
    for remap in ("fold", "scale", "dense"):
        done = cli("replay", trace, *drive, "--remap", remap, "--out", remap)
        said = json.loads((tmp_path / remap / "result.json").read_text())["fitted"]
        assert (said["widened"], said["trims_too_short"]) == (1, 1), remap
        assert "were not of whole sectors" in done.stdout
        assert said["moved"] == {"fold": 1, "scale": 3, "dense": 0}[remap]


def test_a_file_gets_what_the_trace_says_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(16 * MIB))
    trace = write_trace(
        tmp_path / "t.parquet", [(0, "write", MIB, 8192), (0, "read", 0, 4096), (0, "flush", 0, 0)]
    )
    done = cli(
        "replay",
        trace,
        "--device",
        file,
        "--write",
        "--region",
        "4Mi+8Mi",
        "--depth",
        "2",
        "--out",
        "run",
    )
    assert "8 KiB are written by 1 write, with random data" in done.stderr
    after = file.read_bytes()
    written = [at for at in range(0, len(after), 4096) if any(after[at : at + 4096])]
    assert written == [5 * MIB, 5 * MIB + 4096]
    done = cli("replay", trace, "--device", file, "--write", "--dry-run")
    assert "not played, as asked" in done.stdout
    said = json.loads(
        cli("replay", trace, "--device", file, "--write", "--dry-run", "--json", "-").stdout
    )
    assert said["trace"]["totals"]["written_bytes"] == 8192
    assert file.read_bytes() == after


def test_a_trace_without_times_is_played_in_a_closed_loop(cli: Cli, tmp_path: Path) -> None:
    np.arange(1000, dtype="<u4").tofile(tmp_path / "pages.u32")
    done = cli("replay", "pages.u32", *MEMORY, "--depth", "4", "--out", "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["requests"], result["trace_seconds"]) == ({"write": 1000}, None)
    assert "the trace takes" not in done.stdout


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
    for pace in (
        ["--open-loop", "--factor", "5"],
        ["--depth", "8"],
        ["--one-by-one", "--waiting", "--factor", "10"],
    ):
        result = cli_json("replay", trace, "--device", loop_device, "--write", *pace)
        assert result["complete"]
        assert result["requests"] == {"read": 250, "write": 240, "flush": 10}
        assert result["device"]["kind"] == "block_device"
        assert result["lateness_ns"] is None or result["lateness_ns"]["count"] == 500


def test_two_replays_side_by_side(cli: Cli, trace: Path, tmp_path: Path, browser: Browser) -> None:
    cli("replay", trace, *DRIVE, "--out", "first")
    done = cli(
        "replay",
        trace,
        "--device",
        "sd-card",
        "--remap",
        "fold",
        "--against",
        "first",
        "--out",
        "second",
    )
    assert "Against small.parquet on intel-x25e, at the times of the trace" in done.stdout
    assert "another trace" not in done.stdout
    result = json.loads((tmp_path / "second" / "result.json").read_text())
    assert result["against"]["device"]["name"] == "intel-x25e"
    check_report(browser, tmp_path / "second" / "report.html", least_plots=6, has_titles=True)


def test_the_device_gets_exactly_what_was_recorded(cli: Cli, tmp_path: Path) -> None:
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
        write = ["--device", device, "--write", "--destroy-data", device]
        for number, pace in enumerate((["--one-by-one"], ["--depth", "16"])):
            done = cli("replay", "rec", *write, *pace, "--record", f"again{number}", "--out", "run")
            result = json.loads((tmp_path / "run" / "result.json").read_text())
            assert result["recorded"]["same"], done.stdout
            assert result["recorded"]["trace_requests"] == result["sent"] > 400
            assert {"write", "flush", "trim"} <= result["requests"].keys()
            assert "The device got exactly the" in done.stdout
        assert nomerges.read_text() == before
        # The check can fail: another sequence is told, with the first request that differs.
        again = pl.read_parquet(tmp_path / "rec" / "requests.parquet")
        (tmp_path / "other").mkdir()
        swapped = pl.concat([again[:10], again[11:12], again[10:11], again[12:]]).with_columns(
            again["time_ns"]
        )
        pq.write_table(swapped.to_arrow(), tmp_path / "other" / "requests.parquet")
        run = Run.read(tmp_path / "run")
        said = replays.compare(
            tmp_path / "other" / "requests.parquet",
            Reading(),
            run,
            tmp_path / "again1" / "requests.parquet",
            0,
        )
        assert (said["same"], said["first_difference"]["request"]) == (False, 10)
        assert "did not get" in replay_words.recorded_line(said)


def test_a_layer_of_ours_records_where_the_kernel_cannot(cli: Cli, tmp_path: Path) -> None:
    pq.write_table(
        pl.read_parquet(data.TPCC_REQUESTS).head(5000).to_arrow(), tmp_path / "part.parquet"
    )
    for number, device in enumerate((["--device", "memory(bytes=4Gi)"], ["--device", "nvme-tlc"])):
        into = f"rec{number}"
        done = cli(
            "replay",
            "part.parquet",
            *device,
            "--depth",
            "8",
            "--record",
            into,
            "--out",
            f"run{number}",
        )
        result = json.loads((tmp_path / f"run{number}" / "result.json").read_text())
        assert result["recorded"]["same"], done.stdout
        recorded = pl.read_parquet(tmp_path / into / "requests.parquet")
        assert len(recorded) == result["sent"]
        assert recorded["latency_ns"].null_count() == 0
        assert recorded["time_ns"].is_sorted()
        by_op = dict(recorded.group_by("op").len().iter_rows())
        assert {name: count for name, count in result["requests"].items() if count} == by_op
        assert cli("trace", "stats", f"{into}/requests.parquet")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    assert (
        "the folder is not empty"
        in cli("replay", "part.parquet", "--device", "nvme-tlc", "--record", "full", code=2).stderr
    )


def test_a_recorded_replay_that_is_killed_leaves_nothing(tmp_path: Path, loop_device: str) -> None:
    tracers = Path("/sys/kernel/tracing/available_tracers")
    require(tracers.exists() and "blk" in tracers.read_text(), "a kernel with the blk tracer")
    write_trace(tmp_path / "slow.parquet", mixed(100, 10_000_000_000))
    queue = Path("/sys/block") / Path(loop_device).name
    before = (queue / "queue/nomerges").read_text()
    assert before.strip() != "2"
    command = ["replay", "slow.parquet", "--device", loop_device, "--write", "--record", "rec"]
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
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "replay",
        "long.parquet",
        *MEMORY,
        "--out",
        "run",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until_used(process, 3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert stderr.startswith("flashwright: stopped after")
    assert stderr.count("\n") == 1
    assert "ended before the trace did: it was stopped" in stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["complete"], result["ended"]) == (False, "cancelled")
    assert 0 < result["sent"] == result["requests"]["write"] < count
    assert pl.read_parquet(tmp_path / "run" / "windows.parquet")["requests"].sum() == result["sent"]


def test_a_replay_that_is_stopped_gives_what_it_measured(trace: Path) -> None:
    loaded = _core.load_replay(trace)
    progress = _core.Progress()
    progress.cancel()
    outcome = _core.replay(
        _core.open_device("memory(bytes=64Mi)", access="write"), loaded, progress=progress
    )
    assert outcome["ended"] == "cancelled"
    assert outcome["sent"] == sum(outcome["requests"].values()) < 500
    with pytest.raises(_core.InputError, match="depth is 1000"):
        _core.replay(_core.open_device("memory(bytes=64Mi)"), loaded, pace="closed", depth=1000)
    with pytest.raises(_core.InputError, match="the trace writes"):
        _core.replay(_core.open_device("memory(bytes=64Mi)"), loaded)
