"""`flashwright serve`: a volume, or a simulated drive, as a block device or a file."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from flashwright import _core
from flashwright._core import InputError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Named
from flashwright.cli.options import all_of, argument, option, options
from flashwright.cli.outputs import OutPlace
from flashwright.cli.volume_options import SERVER, SERVER_OPTIONS, Server, only_with

_EMULATED = "emulated("


class _What(click.types.StringParamType):
    """A device, or an emulated drive: a shell completes its profile."""

    name = "what"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Give the profiles of an emulated drive that is begun, or files."""
        if not incomplete.startswith(_EMULATED):
            return [CompletionItem(incomplete, type="file")]
        found = Named("profile").shell_complete(ctx, param, incomplete.removeprefix(_EMULATED))
        return [CompletionItem(_EMULATED + one.value, help=one.help) for one in found]


@dataclass(frozen=True)
class Ways:
    """Options of access: as a file, over NBD, or as a block device."""

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
    ublk: bool = option(
        "Make it a block device of the kernel, /dev/ublkbN: needs root, and Linux 6.0 or newer "
        "with CONFIG_BLK_DEV_UBLK. Not run on the machine that it was developed on."
    )
    nbdkit: tuple[str, ...] = option(
        "With --nbd: an option for nbdkit, such as --tls=require. Again for each.",
        multiple=True,
        metavar="OPTION",
    )
    link: Path | None = option(
        "With --ublk: make this a symbolic link to the block device, as long as it is there.",
        type=OutPlace("a link", may_be=(stat.S_IFLNK,)),
        metavar="PATH",
    )
    read_only: bool = option("With --ublk: let the block device take no writes.")


@click.command(
    cls=GroupedCommand,
    short_help="Serve a volume, or a simulated drive, as a block device or a file.",
    groups={
        "How it is reached": ("fuse", "nbd", "ublk", "nbdkit", "link", "read_only"),
        "What is served": ("as_volume", "staging"),
        SERVER: SERVER_OPTIONS,
    },
)
@options
def serve(
    *,
    what: str = argument(type=_What()),
    ways: Ways = all_of(Ways),
    as_volume: bool | None = option(
        "Of an emulated drive: serve the volume on it, or the drive as it is.  [default: the "
        "drive, if no volume is on it]",
        "--volume/--drive",
        default=None,
    ),
    server: Server = all_of(Server, {"unit": " With --nbd."}),
) -> None:
    """Serve WHAT until Ctrl-C or SIGTERM, then close it.

    WHAT is the device of a volume, or a simulated drive: `emulated(PROFILE)` answers as that drive
    would, on the wall clock, with data. In the brackets there may also be

    \b
      size=SIZE     its capacity, by fewer erase blocks      [the profile's]
      data=FILE     keep its bytes in this sparse file       [in memory]
      state=STATE   fresh, filled, or aged (each page written twice more)  [filled]
      seed=N        of its policies and its aging            [1]

    PROFILE is a built-in name (`flashwright list profile`) or the path of a TOML file.

    No root is needed if the device may be opened. Nothing listens on the network. The log, a line
    of JSON for each event, goes to standard error.

    \b
    Examples:
      flashwright serve volume.img --nbd /tmp/db.sock
      sudo flashwright serve volume.img --ublk --link /run/db
      flashwright serve 'emulated(intel-x25e,size=8G,data=drive.img)' --nbd drive.sock
      flashwright serve 'emulated(sd-card,size=2G)' --fuse /mnt/drive --metrics drive.prom

    What the flash of a simulated drive does is in the metrics, as
    flashwright_flash_page_programs_total; `flashwright volume info drive.prom --live` shows it. A
    volume can lie on such a drive, too: its bytes stay in the file, and the drive inside starts
    again each time that it is opened, in the state that is given.

    \b
      flashwright volume create 'emulated(sd-card,size=2G,data=card.img)' --stack log_volume
      flashwright serve 'emulated(sd-card,size=2G,data=card.img)' --volume --nbd db.sock
    """
    from flashwright.volumes import serving, units

    if [ways.fuse is not None, ways.nbd is not None, ways.ublk].count(True) != 1:
        raise click.UsageError("give either --fuse or --nbd or --ublk")
    only_with("--nbdkit", ways.nbdkit, ("--nbd", ways.nbd))
    only_with("--link", ways.link, ("--ublk", ways.ublk))
    only_with("--read-only", ways.read_only, ("--ublk", ways.ublk))
    only_with("--unit", server.unit, ("--nbd", ways.nbd))
    settings = server.settings()
    if bare := _is_bare(what, as_volume, server):
        settings["scrub_days"] = 0.0
    how = serving.Serving(what, bare=bare, **settings)
    if server.unit and ways.nbd is not None:
        click.echo(units.of_nbd(how, ways.nbd, ways.nbdkit).rstrip())
    elif ways.nbd is not None:
        serving.serve_nbd(how, ways.nbd, ways.nbdkit)
    elif ways.fuse is not None:
        serving.serve_fuse(how, ways.fuse)
    else:
        serving.serve_ublk(how, ways.link, read_only=ways.read_only)


def _is_bare(what: str, as_volume: bool | None, server: Server) -> bool:
    """Tell whether an emulated drive is served as it is, and not a volume.

    Raises:
        click.UsageError: an option is for what is not served.
        InputError: there is a volume on an emulated drive, and it was not said what to serve.
    """
    drive = _core.emulated_parts(what)
    if drive is None:
        only_with("--drive", as_volume is False, ("an emulated drive", None))
        return False
    if as_volume:
        return False
    for name, given in (
        ("--staging", server.staging),
        ("--memory", server.memory),
        ("--scrub-every", server.scrub_every),
        ("--unit", server.unit),
    ):
        only_with(name, given, ("a volume", None))
    _, data = drive
    uuid = None if as_volume is False or data is None else _volume_on(what, Path(data))
    if uuid is not None:
        raise InputError(
            f"{what}: volume {uuid} is on it: add --volume to serve that, or --drive to serve the "
            "drive as it is"
        )
    return True


def _volume_on(drive: str, data: Path) -> str | None:
    """Give the UUID of the volume on an emulated drive with this file of data; None if none is.

    Raises InputError if the file is not one of this drive.
    """
    if not os.path.lexists(data):
        return None
    _core.check_free(drive)
    if not data.stat().st_size:
        return None
    try:
        return str(_core.volume_about(str(data))["uuid"])
    except InputError as error:
        if "no volume is there" in str(error):
            return None
        raise
