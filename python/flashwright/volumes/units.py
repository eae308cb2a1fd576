"""Units of systemd for volumes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from flashwright._core import InputError

from .mounting import MountPlan
from .serving import Serving

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


def of_mount(plan: MountPlan) -> str:
    """Give a unit that mounts a volume, and its staging device if it has one, at each start.

    It has no sandbox: what it mounts has to be seen by all.

    Raises InputError for a relative path.
    """
    where, paths = _absolute(str(plan.directory)), _paths(plan)
    files = [each for each in paths if not each.startswith("/dev/")]
    needed = _folders(where, *files, *_metrics(plan))
    words = [] if plan.options == MountPlan.options else ["--options", plan.options]
    words += [*(["--ublk"] if plan.is_ublk else []), *plan.words()]
    mount = _command("volume", "mount", plan.device, where, *words)
    umount = _command("volume", "umount", where, "--timeout", "110")
    return f"""\
[Unit]
Description=Flashwright volume (of {_text(plan.device)} at {_text(where)})
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


def of_nbd(serving: Serving, socket: Path, more: Sequence[str] = ()) -> str:
    """Give a unit that serves a volume over NBD, in a sandbox that sees little but its devices.

    `more` are options of nbdkit.

    Raises InputError for a relative path.
    """
    where, paths = Path(_absolute(str(socket))), [Path(each) for each in _paths(serving)]
    nodes = [each for each in paths if each.is_relative_to("/dev")]
    files = [each for each in paths if each not in nodes]
    allowed = "".join(f"DeviceAllow={_quoted(str(node))} rw\n" for node in nodes)
    reached = f"DevicePolicy=closed\n{allowed}" if nodes else "PrivateDevices=yes\n"
    folders = [each.parent for each in (where, serving.metrics) if each is not None]
    writable = " ".join(_quoted(str(each)) for each in dict.fromkeys((*folders, *files)))
    is_seen = files or any(each.is_relative_to("/home") for each in folders)
    home = "no" if is_seen else "yes"
    needed = _folders(*(str(each) for each in (*paths, where)), *_metrics(serving))
    words = [*serving.words(), *(f"--nbdkit={each}" for each in more)]
    serve = _command("serve", serving.device, "--nbd", str(where), *words)
    return f"""\
[Unit]
Description=Flashwright volume (of {_text(serving.device)}) over NBD
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
    return " ".join(_quoted(folder) for folder in dict.fromkeys(found))


def _paths(serving: Serving) -> list[str]:
    """Give the devices of a volume; raises InputError if one is a relative path."""
    return [_absolute(each) for each in (serving.device, serving.staging) if each is not None]


def _metrics(serving: Serving) -> list[str]:
    """Give the file of metrics, if there is one; raises InputError if it is a relative path."""
    return [] if serving.metrics is None else [_absolute(str(serving.metrics))]


def _command(*words: str) -> str:
    """Give a call of this program as a line of a unit: no shell reads it, and `$` is systemd's."""
    found = shutil.which("flashwright")
    program, *before = [found] if found is not None else [sys.executable, "-m", "flashwright"]
    # In the program's own path no variable is looked for.
    more = (_quoted(word).replace("$", "$$") for word in (*before, *words))
    return " ".join([_quoted(program), *more])


def _quoted(word: str) -> str:
    """Quote a word as systemd reads them (systemd.syntax(7)); `%` begins a specifier anywhere."""
    if _PLAIN.fullmatch(word):
        return word
    quoted = word.replace("\\", "\\\\").replace('"', '\\"')
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
