"""What is probed: a block device, a file, memory, or a simulated drive; and which part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _core, devices
from flashwright._core import InputError
from flashwright._text import size

if TYPE_CHECKING:
    from flashwright._core import Progress

MEMORY = "memory"
SIMULATED = "sim:"
ACCESSES = ("read_only", "write", "destroy_data")
"""What may be done to a real device: nothing; write to it if it holds no data; write to it whatever
it holds.
"""


LEAST_REGION_BYTES = 1 << 20
"""Below that, requests of the sizes that databases send do not even have places enough to be
random.
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
    """As `flashwright list array` names it, such as `raid5(unit=64Ki)`."""
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
    drive: devices.Device | None = None
    """The simulated drive; None for any other device."""
    state: str = "filled"
    overwrites: float | None = None
    access: str = ACCESSES[0]
    region: Region = Region()
    """Where it may be written: what it holds elsewhere is in nobody's way."""
    seed: int = 1
    is_polled: bool = False
    """Whether completions of a real device are asked for, instead of waited for."""
    queue_depth: int = 256
    """Most requests outstanding on a real device."""
    most_bytes: int = 1 << 20
    """Longest request to a real device, in bytes."""
    holds_data: bool = False
    """Whether writes bring bytes and reads give them back; else it is only measured."""
    array: DriveArray | None = None
    """Of how many such drives it is made; None for one."""

    @staticmethod
    def find(
        given: str,
        overrides: Sequence[str] = (),
        *,
        state: str | None = None,
        overwrites: float | None = None,
        array: DriveArray | None = None,
    ) -> Target:
        """Find what a name means.

        A built-in profile, the path of a profile, of a file or of a block device, or `memory(...)`.

        Raises InputError if there is nothing of that name, or it cannot have these overrides or
        this state.
        """
        name = given.removeprefix(SIMULATED)
        if given.startswith(SIMULATED) or _is_profile(given):
            drive = devices.Device.load(name, overrides)
            # On a real drive in use every page has been written, and there is no way to tell more
            # of it.
            chosen = state or "filled"
            return Target(
                given,
                drive,
                chosen,
                (2.0 if overwrites is None else overwrites) if chosen == "aged" else None,
                array=array,
            )
        for option, value in (
            ("--set", overrides),
            ("--state", state),
            ("--overwrites", overwrites),
            ("--array", array),
        ):
            if value:
                raise InputError(f"{option}: it is for a simulated drive, and {given} is none")
        if not _is_memory(given) and not Path(given).exists():
            if "/" in given and not given.startswith("/dev/"):
                raise InputError(f"{given}: no such file; --create 4Gi makes one")
            names = ", ".join(profile["name"] for profile in _core.profiles())
            raise InputError(
                f"{given}: no such device, file or profile; simulated drives that are built in "
                f"are: {names}"
            )
        return Target(given)

    def opened_by(
        self, access: str, seed: int, *, region: Region | None = None, is_polled: bool = False
    ) -> Target:
        """Give the same with what may be done to it, in which region, and a seed.

        The region is all of it if none is given; the seed is of what is random.
        """
        return replace(
            self, access=access, seed=seed, region=region or Region(), is_polled=is_polled
        )

    def taking(self, queue_depth: int, most_bytes: int) -> Target:
        """Give the same that takes so many requests of up to so many bytes at once.

        If it is real.
        """
        return replace(self, queue_depth=queue_depth, most_bytes=most_bytes)

    @property
    def is_simulated(self) -> bool:
        """Whether it is a simulated drive."""
        return self.drive is not None

    @property
    def is_real(self) -> bool:
        """Whether there may be data on it that somebody wants to keep."""
        return self.drive is None and not _is_memory(self.given)

    @property
    def may_write(self) -> bool:
        """Whether experiments may write to it: always to what holds nobody's data."""
        return not self.is_real or self.access != ACCESSES[0]

    @property
    def opening(self) -> tuple[str, str]:
        """What takes time when it is opened, and what its progress counts."""
        if self.is_real and self.access == "write":
            return f"Looking for data on {self.name}", "bytes"
        return f"Opening {self.name}", "page writes"

    @cached_property
    def name(self) -> str:
        """What it is called in results."""
        if self.drive is None:
            return self.given
        if self.array is None:
            return self.drive.name
        without = "" if self.array.missing is None else f" without drive {self.array.missing}"
        return f"{self.array.kind} of {self.array.drives} {self.drive.name}{without}"

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
            # The core knows no options of the command line.
            said = str(error).replace(
                "allow its data to be destroyed", f"add --destroy-data {self.given} to destroy that"
            )
            raise InputError(said) from None

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


def is_virtual(given: str) -> bool:
    """Tell whether a name means a simulated drive or memory, and not a file or a block device."""
    return given.startswith(SIMULATED) or _is_profile(given) or _is_memory(given)


def _is_memory(given: str) -> bool:
    return re.match(rf"{MEMORY}($|[(?])", given) is not None


def _is_profile(given: str) -> bool:
    if given in (profile["name"] for profile in _core.profiles()):
        return True
    path = Path(given)
    return path.suffix == ".toml" and path.is_file()
