"""Files of a database.

What each is for, by its name, and the numbers that a recording knows them by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pyarrow as pa

PURPOSES = (
    *("heap", "index", "wal", "temp", "catalog", "journal", "metadata", "other"),
    *("others", "unknown"),
)
"""`wal`: the database's log, a rollback journal too. `journal`, `metadata`: the file system's own.
`other`: the database's commit status, free space maps, locks, configuration. `others`: what is not
the database's. `unknown`: what may be.
"""

_DELETED = " (deleted)"
_FIRST_USER_OID = 16_384
_RELATION = re.compile(r"^(?P<node>\d+)(?:_(?P<fork>fsm|vm|init))?(?:\.\d+)?$")
_FORKS = {"fsm": "free space map", "vm": "visibility map", "init": "initial fork"}


@dataclass(frozen=True)
class Named:
    """Purpose of a file (one of `PURPOSES`), and the table or index in it, where that is known."""

    purpose: str
    name: str | None = None


Namer = Callable[[PurePosixPath], Named]
"""Says of a path, absolute, what the file is for."""


def sqlite_namer(database: Path) -> Namer:
    """Name the files of a SQLite database.

    The database itself is `heap`; its pages are distinguished by `sqlite_pages`.
    """
    ends = {
        "": Named("heap"),
        "-wal": Named("wal"),
        "-journal": Named("wal", "rollback journal"),
        "-shm": Named("other", "index of the log"),
    }
    whole = database.resolve()
    known = {f"{whole}{end}": named for end, named in ends.items()}

    def name(path: PurePosixPath) -> Named:
        if path.name.startswith("etilqs_") or str(path).startswith(f"{whole}-mj"):
            return Named("temp")
        return known.get(str(path), Named("other"))

    return name


def postgres_namer(data: Path, relations: Mapping[str, Named]) -> Namer:
    """Name the files of a PostgreSQL cluster.

    `relations`: by file, such as `base/5/16384`, as `postgres_relations` gives them.
    """
    root = PurePosixPath(data.resolve())

    def name(path: PurePosixPath) -> Named:
        if "pgsql_tmp" in str(path):
            return Named("temp")
        if not path.is_relative_to(root):
            # A log on a disk of its own, or a tablespace.
            return Named("wal") if re.fullmatch(r"[0-9A-F]{24}", path.name) else Named("other")
        inside = path.relative_to(root)
        match inside.parts:
            case ("pg_wal", *_):
                return Named("wal")
            case ("base", _, file) | ("global", file):
                return _relation(inside, file, relations)
        return Named("other")

    return name


def _relation(inside: PurePosixPath, file: str, relations: Mapping[str, Named]) -> Named:
    if file.startswith("t") and "_" in file:
        return Named("temp")
    found = _RELATION.match(file)
    if found is None:
        return Named("catalog") if file.startswith("pg_filenode") else Named("other")
    named = relations.get(str(inside.with_name(found["node"])))
    if named is None:
        # The file came and went between two looks at the catalog; those of the system have low
        # numbers.
        return Named("catalog" if int(found["node"]) < _FIRST_USER_OID else "other")
    if found["fork"] is not None:
        return Named("other", f"{named.name} ({_FORKS[found['fork']]})")
    return named


POSTGRES_RELATIONS = """
SELECT pg_relation_filepath(c.oid) AS path, c.relname AS name, c.relkind::text AS kind,
       c.oid::bigint AS oid, n.nspname AS schema,
       coalesce(t.relname, ti.relname) AS toast_of
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_class t ON t.reltoastrelid = c.oid AND c.relkind = 't'
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_class ti ON ti.reltoastrelid = i.indrelid
WHERE pg_relation_filepath(c.oid) IS NOT NULL
"""
"""Asked of the server at the beginning and at the end: a table that is rewritten gets another file.
"""


def postgres_relations(rows: Iterable[Mapping[str, object]]) -> dict[str, Named]:
    """Make of the rows of `POSTGRES_RELATIONS` what is in each file."""
    found = {}
    for row in rows:
        # Tables and indexes of the system have low numbers; those that hold its long values do not
        # tell by their schema.
        is_system = int(str(row["oid"])) < _FIRST_USER_OID or row["schema"] in (
            "pg_catalog",
            "information_schema",
        )
        purpose = "catalog" if is_system else ("index" if row["kind"] in ("i", "I") else "heap")
        name = str(row["name"]) if row["toast_of"] is None else f"{row['toast_of']} (long values)"
        found[str(row["path"])] = Named(purpose, name)
    return found


@dataclass
class FileTable:
    """The files of a recording, numbered as they are seen: `files.parquet`.

    A file is known by device and inode, so that it stays itself when it is renamed, as PostgreSQL
    does with segments of its log. An inode that is found under a name of another purpose is another
    file: the first one was deleted.
    """

    roots: Sequence[Path]
    """Folders of the database, and files; outside of them only temporary files matter."""
    namer: Namer = field(default=lambda _path: Named("other"))
    _numbers: dict[tuple[int, int, str], int] = field(default_factory=dict)
    _files: list[tuple[str, Named]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Resolve the roots: the kernel names paths without links."""
        self._resolved = [PurePosixPath(root.resolve()) for root in self.roots]

    def __len__(self) -> int:
        return len(self._files)

    def number(self, device: int, inode: int, path: str, named: Named | None = None) -> int | None:
        """Give the number of a file, a new one if it is new; None if it is none of the database.

        `named`: what it is, where that does not go by its name.
        """
        clean = PurePosixPath(path.removesuffix(_DELETED))
        is_within = any(clean.is_relative_to(root) for root in self._resolved)
        named = self.namer(clean) if named is None else named
        # Temporary files are wherever the system has room for them.
        if not is_within and named.purpose != "temp":
            return None
        number = self._numbers.setdefault((device, inode, named.purpose), len(self._files))
        if number == len(self._files):
            self._files.append((str(clean), named))
        else:
            self._files[number] = (str(clean), named)
        return number

    def own(self, named: Named) -> int:
        """Give the number of an area of the file system's own.

        Its path is its name in angle brackets.
        """
        number = self._numbers.setdefault((0, 0, f"{named.purpose} {named.name}"), len(self._files))
        if number == len(self._files):
            self._files.append((f"<{named.name}>", named))
        return number

    def purposes(self) -> list[str]:
        """Give the purpose of each file, by number."""
        return [named.purpose for _, named in self._files]

    def paths(self) -> list[str]:
        """Give the path under which each file was seen last, by number."""
        return [path for path, _ in self._files]

    def table(self) -> pa.Table:
        """Give `files.parquet`: file, path (the last one), purpose, name."""
        return pa.table(
            {
                "file": pa.array(range(len(self._files)), pa.uint32()),
                "path": pa.array([path for path, _ in self._files], pa.string()),
                "purpose": dictionary([named.purpose for _, named in self._files]),
                "name": pa.array([named.name for _, named in self._files], pa.string()),
            }
        )


def dictionary(values: Sequence[str]) -> pa.DictionaryArray:
    """Make a column of purposes."""
    numbers = {purpose: number for number, purpose in enumerate(PURPOSES)}
    return pa.DictionaryArray.from_arrays(
        pa.array([numbers[value] for value in values], pa.uint8()), pa.array(PURPOSES)
    )
