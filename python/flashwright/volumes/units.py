"""Units of systemd for volumes."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from flashwright._core import InputError

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
    where = _absolute(str(directory))
    program, what = _program(), shlex.quote(_absolute(device))
    others = [each for each in (device, staging) if each and not each.startswith("/dev/")]
    needed = " ".join(str(Path(each).parent) for each in (where, *others))
    aside = "" if staging is None else f" --staging {shlex.quote(_absolute(staging))}"
    aside += "" if memory_bytes is None else f" --memory {memory_bytes}"
    return f"""\
[Unit]
Description=Flashwright volume {device} at {where}
RequiresMountsFor={needed}
Before=local-fs.target
DefaultDependencies=no
After=local-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} volume mount {what} {shlex.quote(where)}{aside}
ExecStop={program} volume umount {shlex.quote(where)} --timeout 110
TimeoutStopSec=120

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
    allowed = "".join(f"DeviceAllow={node} rw\n" for node in nodes)
    reached = f"DevicePolicy=closed\n{allowed}" if nodes else "PrivateDevices=yes\n"
    writable = " ".join(["ReadWritePaths=" + str(where.parent), *map(str, files)])
    home = "no" if files or where.is_relative_to("/home") else "yes"
    needed = " ".join(str(each.parent) for each in (*paths, where))
    aside = "" if staging is None else f" --staging {shlex.quote(str(paths[1]))}"
    aside += "" if memory_bytes is None else f" --memory {memory_bytes}"
    return f"""\
[Unit]
Description=Flashwright volume {device} over NBD
RequiresMountsFor={needed}

[Service]
ExecStart={_program()} volume serve {shlex.quote(str(path))} --nbd {shlex.quote(str(where))}{aside}
Restart=on-failure
TimeoutStopSec=120
LimitMEMLOCK=infinity
{writable}
{reached}{_SANDBOX.format(home=home)}
[Install]
WantedBy=multi-user.target
"""


def _program() -> str:
    found = shutil.which("flashwright")
    return found if found is not None else f"{sys.executable} -m flashwright"


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise InputError(f"{path}: systemd starts units in another folder: give the whole path")
    if any(character in path for character in " \t\n'\"\\%"):
        raise InputError(
            f"{path}: systemd would read it otherwise; name a path without blanks, quotes, \\ and %"
        )
    return path
