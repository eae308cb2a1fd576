"""The tracer of the block layer: its raw pages, and what becomes of them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from flashwright import InputError, RunError
from flashwright.recording import file_systems
from flashwright.recording.block import ACTIONS, BlockTracer, is_there
from flashwright.recording.block_pages import HEADER, Header, make_stream, name_of, pages_in
from flashwright.recording.call_copier import Pages
from flashwright.recording.finish import finish
from flashwright.recording.recorder import BLOCK_STREAM, RAW, Recorder
from flashwright.recording.tools import tool
from flashwright.recording.tracefs import ROOT, Tracefs, entries
from flashwright.recording.volume import Volume
from flashwright.workloads.supervisor import Supervisor
from processes import until
from recordings import require
from support import Cli, find_program

MIB = 1 << 20
PAGES = 400
BEGIN = 40 * MIB
MAGIC = bytes([7, 0x74, 0x61, 0x65])


@pytest.fixture(autouse=True)
def _recordable() -> None:
    require(
        os.geteuid() == 0 and is_there(), "recording needs root, and a kernel with the blk tracer"
    )


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as made:
        yield made


@pytest.fixture
def volume(supervisor: Supervisor) -> Volume:
    made = Volume(supervisor, file_systems.find("ext4"))
    made.on_image(Path("/var/tmp"), 64 * MIB)  # noqa: S108
    return made


def write_pages(target: Path) -> None:
    command = [
        "dd",
        "if=/dev/zero",
        f"of={target}",
        "bs=4096",
        f"count={PAGES}",
        "oflag=direct",
        "status=none",
    ]
    subprocess.run(command, check=True)


def test_pages_become_the_very_stream_that_the_kernel_would_write(
    supervisor: Supervisor, volume: Volume, tmp_path: Path
) -> None:
    tracefs = Tracefs(supervisor, patience_s=60.0)
    enable = volume.device.trace / "enable"
    try:
        for path, value in (
            (ROOT / "current_tracer", "blk"),
            (ROOT / "trace_clock", "mono"),
            (ROOT / "buffer_size_kb", "4096"),
            (ROOT / "options/bin", "1"),
            (ROOT / "options/context-info", "0"),
        ):
            tracefs.set(path, value)
        (ROOT / "trace").write_text("")
        tracefs.at_end(enable, "0")
        (volume.device.trace / "act_mask").write_text(ACTIONS)
        enable.write_text("1")
        write_pages(volume.mount_point / "file")
        enable.write_text("0")
        # Reading `trace` takes nothing out of the buffer.
        of_kernel = (ROOT / "trace").read_bytes()
        header = Header.of_kernel().write(tmp_path)
        for cpu in sorted(ROOT.glob("per_cpu/cpu*")):
            pages = Pages(cpu, tmp_path / name_of(cpu), header.page_bytes)
            while pages.take_all():
                pass
            pages.close()
        header.close()
    finally:
        tracefs.close()
    of_kernel = of_kernel[of_kernel.index(MAGIC) :]
    counts = make_stream(tmp_path, tmp_path / "stream")
    ours = (tmp_path / "stream").read_bytes()
    assert counts["records"] >= 3 * PAGES
    assert counts["other_events"] == counts["cut_bytes"] == counts["missed_events"] == 0
    assert len(ours) == len(of_kernel)
    assert ours == of_kernel
    assert [path.name for path in tmp_path.iterdir()] == ["stream"]


def test_the_tracer_is_found_where_tracefs_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashwright.recording.tracefs.ROOT", tmp_path)
    # It is mounted below a folder of this test: others mount theirs at the same time.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert is_there()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_events_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("user_stack", 13), ("bputs", 16)):
        path = tmp_path / "events/ftrace" / name / "format"
        path.parent.mkdir(parents=True)
        path.write_text(f"name: {name}\nID: {number}\nformat:\n")
    (tmp_path / "events/header_page").write_text(
        "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
    )
    monkeypatch.setattr("flashwright.recording.block_pages.ROOT", tmp_path)
    with pytest.raises(InputError, match="user_stack is number 13 and bputs 16"):
        Header.of_kernel()
    bputs = tmp_path / "events/ftrace/bputs/format"
    bputs.write_text(bputs.read_text().replace("16", "15"))
    assert (Header.of_kernel().event, Header.of_kernel().page_bytes) == (14, 4096)
    bputs.unlink()
    with pytest.raises(InputError, match="bputs/format: No such file"):
        Header.of_kernel()


def test_a_full_disk_ends_a_recording_at_once(
    supervisor: Supervisor, volume: Volume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_written = threading.Event()
    looked: set[int] = set()

    def full(self: Pages) -> int:
        # Of each processor, the first look after the requests finds room.
        if id(self) in looked:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if is_written.is_set():
            looked.add(id(self))
        return real(self)

    real = Pages.take_all
    monkeypatch.setattr(Pages, "take_all", full)
    recorder = Recorder(supervisor, volume.device, tmp_path / "rec", command=[], patience_s=60.0)
    try:
        recorder.prepare()
        recorder.start()
        write_pages(volume.mount_point / "file")
        is_written.set()
        assert until(lambda: recorder.has_failed)
        with pytest.raises(
            RunError,
            match="the disk is full, and the recording ended there; `flashwright record --finish",
        ):
            recorder.stop()
    finally:
        recorder.close()
    monkeypatch.undo()
    run = finish(tmp_path / "rec")
    assert run.result["recording"]["state"] == "killed"
    assert pl.read_parquet(run.table_files["requests"]).height > 0


def test_a_command_that_is_recorded_ends_when_the_disk_is_full(
    supervisor: Supervisor, volume: Volume, tmp_path: Path
) -> None:
    small = Volume(supervisor, file_systems.find("ext2"))
    small.on_image(Path("/var/tmp"), small.file_system.least_bytes)  # noqa: S108
    with (small.mount_point / "filler").open("wb") as filler:
        room = os.statvfs(small.mount_point)
        filler.write(bytes(room.f_bavail * room.f_frsize - MIB))
    loop = (
        f"while true; do dd if=/dev/zero of={volume.mount_point}/file bs=4096 count={PAGES} "
        "oflag=direct; done"
    )
    command = [
        sys.executable,
        "-m",
        "flashwright",
        "record",
        str(volume.mount_point),
        "--out",
        str(small.mount_point / "rec"),
    ]
    done = subprocess.run(
        [*command, "--", "sh", "-c", loop],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "the disk is full" in done.stderr
    assert (
        f"{volume.mount_point}/file"
        not in subprocess.run(["ps", "ax"], capture_output=True, text=True, check=True).stdout
    )
    assert pages_in(small.mount_point / "rec" / RAW)


def test_nothing_is_finished_while_it_is_recorded(
    supervisor: Supervisor, volume: Volume, tmp_path: Path
) -> None:
    recorder = Recorder(supervisor, volume.device, tmp_path, command=[], patience_s=60.0)
    try:
        recorder.prepare()
        recorder.start()
        before = entries()
        write_pages(volume.mount_point / "file")
        assert recorder.events >= before + 3 * PAGES
        child = (
            "import sys; from flashwright.recording.finish import finish; from pathlib import "
            "Path; finish(Path(sys.argv[1]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", child, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "it is still being recorded" in done.stderr
        recorder.stop()
    finally:
        recorder.close()
    finish(tmp_path)
    assert (tmp_path / RAW / BLOCK_STREAM).read_bytes().startswith(MAGIC)
    assert not (tmp_path / RAW / HEADER).exists()


def test_pages_are_removed_when_their_stream_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording cannot be made again: it has to survive a crash of the machine, too."""
    page, stream = tmp_path / "block.cpu0.pages", tmp_path / BLOCK_STREAM
    page.write_bytes(b"page")
    (tmp_path / HEADER).write_text('{"header_page": "", "event": 1}')

    def write(_pages: list[Path], _head: str, _event: int, whole: Path, _more: Any) -> Any:
        whole.write_bytes(MAGIC)
        return {}

    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr("flashwright.recording.block_pages.write_blk_stream", write)
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, page.exists()))
    )
    make_stream(tmp_path, stream)
    assert synced == [(stream.stat().st_ino, True)]
    assert list(tmp_path.iterdir()) == [stream]


def test_a_page_that_is_cut_is_told(
    supervisor: Supervisor, volume: Volume, cli: Cli, tmp_path: Path
) -> None:
    recorder = Recorder(supervisor, volume.device, tmp_path / "rec", command=[], patience_s=60.0)
    try:
        recorder.prepare()
        recorder.start()
        write_pages(volume.mount_point / "file")
        assert isinstance(recorder._block, BlockTracer)
        recorder._block.stop()
    finally:
        recorder.close()
    cut = max(pages_in(tmp_path / "rec" / RAW), key=lambda path: path.stat().st_size)
    with cut.open("ab") as pages:
        pages.write(cut.read_bytes()[:100])
    assert "cut off" in cli("record", "--finish", "rec").stdout
    assert (
        json.loads((tmp_path / "rec" / "result.json").read_text())["recording"]["torn_records"] == 1
    )


@pytest.fixture
def partitions(supervisor: Supervisor) -> tuple[Path, Path]:
    """Two partitions of a loop device; the second begins at 40 MiB."""
    find_program("sfdisk")
    find_program("partx")
    image = supervisor.folder(Path("/var/tmp"), "flashwright-test-") / "image"  # noqa: S108
    image.write_bytes(bytes(80 * MIB))
    table = (
        f"label: gpt\nstart={MIB // 512},size={32 * MIB // 512}\n"
        f"start={BEGIN // 512},size={32 * MIB // 512}\n"
    )
    subprocess.run(["sfdisk", "--quiet", image], input=table, text=True, check=True)
    end = (
        'node=$(losetup --associated "$1" | cut -d: -f1); partx --delete "$node"; losetup --detach '
        '"$node"'
    )
    supervisor.undo("sh", "-c", end, "sh", image)
    node = tool("losetup", "--find", "--show", "--direct-io=on", image)
    # Not every kernel reads tables of partitions by itself.
    tool("partx", "--add", node)
    made = (Path(f"{node}p1"), Path(f"{node}p2"))
    assert until(lambda: all(path.is_block_device() for path in made))
    return made


def test_offsets_of_a_partition_count_from_its_begin(
    partitions: tuple[Path, Path], cli: Cli, tmp_path: Path
) -> None:
    find_program("blkparse")
    first, second = partitions
    write = "dd if=/dev/zero bs=4096 count=3 oflag=direct status=none seek=5 of="
    done = cli(
        "record",
        second,
        "--out",
        "rec",
        "--check",
        "--",
        "sh",
        "-c",
        f"{write}{first}; {write}{second}",
    )
    assert "blkparse reads the same" in done.stdout
    for table in ("requests", "queued"):
        found = pl.read_parquet(tmp_path / "rec" / f"{table}.parquet").filter(
            pl.col("op") == "write"
        )
        # The requests of the other partition are not in it.
        assert found["offset"].to_list() == [4096 * page for page in (5, 6, 7)]
    said = json.loads((tmp_path / "rec" / "result.json").read_text())["recording"]
    assert said["subtracted_bytes"] == said["device"]["start_bytes"] == BEGIN
    assert (
        f"the begin of the partition, which is at byte {BEGIN:,}"
        in (tmp_path / "rec" / "report.html").read_text()
    )


def test_files_on_a_partition_are_known(
    partitions: tuple[Path, Path], cli: Cli, tmp_path: Path
) -> None:
    node = partitions[1]
    run = [
        "bench",
        "tatp(scale=100)",
        "--for",
        "0.5",
        "--on",
        node,
        "--destroy-data",
        node,
    ]
    cli(*run, "--record", "rec", "--out", "out")
    owners = pl.read_parquet(tmp_path / "rec" / "owners.parquet")["purpose"].cast(pl.String)
    requests = pl.read_parquet(tmp_path / "rec" / "requests.parquet")
    written = [
        owner
        for owner, op in zip(owners, requests["op"].cast(pl.String), strict=True)
        if op == "write"
    ]
    # With places that are off by the partition's begin nothing would be known. A rollback journal
    # that came and went between two looks is not, which on a busy machine may be many writes.
    assert {"heap", "wal", "journal"} <= set(written)
    assert written.count("other") < 0.5 * len(written)
    assert requests.filter(pl.col("offset") >= 32 * MIB).is_empty()
