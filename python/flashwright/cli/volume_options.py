"""Options of volumes and emulated drives: how they are reached, and what they may take."""

from __future__ import annotations

import contextlib
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from flashwright._core import InputError
from flashwright.cli.options import Size, option
from flashwright.cli.outputs import OutFile, OutPlace
from flashwright.outputs import METRICS


@dataclass(frozen=True)
class Ways:
    """How a volume, or an emulated drive, is reached."""

    fuse: Path | None = option(
        "Show it as a file by the name of `volume` in this empty directory.",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        metavar="DIR",
    )
    nbd: Path | None = option(
        "Serve NBD on this Unix socket, by nbdkit.",
        type=OutPlace("a socket", may_be=(stat.S_IFSOCK,)),
        metavar="SOCKET",
    )
    nbdkit: tuple[str, ...] = option(
        "An option for nbdkit, such as --tls=require. Again for each.",
        multiple=True,
        metavar="OPTION",
    )
    ublk: bool = option(
        "Make it a block device of the kernel, /dev/ublkbN: needs root, and Linux 6.0 or newer "
        "with CONFIG_BLK_DEV_UBLK. Not run on the machine that it was developed on.",
        is_flag=True,
    )
    link: Path | None = option(
        "Make this a symbolic link to the block device of --ublk, as long as it is there.",
        type=OutPlace("a link", may_be=(stat.S_IFLNK,)),
        metavar="PATH",
    )
    read_only: bool = option("Let the block device of --ublk take no writes.", is_flag=True)


def serve_by(
    ways: Ways,
    device: str,
    depth: int,
    metrics: Metrics,
    *,
    bare: bool,
    staging: str | None = None,
    memory: int | None = None,
    scrub_days: float = 0.0,
) -> None:
    """Serve a device in the way that was chosen, until we are stopped.

    Raises click.UsageError if none was, or several.
    """
    from flashwright.volumes import serving

    if [ways.fuse is not None, ways.nbd is not None, ways.ublk].count(True) != 1:
        raise click.UsageError("give either --fuse or --nbd or --ublk")
    if ways.nbdkit and ways.nbd is None:
        raise click.UsageError("--nbdkit is for --nbd")
    if (ways.link is not None or ways.read_only) and not ways.ublk:
        raise click.UsageError("--link and --read-only are for --ublk")
    how = serving.Serving(
        device, depth, metrics.metrics, metrics.metrics_every, bare, staging, memory, scrub_days
    )
    if ways.nbd is not None:
        serving.serve_nbd(how, ways.nbd, ways.nbdkit)
    elif ways.fuse is not None:
        serving.serve_fuse(how, ways.fuse)
    else:
        serving.serve_ublk(how, ways.link, read_only=ways.read_only)


@contextlib.contextmanager
def naming_destroy_data(*devices: str | None) -> Iterator[None]:
    """Where what one of these devices holds is in the way, say by which option it may go."""
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


depth_option = click.option(
    "--depth",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    metavar="N",
    help="Most commands outstanding at the device.",
)

memory_option = click.option(
    "--memory",
    type=Size(),
    help="Most memory that the volume may take. It is not opened if it may need more.  [default: "
    "no limit; `volume info` shows what it takes]",
)

scrub_option = click.option(
    "--scrub-every",
    "scrub_days",
    type=click.FloatRange(0, 3650),
    default=7.0,
    show_default=True,
    metavar="DAYS",
    help="So long after a scrub the next begins by itself; 0 for only when `volume scrub` asks.",
)

staging_option = click.option(
    "--staging",
    metavar="DEVICE2",
    help="Where the volume's staging device is now.  [default: where it was last]",
)


@dataclass(frozen=True)
class Metrics:
    """The file of metrics."""

    metrics: Path | None = option(
        "Keep a file for the textfile collector of Prometheus' node exporter; `flashwright top` "
        "shows it live.",
        type=OutFile(METRICS),
        metavar="FILE",
    )
    metrics_every: float = option(
        "Write it so often.",
        type=click.FloatRange(min=0.1, max=86_400),
        default=10.0,
        metavar="S",
    )
