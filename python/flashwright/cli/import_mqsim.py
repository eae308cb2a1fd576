"""`flashwright device import-mqsim`: a configuration of MQSim as a profile and commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright.cli.options import takes
from flashwright.cli.output import Json, print_table, say
from flashwright.cli.outputs import OutFile
from flashwright.outputs import PROFILE

if TYPE_CHECKING:
    from flashwright.mqsim.importing import Import

LEFT = "left"


@click.command("import-mqsim", short_help="A profile of a configuration of MQSim.")
@click.argument("config", type=click.Path(path_type=Path), metavar="SSDCONFIG.xml")
@click.option(
    "--workload",
    type=click.Path(path_type=Path),
    metavar="WORKLOAD.xml",
    help="MQSim's workload too: each scenario becomes a `flashwright simulate` that plays it.",
)
@click.option(
    "--out",
    type=OutFile(PROFILE),
    metavar="PROFILE.toml",
    required=True,
    help="Write the profile there.",
)
@takes(Json, "to")
def import_mqsim(config: Path, workload: Path | None, out: Path, to: Json) -> None:
    """Make a profile of SSDCONFIG.xml, a configuration of the simulator MQSim.

    \b
    Examples:
      flashwright device import-mqsim ssdconfig.xml --out mine.toml
      flashwright device import-mqsim ssdconfig.xml --workload workload.xml --out mine.toml

    Every key is listed: what it is here, what it means else, and those that are nothing here, with
    the reason. `docs/mqsim.md` has the whole table.
    """
    from flashwright.mqsim.importing import Import

    found = Import(config, workload, out)
    found.write()
    to.write(found.document())
    if not to.is_only_json:
        _print(found)


def _print(found: Import) -> None:
    from flashwright.mqsim.importing import told, untold

    translated = [(row, path) for path, notes in found.files() for row in told(notes)]
    left = [(row, path) for path, notes in found.files() for row in untold(notes)]
    print_table(
        [("key", LEFT), ("value", LEFT), ("line", LEFT), ("here", LEFT)],
        [(row.key, row.value, row.places(), row.to) for row, _ in translated],
        "Translated",
    )
    print_table(
        [("key", LEFT), ("means something else here", LEFT)],
        list(dict.fromkeys((row.key, row.said) for row, _ in translated if row.said)),
        "Translated, with a difference",
    )
    print_table(
        [("key", LEFT), ("value", LEFT), ("line", LEFT), ("why not", LEFT)],
        [(row.key, row.value, f"{path.name}: {row.places()}", row.said) for row, path in left],
        "Not translated",
    )
    for scenario in [] if found.workload is None else found.workload.scenarios:
        say(f"\nScenario {scenario.number}:")
        say(f"    {_command(scenario.command)}")
    say(f"\nProfile: {found.out}")


def _command(words: list[str]) -> str:
    """Give a command as it is typed, a line for each flow beside the first."""
    lines: list[list[str]] = [[]]
    for word in words:
        if word == "--beside":
            lines.append([])
        lines[-1].append(word)
    return " \\\n        ".join(shlex.join(line) for line in lines)
