"""Traps of another user where root reads and writes: links, FIFOs, folders, sockets.

Each test lays the trap as the other user would, lets root's code walk by, and looks at what the
trap would have hit.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashwright import InputError, RunError, _paths
from flashwright.recording import tracefs
from flashwright.recording.extent_watcher import Watcher
from flashwright.recording.finish import finish
from flashwright.recording.recorder import RAW, Recorder, check_folder
from flashwright.recording.running import Running
from flashwright.recording.volume import _write
from flashwright.volumes import serving
from flashwright.workloads.databases.place import evict
from flashwright.workloads.databases.server import Server, run_as
from flashwright.workloads.pgbench import _Reader
from flashwright.workloads.supervisor import Account, Supervisor
from recordings import require

NOBODY = 65_534


@pytest.fixture(autouse=True)
def root() -> None:
    require(os.geteuid() == 0, "another user's traps are for root")


@pytest.fixture(autouse=True)
def no_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Give a folder of another user's."""
    made = tmp_path / "theirs"
    made.mkdir()
    os.chown(made, NOBODY, NOBODY)
    return made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Give a file of root's, in a folder of root's."""
    folder = tmp_path / "of_root"
    folder.mkdir(mode=0o700)
    made = folder / "secret"
    made.write_text("secret")
    made.chmod(0o600)
    return made


def plant(path: Path, target: Path) -> Path:
    """Make a link as the other user would."""
    path.symlink_to(target)
    os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return path


# The few ways in


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT])
def test_no_link_is_followed(theirs: Path, secret: Path, flags: int) -> None:
    plant(theirs / "last", secret)
    plant(theirs / "folder", secret.parent)
    plant(theirs / "new", secret.parent / "new")
    for path in (theirs / "last", theirs / "folder" / "secret", theirs / "new"):
        with pytest.raises(OSError, match="link"):
            _paths.open_plain(path, flags)
    assert sorted(secret.parent.iterdir()) == [secret]
    assert secret.read_text() == "secret"


def test_only_files_and_folders_are_opened(theirs: Path) -> None:
    """A FIFO would be waited for without end; a device may act when it is opened."""
    os.mkfifo(theirs / "fifo")
    os.mknod(theirs / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    for name in ("fifo", "null"):
        with pytest.raises(OSError, match="neither a file nor a folder"):
            _paths.open_plain(theirs / name)
    os.close(_paths.open_plain(theirs))


def test_a_hard_link_to_a_file_of_root_is_none_of_theirs(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("secret")
    (theirs / "postmaster.pid").hardlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="it belongs to root"):
        _paths.read_plain(theirs / "postmaster.pid", owner=NOBODY)


def test_a_text_without_end_is_not_read(theirs: Path) -> None:
    with (theirs / "long").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="File too large"):
        _paths.read_plain(theirs / "long")


def test_what_was_looked_at_is_what_is_opened(
    theirs: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link takes the file's place between the look and the open."""
    path = theirs / "file"
    path.write_text("theirs")
    look = os.fstat

    def swapped(handle: int) -> os.stat_result:
        found = look(handle)
        if path.exists() and not path.is_symlink():
            path.unlink()
            plant(path, secret)
        return found

    monkeypatch.setattr(os, "fstat", swapped)
    assert _paths.read_plain(path) == "theirs"
    assert path.is_symlink()


def test_what_is_written_beside_goes_through_no_link(theirs: Path, secret: Path) -> None:
    plant(theirs / "note.json", secret)
    _paths.write_whole(theirs / "note.json", "whole")
    assert secret.read_text() == "secret"
    assert (theirs / "note.json").read_text() == "whole"
    assert not (theirs / "note.json").is_symlink()
    # Not that of the link, which lets everybody write.
    assert not (theirs / "note.json").stat().st_mode & 0o022


def test_what_cannot_be_written_whole_leaves_nothing_beside(tmp_path: Path) -> None:
    note = tmp_path / "note"
    _paths.write_whole(note, "old")
    with pytest.raises(UnicodeEncodeError):
        _paths.write_whole(note, "\udcff")
    assert note.read_text() == "old"
    assert list(tmp_path.iterdir()) == [note]


def test_a_folder_that_is_given_away_is_no_link(theirs: Path, secret: Path) -> None:
    plant(theirs / "data", secret.parent)
    with pytest.raises(OSError, match="link"):
        _paths.give_folder(theirs / "data", NOBODY, NOBODY, 0o777)
    (theirs / "third").mkdir()
    os.chown(theirs / "third", 1, 1)
    with pytest.raises(PermissionError, match="it belongs to"):
        _paths.give_folder(theirs / "third", NOBODY, NOBODY, 0o777)
    about = secret.parent.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (0, 0o700)


# Whom a path is trusted to


def owned(path: Path, mode: int, uid: int = 0, gid: int = 0) -> Path:
    path.mkdir()
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "said"),
    [
        (0o700, 0, 0, None),
        (0o775, 0, 0, None),
        (0o1777, 0, 0, None),
        (0o777, 0, 0, "every user"),
        (0o775, 0, NOBODY, "the group nogroup"),
        (0o1775, 0, NOBODY, None),
        (0o700, NOBODY, NOBODY, "belongs to nobody"),
        (0o1777, NOBODY, NOBODY, "belongs to nobody"),
    ],
)
def test_who_may_change_a_folder(
    tmp_path: Path, mode: int, uid: int, gid: int, said: str | None
) -> None:
    folder = owned(tmp_path / "folder", mode, uid, gid)
    for path in (folder, folder / "there is none yet", folder / "a" / ".." / "b"):
        if said is None:
            _paths.check_trusted(path)
        else:
            with pytest.raises(PermissionError, match=said):
                _paths.check_trusted(path)


def test_a_link_is_trusted_by_who_made_it_and_where_it_leads(tmp_path: Path) -> None:
    owned(tmp_path / "good", 0o755)
    owned(tmp_path / "bad", 0o755, NOBODY)
    sticky = owned(tmp_path / "sticky", 0o1777)
    (sticky / "ours").symlink_to(tmp_path / "good")
    _paths.check_trusted(sticky / "ours" / "file")
    plant(sticky / "theirs", tmp_path / "good")
    with pytest.raises(PermissionError, match=r"the link .* belongs to nobody"):
        _paths.check_trusted(sticky / "theirs" / "file")
    (tmp_path / "into").symlink_to("bad")
    with pytest.raises(PermissionError, match="bad belongs to nobody"):
        _paths.check_trusted(tmp_path / "into" / "file")
    (tmp_path / "over").symlink_to("bad/none yet")
    with pytest.raises(PermissionError, match="bad belongs to nobody"):
        _paths.check_trusted(tmp_path / "over" / "file")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="symbolic links"):
        _paths.check_trusted(tmp_path / "round")


def test_who_called_sudo_is_trusted(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    _paths.check_trusted(theirs)
    monkeypatch.setenv("SUDO_UID", "1")
    with pytest.raises(PermissionError, match="belongs to nobody"):
        _paths.check_trusted(theirs)


@pytest.mark.parametrize(
    ("members", "is_private"), [([], True), (["root", "nobody"], True), (["nobody", "sys"], False)]
)
def test_a_group_with_a_third_user_is_not_private(
    theirs: Path, monkeypatch: pytest.MonkeyPatch, members: list[str], *, is_private: bool
) -> None:
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    group = SimpleNamespace(gr_name="nobody", gr_mem=members)
    monkeypatch.setattr("grp.getgrgid", lambda _gid: group)
    theirs.chmod(0o775)
    if is_private:
        _paths.check_trusted(theirs)
        return
    with pytest.raises(PermissionError, match="written to by the group nobody"):
        _paths.check_trusted(theirs)


def test_folders_are_made_in_trusted_ones_alone(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        _paths.make_folder(theirs / "a" / "b")
    assert not list(theirs.iterdir())
    _paths.make_folder(tmp_path / "a" / "b")
    _paths.make_folder(tmp_path / "a" / "b")


# Recordings


def recorder(supervisor: Supervisor, folder: Path) -> Recorder:
    device: Any = SimpleNamespace(number=(0, 0), path=Path("/dev/none"))
    return Recorder(supervisor, device, folder, command=[])


@pytest.mark.parametrize("way", ["folder", "link in tmp", "raw", "new"])
def test_a_recording_goes_into_no_folder_of_another_user(
    theirs: Path, secret: Path, tmp_path: Path, way: str
) -> None:
    """A recording removes files that it takes for its own old streams."""
    sticky = owned(tmp_path / "sticky", 0o1777)
    out = theirs
    if way == "link in tmp":
        out = plant(sticky / "rec", secret.parent)
    elif way == "new":
        out = theirs / "new"
    elif way == "raw":
        (theirs / "result.json").write_text("{}")
        plant(theirs / RAW, secret.parent)
    with pytest.raises(InputError, match="nobody, who could have root write elsewhere"):
        check_folder(out)
    with Supervisor() as supervisor, pytest.raises(InputError, match="nobody, who could"):
        recorder(supervisor, out)._make_folder()
    assert secret.read_text() == "secret"
    assert not (theirs / "new").exists()


def test_a_recording_in_a_folder_of_another_user_is_not_finished(
    theirs: Path, secret: Path
) -> None:
    (theirs / "result.json").write_text(json.dumps({"command": "record", "recording": {}}))
    (theirs / RAW).mkdir()
    plant(theirs / RAW / "block.blktrace", secret)
    with pytest.raises(InputError, match="belongs to nobody"):
        finish(theirs)


def test_the_lock_of_recordings_is_no_link(
    tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sticky = owned(tmp_path / "lock", 0o1777)
    for name, target in (("new", secret.parent / "new"), ("there", secret)):
        monkeypatch.setattr(tracefs, "LOCK", plant(sticky / name, target))
        with pytest.raises(RunError, match=r"the lock of all recordings: .*link"):
            tracefs.is_busy()
    assert list(secret.parent.iterdir()) == [secret]
    monkeypatch.undo()
    about = tracefs.LOCK.parent.stat()
    assert (about.st_uid, about.st_mode & 0o022) == (0, 0), "every user may make files there"


def watched(roots: list[Path], output: Path, *patches: tuple[str, Callable[[str], None]]) -> str:
    """Give what a watcher notes, where something happens just before it opens a path."""
    watcher = Watcher(roots, None, output)
    for name, happens in patches:
        real = getattr(watcher, name)

        def after(path: str, *more: Any, real: Any = real, happens: Any = happens) -> Any:
            happens(path)
            return real(path, *more)

        setattr(watcher, name, after)
    watcher.look()
    return output.read_text()


@pytest.mark.parametrize("name", ["file", "folder"])
def test_the_watcher_of_files_follows_no_link(
    theirs: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It looks at what is there first, and opens it then."""
    look, read = os.fstat, os.scandir
    opened: set[int] = set()

    def seen(handle: int) -> os.stat_result:
        opened.add(look(handle).st_ino)
        return look(handle)

    def scanned(handle: int) -> Any:
        opened.add(look(handle).st_ino)
        return read(handle)

    monkeypatch.setattr(os, "fstat", seen)
    monkeypatch.setattr(os, "scandir", scanned)
    (theirs / "file").write_text("data")
    (theirs / "folder").mkdir()
    (theirs / "folder" / "secret").write_text("data")
    inode = secret.stat().st_ino

    def swap(path: str) -> None:
        where = theirs / name
        if path == str(where) and not where.is_symlink():
            where.rename(theirs / "aside")
            plant(where, secret if name == "file" else secret.parent)

    patches = (("_extents_at", swap), ("_read", swap))
    said = watched([theirs], tmp_path / "out.jsonl", *patches)
    assert (theirs / name).is_symlink()
    assert f'"inode":{inode},' not in said
    assert not opened & {inode, secret.parent.stat().st_ino}
    assert str(secret.parent) not in said


def test_the_watcher_takes_no_file_for_another(theirs: Path, tmp_path: Path) -> None:
    """Places of one would stand under the name of the other."""
    where = theirs / "file"
    where.write_text("data")

    def swap(path: str) -> None:
        if path == str(where):
            where.rename(theirs / "aside")
            where.write_text("other data")

    said = watched([theirs], tmp_path / "out.jsonl", ("_extents_at", swap))
    assert str(where) not in said


def test_links_of_a_data_directory_lead_to_its_owners_folders(theirs: Path, secret: Path) -> None:
    (theirs / "pg_tblspc").mkdir()
    own = theirs.parent / "space"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    plant(theirs / "pg_wal", secret.parent)
    plant(theirs / "pg_tblspc" / "1", own)
    plant(theirs / "pg_tblspc" / "2", theirs / "nowhere")
    running = Running("postgres", theirs)
    assert running.roots == [theirs, own]
    assert running.roots == [theirs, own]
    assert len(running.not_told) == 2
    assert f"what {secret.parent} gets" in running.not_told[0]
    assert "it belongs to root, the database to nobody" in running.not_told[0]


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("link", "it is a link"),
        ("fifo", "neither a file nor a folder"),
        ("hard link", "it belongs to root"),
        ("words", "its first line is no process"),
        ("number", "its first line is no process"),
        ("nothing", "its first line is no process"),
    ],
)
def test_a_planted_pid_file_is_one_line(theirs: Path, tmp_path: Path, what: str, why: str) -> None:
    pid, of_root = theirs / "postmaster.pid", tmp_path / "shadow"
    of_root.write_text("root:secret\n")
    if what == "link":
        plant(pid, of_root)
    elif what == "fifo":
        os.mkfifo(pid)
    elif what == "hard link":
        pid.hardlink_to(of_root)
    else:
        pid.write_text({"words": "root:\x1b[2J\n", "number": "\u0665\n", "nothing": ""}[what])
        os.chown(pid, NOBODY, NOBODY)
    with pytest.raises(InputError, match=why) as raised:
        Running.find("postgres", theirs)
    assert str(raised.value).isprintable()
    assert "secret" not in str(raised.value)


def test_a_fifo_is_no_database_of_sqlite(theirs: Path) -> None:
    os.mkfifo(theirs / "app.db")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        Running.find("sqlite", theirs / "app.db")


# Benchmarks with their servers


def test_a_log_is_no_link(theirs: Path, secret: Path) -> None:
    log = plant(theirs / "server.log", secret)
    with Supervisor() as supervisor, pytest.raises(RunError, match="symbolic links"):
        supervisor.start(["echo", "appended"], log=log).wait(10)
    assert secret.read_text() == "secret"


def test_a_server_is_made_in_no_folder_of_another_user(
    theirs: Path, secret: Path, tmp_path: Path
) -> None:
    plant(theirs / "data", secret.parent)
    with Supervisor() as supervisor:
        with pytest.raises(InputError, match="belongs to nobody"):
            supervisor.folder(theirs, "flashwright-")
        server = Server(
            tmp_path, theirs / "data", tmp_path / "run", supervisor, Account(NOBODY, NOBODY)
        )
        with pytest.raises(InputError, match="link"):
            server.initialise()
    about = secret.parent.stat()
    assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (0, 0o700)


def test_programs_of_another_user_get_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "topsecret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "topsecret")
    account, log = Account(NOBODY, NOBODY), tmp_path / "log"
    assert "topsecret" not in run_as(account, "env").stdout
    with Supervisor() as supervisor:
        program = supervisor.start(["env"], log=log, account=account, environment={"MINE": "yes"})
        assert program.wait(20) == 0
    said = log.read_text()
    assert "MINE=yes" in said
    assert "topsecret" not in said


def test_what_is_put_out_of_the_page_cache_is_no_link(
    theirs: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs / "1").write_text("data")
    plant(theirs / "2", secret)
    opened: list[int] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda handle, *_: opened.append(os.fstat(handle).st_ino)
    )
    evict([theirs / "1", theirs / "2"])
    assert opened == [(theirs / "1").stat().st_ino]


def test_a_log_of_pgbench_is_no_link(theirs: Path, secret: Path) -> None:
    plant(theirs / "log.1", secret)
    config: Any = SimpleNamespace(warm_up_seconds=0.0)
    with pytest.raises(RunError, match="pgbench's log: it is a link"):
        _Reader(theirs, ["kind"], config, 0).read()


# Volumes


def test_the_link_of_ublk_is_in_no_folder_of_another_user(
    theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashwright._core.check_ublk", lambda: None)
    with pytest.raises(InputError, match=r"--link .*belongs to nobody"):
        serving.serve_ublk(serving.Serving("device"), theirs / "link", read_only=True)


def test_a_socket_is_in_no_folder_of_another_user(theirs: Path) -> None:
    with pytest.raises(InputError, match="belongs to nobody"):
        serving._listen(theirs / "nbd.sock")
    assert not list(theirs.iterdir())


def test_an_image_of_ours_is_closed_to_other_users(tmp_path: Path) -> None:
    """It holds the files of a database whose folder is closed to them."""
    before = os.umask(0)
    try:
        _write(tmp_path / "image", 4096)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "image").stat().st_mode) == 0o600


def test_an_image_of_ours_is_on_the_device_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data that is written back later would disturb the measurement."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    _write(tmp_path / "image", 12288)
    assert synced == [12288]


def test_a_server_of_ours_is_closed_to_other_users(tmp_path: Path) -> None:
    """Whoever may connect is its superuser, and may run programs as the server's user."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    with Supervisor() as supervisor:
        server = Server(
            tmp_path, tmp_path / "data", tmp_path / "run", supervisor, Account(NOBODY, NOBODY)
        )
        # There is no initdb there.
        with pytest.raises(FileNotFoundError):
            server.initialise()
        with socket.socket(socket.AF_UNIX) as listening:
            path = server.sockets / ".s.PGSQL.5432"
            listening.bind(str(path))
            path.chmod(0o777)
            listening.listen()
            program = (
                "import os, socket, sys; os.setgroups([]); os.setresgid(1, 1, 1); "
                "os.setresuid(1, 1, 1); socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
            )
            done = subprocess.run(
                [sys.executable, "-I", "-c", program, path], capture_output=True, check=False
            )
    assert b"PermissionError" in done.stderr
