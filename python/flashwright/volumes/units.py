"""Units of systemd for volumes."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from flashwright._core import InputError

_SANDBOX = """\
NoNewPrivileges=yes
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


def of_mount(device: str, directory: Path) -> str:
    """Give a unit that mounts a volume at each start.

    It has no sandbox: what it mounts has to be seen by all.

    Raises InputError for a relative path.
    """
    where = _absolute(str(directory))
    program, what = _program(), shlex.quote(_absolute(device))
    return f"""\
[Unit]
Description=Flashwright volume {device} at {where}
RequiresMountsFor={Path(where).parent}
Before=local-fs.target
DefaultDependencies=no
After=local-fs-pre.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={program} volume mount {what} {shlex.quote(where)}
ExecStop={program} volume umount {shlex.quote(where)} --timeout 110
TimeoutStopSec=120

[Install]
WantedBy=multi-user.target
"""


def of_nbd(device: str, socket: Path) -> str:
    """Give a unit that serves a volume over NBD, in a sandbox that sees little but the device.

    Raises InputError for a relative path.
    """
    path, where = Path(_absolute(device)), Path(_absolute(str(socket)))
    is_node = path.is_relative_to("/dev")
    reached = f"DevicePolicy=closed\nDeviceAllow={path} rw\n" if is_node else "PrivateDevices=yes\n"
    writable = f"ReadWritePaths={where.parent}" + ("" if is_node else f" {path}")
    home = "yes" if is_node and not where.is_relative_to("/home") else "no"
    return f"""\
[Unit]
Description=Flashwright volume {device} over NBD
RequiresMountsFor={path.parent} {where.parent}

[Service]
ExecStart={_program()} volume serve {shlex.quote(str(path))} --nbd {shlex.quote(str(where))}
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
    return path
