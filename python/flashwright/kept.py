"""Simulations that are finished, beside the run that they are of: none is done twice.

Each has a folder of its own below `simulations` in the run folder, named by all that decides on
its result: the simulator that is installed, the workload's content, and what was asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright.outputs import SIMULATIONS
from flashwright.runs import plain, table

_SCALARS = "figures.json"
_SUFFIX = ".parquet"
_TABLES = "tables"


def key_of(*asked: Any) -> str:
    """Name a simulation by what decides on it: values that JSON holds.

    The same with another build of the simulator is another one.
    """
    built = Path(_core.__file__).stat()
    said = [_core.__version__, built.st_size, built.st_mtime_ns, plain(asked)]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


class Kept:
    """Finished simulations of a run; without a folder none is kept."""

    def __init__(self, run_folder: Path | None) -> None:
        self._folder = None if run_folder is None else run_folder / SIMULATIONS

    @property
    def is_on(self) -> bool:
        """True if results are kept."""
        return self._folder is not None

    def has(self, key: str | None) -> bool:
        """Tell whether the simulation of that name is finished; None is one that has no name."""
        return (
            self._folder is not None
            and key is not None
            and (self._folder / key / _SCALARS).is_file()
        )

    def remember(self, key: str | None, simulate: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Give the result of a simulation: the one that is kept, or else a new one, and keep that.

        What is in `tables` is kept as columns, all else as JSON. What cannot be written or read is
        not kept: the simulation itself has not failed then.
        """
        found = self._read(key) if self.has(key) else None
        if found is None:
            found = simulate()
            if key is not None:
                self._write(key, found)
        return found

    def drop_all_but(self, keys: Collection[str | None]) -> None:
        """Remove what is of other runs that had the same folder."""
        if self._folder is None or not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            if path.name not in keys:
                shutil.rmtree(path, ignore_errors=True)

    def _read(self, key: str | None) -> dict[str, Any] | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        assert self._folder is not None  # noqa: S101  (`has` was asked)
        folder = self._folder / str(key)
        try:
            found: dict[str, Any] = json.loads((folder / _SCALARS).read_text(encoding="utf-8"))
            found[_TABLES] = {
                name: dict(zip(columns.column_names, columns.columns, strict=True))
                for name in found[_TABLES]
                for columns in [pq.read_table(folder / f"{name}{_SUFFIX}")]
            }
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return None
        return found

    def _write(self, key: str, found: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        part = self._folder / f".{key}.{secrets.token_hex(8)}.part"
        try:
            part.mkdir(parents=True)
            tables = found.get(_TABLES, {})
            for name, columns in tables.items():
                pq.write_table(table(columns), part / f"{name}{_SUFFIX}")
            scalars = {**found, _TABLES: list(tables)}
            (part / _SCALARS).write_text(json.dumps(scalars), encoding="utf-8")
            # Whole or not at all: a process may be killed at any moment.
            with contextlib.suppress(OSError):
                part.rename(self._folder / key)
        except (OSError, TypeError, pa.ArrowException):
            pass
        finally:
            shutil.rmtree(part, ignore_errors=True)
