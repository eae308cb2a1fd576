"""Results by the name of their task, in a folder or in whatever else fsspec reads and writes.

A result is whole or not there at all, also after a kill; two sweeps may use one store at a time.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError
from flashwright.engine.task import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

_MARK = "flashwright-store.json"
_RESULT = ".json"
_TIMES = "times"


@dataclass(frozen=True)
class Times:
    """What jobs of a kind took when some were last done."""

    seconds: float
    """Median."""
    most_bytes: int
    """Most memory that a worker held meanwhile."""
    jobs: int


@dataclass(frozen=True)
class Store:
    """A store by its URL: a folder, `s3://bucket/folder`, `memory://x`."""

    url: str

    @cached_property
    def _place(self) -> tuple[Any, str]:
        import fsspec  # noqa: PLC0415  (most commands have no store)

        try:
            system, root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise InputError(f"{self.url}: cannot open the store: {error}") from error
        return system, str(root).rstrip("/")

    @property
    def is_local(self) -> bool:
        """True if it is a folder of this machine, as far as its URL says."""
        protocol = self._place[0].protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def open(self) -> str:
        """Make it if it is not there, and give its own name, by which a worker knows it.

        Raises InputError if it cannot be written, or the folder holds something else.
        """
        system, root = self._place
        mark = f"{root}/{_MARK}"
        try:
            if not system.exists(mark):
                names = system.ls(root, detail=False) if system.exists(root) else []
                others = [name for name in names if not Path(name).name.startswith(_MARK)]
                # Another sweep may have made it meanwhile: the mark comes before all else.
                if others and not system.exists(mark):
                    raise InputError(
                        f"{self.url}: the folder is not empty and no store; choose another --store"
                    )
                system.makedirs(root, exist_ok=True)
                named = json.dumps({"store": secrets.token_hex(16)}).encode()
                self._put(mark, named, keeps=True)
            return str(json.loads(system.cat_file(mark))["store"])
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{self.url}: cannot write the store: {error}") from error

    def is_the_one(self, name: str) -> bool:
        """Tell whether what is there, seen from this machine, is the store of that name."""
        system, root = self._place
        try:
            return bool(json.loads(system.cat_file(f"{root}/{_MARK}"))["store"] == name)
        except (OSError, ValueError, KeyError):
            return False

    def _path(self, key: str, suffix: str) -> str:
        return f"{self._place[1]}/{key[:2]}/{key}{suffix}"

    def _put(self, path: str, content: bytes, *, keeps: bool = False) -> None:
        """Write a file, whole or not at all; `keeps` leaves one that is there, on a local disk."""
        system, _ = self._place
        if not self.is_local:
            # An object appears when it is whole.
            system.pipe_file(path, content)
            return
        part = Path(f"{path}.{secrets.token_hex(8)}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            if not (keeps and _linked(part, path)):
                os.replace(part, path)  # noqa: PTH105  (the target is text)
        finally:
            part.unlink(missing_ok=True)

    def put(self, outcome: Outcome, tables: Mapping[str, pa.Table]) -> None:
        """Keep what came of a task: tables first, as the result names them. Raises OSError."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        for name in outcome.tables:
            sink = pa.BufferOutputStream()
            pq.write_table(tables[name], sink, compression="zstd")
            self._put(self._path(outcome.key, f".{name}.parquet"), sink.getvalue().to_pybytes())
        content = json.dumps(outcome.document(), sort_keys=True, allow_nan=False)
        self._put(self._path(outcome.key, _RESULT), content.encode())

    def known(self, keys: Iterable[str]) -> Iterator[Outcome]:
        """Give what is kept of some tasks. What cannot be read is as if it was not there."""
        wanted = list(dict.fromkeys(keys))
        if self.is_local:
            for key in wanted:
                found = self._read(Path(self._path(key, _RESULT)))
                if found is not None:
                    yield found
            return
        system, _ = self._place
        paths = [self._path(key, _RESULT) for key in wanted]
        for content in system.cat(paths, on_error="omit").values() if paths else ():
            found = _outcome(content)
            if found is not None:
                yield found

    def put_times(self, kind: str, times: Times) -> None:
        """Note what jobs of a kind took: for whoever asks how long others take. Raises OSError."""
        self._put(f"{self._place[1]}/{_TIMES}/{kind}.json", json.dumps(vars(times)).encode())

    def times(self, kind: str) -> Times | None:
        """Give what jobs of a kind took, whatever their settings; None if none was done here."""
        system, root = self._place
        try:
            return Times(**json.loads(system.cat_file(f"{root}/{_TIMES}/{kind}.json")))
        except (OSError, ValueError, TypeError):
            return None

    @staticmethod
    def _read(path: Path) -> Outcome | None:
        try:
            return _outcome(path.read_bytes())
        except OSError:
            return None

    def table(self, key: str, name: str) -> pa.Table | None:
        """Read a table of a task; None if it is not there or damaged."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            content = self._place[0].cat_file(self._path(key, f".{name}.parquet"))
            return pq.read_table(pa.BufferReader(content))
        except (OSError, pa.ArrowException):
            return None


def _linked(part: Path, path: str) -> bool:
    """Give the file its name, if no other has it; False where a file system has no links."""
    try:
        os.link(part, path)
    except FileExistsError:
        pass
    except OSError:
        return False
    return True


def _outcome(content: bytes) -> Outcome | None:
    try:
        return Outcome.of(json.loads(content))
    except (ValueError, KeyError, TypeError):
        return None
