"""Ways of holding a mounted file system, so that it lives on when its directory is unmounted."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

Holding = Callable[[Path, Path], AbstractContextManager[str]]
"""Given the directory and a folder elsewhere, holds it; gives how it is named."""


def run(*words: str | Path) -> str:
    """Run a program of the system, and give what it prints."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def _process(*words: str | Path, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start a program that says a line when it is ready, and ends with its input."""
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield process
    finally:
        process.communicate("")


_WAITS = "echo ready; read line"
ALONE = r"""
keep=$(findmnt -n -o SOURCE "$0" | head -n 1)
file=$(losetup -n -O BACK-FILE "$keep")
while read -r source point _; do
    case $source in
    "$keep") continue ;;
    flashwright* | /dev/loop*) ;;
    *) continue ;;
    esac
    point=$(printf "$point")
    [ "$point" = "${file%/*}" ] || umount --lazy "$point"
done </proc/self/mounts
"""
"""Takes all copies out of a new mount namespace but those of one volume, given by its directory:
another test's would keep that test's volume."""


@contextmanager
def _bind(directory: Path, other: Path) -> Iterator[str]:
    run("mount", "--bind", directory, other)
    try:
        yield f"the mount {other}"
    finally:
        run("umount", other)


@contextmanager
def _bind_of_a_file(directory: Path, other: Path) -> Iterator[str]:
    (directory / "file").write_text("file")
    (other / "file").touch()
    run("mount", "--bind", directory / "file", other / "file")
    try:
        yield f"the mount {other / 'file'}"
    finally:
        run("umount", other / "file")


@contextmanager
def _bind_elsewhere(directory: Path, other: Path) -> Iterator[str]:
    script = f'{ALONE}umount "$0"; {_WAITS}'
    run("mount", "--bind", directory, other)
    with contextlib.ExitStack() as held:
        try:
            words = ("unshare", "-m", "--propagation", "private", "sh", "-c", script, directory)
            process = held.enter_context(_process(*words))
        finally:
            run("umount", other)
        yield f"the mount {other} in the mount namespace of process {process.pid} ("


@contextmanager
def _namespace(directory: Path, _other: Path) -> Iterator[str]:
    words = ("unshare", "-m", "--propagation", "private", "sh", "-c", ALONE + _WAITS, directory)
    with _process(*words) as process:
        yield f"the mount {directory} in the mount namespace of process {process.pid} ("


@contextmanager
def _namespace_without_processes(directory: Path, other: Path) -> Iterator[str]:
    # A private mount for the file that keeps the namespace.
    run("mount", "--bind", other, other)
    run("mount", "--make-private", other)
    try:
        (other / "kept").touch()
        kept = f"--mount={other / 'kept'}"
        run("unshare", kept, "--propagation", "private", "sh", "-c", ALONE, directory)
        try:
            yield "a mount namespace without processes"
        finally:
            run("umount", other / "kept")
    finally:
        run("umount", other)


@contextmanager
def _overmount(directory: Path, _other: Path) -> Iterator[str]:
    run("mount", "-t", "tmpfs", "none", directory)
    try:
        yield f"the mount {directory} (tmpfs) over it"
    finally:
        run("umount", directory)


@contextmanager
def _below(directory: Path, _other: Path) -> Iterator[str]:
    below = directory / "below"
    below.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "none", below)
    try:
        yield f"the mount {below} (tmpfs) below it"
    finally:
        run("umount", below)


@contextmanager
def _overlay(directory: Path, other: Path) -> Iterator[str]:
    (directory / "lower").mkdir()
    for name in ("upper", "work", "seen"):
        (other / name).mkdir()
    options = f"lowerdir={directory}/lower,upperdir={other}/upper,workdir={other}/work"
    run("mount", "-t", "overlay", "overlay", "-o", options, other / "seen")
    try:
        yield f"the mount {other / 'seen'} (overlay) over {directory}/lower"
    finally:
        run("umount", other / "seen")


@contextmanager
def _cwd(directory: Path, _other: Path) -> Iterator[str]:
    with _process("sh", "-c", _WAITS, cwd=directory) as process:
        yield f"process {process.pid} (sh: its current folder)"


@contextmanager
def _open_file(directory: Path, _other: Path) -> Iterator[str]:
    with _process("sh", "-c", f'exec 5>"$0"; {_WAITS}', directory / "open") as process:
        yield f"process {process.pid} (sh: open files)"


@contextmanager
def _open_file_lazily(directory: Path, other: Path) -> Iterator[str]:
    """Its mount is in no table any more."""
    run("mount", "--bind", directory, other)
    try:
        with _process("sh", "-c", f'exec 5>"$0"; {_WAITS}', other / "open") as process:
            run("umount", "--lazy", other)
            yield f"process {process.pid} (sh: open files)"
    finally:
        subprocess.run(["umount", other], capture_output=True, check=False)


@contextmanager
def _loop(directory: Path, other: Path) -> Iterator[str]:
    image = directory / "image"
    run("truncate", "-s", "4M", image)
    run("mkfs.ext4", "-q", "-F", image)
    loop = run("losetup", "--find", "--show", image)
    run("mount", loop, other)
    try:
        yield f"the loop device {loop} over {image}, mounted at {other}"
    finally:
        run("umount", other)
        run("losetup", "--detach", loop)


@contextmanager
def _loop_over_the_device(directory: Path, _other: Path) -> Iterator[str]:
    block = run("findmnt", "-n", "-o", "SOURCE", directory)
    loop = run("losetup", "--find", "--show", "--read-only", block)
    try:
        yield f"the loop device {loop} over {block}"
    finally:
        run("losetup", "--detach", loop)


@contextmanager
def _swap(directory: Path, _other: Path) -> Iterator[str]:
    file = directory / "a swap"
    file.write_bytes(bytes(1 << 20))
    file.chmod(0o600)
    run("mkswap", file)
    run("swapon", file)
    try:
        yield f"the swap file {file}"
    finally:
        run("swapoff", file)


HOLDINGS: dict[str, Holding] = {
    "bind": _bind,
    "bind of a file": _bind_of_a_file,
    "bind in another namespace": _bind_elsewhere,
    "namespace": _namespace,
    "overmount": _overmount,
    "mount below": _below,
    "overlay over it": _overlay,
    "cwd": _cwd,
    "open file": _open_file,
    "open file, mount gone": _open_file_lazily,
    "loop over a file": _loop,
    "loop over the device": _loop_over_the_device,
    "swap file": _swap,
}
"""All but those that only the last proof sees."""
UNSEEN: dict[str, Holding] = {"namespace without processes": _namespace_without_processes}
"""Holders that no table shows: the directory is unmounted, and then the device is found in use."""


def odd_paths(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Give ways to write a directory, each with that as which it is mounted."""
    names = {"tab": "a\tb", "backslash": "a\\b", "octal": "a\\040b", "space": "a b", "line": "a\nb"}
    found = {}
    for kind, name in names.items():
        (folder / name).mkdir(parents=True)
        found[kind] = (folder / name, folder / name)
    plain = folder / "plain"
    plain.mkdir()
    link = folder / "link"
    link.symlink_to(plain)
    dots = folder / "a b" / ".." / "plain"
    return found | {
        "mounted by a link": (link, plain),
        "unmounted by a link": (plain, link),
        "mounted by dots": (dots, plain),
        "unmounted by dots": (plain, dots),
    }
