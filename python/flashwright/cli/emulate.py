"""`flashwright emulate`: a simulated drive on the wall clock, for whatever uses a block device."""

from __future__ import annotations

import stat
from pathlib import Path

import click

from flashwright.cli.lists import Named
from flashwright.cli.options import Size, takes
from flashwright.cli.outputs import OutPlace
from flashwright.cli.volume_options import Metrics, Ways, depth_option, serve_by


@click.command(short_help="A simulated drive as a block device that answers in its own time.")
@click.argument("profile", type=Named("profile", or_file=True))
@click.option(
    "--size",
    type=Size(),
    help="Its capacity, by fewer erase blocks.  [default: the profile's]",
)
@click.option(
    "--data",
    type=OutPlace("a drive's file", may_be=(stat.S_IFREG,)),
    metavar="FILE",
    help="Keep its bytes in this sparse file.  [default: in memory]",
)
@click.option(
    "--state",
    type=click.Choice(["fresh", "filled", "aged"]),
    default="filled",
    show_default=True,
    help="The drive before the first request; aged: then each page was written twice more.",
)
@click.option("--seed", default=1, show_default=True, help="Seed of its policies and its aging.")
@takes(Ways, "ways")
@depth_option
@takes(Metrics, "metrics")
def emulate(
    profile: str,
    *,
    size: int | None,
    data: Path | None,
    state: str,
    seed: int,
    ways: Ways,
    depth: int,
    metrics: Metrics,
) -> None:
    """Answer as the drive PROFILE would, on the wall clock, with data, until Ctrl-C.

    PROFILE is a built-in name (`flashwright list profile`) or the path of a TOML file.

    \b
    Examples:
      flashwright emulate intel-x25e --size 8G --data drive.img --nbd drive.sock
      flashwright emulate sd-card --size 2G --fuse /mnt/drive --metrics drive.prom

    What its flash does is in the metrics: flashwright_flash_page_programs_total and others;
    `flashwright top drive.prom` shows it live. A volume can lie on such a drive, too: `flashwright
    volume create 'emulated(profile=sd-card,size=2Gi,data=drive.img)' --stack log_volume`; its bytes
    stay in the file, and the drive inside starts again each time that it is opened, in the state
    that is given.
    """
    words = [f"profile={profile}", f"state={state}", f"seed={seed}"]
    if size is not None:
        words.append(f"size={size}")
    if data is not None:
        words.append(f"data={data.absolute()}")
    serve_by(ways, f"emulated({','.join(words)})", depth, metrics, bare=True)
