"""Results of cells in a JSON file, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright._core import InputError


class Kept:
    """Values by name, each written as soon as it is there."""

    def __init__(self, path: Path) -> None:
        """Read what is there.

        Raises:
            InputError: the file is something else.
        """
        self._path = path
        self._values: dict[str, Any] = {}
        with contextlib.suppress(FileNotFoundError):
            try:
                self._values = dict(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, TypeError) as error:
                raise InputError(
                    f"{path}: it is no file of results ({error}); move it away"
                ) from error

    def get(self, name: str) -> Any:
        """Give a value; None if there is none."""
        return self._values.get(name)

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Keep a value. The file is replaced as a whole, so that it is never half of one."""
        self._values[name] = dict(value)
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps(self._values, indent=1, sort_keys=True), encoding="utf-8")
        beside.replace(self._path)
