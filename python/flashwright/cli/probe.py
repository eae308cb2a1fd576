"""`flashwright probe`: measures a drive from outside, and finds out how it is made."""

from __future__ import annotations

from dataclasses import replace

import click

from flashwright.cli import probe_runs
from flashwright.cli.lists import ANY_DEVICE
from flashwright.cli.options import all_of, argument, at_most_one, option, options
from flashwright.cli.output import Output
from flashwright.cli.probe_runs import ProbeOptions
from flashwright.cli.target_options import TargetOptions


@click.command(short_help="Measure any drive from outside, and find its inside.")
@options
def probe(
    *,
    device: str | None = argument(type=ANY_DEVICE, required=False),
    options: ProbeOptions = all_of(ProbeOptions),
    list_them: bool = option("List the experiments, and do nothing else.", "--list"),
    on: TargetOptions = all_of(TargetOptions),
    against: str | None = option(
        "Lay another drive beside it: a run folder of `probe`, or a device, which is probed in "
        "the same way.",
        metavar="OTHER",
    ),
    output: Output = all_of(Output),
) -> None:
    """Measure DEVICE by experiments that know nothing of it but the times of its requests.

    DEVICE is a block device, an NVMe namespace (/dev/ng0n1: its own commands, past the block
    layer), a file, `memory(bytes=1Gi)`, `hard_disk`, or a simulated drive: of `flashwright list
    profile` or a TOML file. What belongs to it is written in it. A device or file is only read
    unless --write is given.

    \b
    Examples:
      flashwright probe intel-x25e                               a simulated drive, the quick set
      flashwright probe /dev/sdb                                 a real one, read-only
      flashwright probe 'disk(/dev/sdb, region=8Gi)' --write --full
                                                                 all experiments; the first 8 GiB
                                                                 are overwritten
      flashwright probe 'file(/mnt/x, create=4Gi)' --write       a file system: a new file of 4 GiB
      flashwright probe 'profile(intel-x25e, state=aged)'        after long use
      flashwright probe intel-x25e --only chunk_size --json -
      flashwright probe intel-x25e --against intel-x25m          two drives in one report

    Each finding is kept in the run folder as soon as its experiment ends: the same command goes on
    where it was stopped. What each experiment does and how to read its values is in
    docs/probing.md.
    """
    if list_them:
        probe_runs.print_experiments(output)
        return
    if device is None:
        raise click.UsageError("Missing argument 'DEVICE'; --list lists the experiments")
    at_most_one(
        {"--quick": options.quick, "--full": options.full, "--only": options.only},
        "give one of them",
    )
    others = [] if against is None or probe_runs.is_run_folder(against) else [against]
    on.check(device, *others)
    target = on.target(device)
    other = None if against is None else probe_runs.other(against, on)
    run, folder, ended = probe_runs.probe(target, options, on, output)
    if other is not None and ended is None:
        place = None if folder is None else folder / "against"
        run, ended = probe_runs.beside(run, other, options, on, replace(output, out=place))
    # Kept before it is printed: whoever reads that may stop reading.
    folder = replace(output, out=folder).keep(run)
    if not output.is_only_json:
        probe_runs.print_run(run)
    output.tell_finished(run, folder)
    if ended is not None:
        raise ended
