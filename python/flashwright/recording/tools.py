"""Programs of the system: run to their ends, with their own words when they fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from flashwright._core import InputError, RunError

PACKAGES = {
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
    "blockdev": "util-linux",
    "mkfs.ext2": "e2fsprogs",
    "mkfs.ext4": "e2fsprogs",
    "dumpe2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "btrfs": "btrfs-progs",
    "mkfs.f2fs": "f2fs-tools",
    "mkfs.nilfs2": "nilfs-tools",
    "blktrace": "blktrace",
}
"""Debian's package of each program."""


def tool(*command: str | Path) -> str:
    """Run a program to its end and give what it printed.

    Raises:
        InputError: it is not installed; the message names Debian's package.
        RunError: it failed; the message has its own words.
    """
    words = [str(word) for word in command]
    need(words[0])
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip() or done.stdout.strip()
        raise RunError(f"{' '.join(words)}: exit {done.returncode}: {said}")
    return done.stdout.strip()


def need(program: str) -> None:
    """Refuse to go on without a program.

    Raises:
        InputError: it is not on the PATH.
    """
    if shutil.which(program) is None:
        package = PACKAGES.get(program)
        raise InputError(
            f"{program} is not installed"
            + (f" (Debian: apt-get install {package})" if package else "")
        )


def need_root(what: str) -> None:
    """Refuse to go on as another user than root.

    Raises:
        InputError: we are not root; `what` begins the message.
    """
    if os.geteuid() != 0:
        raise InputError(f"{what} needs root: run it with sudo")
