"""SQLite on a volume, without a mount and without root.

from flashwright import sqlite

base = sqlite.connect("volume.img", "app.db")        # a sqlite3.Connection
base.execute("pragma journal_mode=wal")

Other programs load `EXTENSION` themselves and open `uri(...)`. What is durable when, and what is
not supported, is in docs/sqlite.md.
"""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flashwright._core import InputError

EXTENSION = Path(__file__).parent / "_native" / "libflashwright_sqlite.so"
"""Extension that SQLite loads: `load_extension(EXTENSION)`."""
_LINE_BYTES = 4096


def uri(volume: str | Path, name: str = "app.db", **parameters: str | int) -> str:
    """Give the URI of a database on a volume, for any program that has loaded the extension.

    `volume` is a device or file that `flashwright volume create` has made a volume of; `name` has
    no `/`. Other parameters are SQLite's, such as `mode="ro"`.

    Raises InputError if one of both is no name.
    """
    if not str(volume):
        raise InputError("volume '': name the device or file of a volume")
    # For these SQLite would keep a database elsewhere, and lose it in the end.
    if name.strip("/") in {"", ":memory:"}:
        raise InputError(
            f"name {name!r}: a database on a volume has a name of its own without `/`, such as "
            "app.db"
        )
    # An emulated drive has no path.
    device = str(volume) if "(" in str(volume) else str(Path(volume).absolute())
    words = {"vfs": "flashwright", "volume": device, **parameters}
    query = "&".join(f"{key}={quote(str(value), safe='/(),=')}" for key, value in words.items())
    return f"file:{quote(name)}?{query}"


def load() -> None:
    """Load the extension into Python's own `sqlite3`: from then on it opens such URIs.

    Raises InputError if the extension was not built, or this SQLite cannot load any.
    """
    if not EXTENSION.is_file():
        raise InputError(f"{EXTENSION}: the extension was not built; right would be `make build`")
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        try:
            if hasattr(base, "enable_load_extension"):
                base.enable_load_extension(True)  # noqa: FBT003
                base.load_extension(str(EXTENSION))
                return
        except sqlite3.Error as error:
            raise InputError(f"{EXTENSION}: SQLite does not load it: {error}") from error
    _load_beside_python()


def _load_beside_python() -> None:
    """Load it into the SQLite that Python uses, where Python was built without a way to ask.

    Whichever connection loads it: all others of the process have it then.

    Raises InputError.
    """
    try:
        library = ctypes.CDLL(_sqlite3.__file__)
        enable = library.sqlite3_enable_load_extension
        load_extension = library.sqlite3_load_extension
    except (AttributeError, OSError) as error:
        raise InputError(
            "this Python's SQLite cannot load extensions; right would be another Python, or the "
            "package apsw"
        ) from error
    base, said = ctypes.c_void_p(), ctypes.c_char_p()
    path = str(EXTENSION).encode()
    try:
        code = library.sqlite3_open(b":memory:", ctypes.byref(base))
        if code == 0:
            enable(base, 1)
            code = load_extension(base, path, None, ctypes.byref(said))
        if code != 0:
            why = (said.value or b"").decode(errors="replace")
            raise InputError(f"{EXTENSION}: SQLite does not load it: {why or code}")
    finally:
        library.sqlite3_free(said)
        library.sqlite3_close(base)


def last_error() -> str:
    """Say in one line what failed last on a volume in this process, and forget it.

    SQLite itself knows codes only. Empty if nothing did.
    """
    line = ctypes.create_string_buffer(_LINE_BYTES)
    ctypes.CDLL(str(EXTENSION)).flashwright_sqlite_error(line, ctypes.c_size_t(_LINE_BYTES))
    return line.value.decode(errors="replace")


def connect(
    volume: str | Path,
    name: str = "app.db",
    parameters: dict[str, str | int] | None = None,
    **options: Any,
) -> sqlite3.Connection:
    """Open a database on a volume; it is made if there is none.

    `parameters` are of its URI, `options` those of `sqlite3.connect`. The volume is opened with the
    first connection of the process and closed with the last one.

    Raises:
        InputError: the extension cannot be loaded, or a name is none.
        sqlite3.OperationalError: with a line that says what is wrong: no volume, in use by another
            process, something else on it.
    """
    where = uri(volume, name, **(parameters or {}))
    load()
    last_error()
    try:
        base: sqlite3.Connection = sqlite3.connect(where, uri=True, **options)
    except sqlite3.OperationalError as error:
        said = last_error()
        if not said:
            raise
        raise sqlite3.OperationalError(f"{error}: {said}") from error
    return base
