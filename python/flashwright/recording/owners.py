"""Whose each request on the device is: the file, the offset in it, and what it is for."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flashwright._core import RunError

from .asking import ask
from .extents import I64, U64, ExtentHistory, Extents
from .files import PURPOSES, FileTable

_NONE = np.uint32(2**32 - 1)
_COPIES_DATA = ("btrfs",)
"""File systems that write changed data elsewhere, and of which we know what is not data."""
_OTHER = PURPOSES.index("other")
_METADATA = PURPOSES.index("metadata")
_SQLITE_S = 3600.0
"""All pages of a large database are read."""
U8 = npt.NDArray[np.uint8]


@dataclass
class Owners:
    """`owners.parquet`, a row for each request: file, file_offset, purpose.

    And what it does not tell. `counts`, in requests of reads, writes and trims: `owned`, by a file;
    `own`, the file system's, at a place that is known to be; `by_sync`, by a file that was being
    synced, with no offset; `unowned`, at places of no file that we know of; `mixed`, whose last
    byte is of another owner than the first, which stands in the table; `flushes` have no place.
    `unowned_is`: the purpose that the unowned ones have.
    """

    table: pa.Table
    counts: dict[str, int]
    unowned_is: str


def owners_of(
    requests: pa.Table,
    history: ExtentHistory,
    files: FileTable,
    *,
    pages: dict[int, SqlitePages] | None = None,
    calls: pa.Table | None = None,
) -> Owners:
    """Tell whose each request is.

    `requests`: with time_ns, offset, length as in `requests.parquet`. `pages`: by file, what the
    pages of a SQLite database hold. `calls`: with time_ns, duration_ns, op, file as in
    `calls.parquet`.

    A place belongs to who had it at the look after the request, as files get their places just
    before they are written; else to who had it at the look before, or at any other. Where changed
    data are written elsewhere each time, places come and go between two looks: a write to one that
    nobody had, while calls sync one file and no other, is of that file.
    """
    time_ns = requests["time_ns"].to_numpy().astype(np.int64)
    offset = requests["offset"].to_numpy().astype(np.uint64)
    length = requests["length"].to_numpy().astype(np.uint64)
    has_place = length > 0
    first, file_offset = _find(time_ns, offset, has_place, history)
    file = first.copy()
    last, _ = _find(time_ns, offset + np.maximum(length, 1) - np.uint64(1), has_place, history)
    of_file = np.array(
        [PURPOSES.index(purpose) for purpose in files.purposes()] or [_OTHER], np.uint8
    )
    # Where we know what a file system has for itself, what is in no file may be anything: of a file
    # that came and went.
    unowned = _OTHER if _METADATA in of_file[history.own.file] else _METADATA
    has_offset = file != _NONE
    by_sync = 0
    if calls is not None and history.file_system in _COPIES_DATA:
        is_open = np.flatnonzero(
            ~has_offset
            & (length > 0)
            & pc.equal(requests["op"].cast(pa.string()), "write").to_numpy()
        )
        synced = file_being_synced(time_ns[is_open], calls)
        file[is_open] = synced
        by_sync = int((synced != _NONE).sum())
    is_owned = file != _NONE
    purpose = np.where(is_owned, of_file[np.where(is_owned, file, 0)], unowned).astype(np.uint8)
    for number, known in (pages or {}).items():
        mine = (file == number) & has_offset
        purpose[mine] = known.purpose_at(file_offset[mine])
    # A flush has no place; it is for all that was written before it.
    purpose[length == 0] = _OTHER
    is_own = is_owned & np.isin(
        of_file[np.where(is_owned, file, 0)], [_METADATA, PURPOSES.index("journal")]
    )
    counts = {
        "owned": int((has_offset & ~is_own).sum()),
        "by_sync": by_sync,
        "own": int(is_own.sum()),
        "unowned": int((~is_owned & (length > 0)).sum()),
        "mixed": int((has_place & (last != first)).sum()),
        "flushes": int((length == 0).sum()),
    }
    table = pa.table(
        {
            "file": pa.array(file, mask=~is_owned),
            "file_offset": pa.array(file_offset, mask=~has_offset),
            "purpose": pa.DictionaryArray.from_arrays(pa.array(purpose), pa.array(PURPOSES)),
        }
    )
    return Owners(table, counts, PURPOSES[unowned])


def file_being_synced(time_ns: I64, calls: pa.Table) -> npt.NDArray[np.uint32]:
    """Give the file that calls were syncing at each time, if it was one and no other.

    All bits set if not.
    """
    syncs = calls.filter(
        pc.and_(pc.equal(calls["op"].cast(pa.string()), "sync"), calls["file"].is_valid())
    )
    begin, number = syncs["time_ns"].to_numpy(), syncs["file"].to_numpy()
    end = begin + syncs["duration_ns"].to_numpy().astype(np.int64)
    file, others = np.full(len(time_ns), _NONE, np.uint32), np.zeros(len(time_ns), np.int64)
    for one in np.unique(number):
        mine = number == one
        # Those that have begun, less those that have ended.
        running = np.searchsorted(np.sort(begin[mine]), time_ns, side="right")
        is_synced = running > np.searchsorted(np.sort(end[mine]), time_ns, side="left")
        file[is_synced] = one
        others += is_synced
    file[others != 1] = _NONE
    return file


def _find(
    time_ns: I64, place: U64, has_place: npt.NDArray[np.bool_], history: ExtentHistory
) -> tuple[npt.NDArray[np.uint32], U64]:
    """Give file and offset in it of each place, at its time; all bits set for no file."""
    file = np.full(len(place), _NONE, np.uint32)
    file_offset = np.zeros(len(place), np.uint64)

    def look(extents: Extents, among: I64) -> None:
        number = extents.find(place[among])
        found = number >= 0
        rows, number = among[found], number[found]
        file[rows] = extents.file[number]
        file_offset[rows] = extents.file_offset[number] + place[rows] - extents.begin[number]

    open_rows = np.flatnonzero(has_place)
    look(history.own, open_rows)
    if not len(history.times_ns):
        return file, file_offset
    after = np.searchsorted(history.times_ns, time_ns, side="left")
    for step in _steps(len(history.maps)):
        open_rows = np.flatnonzero(has_place & (file == _NONE))
        if not len(open_rows):
            break
        chosen = after[open_rows] + step
        for number in np.unique(chosen):
            if 0 <= number < len(history.maps):
                look(history.maps[number], open_rows[chosen == number])
    return file, file_offset


def _steps(maps: int) -> Iterator[int]:
    """Give the order of looks to try, counted from the first one after the request.

    It, the one before, the next, and so on.
    """
    yield 0
    for distance in range(1, maps + 1):
        yield -distance
        yield distance


@dataclass(frozen=True)
class SqlitePages:
    """What each page of a SQLite database holds: numbers of `PURPOSES`, from the first page on.

    `names`: of each page's table or index.
    """

    page_bytes: int
    purpose: U8
    names: list[str | None]

    def purpose_at(self, file_offset: U64) -> U8:
        """Give the purpose of the page at each offset.

        What is beyond the pages that are known is `other`.
        """
        page = (file_offset // np.uint64(self.page_bytes)).astype(np.int64)
        known = page < len(self.purpose)
        return np.where(known, self.purpose[np.where(known, page, 0)], _OTHER).astype(np.uint8)


def sqlite_pages(database: Path) -> SqlitePages | None:
    """Ask SQLite what each page holds, as it is now.

    Heap (tables), index, catalog (the schema), other (free). None if this SQLite was built without
    `dbstat`: then it is not told. Reads the whole database, so call it when the recording is over.
    It is asked as the user that it belongs to: a database may have been made to do harm.

    Raises:
        RunError: SQLite says what is wrong, or what comes back is no answer.
        OSError: the database is not there.
    """
    answer = ask(database.lstat().st_uid, "sqlite", _SQLITE_S, path=str(database))
    try:
        if answer["pages"] is None:
            return None
        number = np.frombuffer(base64.b64decode(answer["pages"], validate=True), np.int32)
        names = [str(name) for name, _ in answer["names"]]
        kinds = np.array([PURPOSES.index(kind) for _, kind in answer["names"]] + [_OTHER], np.uint8)
        # -1 is a page of nothing: the last of both.
        purpose = kinds[number]
        return SqlitePages(int(answer["page_bytes"]), purpose, _each(number, [*names, None]))
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise RunError(f"its answer is none that SQLite gives: {error!r}") from None


def _each(number: npt.NDArray[np.int32], names: list[str | None]) -> list[str | None]:
    return [names[one] for one in number.tolist()]
