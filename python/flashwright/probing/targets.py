"""Targets of a probe: a block device, a file, memory, or a simulated drive, or a part of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _core, devices
from flashwright._core import InputError
from flashwright._text import size
from flashwright.comparing.policies import own_victim
from flashwright.progress import work

if TYPE_CHECKING:
    from flashwright._core import Progress

MEMORY = "memory"
ACCESSES = ("read_only", "write", "destroy_data")
"""Rights on a real device: to read it; to write to it if it holds no data; to write to it whatever
it holds.
"""


LEAST_REGION_BYTES = 1 << 20
"""Smallest region: below it, requests of the sizes that databases send do not have enough places to
be random.
"""


@dataclass(frozen=True)
class Region:
    """A part of a device in bytes; `length` is None for all behind the offset."""

    offset: int = 0
    length: int | None = None

    def on(self, info: dict[str, Any], least_bytes: int = LEAST_REGION_BYTES) -> Region:
        """Give the region with its length on a device: at least `least_bytes`.

        Raises InputError if it does not fit, or is not of whole sectors.
        """
        sector, capacity, name = info["sector_bytes"], info["capacity_bytes"], info["name"]
        length = capacity - self.offset if self.length is None else self.length
        if length <= 0 or self.offset + length > capacity:
            raise InputError(
                f"--region: {name} has {capacity} bytes ({size(capacity)}), and the region goes "
                f"from byte {self.offset} to {self.offset + max(length, 0)}"
            )
        if self.offset % sector or length % sector:
            raise InputError(
                f"--region: {name} has sectors of {sector} bytes, and the region is not of whole "
                "ones: right would be "
                f"{self.offset // sector * sector}+{max(length // sector, 1) * sector}"
            )
        if length < least_bytes:
            raise InputError(
                f"--region: {length} bytes of {name} are too few to tell anything of it: "
                f"{size(least_bytes)} is the least"
            )
        return Region(self.offset, length)

    def document(self) -> dict[str, Any]:
        """Tell the region for a result."""
        return {"offset_bytes": self.offset, "length_bytes": self.length}


@dataclass(frozen=True)
class DriveArray:
    """Several simulated drives of one profile as one device."""

    kind: str
    """Kind of array, as `flashwright list array` names it, such as `raid5(unit=64Ki)`."""
    drives: int
    missing: int | None = None
    """The drive, from 0, that is taken away: of an array with parity."""

    def document(self) -> dict[str, Any]:
        """Tell the array for a result."""
        return {"kind": self.kind, "drives": self.drives, "missing": self.missing}


@dataclass(frozen=True)
class Target:
    """A device as it is to be probed."""

    given: str
    drive: devices.DriveProfile | None = None
    """The simulated drive; None for any other device."""
    state: str = "filled"
    overwrites: float | None = None
    access: str = ACCESSES[0]
    region: Region = Region()
    """Part that may be written: data elsewhere on the device does not matter."""
    seed: int = 1
    is_polled: bool = False
    """True if completions of a real device are polled, instead of waited for."""
    queue_depth: int = 256
    """Most requests outstanding on a real device."""
    most_bytes: int = 1 << 20
    """Longest request to a real device, in bytes."""
    holds_data: bool = False
    """True if writes carry bytes that reads give back; else it is only measured."""
    array: DriveArray | None = None
    """Array that such drives make up; None for one drive."""
    endurance_tbw: float | None = None
    """Terabytes that the maker lets be written to it, if somebody said so."""
    label: str | None = None
    """Name in results; its own name if None."""

    @staticmethod
    def find(given: str, *, seed: int = 1, access: str = ACCESSES[0]) -> Target:
        """Find what a text means: `nvme-tlc`, `profile(nvme-tlc, state=aged)`, `/dev/sdb`.

        Raises InputError if there is nothing of that name, or something in it is wrong.
        """
        device = json.loads(_core.read_setting("device", given))
        found = Target.of(device, seed=seed, access=access)
        # A path is opened by itself; of a drive all that was changed is said.
        return found if found.drive is None else replace(found, given=given)

    @staticmethod
    def of(device: Mapping[str, Any], *, seed: int = 1, access: str = ACCESSES[0]) -> Target:
        """Find a device as `_core.read_setting` gives it.

        Raises InputError if it is not there, or something in it is wrong.
        """
        [(kind, found)] = device.items()
        if kind == "spec":
            return Target(found, seed=seed, access="write")
        if kind == "disk":
            return _disk(found, seed, access)
        profile = found if kind == "profile" else found["of"]
        drive, array = drive_of(profile), None
        if kind == "array":
            few = 2 if found["kind"].startswith("mirrored") else 4
            array = DriveArray(found["kind"], found.get("drives") or few, found.get("missing"))
        state = profile["state"]
        aged = isinstance(state, Mapping)
        return Target(
            drive.given,
            drive,
            "aged" if aged else state,
            state["aged"]["overwrites"] if aged else None,
            seed=seed,
            array=array,
            label=_core.device_label(json.dumps(device).encode()),
        )

    @property
    def is_simulated(self) -> bool:
        """True if it is a simulated drive."""
        return self.drive is not None

    @property
    def is_real(self) -> bool:
        """True if there may be data on it that somebody wants to keep."""
        return self.drive is None and not _is_memory(self.given)

    @property
    def may_write(self) -> bool:
        """True if experiments may write to it: always to what holds nobody's data."""
        return not self.is_real or self.access != ACCESSES[0]

    @property
    def opening(self) -> tuple[str, str]:
        """Description of the work of opening it, and the unit of its progress."""
        if self.is_real and self.access == "write":
            return f"Looking for data on {self.name}", "bytes"
        return f"Opening {self.name}", "page writes"

    @cached_property
    def name(self) -> str:
        """Name in results."""
        if self.label is not None:
            return self.label
        return self.given if self.drive is None else self.drive.name

    def with_data(self) -> Target:
        """Give the same device as one that holds data."""
        return replace(self, holds_data=True)

    def open(self, progress: Progress | None = None) -> _core.Device:
        """Open the device.

        Making a simulated one takes a while if it is aged, and so does looking for data on a large
        one.

        Raises InputError if it cannot be opened, or holds data where it is to be written to;
        Cancelled.
        """
        if self.drive is None:
            return self._open_real(progress)
        return self._make(self.state, data=self.holds_data, progress=progress)

    def another(self) -> _core.Device:
        """Make another simulated drive like it, filled."""
        return self._make("filled", data=False, progress=None)

    def _make(self, state: str, *, data: bool, progress: Progress | None) -> _core.Device:
        if self.drive is None:
            raise AssertionError("only simulated drives are made")
        array = self.array or DriveArray("", 1)
        return _core.simulated_device(
            self.drive.toml,
            name=self.name,
            state=state,
            overwrites=0.0 if self.overwrites is None else self.overwrites,
            seed=self.seed,
            data=data,
            array=array.kind or None,
            drives=array.drives,
            missing=array.missing,
            progress=progress,
        )

    def _open_real(self, progress: Progress | None) -> _core.Device:
        access = self.access if self.is_real else "write"
        try:
            return _core.open_device(
                self.given,
                access=access,
                polled=self.is_polled,
                queue_depth=self.queue_depth,
                most_bytes=self.most_bytes,
                region_offset=self.region.offset,
                region_bytes=self.region.length,
                data=self.holds_data,
                progress=progress,
            )
        except InputError as error:
            raise self.in_words(error) from None

    def in_words(self, error: InputError) -> InputError:
        """Give an error of the core, which knows no options of the command line, with them."""
        add = f"add --destroy-data {self.given} to destroy that"
        error.args = (str(error).replace("allow its data to be destroyed", add),)
        return error

    def document(self, info: dict[str, Any]) -> dict[str, Any]:
        """Tell the device for a result: what decides on the figures, and how it was asked for."""
        found = {
            key: info[key]
            for key in ("name", "model", "kind", "capacity_bytes", "sector_bytes", "queue_depth")
        }
        document: dict[str, Any] = {"given": self.given, **found}
        if self.drive is not None:
            document["summary"] = self.drive.profile["summary"]
            document["profile_hash"] = self.drive.profile_hash
            document["overrides"] = list(self.drive.overrides)
            if self.drive.slice is not None:
                document["slice"] = dict(self.drive.slice)
            document["state"] = {"kind": self.state}
            if self.overwrites is not None:
                document["state"]["overwrites"] = self.overwrites
            if self.array is not None:
                document["state"]["array"] = self.array.document()
        return document


def profile_of(text: str) -> dict[str, Any]:
    """Give the settings of a simulated drive by its text, such as `profile(a16, op=10%)`.

    Raises InputError if it is none, or something in it is wrong.
    """
    profile: dict[str, Any] | None = json.loads(_core.read_setting("device", text)).get("profile")
    if profile is None:
        devices.profile_text(text)
        raise InputError(f"{text}: it is no simulated drive; right would be a profile's name")
    return profile


def drive_of(profile: Mapping[str, Any]) -> devices.DriveProfile:
    """Give the simulated drive of a device's settings: its profile with all changes.

    Raises InputError if there is no such profile, or something in it is wrong.
    """
    changes = {key: value for key, value in profile.items() if "." in key}
    own = {
        "ftl.over_provisioning": profile.get("op"),
        "ftl.placement": profile.get("placement"),
        "ftl.victim": profile.get("victim"),
    }
    changes |= {key: value for key, value in own.items() if value is not None}
    if profile.get("placement") and "ftl.victim" not in changes:
        changes["ftl.victim"] = own_victim(profile["placement"])
    return devices.DriveProfile.load(
        profile["name"], [f"{key}={value}" for key, value in changes.items()]
    )


def _disk(found: Mapping[str, Any], seed: int, access: str) -> Target:
    region, path = found.get("region"), found["path"]
    offset, length = map(int, region.split("+")) if region else (0, None)
    if found.get("create") and "(" not in path:
        _create(path, found["create"])
    if "(" in path and not Path(path).exists():
        raise InputError(f"disk({path}): it takes a path; write {path} by itself, for all of it")
    if not Path(path).exists():
        names = ", ".join(profile["name"] for profile in _core.variants("profile"))
        raise InputError(
            f"{path}: no such device, file or profile; file({path}, create=4Gi) makes a file; "
            f"simulated drives that are built in are: {names}"
        )
    return Target(
        path,
        access=access,
        region=Region(offset, length),
        seed=seed,
        is_polled=bool(found.get("polled")),
        endurance_tbw=found.get("tbw"),
    )


def _create(path: str, size_bytes: int) -> None:
    """Make a file, if there is none yet.

    Raises InputError if there is no folder for it.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder} to make it in; make it first")
    if not Path(path).exists():
        work(
            f"Writing {path}",
            "bytes",
            lambda progress: _core.create_file(path, size_bytes, progress),
        )


def _is_memory(given: str) -> bool:
    return re.match(rf"{MEMORY}($|[(?])", given) is not None
