"""A configuration of MQSim as a profile and commands, for `flashwright device`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from flashwright.cli.output import Json
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.mqsim.importing import Import

LEFT = "left"


def import_mqsim(config: Path, workload: Path | None, out: Path, to: Json) -> None:
    """Make a profile of a configuration of the simulator MQSim, and print what became of each key.

    Of its workload each scenario becomes a `flashwright play`.

    Raises InputError if a file cannot be read.
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
        if word == "--flow":
            lines.append([])
        lines[-1].append(word)
    return " \\\n        ".join(shlex.join(line) for line in lines)
