"""The simulated drive that stands for a disk: named, or the nearest that there is.

What is nearest goes by the disk's model, or else by how it is attached. It is an assumption, and
said as such; `probe` finds the drive's inside and makes a profile of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright.recording import device as devices
from flashwright.runs import PROFILE_FILE

NAMED, MEASURED, MODEL, NEAREST = "named", "measured", "model", "nearest"
MODELS = (
    (r"INTEL SSDSA2SH|X25-E", "intel-x25e"),
    (r"INTEL SSDSA[12]M|X25-M", "intel-x25m"),
    (r"INTEL SSDSC2CT|SSD 335", "intel-335"),
    (r"VERTEX.?EX", "ocz-vertex-ex"),
    (r"VECTOR", "ocz-vector"),
    (r"MTRON.*(PRO|7500)", "mtron-pro-7500"),
    (r"MTRON", "mtron-sata7035"),
    (r"MCBQE32G", "samsung-mcbqe32g"),
    (r"Micron_?7450", "micron-7450-pro"),
    (r"PM9A3|MZQL2", "samsung-pm9a3"),
    (r"CM7-R|KCM7", "kioxia-cm7-r-4"),
    (r"PE8110|HFS\w+GEJ9X", "sk-hynix-pe8110"),
)
"""Model as the drive says it, a pattern, and the profile of it."""
_BY_NAME = (
    (r"nvme", "nvme-tlc", "an NVMe disk of a model that no profile is of"),
    (r"mmcblk", "emmc-51", "a card or eMMC"),
    (r"sd|vd|xvd", "intel-335", "a disk by SATA, SCSI or a virtual one"),
)
_DEFAULT = "nvme-tlc"


@dataclass(frozen=True)
class Nearest:
    """A profile, and why it stands for the disk."""

    profile: str
    how: str
    """`named`, `measured`, `model` or `nearest`."""
    said: str


def named(text: str) -> Nearest:
    """Give the drive of `--device`: a profile, a TOML file, the folder of a probe, a disk.

    Raises InputError if it is none of them.
    """
    path = Path(text)
    if text in [one["name"] for one in _core.variants("profile")]:
        return Nearest(text, NAMED, f"{text}, as asked")
    if (path / PROFILE_FILE).is_file():
        return Nearest(str(path / PROFILE_FILE), MEASURED, f"the profile that {text} has measured")
    if path.is_block_device():
        return of_disk(devices.find(path).about())
    if path.is_file():
        return Nearest(text, MEASURED, f"the profile {text}")
    known = ", ".join(one["name"] for one in _core.variants("profile"))
    raise InputError(
        f"--device {text}: neither a profile nor a file, a disk or the folder of a probe; profiles "
        f"are {known}"
    )


def of_disk(about: Mapping[str, Any]) -> Nearest:
    """Give the profile that is nearest to a disk, by what its recording says of it."""
    name, model = str(about.get("name") or ""), str(about.get("model") or "")
    for pattern, profile in MODELS:
        if model and re.search(pattern, model, re.IGNORECASE):
            return Nearest(profile, MODEL, f"{profile}, by the disk's model {model}")
    called = f"{name} ({model})" if model else name
    for pattern, profile, kind in _BY_NAME:
        if re.match(pattern, name):
            return Nearest(profile, NEAREST, f"{profile}, assumed: {called} is {kind}")
    said = f"{called} says nothing of its kind" if called else "the disk is not known"
    return Nearest(_DEFAULT, NEAREST, f"{_DEFAULT}, assumed: {said}")
