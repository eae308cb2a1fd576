"""Volumes for real: FUSE, loop devices, file systems, nbdkit and its clients, SQLite on top."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import stamped_pages
from flashwright import _core, sqlite
from flashwright._core import InputError, RunError
from flashwright.volumes import mounting, places, units
from flashwright.volumes.mounting import MountPlan
from flashwright.volumes.serving import Serving
from hostile_nbd import FAST_ZERO, NO_HOLE, READ, WRITE, ZEROES, Client, Server, attack
from support import Cli, find_program
from volume_fsx import STACKS as EXERCISED
from volume_fsx import Exerciser
from volume_lives import JOURNALS, STACKS, TWO_DEVICES, live_through

MEBIBYTE = 1 << 20


def made(folder: Path, stack: str = "log_volume(segment=256Ki)", mebibytes: int = 64) -> str:
    """Make a volume on a file."""
    device = folder / "device"
    _core.allocate_file(device, mebibytes * MEBIBYTE)
    _core.create_volume(str(device), stack)
    return str(device)


@contextmanager
def mounted(device: str, directory: Path, make: str | None = "ext4") -> Iterator[places.Mounted]:
    """Mount a volume, and unmount it at the end, whatever happens."""
    directory.mkdir(exist_ok=True)
    one = mounting.mount(mounting.MountPlan(device, directory, make))
    try:
        yield one
    finally:
        if any(other.uuid == one.uuid for other in places.all_mounted()):
            mounting.unmount(one)


# The command line


def test_a_volume_is_made_looked_at_checked_and_destroyed(cli: Cli, tmp_path: Path) -> None:
    device = str(tmp_path / "device")
    done = cli("volume", "create", device, "--size", "16M", "--stack", "log_volume(segment=64Ki)")
    assert "stack log_volume(segment=64Ki)" in done.stdout
    about = json.loads(cli("volume", "info", device, "--json", "-").stdout)
    assert (about["is_clean"], about["openings"], about["notes"]) == (True, 1, [])
    assert about["uuid"] in done.stdout
    assert about["uuid"] in cli("volume", "info", device).stdout
    found = json.loads(cli("volume", "info", device, "--check", "--json", "-").stdout)
    assert (found["bad_bytes"], found["about"]["uuid"]) == (0, about["uuid"])
    destroy = ("volume", "change", device, "--destroy", "--destroy-data")
    assert "repeat the path" in cli(*destroy, "other", code=2).stderr
    assert about["uuid"] in cli(*destroy, device).stdout
    refused = cli("volume", "info", device, code=2)
    assert "no volume is there" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_volume_says_what_memory_it_takes_and_keeps_within_it(
    cli: Cli, tmp_path: Path, can_mount: None
) -> None:
    device, socket = made(tmp_path, "scheduler(buffer=2Mi)|log_volume"), tmp_path / "nbd.sock"
    memory = json.loads(cli("volume", "info", device, "--json", "-").stdout)["memory"]
    assert [layer[0] for layer in memory["layers"]] == ["holes", "scheduler", "log_volume"]
    assert "scheduler 256 KiB of tables" in cli("volume", "info", device).stdout
    mount = ["volume", "mount", device, str(tmp_path)]
    for way in (["serve", device, "--nbd", str(socket)], mount):
        refused = cli(*way, "--memory", "8M", code=2)
        assert "a memory of 8388608 bytes is too little" in refused.stderr
        assert refused.stderr.count("\n") == 1
    figures = tmp_path / "volume.prom"
    more = ("--memory", "40M", "--metrics", str(figures), "--metrics-every", "0.1")
    with served(device, socket, *more) as uri:
        find_program("nbdcopy")
        image = tmp_path / "image"
        image.write_bytes(random.Random(2).randbytes(8 * MEBIBYTE))
        subprocess.run(["nbdcopy", "--flush", image, uri], check=True)
        end = time.monotonic() + 20
        while "memory_most" not in figures.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        (line,) = [
            line
            for line in figures.read_text().splitlines()
            if line.startswith("flashwright_volume_memory_most_bytes{")
        ]
        assert 8 * MEBIBYTE < int(line.rsplit(maxsplit=1)[-1]) <= 40 * MEBIBYTE
    (tmp_path / "other").mkdir()
    unbounded = made(tmp_path / "other", "scheduler(buffer=off)")
    refused = cli("serve", unbounded, "--nbd", "s", "--memory", "1G", code=2)
    assert "buffer=off" in refused.stderr
    assert "unknown: `scheduler`: buffer=off" in cli("volume", "info", unbounded).stdout
    assert "--memory 4096" in units.of_nbd(Serving("/dev/sdb", memory_bytes=4096), Path("/run/s"))


def test_a_file_is_resized_with_its_volume(cli: Cli, tmp_path: Path) -> None:
    device = tmp_path / "device"
    stack = "scheduler(coalesce)|stable_buffer(size=256Ki,page=4Ki)|log_volume(segment=64Ki)"
    cli("volume", "create", str(device), "--size", "12M", "--stack", stack)
    data = random.Random(5).randbytes(MEBIBYTE)
    volume = _core.Volume(str(device))
    before = volume.about()["capacity_bytes"]
    volume.write(3000, data)
    volume.close()
    resized = json.loads(
        cli("volume", "change", str(device), "--size", "32M", "--json", "-").stdout
    )
    assert (resized["before_bytes"], device.stat().st_size) == (before, 32 * MEBIBYTE)
    assert device.stat().st_blocks * 512 >= 20 * MEBIBYTE, "room for what is new is reserved"
    volume = _core.Volume(str(device))
    assert volume.about()["capacity_bytes"] == resized["capacity_bytes"] > 2 * before
    assert volume.read(3000, len(data)) == data
    volume.write(before + MEBIBYTE, b"beyond the old end")
    volume.close()
    refused = cli("volume", "change", str(device), "--size", "12M", code=2)
    assert refused.stderr.count("\n") == 1
    least = int(refused.stderr.rsplit(maxsplit=1)[-1])
    assert 12 * MEBIBYTE < least < 32 * MEBIBYTE
    assert device.stat().st_size == 32 * MEBIBYTE
    said = cli("volume", "change", str(device), "--size", str(least)).stdout
    assert "for its users instead of" in said
    assert device.stat().st_size == least
    cli("volume", "change", str(device), "--size", str(least - 2 * MEBIBYTE), code=2)
    wrong = cli("volume", "change", str(device), "--size", "12M", "--destroy-data", "x", code=2)
    assert "repeat the path" in wrong.stderr
    cli("volume", "change", str(device), "--size", "12M", "--destroy-data", str(device))
    found = json.loads(cli("volume", "info", str(device), "--check", "--json", "-").stdout)
    assert found["bad_bytes"] == 0
    assert _core.volume_about(str(device))["is_clean"]
    assert found["read_bytes"] == before
    volume = _core.Volume(str(device))
    assert volume.read(3000, len(data)) == data
    volume.close()


def test_what_is_left_of_a_volume_is_copied_out(cli: Cli, tmp_path: Path) -> None:
    device, image = made(tmp_path, "log_volume(segment=64Ki)", 16), tmp_path / "image"
    volume = _core.Volume(device)
    volume.write(4096, b"what users had")
    size = volume.about()["capacity_bytes"]
    volume.close()
    before = Path(device).read_bytes()
    said = cli("volume", "info", device, "--salvage", image).stdout
    assert f"{image}: " in said
    held = image.read_bytes()
    assert (len(held), held[4096:4110]) == (size, b"what users had")
    again = cli("volume", "info", device, "--salvage", image, code=2)
    assert "something else is there" in again.stderr
    image.unlink()
    rebuilt = cli("volume", "info", device, "--salvage", image, "--rebuild", "--json", "-", code=1)
    assert json.loads(rebuilt.stdout)["is_rebuilt"]
    assert "it was rebuilt" in rebuilt.stderr
    assert image.read_bytes() == held
    assert Path(device).read_bytes() == before, "it was only read"


def test_what_cannot_be_resized_says_why(cli: Cli, tmp_path: Path) -> None:
    device = made(tmp_path, "replicas", 16)
    refused = cli("volume", "change", device, "--size", "20M", code=2)
    assert "`replicas`" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert Path(device).stat().st_size == 16 * MEBIBYTE, "it has its old size again"
    volume = _core.Volume(device)
    busy = cli("volume", "change", device, "--size", "20M", code=2)
    assert "in use" in busy.stderr or "locked" in busy.stderr
    volume.close()
    missing = cli("volume", "change", str(tmp_path / "none"), "--size", "all", code=2)
    assert "no such file" in missing.stderr


def test_a_block_device_that_grew_is_taken_whole(cli: Cli, tmp_path: Path, can_mount: None) -> None:
    device = made(tmp_path, "log_volume(segment=64Ki)", 8)
    loop = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", device],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    try:
        more = cli("volume", "change", loop, "--size", "16M", code=2)
        assert "only a file can be made larger" in more.stderr
        with Path(device).open("r+b") as file:
            file.truncate(16 * MEBIBYTE)
        subprocess.run(["losetup", "--set-capacity", loop], check=True)
        resized = json.loads(cli("volume", "change", loop, "--size", "all", "--json", "-").stdout)
        assert resized["capacity_bytes"] > 1.5 * resized["before_bytes"]
        cli("volume", "change", loop, "--size", "8M")
        again = json.loads(cli("volume", "change", loop, "--size", "8M", "--json", "-").stdout)
        assert again["capacity_bytes"] == resized["before_bytes"]
    finally:
        subprocess.run(["losetup", "--detach", loop], check=True)


def test_sqlite_files_go_on_in_a_volume_that_was_resized(cli: Cli, tmp_path: Path) -> None:
    device = made(tmp_path, "log_volume(segment=64Ki)", 16)
    with closing(sqlite.connect(device)) as database:
        database.execute("create table t(n, text)")
        database.executemany("insert into t values(?, ?)", [(n, "x" * 500) for n in range(2000)])
        database.commit()
    for size in ("96M", "10M"):
        cli("volume", "change", device, "--size", size)
        with closing(sqlite.connect(device)) as database:
            assert database.execute("select count(*), sum(n) from t").fetchone() == (2000, 1999000)
            assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    refused = cli("volume", "change", device, "--size", "4M", "--destroy-data", device, code=2)
    assert "smallest possible size" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["volume", "create", "device", "--stack", "logvolume"], "log_volume"),
        (["volume", "create", "/nowhere/at/all"], "no such file"),
        (["volume", "create", "full"], "it holds"),
        (["volume", "create", "device", "--size", "1G"], "there is such a file already"),
        (["volume", "create", "device", "--destroy-data", "other"], "repeat the path"),
        (["serve", "device"], "either --fuse or --nbd"),
        (["serve", "device", "--nbd", "s"], "no volume is there"),
        (["serve", "device", "--fuse", "d", "--nbdkit", "--tls=on"], "--nbdkit is for --nbd"),
        (["serve", "device", "--ublk", "--nbd", "s"], "either --fuse or --nbd or --ublk"),
        (["serve", "device", "--nbd", "s", "--read-only"], "--read-only is for --ublk"),
        (["volume", "mount", "device", "d", "--mkfs", "ntfs"], "ext4, ext2, xfs, btrfs"),
        (["volume", "umount", "nothing"], "no mounted volume"),
        (["volume", "mount", "device", "/mnt", "--unit"], "give the whole path"),
        (["volume", "mount", "/dev/sdb", "/mnt", "--unit", "--mkfs", "ext4"], "mount it once"),
        (["serve", "/dev/sdb", "--unit"], "either --fuse or --nbd"),
        (["serve", "/dev/sdb", "--unit", "--fuse", "d"], "--unit is for --nbd"),
        (["serve", "device", "--drive", "--fuse", "d"], "--drive is for an emulated drive"),
        (["serve", "emulated(sd-card)", "--nbd", "s", "--unit"], "--unit is for a volume"),
        (["serve", "emulated(sd-card)", "--nbd", "s", "--memory", "1G"], "is for a volume"),
        (["serve", "emulated(sd-card,colour=red)", "--nbd", "s"], "colour"),
        (["volume", "info", "--check"], "--check is for one volume: name it"),
        (["volume", "info", "device", "--check", "--scrub"], "--check and --scrub"),
        (["volume", "info", "device", "--no-wait"], "--no-wait is for --scrub"),
        (["volume", "info", "device", "--rebuild"], "--rebuild is for --salvage"),
        (["volume", "info", "device", "--every", "1"], "--every is for --live"),
        (["volume", "change", "device"], "give one of --size"),
        (["volume", "change", "device", "--destroy"], "confirm it by --destroy-data device"),
        (["volume", "change", "device", "--size", "8M", "--lose-staged", "x"], "is for --new"),
        (["volume", "create", "emulated(profile=sd-car)"], "sd-card"),
        (["volume", "create", "emulated(profile=sd-card,size=1T)"], "cannot be made larger"),
    ],
)
def test_wrong_use_is_one_line(cli: Cli, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "device").write_bytes(bytes(8 * MEBIBYTE))
    (tmp_path / "full").write_bytes(b"\x07" * 8 * MEBIBYTE)
    (tmp_path / "d").mkdir()
    done = cli(*words, code=2)
    assert said in done.stderr
    assert done.stderr.startswith("flashwright: error: ")
    assert done.stderr.count("\n") == 1


def test_units_of_systemd_name_the_device_and_nothing_else() -> None:
    text = units.of_nbd(Serving("/dev/sdb"), Path("/run/db/nbd.sock"))
    assert "DeviceAllow=/dev/sdb rw" in text
    assert "PrivateNetwork=yes" in text
    assert "ReadWritePaths=/run/db\n" in text
    text = units.of_mount(MountPlan("/dev/sdb", Path("/mnt/db")))
    assert "volume mount /dev/sdb /mnt/db" in text
    assert "Protect" not in text, "what is mounted has to be seen by all"
    text = units.of_mount(
        MountPlan("/srv/volume.img", Path("/mnt/db"), staging="/fast/staging.img")
    )
    assert "RequiresMountsFor=/mnt /srv /fast\n" in text


# The library


@pytest.mark.parametrize("stack", STACKS)
def test_a_volume_in_python_keeps_any_bytes(tmp_path: Path, stack: str) -> None:
    device = made(tmp_path, stack)
    draw = random.Random(stack)
    plain = bytearray(MEBIBYTE)
    volume = _core.Volume(device)
    volume.zero(0, len(plain))
    for _ in range(200):
        offset = draw.randrange(len(plain))
        data = draw.randbytes(min(draw.choice((1, 100, 4096, 50_000)), len(plain) - offset))
        plain[offset : offset + len(data)] = data
        volume.write(offset, data, fua=draw.random() < 0.1)
    assert volume.read(0, len(plain)) == plain
    assert "flashwright_volume_requests_total" in volume.metrics()
    with pytest.raises(InputError, match=r"locked|in use"):
        _core.Volume(device)
    volume.close()
    with pytest.raises(RunError, match="closed"):
        volume.read(0, 1)
    again = _core.Volume(device)
    assert again.read(0, len(plain)) == plain
    again.close()
    assert _core.check_volume(device)["bad_bytes"] == 0


# Mounted


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("stack", STACKS)
def test_a_database_lives_on_a_mounted_volume(tmp_path: Path, stack: str) -> None:
    device, directory = made(tmp_path, stack), tmp_path / "mount"
    with mounted(device, directory) as one:
        assert one.is_served
        with pytest.raises(InputError, match="mounted at"):
            mounting.mount(mounting.MountPlan(device, directory.parent))
        base = sqlite3.connect(directory / "db")
        base.execute("create table t (n integer primary key, text)")
        for _ in range(5):
            with base:
                base.executemany("insert into t (text) values (?)", [("x" * 500,)] * 500)
        base.close()
        subprocess.run(["fstrim", directory], check=True)
    assert not places.Place(one.uuid).folder.exists()
    assert _core.volume_about(device)["is_clean"]
    with mounted(device, directory, None):
        base = sqlite3.connect(directory / "db")
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        assert base.execute("select count(*), sum(length(text)) from t").fetchone() == (
            2500,
            1_250_000,
        )
        base.close()


@pytest.mark.usefixtures("can_mount")
def test_what_a_killed_server_leaves_is_taken_away(tmp_path: Path) -> None:
    device, directory = made(tmp_path), tmp_path / "mount"
    with mounted(device, directory) as one:
        (directory / "kept").write_text("kept")
        os.sync()
        os.kill(one.pid, signal.SIGKILL)
        os.waitpid(one.pid, 0)
        assert not one.is_served
        assert not _core.volume_about(device)["is_clean"]
        again = mounting.mount(mounting.MountPlan(device, _other(tmp_path)))
        assert (tmp_path / "other" / "kept").read_text() == "kept"
        assert not directory.is_mount()
        os.kill(again.pid, signal.SIGKILL)
        os.waitpid(again.pid, 0)
        # At the same place, too.
        again = mounting.mount(mounting.MountPlan(device, tmp_path / "other"))
        assert (tmp_path / "other" / "kept").read_text() == "kept"
        mounting.unmount(again)
    loops = subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout
    assert one.uuid not in loops
    assert one.uuid not in Path("/proc/self/mounts").read_text()


def test_what_a_volume_holds_is_not_destroyed_by_a_file_system(
    cli: Cli, tmp_path: Path, can_mount: None
) -> None:
    device, directory = made(tmp_path, "direct"), _other(tmp_path)
    with closing(sqlite.connect(device)) as database:
        database.execute("create table t(n)")
        database.commit()
    mount = ("volume", "mount", device, str(directory), "--mkfs", "ext4")
    refused = cli(*mount, code=2)
    assert f"add --destroy-data {device}" in refused.stderr
    assert refused.stderr.count("\n") == 1
    with closing(sqlite.connect(device)) as database:
        assert database.execute("select count(*) from t").fetchone() == (0,)
    wrong = cli(*mount, "--destroy-data", "other", code=2)
    assert "repeat the path" in wrong.stderr
    cli(*mount, "--destroy-data", device)
    cli("volume", "umount", str(directory))


@pytest.mark.usefixtures("can_mount")
def test_a_file_system_over_files_leaves_no_directory_of_theirs(tmp_path: Path) -> None:
    """XFS writes over the first copy of it alone."""
    find_program("mkfs.xfs")
    device = made(tmp_path, "direct", 320)
    with closing(sqlite.connect(device)) as database:
        for name in "abc":
            database.execute(f"create table {name}(n)")
            database.commit()
    plan = mounting.MountPlan(device, _other(tmp_path), "xfs", destroys=True)
    mounting.unmount(mounting.mount(plan))
    with pytest.raises(sqlite3.OperationalError, match="something else"):
        sqlite.connect(device)
    assert _core.check_volume(device)["files"] is None


def _other(parent: Path) -> Path:
    other = parent / "other"
    other.mkdir()
    return other


@pytest.mark.usefixtures("can_mount")
def test_a_volume_without_a_file_system_is_said_and_left_alone(tmp_path: Path) -> None:
    device, directory = made(tmp_path), tmp_path / "mount"
    with (
        pytest.raises(InputError, match="--mkfs ext4 makes one"),
        mounted(device, directory, None),
    ):
        pass
    assert _core.volume_about(device)["is_clean"]
    assert not [one for one in places.all_mounted() if one.device == device]


@pytest.mark.usefixtures("can_mount")
def test_the_file_has_no_writes_behind_its_end_and_holes_read_as_zeros(tmp_path: Path) -> None:
    for number, stack in enumerate(STACKS):
        folder = tmp_path / str(number)
        folder.mkdir()
        volume = _core.Volume(made(folder, stack))
        fuse = folder / "fuse"
        fuse.mkdir()
        volume.mount(fuse)
        try:
            path = fuse / places.FILE_NAME
            size = path.stat().st_size
            assert size == volume.about()["capacity_bytes"]
            with path.open("r+b", buffering=0) as file:
                file.write(b"\x05" * MEBIBYTE)
                os.fdatasync(file.fileno())
                subprocess.run(
                    ["fallocate", "--punch-hole", "-o", "100000", "-l", "500000", path], check=True
                )
                file.seek(0)
                expected = bytearray(b"\x05" * MEBIBYTE)
                expected[100_000:600_000] = bytes(500_000)
                assert file.read(MEBIBYTE) == expected, stack
                file.seek(size)
                with pytest.raises(OSError, match="No space left"):
                    file.write(b"x")
            with pytest.raises(PermissionError):
                path.open("wb")
        finally:
            volume.close()


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("stack", EXERCISED)
def test_any_operations_on_the_file_are_those_of_a_plain_array(tmp_path: Path, stack: str) -> None:
    """The long form is `make volume-fsx`."""
    exerciser = Exerciser(tmp_path, stack, seed=1)
    exerciser.run(600)
    exerciser.die()
    exerciser.run(100)
    exerciser.serve_again()
    exerciser.end()


@pytest.mark.usefixtures("can_mount")
@pytest.mark.parametrize("stack", STACKS + TWO_DEVICES)
def test_no_acknowledged_commit_is_lost(tmp_path: Path, stack: str) -> None:
    """Its server is killed, then its drive loses power. The long form is `make volume-lives`."""
    number = (STACKS + TWO_DEVICES).index(stack)
    journal = JOURNALS[number % len(JOURNALS)]
    # Of these seeds the cut comes after some hundred commits at most, not after 14,000.
    life = live_through(tmp_path, stack, journal, (False, True), seed=number + 2)
    assert life.ends[0] == "under load"
    assert life.acknowledged > 0


@pytest.mark.usefixtures("can_mount")
def test_a_server_that_ends_while_its_volume_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed a moment ago, and is still there when it is looked for."""
    directory = tmp_path / "mount"
    directory.mkdir()
    one = mounting.mount(mounting.MountPlan(made(tmp_path), directory, "ext4"))
    detach = mounting._detach

    def killed_meanwhile(mounted: places.Mounted) -> None:
        detach(mounted)
        os.kill(mounted.pid, signal.SIGKILL)
        os.waitpid(mounted.pid, 0)

    monkeypatch.setattr(mounting, "_detach", killed_meanwhile)
    mounting.unmount(one)
    assert not os.path.ismount(directory)
    assert not one.place.folder.exists()


# Over NBD


@contextmanager
def served(device: str, socket: Path, *more: str) -> Iterator[str]:
    """Serve a volume over NBD; gives its URI."""
    find_program("nbdkit")
    words = [sys.executable, "-m", "flashwright", "serve", device, "--nbd", str(socket)]
    server = subprocess.Popen([*words, *more], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while not socket.exists():
            assert server.poll() is None, server.stderr.read() if server.stderr else ""
            assert time.monotonic() < end
            time.sleep(0.02)
        assert socket.stat().st_mode & 0o077 == 0
        yield f"nbd+unix:///?socket={socket}"
    finally:
        server.terminate()
        assert server.wait(60) == 0


@pytest.mark.parametrize("stack", [STACKS[0], STACKS[-1]])
def test_clients_of_nbd_find_what_they_wrote(tmp_path: Path, stack: str) -> None:
    nbdinfo, nbdcopy = find_program("nbdinfo"), find_program("nbdcopy")
    qemu = find_program("qemu-io")
    device, socket = made(tmp_path, stack), tmp_path / "nbd.sock"
    opened = _core.Volume(device)
    size = opened.about()["capacity_bytes"]
    opened.close()
    image = tmp_path / "image"
    image.write_bytes(random.Random(1).randbytes(20 * MEBIBYTE))
    with served(device, socket, "--metrics", str(tmp_path / "volume.prom")) as uri:
        about = json.loads(
            subprocess.run([nbdinfo, "--json", uri], capture_output=True, check=True).stdout
        )["exports"][0]
        assert about["export-size"] == size
        for can in ("can_flush", "can_fua", "can_multi_conn", "can_trim", "can_zero"):
            assert about[can], can
        assert not about["is_read_only"]
        subprocess.run([nbdcopy, "--flush", image, uri], check=True)
        script = ["write -P 7 -f 4096 8192", "read -P 7 4096 8192", "write -z 1000 5000"]
        script += ["read -P 0 1000 5000", "flush", "discard 65536 65536", "aio_write -P 9 3M 1M"]
        script += ["aio_flush", "read -P 9 3M 1M"]
        words = [word for line in script for word in ("-c", line)]
        done = subprocess.run(
            [qemu, "-f", "raw", *words, uri], capture_output=True, text=True, check=True
        )
        assert "verification failed" not in done.stdout + done.stderr
        assert "flashwright_volume" in (tmp_path / "volume.prom").read_text()
    assert "flashwright_volume" in (tmp_path / "volume.prom").read_text(), "the last values stay"
    assert _core.volume_about(device)["is_clean"]
    volume = _core.Volume(device)
    held = volume.read(8 * MEBIBYTE, MEBIBYTE)
    volume.close()
    with image.open("rb") as file:
        file.seek(8 * MEBIBYTE)
        assert held == file.read(MEBIBYTE)


def test_fio_verifies_what_it_wrote_over_nbd(tmp_path: Path) -> None:
    fio = find_program("fio")
    engines = subprocess.run([fio, "--enghelp"], capture_output=True, text=True, check=True).stdout
    if "nbd" not in engines:
        message = "this fio has no engine for NBD"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    device, socket = made(tmp_path, mebibytes=96), tmp_path / "nbd.sock"
    with served(device, socket) as uri:
        subprocess.run(
            [
                *(fio, "--name=verify", "--ioengine=nbd", f"--uri={uri}", "--rw=randwrite"),
                *("--bsrange=512-64k", "--size=32M", "--iodepth=16", "--verify=crc32c"),
                *("--verify_fatal=1", "--verify_state_save=0", "--fsync=50", "--randseed=1"),
                "--blockalign=512",
            ],
            check=True,
            capture_output=True,
            cwd=tmp_path,
        )


@pytest.mark.parametrize("stack", [STACKS[0], STACKS[-1]])
def test_clients_that_keep_to_nothing_harm_nobody(tmp_path: Path, stack: str) -> None:
    find_program("nbdkit")
    outcome = attack(tmp_path, stack, seconds=3, seed=1)
    assert outcome.checked > 0
    assert outcome.requests > 0


def test_a_client_that_asks_for_a_fast_zero_ends_nobody(tmp_path: Path) -> None:
    # nbdkit 1.32 ends itself where its plugin offers none, and does not ask its client first.
    find_program("nbdkit")
    server = Server(tmp_path, "direct")
    try:
        client = Client(server.path)
        with closing(client.link):
            client.shake_hands()
            assert client.ask(WRITE, 0, 4096, b"x" * 4096) == 0
            # Zeros that have to be written are not fast.
            refused = client.ask(ZEROES, 0, 4096, flags=FAST_ZERO | NO_HOLE)
            assert refused in {errno.ENOTSUP, errno.EINVAL}
            assert client.ask(READ, 0, 4096) == 0
            assert client.brought == b"x" * 4096
            assert client.ask(ZEROES, 0, 4096, flags=FAST_ZERO) == 0
            assert client.ask(READ, 0, 4096) == 0
            assert client.brought == bytes(4096)
    finally:
        server.stop()


def test_a_killed_server_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    for number, stack in enumerate(STACKS):
        folder = tmp_path / str(number)
        folder.mkdir()
        device = made(folder, stack)
        draw = random.Random(number)
        durable: dict[int, int] = {}
        for life in range(4):
            durable |= stamped_pages.live(device, life, draw.randrange(3, 30))
            volume = _core.Volume(device)
            stamped_pages.check(volume, durable, (stack, life))
            volume.close()


def test_an_emulated_drive_is_a_block_device_that_says_what_its_flash_does(tmp_path: Path) -> None:
    find_program("nbdkit")
    nbdcopy = find_program("nbdcopy")
    socket, image = tmp_path / "drive.sock", tmp_path / "image"
    image.write_bytes(random.Random(2).randbytes(4 * MEBIBYTE))
    spec = f"emulated(intel-x25e,size=1G,state=fresh,data={tmp_path / 'drive'})"
    words = [sys.executable, "-m", "flashwright", "serve", spec, "--nbd", str(socket)]
    drive = subprocess.Popen([*words, "--metrics", str(tmp_path / "prom")])
    try:
        end = time.monotonic() + 60
        while not socket.exists():
            assert drive.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        uri = f"nbd+unix:///?socket={socket}"
        subprocess.run([nbdcopy, "--flush", image, uri], check=True)
        assert "flashwright_flash_page_programs_total" in (tmp_path / "prom").read_text()
    finally:
        drive.terminate()
        assert drive.wait(60) == 0
    with (tmp_path / "drive").open("rb") as file:
        assert file.read(4 * MEBIBYTE) == image.read_bytes()
