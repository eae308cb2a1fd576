"""`flashwright device`: what a profile of a simulated drive says, and profiles of one's own."""

from __future__ import annotations

import os
from pathlib import Path

import click

from flashwright._core import InputError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Listed, Named, split_assignments
from flashwright.cli.options import all_of, argument, option, options
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutFile
from flashwright.outputs import PROFILE, write_text
from flashwright.terminal import print_table, say

OF_ROWS = (".csv", ".json")
"""Endings of files with measurements."""
OF_MQSIM = ".xml"
MEASURED = ("drive", "data_sheet", "slices", "jobs")
"""Parameters of what is measured alone."""


@click.command(
    cls=GroupedCommand,
    groups={"Measured drives": ["against", "drive", "data_sheet", "slices", "jobs"]},
    short_help="A drive's profile, what it comes to, and profiles of one's own.",
)
@options
def device(
    *,
    what: tuple[str, ...] = argument(type=Named("profile", or_file=True), nargs=-1, required=True),
    out: Path | None = option(
        "Write the profile there, to go on from.", type=OutFile(PROFILE), metavar="FILE"
    ),
    against: tuple[str, ...] = option(
        "Play each row of these measurements on the profile: measured, predicted, error. a,b or "
        "again for each.",
        type=click.Path(dir_okay=False, exists=True),
        cls=Listed,
        metavar="ROWS",
    ),
    drive: str | None = option("The drive whose rows are meant.", metavar="NAME"),
    data_sheet: tuple[str, ...] = option(
        "What the data sheet says of a drive that a profile is fitted to: capacity_gb, pcie, "
        "sequential_read_mb_s, sequential_write_mb_s, random_read_iops, random_write_iops, "
        "read_latency_us, write_latency_us. a=1,b=2 or again for each.",
        cls=Listed,
        split=split_assignments,
        metavar="KEY=VALUE",
    ),
    slices: int | None = option(
        "A fitted profile is one of N slices of the drive: quicker to simulate, as fast as the "
        "whole.  [default: such that one has some 15 to 30 GB]",
        type=click.IntRange(1, 65_536),
    ),
    jobs: int | None = option(
        "Simulations at a time.  [default: one a core]", type=click.IntRange(1, 256)
    ),
    to: Json = all_of(Json),
) -> None:
    """Print a profile, a built-in name or the path of a TOML file, and what it comes to. Or make
    one: of measurements (CSV tables, JSON files of fio's), or of a configuration of MQSim.

    \b
    Examples:
      flashwright device intel-x25e
      flashwright device 'profile(intel-x25e, op=10%)' --out my.toml
      flashwright play 'io:random(reads=1)' --on my.toml
      flashwright device writes.csv latency.csv --drive mine --out mine.toml
      flashwright device fill.json random.json --drive mine \\
          --data-sheet capacity_gb=960,pcie=4 --out mine.toml
      flashwright device mine.toml --against writes.csv,latency.csv --drive mine
      flashwright device ssdconfig.xml workload.xml --out mine.toml

    `docs/profiles.md` explains every key. A key that is set joins `fitted`: its value is not the
    published one any more. A fit takes one to three minutes; `docs/measured.md` has the columns of
    measurements, how each row is played, and what each step of the fit rests on. A row that a
    profile was fitted to is no prediction. `docs/mqsim.md` has what becomes of MQSim's keys.
    """  # noqa: D205
    from flashwright.cli import measured
    from flashwright.cli.import_mqsim import import_mqsim

    paths = tuple(map(Path, what))
    threads = jobs or os.cpu_count() or 1
    if all(map(_is_of_rows, paths)):
        _refuse(["against"], "it is of a profile, and these are measurements")
        measured.fit(paths, drive, data_sheet, slices, _needed(out), threads, to)
    elif all(path.suffix == OF_MQSIM for path in paths):
        _refuse([*MEASURED, "against"], "it is of measurements, and this is MQSim's")
        if len(paths) > 2:
            raise InputError(f"{paths[2]}: MQSim has a configuration and a workload; give both")
        import_mqsim(paths[0], paths[1] if len(paths) > 1 else None, _needed(out), to)
    elif len(what) > 1:
        raise InputError(
            f"{what[1]}: one profile at a time; measurements end in {' or '.join(OF_ROWS)}, "
            f"MQSim's files in {OF_MQSIM}"
        )
    elif against:
        _refuse(["out", "data_sheet", "slices"], "with --against nothing is made")
        measured.predict(what[0], tuple(map(Path, against)), drive, threads, to)
    else:
        _refuse(MEASURED, "it is of measurements, and this is a profile")
        _show(what[0], out, to)


def _is_of_rows(path: Path) -> bool:
    return path.suffix in OF_ROWS or (path.is_file() and path.suffix not in (OF_MQSIM, ".toml"))


def _needed(out: Path | None) -> Path:
    if out is None:
        raise click.UsageError("--out: say where the profile is to be written")
    return out


def _refuse(names: list[str] | tuple[str, ...], why: str) -> None:
    context = click.get_current_context()
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        if one.name in names and source is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{one.opts[0]}: {why}")


def _show(profile: str, out: Path | None, to: Json) -> None:
    from flashwright.devices import profile_text
    from flashwright.jobs.play import said
    from flashwright.probing.targets import drive_of, profile_of

    found = drive_of(profile_of(profile))
    # Only the file as it is has the comments that say where a value is from.
    text = found.toml if found.overrides else profile_text(found.given)[0]
    if out is not None:
        write_text(out, text, PROFILE)
    to.write({**found.document(), "keys": found.profile})
    if to.is_only_json:
        return
    if out is None:
        # A file as it is: its comments are broken into lines already.
        click.echo(text.rstrip())
    print_table(
        [("", "left"), ("", "right")],
        said.drive(found.document()),
        f"{found.name}: what it comes to",
    )
    say(said.fitted(found.document()))
    if out is not None:
        say(f"Profile: {out}")
