"""Files and folders that another user may change meanwhile: nothing is reached through their links.

Standard library alone, as helpers load it without the package. What is trusted, and why, is in
docs/security.md.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

_MOST_LINKS = 40
_MOST_TEXT_BYTES = 1 << 20
_MAKING = os.O_CREAT | os.O_EXCL


def open_plain(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600, *, owner: int | None = None
) -> int:
    """Open a regular file or a folder by its whole path, and give the descriptor.

    No component of the path may be a link, the last one neither, and nothing else is opened: a
    FIFO would be waited for, and a device may act when it is opened. With `O_CREAT` it is made if
    nothing is there. `owner`: the user that the file must belong to; a hard link to somebody else's
    file does not.

    Raises:
        OSError: it is not there, there is a link, it is neither file nor folder, or another's.
    """
    whole = os.fspath(path)
    if not whole.startswith("/"):
        raise ValueError(f"{whole}: no whole path")
    *folders, name = [part for part in whole.split("/") if part] or ["."]
    at = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            below = _open_at(at, part, os.O_PATH | os.O_DIRECTORY, whole)
            os.close(at)
            at = below
        return _open_last(at, name, whole, flags | os.O_CLOEXEC, mode, owner)
    finally:
        os.close(at)


def _open_last(at: int, name: str, whole: str, flags: int, mode: int, owner: int | None) -> int:
    try:
        found = _open_at(at, name, os.O_PATH, whole)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
        return os.open(name, flags | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=at)
    try:
        about = os.fstat(found)
        if stat.S_ISLNK(about.st_mode):
            raise OSError(errno.ELOOP, "it is a link, which is not followed", whole)
        if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
            raise OSError(errno.EINVAL, "neither a file nor a folder", whole)
        if owner is not None and about.st_uid != owner:
            raise OSError(errno.EPERM, f"it belongs to {user_name(about.st_uid)}", whole)
        if flags & _MAKING == _MAKING:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), whole)
        # Open the file that was checked, whatever its name refers to by now.
        return os.open(f"/proc/self/fd/{found}", flags & ~os.O_CREAT)
    finally:
        os.close(found)


def _open_at(at: int, name: str, flags: int, whole: str) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    except NotADirectoryError:
        raise OSError(
            errno.ENOTDIR, f"{name} is no folder; links are not followed", whole
        ) from None
    except OSError as error:
        error.filename = whole
        raise


def read_plain(path: str | Path, *, owner: int | None = None) -> str:
    """Read a short text, of at most 1 MiB, as `open_plain` opens it. Bytes that are no UTF-8 stay.

    Raises:
        OSError: as `open_plain`, or it is longer.
    """
    with os.fdopen(open_plain(path, owner=owner), "rb") as file:
        said = file.read(_MOST_TEXT_BYTES + 1)
    if len(said) > _MOST_TEXT_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), os.fspath(path))
    return said.decode(errors="surrogateescape")


@contextlib.contextmanager
def replacing(path: Path, look: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Give a new file beside the path, to be written; at the end it is durable and takes its place.

    `look` is called before the file is made and before it takes the place of what is there: it
    raises if that must stay. Readers see the old file or the new one, whole. No link is followed.

    Raises OSError if it cannot be written.
    """
    look()
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        made = os.open(part, os.O_WRONLY | _MAKING | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(FileNotFoundError):
            before = path.lstat().st_mode
            if stat.S_ISREG(before):
                os.fchmod(made, before & 0o777 | 0o200)
        os.close(made)
        yield part
        make_durable(part)
        look()
        part.replace(path)
    finally:
        # Its name is no more if it took the place of the other.
        part.unlink(missing_ok=True)


def make_durable(path: Path) -> None:
    """Have what a file holds on its device; OSError if it cannot be."""
    written = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(written)
    finally:
        os.close(written)


def write_whole(path: Path, text: str) -> None:
    """Write a file as `replacing` does; OSError if it cannot be written."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def give_folder(path: Path, uid: int, gid: int, mode: int) -> None:
    """Make a folder, if it is not there, and give it to a user.

    Raises:
        OSError: there is something else, such as a link, or the folder of a third user.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    handle = open_plain(path.parent.resolve() / path.name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        owner = os.fstat(handle).st_uid
        if owner not in {os.geteuid(), uid}:
            raise OSError(errno.EPERM, f"it belongs to {user_name(owner)}", str(path))
        os.fchown(handle, uid, gid)
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, each trusted before the next is made in it.

    Raises:
        PermissionError: another user than those that are trusted may put something there.
        OSError: it cannot be made.
    """
    whole = path.absolute()
    for folder in (*reversed(whole.parents), whole):
        check_trusted(folder)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=mode)
    check_trusted(whole)


def check_trusted(path: Path) -> None:
    """Refuse a path at which another user may put something, now or later.

    Of root alone: for other users nothing is refused. What is not there yet is trusted as far as
    what is above it.

    Raises:
        PermissionError: it is not trusted; the message says whose what is.
        OSError: too many links.
    """
    if os.geteuid() != 0:
        return
    why = _not_trusted(path)
    if why is not None:
        raise PermissionError(
            errno.EPERM,
            f"{why}, who could have root write elsewhere; right would be a folder of root's or "
            "your own",
            str(path),
        )


def _not_trusted(path: Path) -> str | None:
    """Say who may change what a path stands for; None if only those who are trusted."""
    waiting = [*reversed(path.absolute().parts[1:])]
    at, links, about = Path("/"), 0, os.lstat("/")
    while True:
        why = _may_change(at, about)
        if why is not None or not waiting:
            return why
        part = waiting.pop()
        if part == "..":
            at = at.parent
            about = os.lstat(at)
            continue
        try:
            below = os.lstat(at / part)
        except FileNotFoundError:
            return None
        if not stat.S_ISLNK(below.st_mode):
            at, about = at / part, below
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if below.st_uid not in trusted_users():
            return f"the link {at / part} belongs to {user_name(below.st_uid)}"
        target = Path(os.readlink(at / part))  # noqa: PTH115
        waiting += reversed([one for one in target.parts if one != "/"])
        if target.is_absolute():
            at, about = Path("/"), os.lstat("/")


def _may_change(path: Path, about: os.stat_result) -> str | None:
    if about.st_uid not in trusted_users():
        return f"{path} belongs to {user_name(about.st_uid)}"
    if about.st_mode & stat.S_ISVTX and stat.S_ISDIR(about.st_mode):
        # As /tmp: others may add to it, and take away nothing but their own.
        return None
    if about.st_mode & stat.S_IWOTH:
        return f"{path} may be written to by every user"
    if about.st_mode & stat.S_IWGRP and not _is_private(about.st_gid, about.st_uid):
        return f"{path} may be written to by the group {_group_name(about.st_gid)}"
    return None


def trusted_users() -> set[int]:
    """Give root, us, and whoever called sudo: that is the user who runs the command."""
    users = {0, os.geteuid()}
    by_sudo = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and by_sudo.isdecimal():
        users.add(int(by_sudo))
    return users


def _is_private(gid: int, uid: int) -> bool:
    """Tell whether a group has no members but root and this user, as the one that each user has."""
    if gid == 0:
        return True
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return (
        user.pw_gid == gid
        and group.gr_name == user.pw_name
        and set(group.gr_mem) <= {"root", user.pw_name}
    )


def user_name(uid: int) -> str:
    """Name a user for a message."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
