"""`flashwright record` and `run --record`, on a loop device.

What is recorded, and what is left behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from flashwright import InputError
from flashwright.recording import file_systems
from flashwright.recording.recorder import recorded_bytes
from flashwright.recording.tracefs import Tracefs
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from kill_recording import Kill, kill, settings, settings_at_rest
from processes import until
from servers import find_server
from support import Cli, find_program

MIB = 1 << 20
PAGES = 300
FEW = ("--placements", "none,dac")
"""Policies of a demo: all take a minute."""


@pytest.fixture(scope="module", autouse=True)
def _recordable() -> None:
    """Recording needs root and the kernel's blk tracer: CI has both."""
    tracers = Path("/sys/kernel/tracing/available_tracers")
    if os.geteuid() != 0 or not tracers.exists() or "blk" not in tracers.read_text():
        message = "recording needs root, and a kernel with the blk tracer"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture
def volume() -> Iterator[Volume]:
    with Supervisor() as supervisor:
        made = Volume(supervisor, file_systems.find("ext4"))
        made.on_image(Path("/var/tmp"), 64 * MIB)  # noqa: S108
        yield made


def dd(target: Path) -> list[str]:
    return [
        "dd",
        "if=/dev/zero",
        f"of={target}",
        "bs=4096",
        f"count={PAGES}",
        "oflag=direct",
        "status=none",
    ]


def test_what_a_command_writes_is_recorded(volume: Volume, cli: Cli, tmp_path: Path) -> None:
    find_program("blkparse")
    before = settings_at_rest()
    done = cli(
        "record",
        volume.mount_point,
        "--out",
        "rec",
        "--check",
        "--",
        *dd(volume.mount_point / "file"),
    )
    assert settings_at_rest() == before
    assert "blkparse reads the same" in done.stdout
    result = json.loads((tmp_path / "rec" / "result.json").read_text())
    assert result["recording"]["lost_events"] == 0
    assert result["recording"]["state"] == "stopped"
    assert result["recording"]["device"]["name"] == volume.device.name
    requests = pl.read_parquet(tmp_path / "rec" / "requests.parquet")
    writes = requests.filter((pl.col("op") == "write") & (pl.col("length") == 4096))
    assert len(writes) >= PAGES
    assert requests["time_ns"].is_sorted()
    assert len(pl.read_parquet(tmp_path / "rec" / "queued.parquet")) >= PAGES
    by_command = {one["command"]: one["requests"] for one in result["processes"]}
    assert by_command["dd"] >= PAGES
    assert not (tmp_path / "rec" / "raw").exists()
    report = (tmp_path / "rec" / "report.html").read_bytes()
    cli("report", "rec")
    assert (tmp_path / "rec" / "report.html").read_bytes() == report
    played = json.loads(
        cli("play", "rec/requests.parquet", "--on", "nvme-tlc", "--json", "-").stdout
    )
    assert played["runs"][0]["requests"] == len(requests)


def test_only_json_is_printed_where_only_json_is_asked_for(volume: Volume, cli: Cli) -> None:
    script = f"echo mixed in; dd if=/dev/zero of={volume.mount_point}/f bs=4k count=4 oflag=direct"
    done = cli(
        "record", volume.mount_point, "--out", "rec", "--json", "-", "--", "sh", "-c", script
    )
    assert json.loads(done.stdout)["recording"]["state"] == "stopped"
    assert "mixed in" in done.stderr


def test_the_default_folder_is_not_on_the_recorded_device(cli: Cli, tmp_path: Path) -> None:
    """On a machine with one disk it would be; and nothing is left where it would have been."""
    done = cli("record", ".", "--", *dd(tmp_path / "file"))
    found = re.search(r"The recording goes to (\S+),", done.stdout + done.stderr)
    assert found is not None
    folder = Path(found[1])
    try:
        assert (folder / "result.json").is_file()
        assert not (tmp_path / "runs").exists()
        refused = cli("record", ".", "--seconds", "1", "--out", "here/rec", code=2)
        assert "would record itself" in refused.stderr
        assert not (tmp_path / "here").exists()
    finally:
        shutil.rmtree(folder)


def test_a_command_that_fails_is_recorded_and_told(
    volume: Volume, cli: Cli, tmp_path: Path
) -> None:
    command = f"{' '.join(dd(volume.mount_point / 'file'))}; exit 3"
    done = cli("record", volume.device.path, "--out", "rec", "--", "sh", "-c", command, code=3)
    assert "exit code 3" in done.stderr
    assert "error" not in done.stderr
    assert "Next:" in done.stdout
    assert (tmp_path / "rec" / "requests.parquet").exists()
    assert (
        "cannot be started"
        in cli("record", volume.device.path, "--out", "b", "--", "no-such-program", code=2).stderr
    )
    # As a shell gives the end by a signal.
    killed = f"{' '.join(dd(volume.mount_point / 'file'))}; kill -TERM $$"
    done = cli("record", volume.device.path, "--out", "c", "--", "sh", "-c", killed, code=143)
    assert "ended by SIGTERM" in done.stderr


def test_ctrl_c_is_the_end_of_a_recording(volume: Volume, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "record",
        str(volume.device.path),
        "--out",
        "rec",
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert until(lambda: bool(settings()["traced"]))
    subprocess.run(dd(volume.mount_point / "file"), check=True)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "Report:" in stdout
    assert len(pl.read_parquet(tmp_path / "rec" / "requests.parquet")) >= PAGES


def test_a_recording_is_not_replaced(volume: Volume, cli: Cli, tmp_path: Path) -> None:
    record = ["record", volume.mount_point, "--out", "rec"]
    cli(*record, "--", *dd(volume.mount_point / "file"))
    before = (tmp_path / "rec" / "requests.parquet").read_bytes()
    assert "holds a recording" in cli(*record, "--seconds", "0.2", code=2).stderr
    said = cli(
        "bench", "tpcc(items=300,customers=30)", "--for", "0.2", "--record", "rec", code=2
    ).stderr
    assert "holds a recording" in said
    assert (tmp_path / "rec" / "requests.parquet").read_bytes() == before
    # One that came to nothing is in nobody's way.
    volume.unmount()
    idle = ["record", volume.device.path, "--seconds", "0.2", "--out", "idle"]
    assert "got no request" in cli(*idle, code=1).stderr
    assert "got no request" in cli(*idle, code=1).stderr


def test_a_killed_recording_is_finished_later(volume: Volume, cli: Cli, tmp_path: Path) -> None:
    before = settings_at_rest()
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "record",
        str(volume.mount_point),
        "--out",
        "rec",
        "--",
        "sleep",
        "60",
    ]
    process = subprocess.Popen(command, cwd=tmp_path)
    assert until(lambda: bool(settings()["traced"]))
    subprocess.run(dd(volume.mount_point / "file"), check=True)
    assert until(lambda: recorded_bytes(tmp_path / "rec") > PAGES * 48)
    process.kill()
    process.wait()
    assert until(lambda: settings_at_rest() == before)
    done = cli("record", "--finish", "rec", "--keep-raw")
    assert "was killed" in done.stdout
    assert (tmp_path / "rec" / "raw" / "block.blktrace").stat().st_size > PAGES * 48
    assert len(pl.read_parquet(tmp_path / "rec" / "requests.parquet")) > 0
    assert "is finished" in cli("record", "--finish", "rec", code=2).stderr


def test_a_benchmark_is_recorded_on_a_volume_of_its_own(cli: Cli, tmp_path: Path) -> None:
    cli(
        "bench", "tpcc(items=300,customers=30,think_time=2ms)", "--warm-up", "0.5", "--for", "1",
        "--clients", "2", "--db", "sqlite(checkpoint=0.4)", "--record", "rec", "--out", "out",
        "--on", "volume(ext4,size=600M)",
    )  # fmt: skip
    run = json.loads((tmp_path / "out" / "result.json").read_text())
    recording = json.loads((tmp_path / "rec" / "result.json").read_text())["recording"]
    marks = pl.read_parquet(tmp_path / "rec" / "marks.parquet")
    of_kind = {kind: len(part) for (kind,), part in marks.group_by("kind")}
    assert of_kind["transaction"] == run["transactions"]
    assert of_kind["checkpoint"] == len(run["checkpoints"]) > 0
    assert set(marks.filter(pl.col("kind") == "checkpoint")["name"]) == {"asked for"}
    assert of_kind["measurement"] == of_kind["recording"] == 1
    assert recording["file_system"]["type"] == "ext4"
    assert recording["lost_events"] == 0
    # On one clock: most transactions lie between the first request and the last. Not all: some are
    # under way at either end, and where the machine has other work, those at the end may find all
    # they need in memory, with no request after them (158 of 193 once).
    requests = pl.read_parquet(tmp_path / "rec" / "requests.parquet")
    measured = marks.filter(pl.col("kind") == "transaction")
    during = measured.filter(
        (pl.col("end_ns") > 0) & (pl.col("time_ns") < requests["time_ns"].max())
    )
    assert len(during) > 0.5 * len(measured)
    # Nothing of the warm-up is in it.
    [recorded] = marks.filter(pl.col("kind") == "recording").iter_rows(named=True)
    assert recorded["time_ns"] <= 0
    assert requests["time_ns"].max() <= recorded["end_ns"]
    # A commit is durable: there are no fewer flushes than there are seconds, and each has its
    # completion.
    assert requests.filter(pl.col("op") == "flush")["latency_ns"].null_count() <= 2
    purposes = _check_waterfall(cli, tmp_path)
    assert "wal" in purposes
    # Where the machine has other work, a checkpoint may write before or after this second.
    is_within = [one["start_s"] >= 0 and one["end_s"] <= 1 for one in run["checkpoints"]]
    assert "heap" in purposes or not any(is_within)
    assert recording["file_system"]["mount_point"] not in Path("/proc/self/mounts").read_text()


def _check_waterfall(cli: Cli, tmp_path: Path) -> set[str]:
    """Bytes add up by purpose, and come down from the calls to the flash.

    Gives the purposes of what was written to the device.
    """
    done = cli("waterfall", "rec", "--on", "nvme-tlc", "--out", "fall")
    assert "For every byte the database wrote" in done.stdout
    layers = json.loads((tmp_path / "fall" / "result.json").read_text())["waterfall"]["layers"]
    assert list(layers) == ["calls", "pages", "queued", "device", "flash"]
    for ops in layers.values():
        for figures in ops.values():
            assert sum(figures["by_purpose"].values()) == figures["bytes"]
    writes = {name: ops["write"] for name, ops in layers.items()}
    assert writes["pages"]["bytes"] >= writes["calls"]["bytes"]
    assert writes["flash"]["bytes"] >= writes["device"]["bytes"] * 0.8
    assert writes["queued"]["bytes"] == pytest.approx(writes["device"]["bytes"], rel=0.05)
    report = (tmp_path / "fall" / "report.html").read_bytes()
    cli("report", "fall")
    assert (tmp_path / "fall" / "report.html").read_bytes() == report
    assert "no recording with the calls" in cli("waterfall", "out", code=2).stderr
    return set(writes["device"]["by_purpose"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record"], "what is to be recorded"),
        (["record", "/nowhere"], "/nowhere: No such file"),
        (["record", "/proc"], "on no block device that can be traced"),
        (["record", ".", "--out", "rec"], "the recording would record itself"),
        (["record", "--finish", "."], "no run folder"),
        (["bench", "tpcc", "--on", "volume(ext5)"], "unknown file system `ext5`"),
        (["bench", "tpcc", "--on", "volume(size=4M)"], "ext4 needs 16,777,216 at least"),
        (["bench", "tpcc", "--on", "volume", "--keep"], "--keep is for a folder that is there"),
        (["bench", "tpcc", "--destroy-data", "/dev/sda"], "it must repeat the device of --on"),
        (["bench", "tpcc", "--on", "/etc/passwd"], "neither a folder nor a block device"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments: list[str], said: str, cli: Cli) -> None:
    done = cli(*arguments, code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_device_is_overwritten_only_if_told(volume: Volume, cli: Cli) -> None:
    node = str(volume.device.path)
    assert "say so with --destroy-data" in cli("bench", "tpcc", "--on", node, code=2).stderr
    said = cli("bench", "tpcc", "--on", node, "--destroy-data", node, code=2).stderr
    assert "mounted" in said or "in use" in said
    volume.unmount()
    done = cli(
        "bench",
        "tatp(scale=100)",
        "--for",
        "0.3",
        "--on",
        node,
        "--destroy-data",
        node,
        "--record",
        "rec",
    )
    assert "The database is consistent." in done.stdout


def test_two_recordings_at_once_are_refused() -> None:
    with Supervisor() as supervisor:
        first = Tracefs(supervisor)
        with pytest.raises(InputError, match="another recording goes on"):
            Tracefs(supervisor, patience_s=0.2)
        first.close()
        Tracefs(supervisor).close()


@pytest.mark.parametrize(
    "one",
    [
        Kill("us", "sqlite", 0.5, is_recording=True),
        Kill("supervisor", "sqlite", 0.3, is_recording=True),
        Kill("database", "postgres", 0.2, is_recording=True),
        Kill("us", "postgres", 1.5, is_recording=False),
    ],
    ids=str,
)
def test_kill_9_leaves_nothing_but_the_trace(one: Kill, tmp_path: Path) -> None:
    """The short form of tests/python/kill_recording.py."""
    if one.database == "postgres":
        find_server()
    with Supervisor() as supervisor:
        work = supervisor.folder(Path("/var/tmp"), "flashwright-test-", mode=0o755)  # noqa: S108
        said = kill(one, work)
    assert said == ("read" if one.is_recording and one.victim != "database" else said)


def test_what_the_kernel_had_no_room_for_is_counted_and_the_rest_is_read(
    volume: Volume, tmp_path: Path
) -> None:
    find_program("blkparse")
    options = ["--out", "rec", "--trace-buffer", "4k", "--check"]
    command = [sys.executable, "-m", "flashwright", "record", str(volume.device.path), *options]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert until(lambda: bool(settings()["traced"]))
    # Nobody reads meanwhile, and the buffer holds some hundred events.
    process.send_signal(signal.SIGSTOP)
    for _ in range(4):
        subprocess.run(dd(volume.mount_point / "file"), check=True)
    process.send_signal(signal.SIGCONT)
    subprocess.run(dd(volume.mount_point / "file"), check=True)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "blkparse reads the same" in stdout
    assert "events were LOST" in stdout
    result = json.loads((tmp_path / "rec" / "result.json").read_text())
    assert result["recording"]["lost_events"] > PAGES
    assert len(pl.read_parquet(tmp_path / "rec" / "requests.parquet")) > 0


def test_ctrl_c_in_the_warm_up_of_a_recorded_run_is_told_as_such(tmp_path: Path) -> None:
    run = [
        "bench",
        "tpcc(items=300,customers=30)",
        "--warm-up",
        "300",
        "--for",
        "300",
        "--on",
        "volume(size=200M)",
    ]
    command = [sys.executable, "-m", "flashwright", *run, "--record", "rec", "--out", "out"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Calls are recorded from the warm-up on.
    assert until((tmp_path / "rec" / "raw" / "calls.copier.json").exists, 120)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "got no request while it was recorded" in stdout
    assert json.loads((tmp_path / "out" / "result.json").read_text())["transactions"] == 0


def test_a_device_that_gets_nothing_is_told(volume: Volume, cli: Cli) -> None:
    volume.unmount()
    assert (
        "got no request"
        in cli("record", volume.device.path, "--seconds", "0.5", "--out", "idle", code=1).stderr
    )


def test_blktrace_records_where_it_is_allowed_and_tells_where_not(
    volume: Volume, cli: Cli, tmp_path: Path
) -> None:
    find_program("blktrace")
    before = settings_at_rest()
    target = volume.mount_point
    done = cli(
        "record",
        target,
        "--tracer",
        "blktrace",
        "--out",
        "rec",
        "--check",
        "--",
        *dd(target / "file"),
        code=None,
    )
    assert settings_at_rest() == before
    if done.returncode == 0:
        assert "blkparse reads the same" in done.stdout
        assert len(pl.read_parquet(tmp_path / "rec" / "requests.parquet")) >= PAGES
    else:
        # A locked-down kernel refuses its relay files.
        assert done.returncode == 2
        assert "blktrace cannot trace" in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_demo_records_a_database_and_studies_what_it_got(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flashwright", "demo", "--for", "3", "--op", "0.28", *FEW]
    done = subprocess.run(
        [*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "recorded just now" in done.stdout
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    # A trace of seconds is too short to be steady when it is played once.
    again = done.stdout.count("playing the trace twice as often")
    assert result["workloads"][0]["repeat"] % 2**again == 0
    share = sum(row["steady"] for row in result["results"]) / len(result["results"])
    assert again == 2 or share >= 0.5
    whole, data_pages = result["workloads"]
    assert "data_pages" in data_pages["name"]
    assert 0 < data_pages["page_writes"] < whole["page_writes"]
    recording = tmp_path / "runs" / "demo-recording"
    owners = pl.read_parquet(recording / "owners.parquet")
    requests = pl.read_parquet(recording / "requests.parquet")
    assert len(owners) == len(requests)
    written = (
        requests.with_columns(owners["purpose"])
        .filter(pl.col("op") == "write")["purpose"]
        .cast(pl.String)
    )
    # SQLite writes its log first, then the pages of its tables and indexes.
    assert {"wal", "heap", "index"} <= set(written)
    assert written.to_list().count("other") < 0.05 * len(written)


def test_the_demo_takes_the_shipped_trace_where_nothing_can_be_recorded(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = cli("demo", "--for", "2", "--op", "0.28", *FEW, "--out", "out")
    assert "Nothing can be recorded here: losetup is not installed" in done.stdout
    assert "PostgreSQL" in done.stdout
