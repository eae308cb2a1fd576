"""The run folder: `result.json`, tables as Parquet, `report.html`, and what produced them.

Of a simulated drive `profile.toml` too. A run folder holds all that its report is made of, so that
the report can be made again from the folder alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _paths, outputs
from flashwright._core import InputError, __revision__, __version__
from flashwright.outputs import RECORDING, RESULT_FILE

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Any]
"""A table as columns of equal length: lists or numpy arrays."""

RUNS = Path("runs")
"""Folder of run folders for which no other place is named."""
REPORT_FILE = "report.html"
PROFILE_FILE = "profile.toml"
TIMELINE_FILE = "timeline.json"
TEXT_FILES = (PROFILE_FILE, TIMELINE_FILE)


@dataclass
class Run:
    """Result of one command.

    Scalars and nested values, tables, and texts that stay files (such as the profile that was run).
    """

    command: str
    result: dict[str, Any]
    tables: dict[str, pa.Table] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    table_files: dict[str, Path] = field(default_factory=dict)
    """Tables that are too large for memory: Parquet files, which `write` moves into the folder."""
    job: Job | None = None
    """Work that was asked for; None of a run that was read back."""

    def document(self) -> dict[str, Any]:
        """Give the JSON document of the run: the result, the names of its tables, and `command`."""
        document = {"command": self.command, **self.result}
        for key, names in (("tables", self.tables), ("large_tables", self.table_files)):
            if names:
                document[key] = {name: f"{name}.parquet" for name in sorted(names)}
        return document

    def write(self, folder: Path) -> None:
        """Write the result and the tables into the folder, which is made if it is missing.

        They replace those of an earlier run as a whole.

        Raises InputError if the folder cannot be written, or holds something that is no run folder,
        or a recording, which only another recording replaces.
        """
        if self.command != RECORDING or outputs.command_of(folder) != RECORDING:
            outputs.check_folder(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._put(folder)
        except OSError as error:
            raise InputError(f"{folder}: cannot write the run folder: {error.strerror}") from error

    def _put(self, folder: Path) -> None:
        """Write all beside what is there, and only then put it in its place.

        Who is stopped meanwhile leaves the earlier run whole.
        """
        before = _names_of(folder)
        with contextlib.ExitStack() as beside:
            # The part that is put in place last is entered first: the result, as it names all
            # others.
            parts = {
                name: beside.enter_context(outputs.replacing(folder / name))
                for name in (
                    RESULT_FILE,
                    *self.texts,
                    *(f"{name}.parquet" for name in self.tables),
                )
            }
            if self.tables:
                import pyarrow.parquet as pq
            for name, table in self.tables.items():
                pq.write_table(table, parts[f"{name}.parquet"], compression="zstd")
            for name, text in self.texts.items():
                parts[name].write_text(text, encoding="utf-8")
            parts[RESULT_FILE].write_text(dump_json(self.document()), encoding="utf-8")
            for name, file in self.table_files.items():
                # Whoever calls from Python may have it on another disk.
                there = folder / f"{name}.parquet"
                shutil.move(file, there)
                # Its source may be deleted as soon as the run is written.
                _paths.make_durable(there)
                self.table_files[name] = there
        kept = {*parts, *(f"{name}.parquet" for name in self.table_files)}
        for stale in before - kept:
            (folder / stale).unlink(missing_ok=True)

    @staticmethod
    def read(folder: Path) -> Run:
        """Read a run folder back, but for its large tables, whose paths it gives.

        Raises InputError if it is none, or a file of it is missing or damaged.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        run = Run.read_result(folder)
        run.table_files = {
            name: folder / file for name, file in run.result.pop("large_tables", {}).items()
        }
        for name, file in run.result.pop("tables", {}).items():
            try:
                run.tables[name] = pq.read_table(folder / file)
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"{folder / file}: cannot read the table: {error}") from error
        return run

    @staticmethod
    def read_result(folder: Path) -> Run:
        """Read the result of a run folder back, and nothing else: its tables are named in it.

        Raises InputError if it is no run folder, or the result is damaged.
        """
        path = folder / RESULT_FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            return Run(document.pop("command"), document)
        except FileNotFoundError:
            raise InputError(f"{folder}: no run folder: it has no {RESULT_FILE}") from None
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise InputError(f"{path}: not the result of a run: {error}") from error


def _names_of(folder: Path) -> set[str]:
    """Give the files that the run in a folder has, but for its result and its report."""
    try:
        result = Run.read_result(folder).result
    except InputError:
        return set()
    tables = {**result.get("tables", {}), **result.get("large_tables", {})}
    return {Path(str(name)).name for name in tables.values()} | set(TEXT_FILES)


def table(columns: Columns) -> pa.Table:
    """Make an Arrow table of columns."""
    import pyarrow as pa

    return pa.table(
        {
            name: values if isinstance(values, pa.ChunkedArray) else pa.array(values)
            for name, values in columns.items()
        }
    )


def stack(tables: Sequence[tuple[Mapping[str, Any], pa.Table]]) -> pa.Table:
    """Put tables of equal columns below each other.

    Each is led by its own constants (such as the policy that it is of).
    """
    import pyarrow as pa

    parts = []
    for constants, rows in tables:
        part = rows
        for name, value in reversed(list(constants.items())):
            part = part.add_column(
                0, name, pa.array([value] * part.num_rows, type=pa.scalar(value).type)
            )
        parts.append(part)
    return pa.concat_tables(parts, promote_options="permissive")


def plain(value: Any) -> Any:
    """Turn dataclasses, numpy values and mappings into what JSON holds.

    What is not a number becomes null.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        # An array or a number of numpy's, which need not be imported for that.
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def dump_json(document: Any) -> str:
    """Write JSON that any reader accepts: no NaN, and a newline at its end."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def sha256_of_file(path: Path) -> str:
    """Give the SHA-256 of a file's bytes in hexadecimal.

    Raises InputError if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror}") from error


def files_of(path: Path) -> list[Path]:
    """Give the files of an input: itself, or all below a folder, in order."""
    return [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())


def sha256_of(path: Path, hashed: Callable[[Path], str] = sha256_of_file) -> str:
    """Give the SHA-256 of a file; of a folder that of the names and hashes of its files.

    `hashed` gives that of one file. Raises InputError if one cannot be read.
    """
    if not path.is_dir():
        return hashed(path)
    named = [(str(one.relative_to(path)), hashed(one)) for one in files_of(path)]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def peak_rss_bytes() -> int:
    """Give the most memory that this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def git_revision() -> str | None:
    """Give the revision of the source tree that this package runs from, `-dirty` if changed.

    Outside of one that which the wheel was built from, if it is known.
    """
    root = Path(__file__).resolve().parents[2]
    # A virtual environment may lie in somebody else's repository: only our own tree counts.
    if not (root / "crates" / "bindings" / "Cargo.toml").is_file():
        return __revision__ or None
    try:
        done = subprocess.run(
            [
                "git",
                "-C",
                str(root),
                "describe",
                "--always",
                "--abbrev=40",
                "--dirty",
                "--exclude=*",
            ],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def provenance(
    command_line: Sequence[str], inputs: Sequence[Mapping[str, Any]], seed: int | None
) -> dict[str, Any]:
    """Tell what produced a result. Nothing in it depends on the machine or the time."""
    return {
        "flashwright": __version__,
        "revision": git_revision(),
        "command": list(command_line),
        "seed": seed,
        "inputs": list(inputs),
    }


_called: ContextVar[str | None] = ContextVar("called", default=None)


@contextmanager
def called(text: str) -> Iterator[None]:
    """Let results within say that this call from Python made them."""
    token = _called.set(_called.get() or text)
    try:
        yield
    finally:
        _called.reset(token)


def command_line() -> list[str]:
    """Give the command as it was typed, the program by its plain name; or the call from Python."""
    text = _called.get()
    return ["flashwright", *sys.argv[1:]] if text is None else [text]


def said_command(command: Sequence[str]) -> str:
    """Give a command for people, as it is typed into a shell or into Python."""
    return command[0] if len(command) == 1 else shlex.join(command)


@dataclass(frozen=True)
class Job:
    """Work that was asked for.

    Which command, all that decides on its result, and where that is from. The same work has the
    same identity, and so the same run folder: it goes on from what is there, or takes its place.
    """

    command: str
    identity: Any
    """All that decides on the result, as values that JSON holds: contents of inputs and not their
    names.
    """
    inputs: Sequence[Mapping[str, Any]] = ()
    seed: int | None = None

    @property
    def name(self) -> str:
        """Name that the same work has, and no other."""
        digest = hashlib.sha256(
            json.dumps(plain([__version__, self.identity]), sort_keys=True).encode()
        ).hexdigest()
        return f"{self.command.replace(' ', '-')}-{digest[:12]}"

    @property
    def folder(self) -> Path:
        """The run folder, if no other is asked for."""
        return RUNS / self.name

    def is_complete_in(self, folder: Path) -> bool:
        """Tell whether the folder holds the complete result of this work."""
        try:
            found = Run.read_result(folder).result
        except InputError:
            return False
        return bool(found.get("complete", True)) and found["provenance"].get("work") == self.name

    def run(
        self,
        result: Mapping[str, Any],
        tables: Mapping[str, pa.Table] | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> Run:
        """Give what came of it as a run, with its provenance."""
        came_from = {**provenance(command_line(), self.inputs, self.seed), "work": self.name}
        return Run(
            self.command,
            {**result, "provenance": came_from},
            dict(tables or {}),
            dict(texts or {}),
            job=self,
        )

    def is_begun(self, folder: Path) -> bool:
        """Tell whether the folder holds a run of this work, to go on from.

        Only where results keep their `identity`.

        Raises InputError if it holds other work, or something that is no run.
        """
        if not (folder / RESULT_FILE).is_file():
            if folder.is_dir() and any(folder.iterdir()):
                raise InputError(
                    f"{folder}: the folder is not empty and no run folder; choose another --out"
                )
            return False
        run = Run.read_result(folder)
        if run.command != self.command:
            raise InputError(f"{folder}: it holds a run of `{run.command}`; choose another --out")
        found = run.result.get("identity", {})
        for key, asked in self.identity.items():
            if found.get(key) != asked:
                raise InputError(
                    f"{folder}: it holds a {self.command} with another {key}: "
                    f"{_differing(found.get(key), asked)}; choose another --out"
                )
        return True


def _differing(found: Any, asked: Any) -> str:
    if isinstance(found, Mapping) and isinstance(asked, Mapping):
        changed = [key for key in asked if found.get(key) != asked[key]]
        return ", ".join(f"{key} {found.get(key)} there, {asked[key]} asked for" for key in changed)
    return f"{found} there, {asked} asked for"
