"""Options of commands that take any device, real or simulated: what may be done to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flashwright.cli.lists import Listed
from flashwright.cli.options import option

if TYPE_CHECKING:
    from flashwright.probing.targets import Target


@dataclass(frozen=True)
class TargetOptions:
    """Options of a target: permission to write to it, and the seed of what is done to it."""

    write: bool = option(
        "Allow writes to a block device or file: what is in the region is lost. Simulated drives "
        "and memory are always written."
    )
    destroy_data: tuple[str, ...] = option(
        "Confirm overwriting a device that holds a file system, partitions or other data, by "
        "repeating its path.",
        cls=Listed,
        metavar="PATH",
    )
    seed: int = option("Seed of all that is random.", type=click.IntRange(0, 2**63 - 1), default=1)

    def check(self, *devices: str) -> None:
        """Raise click.UsageError if options contradict each other, or name no such device."""
        if self.destroy_data and not self.write:
            raise click.UsageError("--destroy-data: it confirms --write; give both")
        paths = [path for path in map(path_of, devices) if path is not None]
        for path in self.destroy_data:
            if path not in paths:
                right = paths[0] if paths else "a block device or file"
                raise click.UsageError(f"--destroy-data {path}: it must repeat the device, {right}")

    def target(self, device: str) -> Target:
        """Find a device, made first if that is asked for, with what may be done to it.

        Raises InputError if there is none of that name, or something in it is wrong.
        """
        from flashwright.probing.targets import Target

        access = (
            "destroy_data"
            if path_of(device) in self.destroy_data
            else "write"
            if self.write
            else "read_only"
        )
        return Target.find(device, seed=self.seed, access=access)


def path_of(device: str) -> str | None:
    """Give the path that a device's text names; None of what is no disk or file."""
    from flashwright import _core

    found = json.loads(_core.read_setting("device", device)).get("disk")
    return None if found is None else str(found["path"])
