"""The store of a trace of many volumes, as `trace split` wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flashwright._core import InputError
from flashwright._text import count, several
from flashwright.outputs import FLEET_FILE

OPERATIONS = ("reads", "writes", "trims", "flushes")
_NS = 1e-9


class Volume(msgspec.Struct):
    """Counts of a volume."""

    volume: int
    requests: tuple[int, int, int, int]
    """Of OPERATIONS."""
    bytes: tuple[int, int, int, int]
    last_ns: int
    parts: int
    """Files that it lies in."""


class _Manifest(msgspec.Struct):
    complete: bool
    volumes: list[Volume]
    told: dict[str, Any]
    format: str | None = None


@dataclass(frozen=True)
class Fleet:
    """A store, and what its volumes hold."""

    path: Path
    format: str | None
    volumes: list[Volume]
    """Those with the most bytes written first."""
    told: dict[str, Any]
    """Facts found while it was split: `skipped`, `clamped_times`, `left_out`, `warnings`."""

    def folder(self, volume: int) -> str:
        """Give the folder of a volume: a trace like any other."""
        return str(self.path / f"volume={volume}")

    @property
    def seconds(self) -> float:
        """Time from the first request to the latest."""
        return max((one.last_ns for one in self.volumes), default=0) * _NS

    def check(self, volume: Volume) -> None:
        """Raise InputError if a volume has not the files that the split wrote."""
        folder = Path(self.folder(volume.volume))
        parts = len(list(folder.glob("time=*/part-*.parquet")))
        if parts != volume.parts:
            raise InputError(
                f"{folder}: it has {several(parts, 'file')}, and {FLEET_FILE} says "
                f"{count(volume.parts)}; right would be the store as `flashwright trace split` "
                "wrote it"
            )


def open_fleet(source: str | Path) -> Fleet:
    """Read what a store is of. Raises InputError if it is none, or its split has not ended."""
    path = Path(source)
    try:
        found = msgspec.json.decode((path / FLEET_FILE).read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{path / FLEET_FILE}: no store of volumes: {error}; right would be what `flashwright "
            "trace split` wrote"
        ) from error
    if not found.complete:
        raise InputError(
            f"{path}: its split was stopped before the end; right would be the same "
            "`flashwright trace split` once more, which goes on"
        )
    if not found.volumes:
        raise InputError(f"{path}: it has no requests; right would be the store of a trace")
    volumes = sorted(found.volumes, key=lambda one: (-one.bytes[1], one.volume))
    return Fleet(path, found.format, volumes, found.told)
