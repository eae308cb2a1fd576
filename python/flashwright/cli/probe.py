"""`flashwright probe`: measures a drive from outside, and finds out how it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright.cli.options import Number, output_options, seed_option, set_option
from flashwright.cli.output import finish, prints_only_json

if TYPE_CHECKING:
    from flashwright.cli.probe_runs import Asked


_UNITS = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate("kmgt", 1)},
    **{f"{unit}i": 1024**power for power, unit in enumerate("kmgt", 1)},
}


def _size(text: str) -> int | None:
    """Read bytes: k, M, G, T are thousands, Ki, Mi, Gi, Ti powers of two. None if it is no size."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]i?|)b?", text.strip().lower())
    return int(match[1]) * _UNITS[match[2]] if match else None


class ByteSize(click.ParamType["int"]):
    """A size of a file in bytes: `1Gi`, `500M`."""

    name = "BYTES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the size: at least 1 byte."""
        found = value if isinstance(value, int) else _size(str(value))
        if not found:
            self.fail(f"{value!r} is not a size in bytes: write 1Gi or 500M", param, ctx)
        return found


class RegionText(click.ParamType["tuple[int, int]"]):
    """A part of a device: `LENGTH` from its start, or `OFFSET+LENGTH`; sizes as `512Mi`, `1G`, `4096`."""

    name = "[OFFSET+]LENGTH"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Read offset and length in bytes."""
        if isinstance(value, tuple):
            return value
        first, plus, second = str(value).partition("+")
        offset, length = (_size(text) for text in ((first, second) if plus else ("0", first)))
        if offset is None or not length:
            self.fail(
                f"{value!r} is not a region: write 1Gi, or 512Mi+1Gi for the 1 GiB behind the first 512 MiB", param, ctx
            )
        return offset, length


@click.command(short_help="Measure any drive from outside, and find its inside.")
@click.argument("device", required=False)
@click.option("--quick", is_flag=True, help="The quick set, 2 minutes of the device's time.  [default]")
@click.option("--full", is_flag=True, help="All experiments, 30 minutes of the device's time.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME[(KEY=VALUE,...)]",
    help="This experiment alone, of `flashwright list experiment`. Again for each.",
)
@click.option("--list", "list_them", is_flag=True, help="List the experiments, and do nothing else.")
@click.option(
    "--minutes",
    type=Number(0, min_open=True),
    metavar="M",
    help="Device time of all experiments together.  [default: of the set]",
)
@click.option("--region", type=RegionText(), help="Touch only this part of the device.  [default: all of it]")
@click.option(
    "--write",
    is_flag=True,
    help="Allow experiments that write to a block device or file: what is in the region is lost. Simulated drives and memory are "
    "always written.",
)
@click.option(
    "--destroy-data",
    multiple=True,
    metavar="DEVICE",
    help="The second telling: write even if DEVICE holds a file system, partitions, or other data. Repeat the path.",
)
@click.option(
    "--create", type=ByteSize(), help="First make DEVICE a file of this size, filled with data, if it does not exist."
)
@click.option(
    "--polled",
    is_flag=True,
    help="Ask a real device for completions instead of waiting for its interrupts, if the kernel allows.",
)
@click.option(
    "--endurance-tbw",
    type=Number(0, min_open=True),
    metavar="TB",
    help="Terabytes that the drive's maker lets be written to it: for what share of its life a run takes.",
)
@set_option
@click.option(
    "--state",
    type=click.Choice(["fresh", "filled", "aged"]),
    help="A simulated drive before the first request: erased; every page written once; then overwritten at random.  [default: filled]",
)
@click.option(
    "--overwrites",
    type=Number(0, 1000),
    metavar="X",
    help="With --state aged: random page writes, in capacities of the drive.  [default: 2]",
)
@seed_option("Seed of all that is random.", bits=63)
@click.option(
    "--against",
    metavar="OTHER",
    help="Lay another drive beside it: a run folder of `probe`, or a device, which is probed in the same way.",
)
@click.option(
    "--fit",
    "effort",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    metavar="N",
    help="Search for a profile that behaves as the device does by simulating it N times; 0 for none.",
)
@click.option("--again", is_flag=True, help="Measure anew what the run folder holds already.")
@output_options
def probe(
    device: str | None,
    *,
    only: tuple[str, ...],
    list_them: bool,
    minutes: float | None,
    region: tuple[int, int] | None,
    destroy_data: tuple[str, ...],
    overrides: tuple[str, ...],
    json_path: str | None,
    out: Path | None,
    against: str | None,
    **more: Any,
) -> None:
    """Measure DEVICE by experiments that know nothing of it but the times of its requests.

    DEVICE is a block device, a file, `memory(bytes=1Gi)`, or a simulated drive: a profile of `flashwright list profile` or a TOML file.
    A block device or file is only read unless --write is given.

    \b
    Examples:
      flashwright probe intel-x25e                               a simulated drive, the quick set
      flashwright probe /dev/sdb                                 a real one, read-only
      flashwright probe /dev/sdb --write --region 8Gi --full     all experiments; the first 8 GiB are overwritten
      flashwright probe /mnt/x/file --create 4Gi --write         a file system: a new file of 4 GiB
      flashwright probe intel-x25e --only chunk_size --json -
      flashwright probe intel-x25e --against intel-x25m          two drives in one report

    Each finding is kept in the run folder as soon as its experiment ends: the same command goes on where it was stopped. What each
    experiment does and how to read its values is in docs/probing.md.
    """
    from flashwright.cli import probe_runs
    from flashwright.probing.targets import Target

    if list_them:
        probe_runs.print_experiments(json_path)
        return
    if device is None:
        raise click.UsageError("Missing argument 'DEVICE'; --list lists the experiments")
    asked = _asked(only, minutes, region, destroy_data, more)
    others = [] if against is None or probe_runs.is_run_folder(against) else [against]
    for path in destroy_data:
        if path not in (device, *others):
            raise click.UsageError(f"--destroy-data {path}: it must repeat the device, {device}")
    if more["create"] is not None:
        probe_runs.create(device, more["create"])
    target = Target.find(device, overrides, state=more["state"], overwrites=more["overwrites"])
    target = asked.opened(target)
    other = None if against is None else probe_runs.other(against, asked)
    run, folder, ended = probe_runs.probe(target, asked, out=out, json_path=json_path)
    if other is not None and ended is None:
        place = None if folder is None else folder / "against"
        run, ended = probe_runs.beside(run, other, asked, place, json_path=json_path)
    if not prints_only_json(json_path):
        probe_runs.print_run(run)
    finish(run, out=folder, json_path=json_path, identity=run.result["identity"])
    if ended is not None:
        raise ended


def _asked(
    only: tuple[str, ...],
    minutes: float | None,
    region: tuple[int, int] | None,
    destroy_data: tuple[str, ...],
    more: dict[str, Any],
) -> Asked:
    """Give what is asked for in all, for one drive or two."""
    from flashwright.cli.probe_runs import Asked
    from flashwright.probing.plan import FULL, QUICK
    from flashwright.probing.targets import Region

    sets = [name for name, given in (("--quick", more["quick"]), ("--full", more["full"]), ("--only", only)) if given]
    if len(sets) > 1:
        raise click.UsageError(f"{' and '.join(sets)}: give one of them")
    if destroy_data and not more["write"]:
        raise click.UsageError("--destroy-data: it is the second telling, and --write is the first; give both")
    if more["overwrites"] is not None and more["state"] != "aged":
        raise click.UsageError("--overwrites: it is of --state aged")
    return Asked(
        set_name=FULL if more["full"] else QUICK,
        only=only,
        minutes=minutes,
        region=Region() if region is None else Region(*region),
        seed=more["seed"],
        write=more["write"],
        destroy_data=destroy_data,
        endurance_tbw=more["endurance_tbw"],
        again=more["again"],
        is_polled=more["polled"],
        effort=more["effort"],
    )
