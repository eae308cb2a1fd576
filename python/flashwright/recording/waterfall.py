"""Who amplified what.

Bytes from the database's calls down to the flash, layer by layer, as SCHEDULER 5.4 tells logical
from physical. `calls` is what the database reads and writes (logical). `pages` are the same writes
in whole pages of the page cache. `queued` is what the file system sends to the block layer, with
its journal and tables; `device` what comes out of that, merged and split (physical). `flash` is
what a simulated drive would program for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright import devices, drive_runs, steady
from flashwright._core import InputError, Progress

from .files import PURPOSES
from .owners import SHARES, SqlitePages

LAYERS = ("calls", "pages", "queued", "device", "flash")
CACHE_PAGE_BYTES = 4096
"""Of the page cache on nearly all machines; a smaller write makes a whole one dirty."""

_SECOND_NS = 1_000_000_000
_NOT_DATA = ("journal", "metadata", "others", "unknown")
_OWN_SHARES = [SHARES.index(name) for name in ("own", "shared")]
_FLASH_PARTS = {
    "host": "host_page_writes",
    "relocated": "relocated_pages",
    "wear levelling": "wear_moved_pages",
    "mapping": "mapping_page_writes",
    "parity": "parity_page_writes",
    "copies": "replica_page_writes",
}
_OF_DRIVE = ("plays", "write_amplification", "steady")
NEEDED: dict[str, list[str] | None] = {
    "requests": ["time_ns", "op", "length"],
    "queued": ["time_ns", "op", "length"],
    "owners": ["purpose", *(f"{name}_bytes" for name in SHARES)],
    "queued_owners": ["purpose", *(f"{name}_bytes" for name in SHARES)],
    "calls": ["time_ns", "op", "file", "offset", "result"],
    "files": ["file", "purpose"],
    "marks": ["kind", "time_ns", "end_ns"],
    "pages": None,
}
"""The tables of a recording that `waterfall` takes, with their columns (None: all). `pages` need
not be there.
"""
I64 = npt.NDArray[np.int64]


@dataclass
class Traffic:
    """Reads or writes at one layer.

    Begin (time in ns), bytes and purpose (number in `PURPOSES`) of each, or of each part of it that
    is of one owner: `is_first` is true for one part of each. `share`: number in `SHARES`, where
    that is of interest.
    """

    time_ns: I64
    length: I64
    purpose: I64
    is_first: npt.NDArray[np.bool_] | None = None
    share: I64 | None = None

    def within(self, begin_ns: int, end_ns: int) -> Traffic:
        """Give what began in this time."""
        kept = (self.time_ns >= begin_ns) & (self.time_ns < end_ns)
        return Traffic(
            self.time_ns[kept],
            self.length[kept],
            self.purpose[kept],
            None if self.is_first is None else self.is_first[kept],
            None if self.share is None else self.share[kept],
        )

    @property
    def firsts(self) -> I64:
        """1 for what counts as a request, 0 for further parts of it."""
        return (
            np.ones(len(self.length), np.int64)
            if self.is_first is None
            else self.is_first.astype(np.int64)
        )

    def figures(self, seconds: float) -> dict[str, Any]:
        """Give requests, bytes, mean size, rates, and bytes and requests by purpose."""
        count, total = int(self.firsts.sum()), int(self.length.sum())
        sums = np.bincount(self.purpose, self.length, len(PURPOSES))
        counts = np.bincount(self.purpose, self.firsts, len(PURPOSES))
        whose = {}
        if self.share is not None:
            shares = np.bincount(self.share, self.length, len(SHARES))
            whose["whose"] = {name: int(one) for name, one in zip(SHARES, shares, strict=True)}
        return {
            "requests": count,
            "bytes": total,
            "mean_bytes": total / count if count else None,
            "requests_per_second": count / seconds,
            "bytes_per_second": total / seconds,
            "by_purpose": {
                name: round(value) for name, value in zip(PURPOSES, sums, strict=True) if value
            },
            "requests_by_purpose": {
                name: int(count)
                for name, value, count in zip(PURPOSES, sums, counts, strict=True)
                if value
            },
            **whose,
        }


@dataclass
class Waterfall:
    """`result`: figures for result.json.

    `tables`: `waterfall` (a row for each layer, op and purpose), `path_rates` (each second).
    """

    result: dict[str, Any]
    tables: dict[str, pa.Table] = field(default_factory=dict)


def waterfall(
    tables: Mapping[str, pa.Table],
    about: Mapping[str, Any],
    *,
    flash: Mapping[str, Any] | None = None,
) -> Waterfall:
    """Put the layers of a recording side by side.

    `tables`: calls, files, requests, queued, owners, queued_owners, marks, and pages where there
    are any. `about`: of `finish_path`. `flash`: of `program_flash`.

    The time is that of the measurement, or of the whole recording, as far as calls were recorded in
    it. What was changed in memory before it and is written in it counts below the calls alone; what
    is not yet written at its end counts in the calls alone.

    Raises:
        InputError: calls and requests have no time in common.
    """
    begin_ns, end_ns = window(tables, about)
    seconds = (end_ns - begin_ns) / 1e9
    pages = _known_pages(tables.get("pages"))
    calls = {op: _of_calls(tables, op, pages).within(begin_ns, end_ns) for op in ("read", "write")}
    cached = _cached(tables, pages).within(begin_ns, end_ns)
    below = {
        layer: {
            op: _of_requests(tables[source], tables[owners], op, shift).within(begin_ns, end_ns)
            for op in ("read", "write")
        }
        for layer, source, owners, shift in (
            ("queued", "queued", "queued_owners", int(about["queued_shift_ns"])),
            ("device", "requests", "owners", 0),
        )
    }
    layers: dict[str, dict[str, Traffic]] = {"calls": calls, "pages": {"write": cached}, **below}
    figures = {
        name: {op: traffic.figures(seconds) for op, traffic in ops.items()}
        for name, ops in layers.items()
    }
    if flash is not None:
        figures["flash"] = {"write": _flash_figures(flash, seconds)}
    _ratios(figures)
    syncs = tables["calls"].filter(pc.equal(tables["calls"]["op"].cast(pa.string()), "sync"))
    flushes = tables["requests"].filter(
        pc.equal(tables["requests"]["op"].cast(pa.string()), "flush")
    )
    result = {
        "begin_ns": begin_ns,
        "seconds": seconds,
        "layers": figures,
        "absorbed": _absorbed(figures),
        "merging": _merging(figures),
        "syncs": {
            "calls": _count(syncs, begin_ns, end_ns),
            "flushes": _count(flushes, begin_ns, end_ns),
        },
        "device": None
        if flash is None
        else {**flash["device"], **{name: flash[name] for name in _OF_DRIVE}},
    }
    return Waterfall(
        result, {"waterfall": _rows(figures), "path_rates": _rates(layers, begin_ns, end_ns)}
    )


def requests_within(requests: Path, begin_ns: int, end_ns: int, target: Path) -> int:
    """Write the requests of a recording that began in a time to a trace of their own.

    Give the bytes written in it.
    """
    table = pq.read_table(requests)
    time_ns = table["time_ns"]
    table = table.filter(
        pc.and_(pc.greater_equal(time_ns, max(begin_ns, 0)), pc.less(time_ns, max(end_ns, 0)))
    )
    pq.write_table(table, target)
    writes = table.filter(pc.equal(table["op"].cast(pa.string()), "write"))
    return int(pc.sum(writes["length"]).as_py() or 0)


def program_flash(
    requests: Path,
    device: devices.DriveProfile,
    state: str | Mapping[str, Any] = "filled",
    seed: int = 1,
    plays: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Play the requests of a recording on a simulated drive.

    Give the bytes that its flash programs for them, and why. `requests`: of `requests_within`, so
    that the flash is held against calls of the same time. `plays`: how often over, an even number
    from 2 on: the second half is measured, and counts as one play. A recording alone may be too
    short to make a drive clean.

    Raises:
        InputError: the drive is too small, and addresses are not to be folded.
        Cancelled: it was asked to stop.
    """
    source = {"of": str(requests), "format": "parquet", "repeat": plays}
    held = drive_runs.load(device.toml, source, progress, seed=seed)
    warm_up = (held.requests or 0) // 2 if plays > 1 else 0
    measured = max(plays / 2, 1)
    outcome = drive_runs.run(device.toml, source, progress, state=state, seed=seed, warm_up=warm_up)
    found = steady.of_drive(
        device.profile, device.summary, {**outcome, "state": _name_of(state)}, warm_up
    )
    page_bytes = int(device.profile["media"]["page_bytes"])
    return {
        "by_part": {
            name: round(int(outcome[key]) * page_bytes / measured)
            for name, key in _FLASH_PARTS.items()
        },
        "page_bytes": page_bytes,
        "write_amplification": outcome["write_amplification"],
        "steady": {key: figure["steady"] for key, figure in found.items()},
        "plays": plays,
        "device": {
            "name": device.name,
            "profile_hash": device.profile_hash,
            "capacity_bytes": device.capacity_bytes,
            "state": _state_document(state),
            "slice": device.slice,
        },
    }


def _state_document(state: str | Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": state} if isinstance(state, str) else {"kind": "aged", **state["aged"]}


def _name_of(state: str | Mapping[str, Any]) -> str:
    return state if isinstance(state, str) else next(iter(state))


def window(tables: Mapping[str, pa.Table], about: Mapping[str, Any]) -> tuple[int, int]:
    """Give begin and end of the time that `waterfall` looks at, in nanoseconds.

    From the same tables.

    Raises:
        InputError: calls and requests have no time in common.
    """
    begin_ns, end_ns = int(about["calls"]["from_ns"]), int(about["calls"]["to_ns"])
    marks = tables["marks"].to_pydict()
    spans = {
        kind: (begin, end)
        for kind, begin, end in zip(marks["kind"], marks["time_ns"], marks["end_ns"], strict=True)
        if kind in ("measurement", "recording")
    }
    within = spans.get("measurement", spans.get("recording"))
    if within is not None:
        begin_ns, end_ns = max(begin_ns, within[0]), min(end_ns, within[1])
    elif len(tables["requests"]):
        end_ns = min(end_ns, int(pc.max(tables["requests"]["time_ns"]).as_py()) + 1)
    if end_ns <= begin_ns:
        raise InputError(
            "the calls and the requests of this recording have no time in common: it was killed "
            "too early"
        )
    return begin_ns, end_ns


def _known_pages(table: pa.Table | None) -> dict[int, SqlitePages]:
    if table is None or not len(table):
        return {}
    numbers = {purpose: number for number, purpose in enumerate(PURPOSES)}
    purpose = np.array([numbers[name] for name in table["purpose"].to_pylist()], np.uint8)
    return {
        int(table["file"][0].as_py()): SqlitePages(int(table["length"][0].as_py()), purpose, [])
    }


def _purposes_of_files(files: pa.Table) -> I64:
    return np.array(
        [PURPOSES.index(name) for name in files["purpose"].to_pylist()]
        + [PURPOSES.index("unknown")],
        np.int64,
    )


def _done(tables: Mapping[str, pa.Table], op: str) -> pa.Table:
    calls = tables["calls"]
    return calls.filter(
        pc.and_(pc.equal(calls["op"].cast(pa.string()), op), pc.greater(calls["result"], 0))
    )


def _of_calls(tables: Mapping[str, pa.Table], op: str, pages: Mapping[int, SqlitePages]) -> Traffic:
    """Give the calls that read or wrote something, each with the bytes that it did."""
    calls = _done(tables, op)
    of_file = _purposes_of_files(tables["files"])
    file = pc.fill_null(calls["file"].cast(pa.int64()), len(of_file) - 1).to_numpy()
    purpose = of_file[file]
    for number, known in pages.items():
        mine = (file == number) & calls["offset"].is_valid().to_numpy(zero_copy_only=False)
        offset = pc.fill_null(calls["offset"], 0).to_numpy()[mine]
        purpose[mine] = known.purpose_at(offset.astype(np.uint64))
    return Traffic(calls["time_ns"].to_numpy(), calls["result"].to_numpy(), purpose)


def _cached(tables: Mapping[str, pa.Table], pages: Mapping[int, SqlitePages]) -> Traffic:
    """Give the writes in whole pages of the page cache.

    Those without an offset count from the beginning of a page.
    """
    calls, traffic = _done(tables, "write"), _of_calls(tables, "write", pages)
    offset = pc.fill_null(calls["offset"], 0).to_numpy().astype(np.int64)
    first, last = offset // CACHE_PAGE_BYTES, (offset + traffic.length - 1) // CACHE_PAGE_BYTES
    return Traffic(traffic.time_ns, (last - first + 1) * CACHE_PAGE_BYTES, traffic.purpose)


def _of_requests(requests: pa.Table, owners: pa.Table, op: str, shift_ns: int) -> Traffic:
    """Give the requests by parts, so that each byte counts for who it is of."""
    kept = pc.equal(requests["op"].cast(pa.string()), op).to_numpy(zero_copy_only=False)
    purpose = owners["purpose"].combine_chunks()
    order = np.array([PURPOSES.index(name) for name in purpose.dictionary.to_pylist()], np.int64)
    of_row = order[purpose.indices.to_numpy()][kept]
    amounts = np.stack(
        [owners[f"{name}_bytes"].to_numpy().astype(np.int64)[kept] for name in SHARES]
    )
    time_ns = requests["time_ns"].to_numpy().astype(np.int64)[kept] + shift_ns
    row, share = np.nonzero(amounts.T)
    # A row's purpose is that of its part of the database's files, if it has one.
    has_data = amounts[0][row] > 0
    found = np.where(
        np.isin(share, _OWN_SHARES) & has_data, PURPOSES.index("metadata"), of_row[row]
    )
    found = np.where(share == SHARES.index("others"), PURPOSES.index("others"), found)
    return Traffic(time_ns[row], amounts[share, row], found, np.diff(row, prepend=-1) > 0, share)


def _flash_figures(flash: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    total = sum(flash["by_part"].values())
    programs = total // flash["page_bytes"]
    return {
        "requests": programs,
        "bytes": total,
        "mean_bytes": flash["page_bytes"],
        "requests_per_second": programs / seconds,
        "bytes_per_second": total / seconds,
        "by_purpose": {name: value for name, value in flash["by_part"].items() if value},
        "requests_by_purpose": {
            name: value // flash["page_bytes"] for name, value in flash["by_part"].items() if value
        },
    }


def _ratios(figures: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Add to each layer its bytes as a multiple of those of the layer above, and of the calls.

    Of the calls only what is the database's is a multiple: `to_first` is what is known to be,
    `to_first_most` has what may be, too. Calls on files that nobody has seen may be on others'.
    Where a part of what a drive got is not the database's, nobody knows for whom its flash programs
    more.
    """
    for op in ("read", "write"):
        calls = figures["calls"][op]
        first = calls["bytes"]
        seen = first - calls["by_purpose"].get("unknown", 0)
        previous, is_all = None, True
        for name in LAYERS:
            if name not in figures or op not in figures[name]:
                continue
            found = figures[name][op]
            ratio = found["bytes"] / first if first else None
            found["to_previous"] = found["bytes"] / previous if previous else None
            found["to_first"] = found["to_first_most"] = ratio
            if op == "write" and "whose" in found:
                whose = found["whose"]
                least = whose["data"] + whose["own"]
                most = least + whose["shared"]
                is_all = least == found["bytes"]
                found["to_first"] = least / first if seen else None
                found["to_first_most"] = most / seen if seen else None
            elif name == "flash" and not is_all:
                found["to_first"] = found["to_first_most"] = None
            previous = found["bytes"]
        calls["to_first"] = calls["to_first_most"] = None


def _absorbed(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, int]:
    """Bytes that the page cache kept from the file system.

    Reads that it answered, writes that a later one replaced. Below zero where more was sent than
    asked for: read ahead, and what was changed before the beginning.
    """
    found = {}
    for op, above in (("read", "calls"), ("write", "pages")):
        queued = figures["queued"][op]
        data = queued["bytes"] - sum(queued["by_purpose"].get(name, 0) for name in _NOT_DATA)
        found[op] = figures[above][op]["bytes"] - data
    return found


def _merging(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, float | None]:
    """Queued requests for each one that the device got.

    Above 1 if they were merged, below if they were split.
    """
    return {
        op: figures["queued"][op]["requests"] / figures["device"][op]["requests"]
        if figures["device"][op]["requests"]
        else None
        for op in ("read", "write")
    }


def _count(table: pa.Table, begin_ns: int, end_ns: int) -> int:
    time_ns = table["time_ns"].to_numpy().astype(np.int64)
    return int(((time_ns >= begin_ns) & (time_ns < end_ns)).sum())


def _rows(figures: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> pa.Table:
    rows = [
        (layer, op, purpose, value, found["requests_by_purpose"][purpose])
        for layer, ops in figures.items()
        for op, found in ops.items()
        for purpose, value in found["by_purpose"].items()
    ]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64())
    names = ("layer", "op", "purpose", "bytes", "requests")
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, column, kind in zip(names, columns, types, strict=True)
        }
    )


def _rates(layers: Mapping[str, Mapping[str, Traffic]], begin_ns: int, end_ns: int) -> pa.Table:
    """Give requests and bytes of each layer and op in each second from the beginning.

    `seconds` is how long each is: the last one may be shorter.
    """
    seconds = -(-(end_ns - begin_ns) // _SECOND_NS)
    lengths = np.ones(seconds)
    lengths[-1:] = (end_ns - begin_ns) / 1e9 - (seconds - 1)
    parts = []
    for layer, ops in layers.items():
        for op, traffic in ops.items():
            second = (traffic.time_ns - begin_ns) // _SECOND_NS
            parts.append(
                pa.table(
                    {
                        "layer": [layer] * seconds,
                        "op": [op] * seconds,
                        "second": np.arange(seconds, dtype=np.int64),
                        "seconds": lengths,
                        "requests": np.bincount(second, traffic.firsts, seconds).astype(np.int64),
                        "bytes": np.bincount(second, traffic.length, seconds).astype(np.int64),
                    }
                )
            )
    return pa.concat_tables(parts)


def read_tables(folder: Path) -> dict[str, pa.Table]:
    """Read the tables that `waterfall` needs from a run folder.

    Raises:
        InputError: one is missing: the recording has no calls.
    """
    tables = {}
    for name, wanted in NEEDED.items():
        if name == "pages":
            continue
        path = folder / f"{name}.parquet"
        try:
            tables[name] = pq.read_table(path, columns=wanted)
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{path}: {error}; right would be a recording with the calls of its database"
            ) from error
    pages = folder / "pages.parquet"
    if pages.exists():
        tables["pages"] = pq.read_table(pages)
    return tables
