"""`flashwright probe`: measures a drive from outside, and finds out how it is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright.cli.options import Number, output_options
from flashwright.cli.output import keep, prints_only_json, tell_finished
from flashwright.cli.target_options import check_targets, target_options

if TYPE_CHECKING:
    from flashwright.cli.probe_runs import Asked


@click.command(short_help="Measure any drive from outside, and find its inside.")
@click.argument("device", required=False)
@click.option(
    "--quick", is_flag=True, help="The quick set, 2 minutes of the device's time.  [default]"
)
@click.option("--full", is_flag=True, help="All experiments, 30 minutes of the device's time.")
@click.option(
    "--only",
    multiple=True,
    metavar="NAME[(KEY=VALUE,...)]",
    help="This experiment alone, of `flashwright list experiment`. Again for each.",
)
@click.option(
    "--list", "list_them", is_flag=True, help="List the experiments, and do nothing else."
)
@click.option(
    "--minutes",
    type=Number(0, min_open=True),
    metavar="M",
    help="Device time of all experiments together.  [default: of the set]",
)
@target_options
@click.option(
    "--against",
    metavar="OTHER",
    help="Lay another drive beside it: a run folder of `probe`, or a device, which is probed in "
    "the same way.",
)
@click.option(
    "--fit",
    "effort",
    type=click.IntRange(0),
    default=240,
    show_default=True,
    metavar="N",
    help="Search for a profile that behaves as the device does by simulating it N times at most; 0 "
    "for none. A profile that the run folder has of the same findings is kept.",
)
@click.option(
    "--again", is_flag=True, help="Measure and fit anew what the run folder holds already."
)
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

    DEVICE is a block device, a file, `memory(bytes=1Gi)`, or a simulated drive: a profile of
    `flashwright list profile` or a TOML file. A block device or file is only read unless --write is
    given.

    \b
    Examples:
      flashwright probe intel-x25e                               a simulated drive, the quick set
      flashwright probe /dev/sdb                                 a real one, read-only
      flashwright probe /dev/sdb --write --region 8Gi --full     all experiments;
                                                                 the first 8 GiB are overwritten
      flashwright probe /mnt/x/file --create 4Gi --write         a file system: a new file of 4 GiB
      flashwright probe intel-x25e --only chunk_size --json -
      flashwright probe intel-x25e --against intel-x25m          two drives in one report

    Each finding is kept in the run folder as soon as its experiment ends: the same command goes on
    where it was stopped. What each experiment does and how to read its values is in
    docs/probing.md.
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
    check_targets(
        (device, *others),
        destroy_data,
        write=more["write"],
        state=more["state"],
        overwrites=more["overwrites"],
    )
    if more["create"] is not None:
        probe_runs.create(device, more["create"])
    target = Target.find(device, overrides, state=more["state"], overwrites=more["overwrites"])
    target = asked.opened(target)
    other = None if against is None else probe_runs.other(against, asked)
    run, folder, ended = probe_runs.probe(target, asked, out=out, json_path=json_path)
    if other is not None and ended is None:
        place = None if folder is None else folder / "against"
        run, ended = probe_runs.beside(run, other, asked, place, json_path=json_path)
    # Kept before it is printed: whoever reads that may stop reading.
    folder = keep(run, out=folder, json_path=json_path, identity=run.result["identity"])
    if not prints_only_json(json_path):
        probe_runs.print_run(run)
    tell_finished(run, folder, json_path=json_path)
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

    sets = [
        name
        for name, given in (("--quick", more["quick"]), ("--full", more["full"]), ("--only", only))
        if given
    ]
    if len(sets) > 1:
        raise click.UsageError(f"{' and '.join(sets)}: give one of them")
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
