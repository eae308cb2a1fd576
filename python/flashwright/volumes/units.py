"""Units of systemd for volumes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from flashwright._core import InputError

_PLAIN = re.compile(r"[\w./:=@,+-]+")
_SANDBOX = """\
NoNewPrivileges=yes
RuntimeDirectory=flashwright
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
PrivateNetwork=yes
PrivateTmp=yes
PrivateIPC=yes
ProtectSystem=strict
ProtectHome={home}
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service io_uring_setup io_uring_enter io_uring_register
CapabilityBoundingSet=
UMask=0177
"""


def of_mount(
    device: str, directory: Path, staging: str | None = None, memory_bytes: int | None = None
) -> str:
    """Give a unit that mounts a volume, and its staging device if it has one, at each start.

    It has no sandbox: what it mounts has to be seen by all.

    Raises InputError for a relative path.
    """
    where, path = _absolute(str(directory)), _absolute(device)
    others = [each for each in (device, staging) if each and not each.startswith("/dev/")]
    needed = _folders(where, *others)
    mount = _command("volume", "mount", path, where, *_more(staging, memory_bytes))
    umount = _command("volume", "umount", where, "--timeout", "110")
    return f"""\
[Unit]
Description=Flashwright volume (of {_text(device)} at {_text(where)})
RequiresMountsFor={needed}
Before=local-fs.target
DefaultDependencies=no
After=local-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={mount}
ExecStop={umount}
TimeoutStopSec=120
# A stop that finds the file system in use leaves its server alone.
KillMode=process

[Install]
WantedBy=multi-user.target
"""


def of_nbd(
    device: str, socket: Path, staging: str | None = None, memory_bytes: int | None = None
) -> str:
    """Give a unit that serves a volume over NBD, in a sandbox that sees little but its devices.

    Raises InputError for a relative path.
    """
    path, where = Path(_absolute(device)), Path(_absolute(str(socket)))
    paths = [path, *([Path(_absolute(staging))] if staging is not None else [])]
    nodes = [each for each in paths if each.is_relative_to("/dev")]
    files = [each for each in paths if each not in nodes]
    allowed = "".join(f"DeviceAllow={_path(str(node))} rw\n" for node in nodes)
    reached = f"DevicePolicy=closed\n{allowed}" if nodes else "PrivateDevices=yes\n"
    writable = " ".join(_path(str(each)) for each in (where.parent, *files))
    home = "no" if files or where.is_relative_to("/home") else "yes"
    needed = _folders(*(str(each) for each in (*paths, where)))
    more = _more(staging, memory_bytes)
    serve = _command("volume", "serve", str(path), "--nbd", str(where), *more)
    return f"""\
[Unit]
Description=Flashwright volume (of {_text(device)}) over NBD
RequiresMountsFor={needed}

[Service]
ExecStart={serve}
Restart=on-failure
TimeoutStopSec=120
LimitMEMLOCK=infinity
ReadWritePaths={writable}
{reached}{_SANDBOX.format(home=home)}
[Install]
WantedBy=multi-user.target
"""


def _folders(*paths: str) -> str:
    """Give what has to be mounted to reach paths: systemd itself follows no links."""
    found = [str(Path(each).parent) for path in paths for each in (path, os.path.realpath(path))]
    return " ".join(_path(folder) for folder in dict.fromkeys(found))


def _more(staging: str | None, memory_bytes: int | None) -> list[str]:
    """Give the words for what not every volume has."""
    words = [] if staging is None else ["--staging", _absolute(staging)]
    return words + ([] if memory_bytes is None else ["--memory", str(memory_bytes)])


def _command(*words: str) -> str:
    """Give a call of this program as a line of a unit: no shell reads it, and `$` is systemd's."""
    found = shutil.which("flashwright")
    program, *before = [found] if found is not None else [sys.executable, "-m", "flashwright"]
    # In the program's own path no variable is looked for.
    more = (_path(word).replace("$", "$$") for word in (*before, *words))
    return " ".join([_path(program), *more])


def _path(path: str) -> str:
    """Quote a word as systemd reads them (systemd.syntax(7)); `%` begins a specifier anywhere."""
    if _PLAIN.fullmatch(path):
        return path
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_text(quoted)}"'


def _text(text: str) -> str:
    """Give what is not split into words."""
    return text.replace("%", "%%")


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise InputError(f"{path}: systemd starts units in another folder: give the whole path")
    if not path.isprintable():
        raise InputError(
            f"{path!r}: a unit has no place for it; name a path without line ends and the like"
        )
    return path
