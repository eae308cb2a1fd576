"""Findings on disk.

One file each, written as soon as the experiment ends, so that a probe goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright._core import InputError, __version__
from flashwright.outputs import replacing
from flashwright.probing.plan import Step, file_of
from flashwright.runs import dump_json

FOLDER = "findings"
Finding = dict[str, Any]
"""A finding as the core gives it, with `budget_seconds` (what the experiment was given) and
`flashwright` (the version).
"""


class Store:
    """The findings of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> dict[str, Finding]:
        """Give the findings that are there, by the experiment with all its parameters.

        Raises InputError if a file is damaged.
        """
        found = {}
        for path in sorted((self.folder / FOLDER).glob("*.json")):
            try:
                finding = json.loads(path.read_text(encoding="utf-8"))
                found[str(finding["experiment"])] = finding
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{path}: not the finding of an experiment: {error}; delete it to measure again"
                ) from error
        return found

    def keep(self, step: Step, text: str) -> Finding:
        """Write the finding of an experiment, and give it.

        A file is there as a whole or not at all.

        Raises InputError if it cannot be written.
        """
        finding = complete(step, text)
        path = self.folder / FOLDER / file_of(finding["experiment"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(dump_json(finding), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot keep the finding: {error.strerror}") from error
        return finding


def complete(step: Step, text: str) -> Finding:
    """Give the finding of an experiment with what is kept beside it."""
    return {"flashwright": __version__, "budget_seconds": step.budget_seconds, **json.loads(text)}


def is_enough(finding: Mapping[str, Any], step: Step) -> bool:
    """Tell whether a finding stands for what is asked: of this version, and with as much time."""
    return bool(
        finding["flashwright"] == __version__
        and finding["budget_seconds"] >= 0.99 * step.budget_seconds
    )
