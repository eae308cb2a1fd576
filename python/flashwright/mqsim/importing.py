"""An import as a whole: the profile, the commands, and what became of every key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright.mqsim.device import MqsimDrive
from flashwright.mqsim.notes import Notes, Told, Untold
from flashwright.mqsim.workload import Workload
from flashwright.outputs import PROFILE, write_text

MOST_LINES = 4
"""Lines of a file that a row names."""


@dataclass
class Row:
    """Translation of a key, in all places where it has this value."""

    key: str
    value: str
    to: str
    said: str
    """The remark, or the reason."""
    lines: list[int] = field(default_factory=list)

    def places(self) -> str:
        """Say where it stands."""
        if not self.lines:
            return "left out"
        named = ", ".join(map(str, self.lines[:MOST_LINES]))
        more = len(self.lines) - MOST_LINES
        return f"{named} and {more} more" if more > 0 else named


class Import:
    """Import of a configuration, and of a workload if there is one."""

    def __init__(self, config: Path, workload: Path | None, out: Path) -> None:
        self.device = MqsimDrive(config)
        self.workload = None if workload is None else Workload(workload)
        self.out = out
        self.toml = self.device.profile([] if self.workload is None else self.workload.caching)
        self.summary = _core.profile_summary(_core.check_profile(self.toml, str(out)))
        if self.workload is not None:
            self.workload.translate(self.device, self.summary["capacity_bytes"], str(out))

    def write(self) -> None:
        """Write the profile. Raises InputError if it cannot be written."""
        write_text(self.out, self.toml, PROFILE)

    def document(self) -> dict[str, Any]:
        """Tell all of it for JSON."""
        keys = {notes.values.element.name: notes.document() for notes in self.device.notes}
        scenarios = [] if self.workload is None else self.workload.scenarios
        return {
            "profile": str(self.out),
            "name": self.summary["name"],
            "capacity_bytes": self.summary["capacity_bytes"],
            "keys": keys,
            "scenarios": [scenario.document() for scenario in scenarios],
        }

    def files(self) -> Iterator[tuple[Path, list[Notes]]]:
        """Give each file with what became of its keys."""
        yield self.device.path, list(self.device.notes)
        if self.workload is not None:
            flows = (flow for scenario in self.workload.scenarios for flow in scenario.flows)
            yield self.workload.path, [flow.notes for flow in flows]


def told(notes: Iterable[Notes]) -> list[Row]:
    """Give what is translated, equal keys of several flows in one row."""
    return _rows((one, one.to, one.remark) for note in notes for one in note.told)


def untold(notes: Iterable[Notes]) -> list[Row]:
    """Give what is not, equal keys of several flows in one row."""
    return _rows((one, "", one.reason) for note in notes for one in note.untold)


def _rows(all_of: Iterable[tuple[Told | Untold, str, str]]) -> list[Row]:
    rows: dict[tuple[str, str, str, str], Row] = {}
    for one, to, said in all_of:
        row = rows.setdefault((one.key, one.value, to, said), Row(one.key, one.value, to, said))
        if one.line is not None:
            row.lines.append(one.line)
    return list(rows.values())
