"""Simulations that are finished, beside the run that they are of: none is done twice.

They lie below `simulations` in the run folder, as results of sweeps lie in their store. Each is
named by all that decides on it: our code, the workload's content, and what was asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from flashwright.engine.store import Store
from flashwright.engine.task import Outcome, version_hash
from flashwright.outputs import SIMULATIONS
from flashwright.runs import plain, table

_TABLES = "tables"


def key_of(*asked: Any) -> str:
    """Name a simulation by what decides on it: our code, and values that JSON holds."""
    said = json.dumps([version_hash(), plain(asked)], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:32]


class Kept:
    """Finished simulations of a run; without a folder none is kept."""

    def __init__(self, run_folder: Path | None) -> None:
        self._folder = None if run_folder is None else run_folder / SIMULATIONS
        self._store = None if self._folder is None else Store(str(self._folder))

    @property
    def is_on(self) -> bool:
        """True if results are kept."""
        return self._store is not None

    def has(self, key: str | None) -> bool:
        """Tell whether the simulation of that name is finished; None is one that has no name."""
        return self._outcome(key) is not None

    def remember(self, key: str | None, simulate: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Give the result of a simulation: the one that is kept, or else a new one, and keep that.

        What is in `tables` is kept as columns, all else as JSON. What cannot be written or read is
        not kept: the simulation itself has not failed then.
        """
        found = self._read(key)
        if found is None:
            found = simulate()
            if key is not None and self._store is not None:
                figures = {name: one for name, one in found.items() if name != _TABLES}
                with contextlib.suppress(OSError, TypeError, ValueError, NotImplementedError):
                    tables = {name: table(one) for name, one in found.get(_TABLES, {}).items()}
                    self._store.put(Outcome(key, "done", figures, tuple(tables)), tables)
        return found

    def drop_all_but(self, keys: Collection[str | None]) -> None:
        """Remove what is of other runs that had the same folder."""
        for path in self._folder.glob("*/*") if self._folder is not None else ():
            if path.name.partition(".")[0] not in keys:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _outcome(self, key: str | None) -> Outcome | None:
        if self._store is None or key is None:
            return None
        return next(self._store.known([key]), None)

    def _read(self, key: str | None) -> dict[str, Any] | None:
        outcome = self._outcome(key)
        if outcome is None or self._store is None:
            return None
        tables: dict[str, Any] = {}
        for name in outcome.tables:
            found = self._store.table(outcome.key, name)
            if found is None:
                return None
            tables[name] = dict(zip(found.column_names, found.columns, strict=True))
        return {**outcome.figures, _TABLES: tables}
