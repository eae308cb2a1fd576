"""Options that commands of volumes share, and what they have in common."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flashwright._core import InputError
from flashwright.cli.options import SIZE, option
from flashwright.cli.outputs import OutFile
from flashwright.outputs import METRICS

SERVER = "Its server"
SERVER_OPTIONS = ("depth", "memory", "scrub_every", "metrics", "metrics_every")
"""The group of these options in the help of a command that takes `Server`."""


@dataclass(frozen=True)
class Server:
    """Options of a volume's server, whether the volume is mounted or served otherwise."""

    staging: str | None = option(
        "Where the volume's staging device is now.  [default: where it was last]",
        metavar="DEVICE2",
    )
    depth: int = option(
        "Most commands outstanding at the device.", type=click.IntRange(1, 4096), default=128
    )
    memory: int | None = option(
        "Most memory that the volume may take. It is not opened if it may need more.  [default: no "
        "limit; `volume info` shows what it takes]",
        type=SIZE,
    )
    scrub_every: float | None = option(
        "Days from the end of a scrub to the next; 0 for only when `volume info --scrub` asks.  "
        "[default: 7]",
        type=click.FloatRange(0, 3650),
        metavar="DAYS",
    )
    metrics: Path | None = option(
        "Keep a file for the textfile collector of Prometheus' node exporter; `volume info FILE "
        "--live` shows it.",
        type=OutFile(METRICS),
        metavar="FILE",
    )
    metrics_every: float = option(
        "Seconds between two writes of it.",
        type=click.FloatRange(min=0.1, max=86_400),
        default=10.0,
        metavar="S",
    )
    unit: bool = option("Print a unit of systemd that does this at each start, and do not do it.")

    def settings(self) -> dict[str, Any]:
        """Give it as those who serve take it."""
        from flashwright.volumes.serving import SCRUB_DAYS

        return {
            "staging": self.staging,
            "queue_depth": self.depth,
            "memory_bytes": self.memory,
            "scrub_days": SCRUB_DAYS if self.scrub_every is None else self.scrub_every,
            "metrics": self.metrics,
            "metrics_every": self.metrics_every,
        }


def only_with(named: str, given: object, *others: tuple[str, object]) -> None:
    """Raise click.UsageError if an option was given without one of those that it belongs to."""
    if given and not any(value for _, value in others):
        raise click.UsageError(f"{named} is for {' or '.join(name for name, _ in others)}")


def repeated(named: str, path: str | None, what: str, *devices: str | None) -> bool:
    """Tell whether an option confirms a loss, by repeating the path of one of these devices.

    Raises click.UsageError if it has another path; `what` names what it should be.
    """
    if path is not None and path not in devices:
        raise click.UsageError(f"{named} {path}: repeat the path of {what}, {devices[0]}")
    return path is not None


@contextlib.contextmanager
def naming_destroy_data(*devices: str | None) -> Iterator[None]:
    """Name the option that lets data on one of these devices be lost, if data is in the way."""
    try:
        yield
    except InputError as error:
        said = str(error)
        for device in devices:
            if device is not None and said.startswith(f"device `{device}` "):
                said = said.replace(
                    "allow its data to be destroyed,",
                    f"add --destroy-data {shlex.quote(device)} to destroy that,",
                )
        raise InputError(said) from None
