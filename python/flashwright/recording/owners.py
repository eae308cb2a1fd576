"""Owners of the requests on the device: the file, the offset in it, and its purpose."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flashwright._core import RunError

from .asking import ask
from .attribution import Attribution
from .extents import U64, Extents
from .files import PURPOSES, FileTable
from .places import (
    GIVEN_DATABASE,
    GIVEN_OTHERS,
    I64,
    IS_OWN,
    NOBODY,
    OTHERS,
    OWN_DATABASE,
    OWN_OTHERS,
)

_OTHER, _OTHERS, _UNKNOWN, _METADATA = (
    PURPOSES.index(name) for name in ("other", "others", "unknown", "metadata")
)
_OWN_PURPOSES = [_METADATA, PURPOSES.index("journal")]
SHARES = ("data", "own", "shared", "others")
"""Owners of bytes: the database's files; the file system for the database; the file system, but not
known for whom; others. Together they are all.
"""
_DATA, _OWN, _SHARED, _OF_OTHERS = range(4)
_SQLITE_S = 3600.0
"""All pages of a large database are read."""
U8 = npt.NDArray[np.uint8]


@dataclass
class Owners:
    """`owners.parquet`, a row for each request: file, file_offset, purpose, and bytes by `SHARES`.

    File, offset and purpose are those of the first part that is the database's, else of the first.
    `counts`, in requests of reads, writes and trims: `owned`, with a part of the database's files;
    `own`, of the file system's own, and nothing of its files; `others`; `unknown`; `mixed`, which
    have parts of more than one owner. `flushes` have no place.
    """

    table: pa.Table
    counts: dict[str, int]


def owners_of(
    requests: pa.Table,
    whose: Attribution,
    own: Extents,
    files: FileTable,
    *,
    pages: dict[int, SqlitePages] | None = None,
) -> Owners:
    """Tell whose each request is.

    `requests`: with time_ns, op, offset, length as in `requests.parquet`. `own`: where the file
    system has its own data, as far as that never changes. `pages`: by file, what the pages of a
    SQLite database hold.
    """
    time_ns = requests["time_ns"].to_numpy().astype(np.int64)
    offset = requests["offset"].to_numpy().astype(np.int64)
    length = requests["length"].to_numpy().astype(np.int64)
    is_write = pc.equal(requests["op"].cast(pa.string()), "write").to_numpy(zero_copy_only=False)
    pieces = whose.places.pieces(time_ns, offset, offset + length)
    of_file = np.array(
        [PURPOSES.index(purpose) for purpose in files.purposes()] or [_OTHER], np.int64
    )
    area = own.find(pieces.begin.astype(np.uint64))
    is_file = pieces.owner >= 0
    # Whoever writes to a place that no file of the database's had is somebody else; a read may be
    # of the file system's own.
    is_elses = is_write[pieces.row] if whose.is_whole else np.zeros(len(area), bool)
    share = _shares(pieces.owner, is_elses & (area < 0))
    purpose = np.select(
        [is_file, area >= 0, np.isin(pieces.owner, IS_OWN), share == _OF_OTHERS],
        [
            of_file[np.where(is_file, pieces.owner, 0)],
            of_file[own.file[np.maximum(area, 0)]] if len(own.file) else _METADATA,
            _METADATA,
            _OTHERS,
        ],
        _UNKNOWN,
    )
    # Folders of the database's are the file system's own, for the database.
    share[is_file & np.isin(purpose, _OWN_PURPOSES)] = _OWN
    purpose[share == _OF_OTHERS] = _OTHERS
    for number, known in (pages or {}).items():
        mine = pieces.owner == number
        purpose[mine] = known.purpose_at(pieces.file_offset[mine].astype(np.uint64))
    count = len(requests)
    amounts = [
        np.bincount(pieces.row[share == one], pieces.length[share == one], count).astype(np.uint32)
        for one in range(len(SHARES))
    ]
    file = np.where(is_file, pieces.owner, own.file[np.maximum(area, 0)] if len(own.file) else 0)
    is_known = (is_file | (area >= 0)) & (share != _OF_OTHERS)
    # A request without a place, such as a flush, gets the value `last`: it is for all that was
    # written before it.
    first = _first(pieces.row, share, count)
    at_first = [
        np.append(column, last)[first]
        for column, last in (
            (file, 0),
            (is_known, False),
            (is_file, False),
            (pieces.file_offset, 0),
            (purpose, _OTHER),
            (share, -1),
        )
    ]
    row_file, has_file, has_offset, row_offset, row_purpose, row_share = at_first
    kinds = sum((amount > 0).astype(np.int64) for amount in amounts)
    files_of = np.unique(np.stack([pieces.row[is_file], pieces.owner[is_file]]), axis=1)[0]
    is_mixed = (kinds > 1) | (np.bincount(files_of, minlength=count) > 1)
    is_unknown = (row_share == _SHARED) & (row_purpose == _UNKNOWN)
    counts = {
        "owned": int((row_share == _DATA).sum()),
        "own": int((np.isin(row_share, [_OWN, _SHARED]) & ~is_unknown).sum()),
        "others": int((row_share == _OF_OTHERS).sum()),
        "unknown": int(is_unknown.sum()),
        "mixed": int(is_mixed.sum()),
        "flushes": int((length == 0).sum()),
    }
    table = pa.table(
        {
            "file": pa.array(row_file.astype(np.uint32), mask=~has_file.astype(bool)),
            "file_offset": pa.array(row_offset.astype(np.uint64), mask=~has_offset.astype(bool)),
            "purpose": pa.DictionaryArray.from_arrays(
                pa.array(row_purpose.astype(np.uint8)), pa.array(PURPOSES)
            ),
            **{f"{name}_bytes": one for name, one in zip(SHARES, amounts, strict=True)},
        }
    )
    return Owners(table, counts)


def _shares(owner: I64, is_elses: npt.NDArray[np.bool_]) -> I64:
    """Give the share of each piece; `is_elses`: what nobody had is of others."""
    return np.select(
        [
            owner >= 0,
            np.isin(owner, [OWN_DATABASE, GIVEN_DATABASE]),
            np.isin(owner, [OTHERS, OWN_OTHERS, GIVEN_OTHERS]) | ((owner == NOBODY) & is_elses),
        ],
        [_DATA, _OWN, _OF_OTHERS],
        _SHARED,
    )


def _first(row: I64, share: I64, rows: int) -> I64:
    """Give the number of each row's first piece of the database's, else its first; -1 for none."""
    first = np.full(rows, -1)
    order = np.lexsort((np.arange(len(row)), share != _DATA, row))
    starts = np.flatnonzero(np.diff(row[order], prepend=-1))
    first[row[order][starts]] = order[starts]
    return first


@dataclass(frozen=True)
class SqlitePages:
    """Contents of each page of a SQLite database: numbers of `PURPOSES`, from the first page on.

    `names`: the table or index of each page.
    """

    page_bytes: int
    purpose: U8
    names: list[str | None]

    def purpose_at(self, file_offset: U64) -> U8:
        """Give the purpose of the page at each offset.

        It is `other` beyond the pages that are known.
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
