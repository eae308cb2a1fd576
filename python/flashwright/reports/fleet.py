"""Reports of fleets: what volumes do, which of them amplify most, and what would be saved."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from flashwright import reading_words
from flashwright._text import count, percent, several, significant, size, span
from flashwright.fleet.costs import YEARS
from flashwright.lifetime import LEAST_SECONDS, volume
from flashwright.pages.figures import Colours, axes, line, title
from flashwright.pages.page import Fact, Figure, Page, Section, Table
from flashwright.runs import Run

MOST_VOLUMES = 20
"""Volumes that a table names."""
SPREADS = (
    ("read_sizes", "bytes of a read", size),
    ("write_sizes", "bytes of a write", size),
    ("gaps", "time to the next request of the volume", lambda ns: span(ns / 1e9)),
    ("lifetimes", "time from a write of a page to the next", lambda ns: span(ns / 1e9)),
    ("rewrite_distances", "page writes of the volume from one to the next", count),
)
"""Spreads of a study: key, words, and how a value is written."""
_MOST = 0.8
_STEADY = 0.9
"""Share of the bytes of which the runs have to be steady for a figure to stand without a mark."""
_POINTS = 400
SHOWN = (0.1, 0.5, 0.9, 0.99)
"""Shares at which a table names a quantile."""


def page(run: Run) -> Page:
    """Build the report of what the volumes of a store do."""
    result = run.result
    rows = sorted(run.tables["volumes"].to_pylist(), key=lambda row: -row["written_bytes"])
    blocks = [
        *_concentration("written", [row["written_bytes"] for row in rows], "bytes written"),
        _busiest(rows, result),
    ]
    return Page(
        "fleet",
        result["source"],
        studied_headline(result),
        [
            Fact("volumes", count(result["volumes"]), f"of {count(result['volumes_of_store'])}"),
            Fact("written", size(result["written_bytes"]), _a_day(result)),
            Fact("different pages written", size(_pages(result)), _rewritten(result)),
        ],
        [
            Section("Who writes", blocks),
            Section("Requests and pages", [spread_table(result)]),
        ],
        result["provenance"],
        studied_remarks(result),
    )


def _pages(result: Mapping[str, Any]) -> int:
    counted = result["counted_written_pages"]
    pages: int = result["written_pages"] if counted is None else counted
    page_size: int = result["page_size"]
    return pages * page_size


def _a_day(result: Mapping[str, Any]) -> str:
    seconds = result["traced_seconds"]
    return f"in {span(seconds)}" if seconds else "without times"


def _rewritten(result: Mapping[str, Any]) -> str:
    pages = _pages(result) / result["page_size"]
    times = result["page_writes"] / pages if pages else 0.0
    return f"each {significant(times)} times, in the mean"


def studied_headline(result: Mapping[str, Any]) -> str:
    """Give a fleet in two sentences."""
    requests = sum(result[name] for name in ("reads", "writes", "trims", "flushes"))
    said = f"{_so_far(result)}{several(result['volumes'], 'volume')}: "
    said += several(requests, "request")
    if result["traced_seconds"]:
        said += f" in {span(result['traced_seconds'])}"
    said += f", {size(result['written_bytes'])} written to {size(_pages(result))} of pages."
    lifetimes = result["lifetimes"]
    if lifetimes["count"]:
        half = lifetimes["quantiles"][result["shares"].index(0.5)]
        said += f" Half of what is overwritten was written {span(half / 1e9)} before, or less."
    return said


def _so_far(result: Mapping[str, Any]) -> str:
    """Say of which part a result is, if it was stopped, or volumes failed."""
    missing = result["left"] + result.get("failed", len(result["failures"]))
    if not missing:
        return ""
    return f"Without {count(missing)} of {several(result['volumes_of_store'], 'volume')}: "


def spread_table(result: Mapping[str, Any]) -> Table:
    """Give the quantiles of all volumes together."""
    at = [result["shares"].index(share) for share in SHOWN]
    rows = []
    for key, words, said in SPREADS:
        found = result[key]
        if found["count"]:
            cells = [said(found["quantiles"][number]) for number in at]
            rows.append([words, count(found["count"]), *cells])
    heads = [("of", "left"), ("values", "right"), *((percent(one, 2), "right") for one in SHOWN)]
    note = "The value that so many of all are at or below; by sketches, at most 0.1 % too high."
    return Table("Quantiles of all volumes", heads, rows, note)


def _busiest(rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> Table:
    total = result["written_bytes"] or 1
    cells = [
        [
            str(row["volume"]),
            size(row["written_bytes"]),
            percent(row["written_bytes"] / total),
            size(row["written_pages"] * result["page_size"]),
            significant(row["page_writes"] / max(1, row["written_pages"])),
            size(row["read_bytes"]),
        ]
        for row in rows[:MOST_VOLUMES]
    ]
    heads = (
        ("volume", "left"), ("written", "right"), ("of all", "right"), ("pages", "right"),
        ("times each", "right"), ("read", "right"),
    )  # fmt: skip
    return Table("Volumes that write most", heads, cells, "All are in volumes.parquet.")


def studied_remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know of a study."""
    said = reading_words.lines(result)
    if result["counted_written_pages"] is None:
        said.append(
            "Different pages are an estimate, with a standard error of 0.6 % (HyperLogLog)."
        )
    if result["most_one_in"] > 1:
        said.append(
            f"Of the largest volume one page in {result['most_one_in']} was followed for "
            "lifetimes and distances."
        )
    return [*said, *_missing(result)]


def _missing(result: Mapping[str, Any]) -> list[str]:
    said = []
    if result["clamped_times"]:
        said.append(
            f"{several(result['clamped_times'], 'time')} lay before that of the first request, "
            "which is taken in their place."
        )
    if result["left"]:
        said.append(f"Left: {several(result['left'], 'volume')}; the same command goes on.")
    failures = result["failures"]
    if failures:
        first = failures[0]
        number = several(result.get("failed", len(failures)), "volume")
        said.append(f"Failed: {number}; volume {first['volume']}: {first['error']}.")
    return said


def _concentration(name: str, values: Sequence[float], what: str) -> list[Figure | Table]:
    """Draw how few volumes have most of it; nothing if there is none."""
    ordered = sorted(values, reverse=True)
    total = sum(ordered)
    if not total:
        return []
    shares = [so_far / total for so_far in itertools.accumulate(ordered)]
    number = len(ordered)
    most = next(at for at, share in enumerate(shares, 1) if share >= _MOST)
    step = max(1, number // _POINTS)
    drawn = [*range(step, number, step), number]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0.0, *(at / number for at in drawn)],
            "y": [0.0, *(shares[at - 1] for at in drawn)],
            "line": {"color": "@c0", "width": 2.2},
        }
    ]
    layout = axes(
        title("share of the volumes, the largest first", tickformat=".0%"),
        title(f"share of the {what}", tickformat=".0%"),
        showlegend=False,
    )
    reading = f"{percent(_MOST, 2)} of the {what}: {several(most, 'volume')} of {count(number)}."
    return [Figure(name, f"Who has the {what}", reading, data, layout, 380)]


# What would be saved.


def baseline(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the sum that others are held against: the least spare space, the drive's own policy."""
    sums = result["sums"]
    least = min(one["over_provisioning"] for one in sums)
    at = [one for one in sums if one["over_provisioning"] == least]
    drive = result.get("drive")
    own = None if drive is None else (drive["placement"], drive["victim"])
    wanted = (own, ("none", "greedy"))
    for pair in wanted:
        for one in at:
            if (one["placement"], one["victim"]) == pair:
                return dict(one)
    return dict(at[0])


def saved(one: Mapping[str, Any], base: Mapping[str, Any]) -> float:
    """Give the share of the flash's writes that one sum saves of another's."""
    return 1 - float(one["flash_bytes"]) / float(base["flash_bytes"])


def ranked(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the sums, the least written first."""
    return sorted(result["sums"], key=lambda one: one["flash_bytes"])


def better(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give what is best of what whoever has the drives can choose; None if nothing beats it.

    On a drive that is known, spare space alone, by the drives that are bought, if that is known.
    """
    base = baseline(result)
    sums = result["sums"]
    if result.get("drive") is not None:
        sums = [one for one in sums if one["policy"] == base["policy"]]
    by = "flash_bytes" if base.get("drives_bought") is None else "drives_bought"
    best: Mapping[str, Any] = min(sums, key=lambda one: one[by])
    return best if best[by] < base[by] else None


def savings_headline(result: Mapping[str, Any]) -> str:
    """Give the answer for a fleet in a few sentences."""
    base, best = baseline(result), better(result)
    is_rate = result["host_bytes_per_day"] is not None
    writes = (
        f"{volume(result['host_bytes_per_day'])} written a day"
        if is_rate
        else f"{size(result['host_bytes'])} written"
    )
    programs = (
        f"{volume(base['flash_bytes_per_day'])} a day" if is_rate else size(base["flash_bytes"])
    )
    said = (
        f"{_so_far(result)}{several(result['volumes'], 'volume')}: {writes}. With {_of(base)} the "
        f"flash programs {programs}{_unsteady(base)}."
    )
    if best is not None:
        at = _of(best)
        said += f" {at[0].upper()}{at[1:]} saves {percent(saved(best, base), 2)} of that"
        said += f"{_unsteady(best)}."
    if "drives" not in base:
        return said
    named = result["drive"]["name"]
    said += f" What is written fills {_drives(base, 'drives')} {named}"
    if base["drives_worn_a_year"] is None:
        return f"{said}."
    worn = _drives(base, "drives_worn_a_year")
    said += f", and {worn} would wear out a year: {_drives(base, 'drives_bought')} in {YEARS} years"
    if best is None:
        return f"{said}; no spare space makes that less."
    return f"{said}, {_drives(best, 'drives_bought')} with {_left(best)}."


def _drives(one: Mapping[str, Any], name: str) -> str:
    return significant(one[name], 2)


def _unsteady(one: Mapping[str, Any]) -> str:
    """Mark what rests on runs that may still change."""
    if one["steady_share"] >= _STEADY:
        return ""
    return f" (volumes with {percent(1 - one['steady_share'], 2)} of the bytes are not steady)"


def _left(one: Mapping[str, Any]) -> str:
    return f"{percent(one['left_free'], 2)} left free"


def _of(one: Mapping[str, Any]) -> str:
    free = one.get("left_free")
    if free is None:
        return f"{one['policy']} at {_spare(one)} over-provisioning"
    return f"{one['policy']} with {_left(one)}" if free else str(one["policy"])


def _spare(one: Mapping[str, Any]) -> str:
    return percent(one["over_provisioning"], 3)


def _times(one: Mapping[str, Any]) -> str:
    half = one["write_amplification_half"]
    said = significant(one["write_amplification"])
    return said if half is None else f"{said} ± {significant(half, 2)}"


def savings_page(run: Run) -> Page:
    """Build the report of what policies and spare space save over all volumes."""
    result, base = run.result, baseline(run.result)
    rows = _of_base(run, base)
    facts = [
        Fact("write amplification", _times(base), f"{_of(base)}, over all volumes"),
        Fact("written", size(result["host_bytes"]), _a_day(result)),
    ]
    if base.get("drives_worn_a_year") is not None:
        worn = _drives(base, "drives_worn_a_year")
        facts.append(Fact("drives worn out a year", worn, result["drive"]["name"]))
    who = [
        *_concentration("moved", [_moved(row) for row in rows], "bytes moved by cleaning"),
        _amplification(rows),
        _most(rows, base),
    ]
    return Page(
        run.command,
        result["source"],
        savings_headline(result),
        facts,
        [
            Section("What would be saved", [_lines(result), sums_table(result)]),
            Section("Which volumes amplify most", who),
        ],
        result["provenance"],
        savings_remarks(result),
    )


def _of_base(run: Run, base: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the rows of the volumes at the baseline, those of which most is moved first."""
    names = ("placement", "victim", "over_provisioning")
    at = tuple(base[name] for name in names)
    rows = [
        row for row in run.tables["volumes"].to_pylist() if tuple(row[name] for name in names) == at
    ]
    return sorted(rows, key=lambda row: -_moved(row))


def _moved(row: Mapping[str, Any]) -> float:
    """Give the bytes that cleaning moves: what could be saved."""
    return float(row["flash_bytes"]) - float(row["written_bytes"])


def _lines(result: Mapping[str, Any]) -> Figure:
    policies = list(dict.fromkeys(one["policy"] for one in result["sums"]))
    colours = Colours(policies)
    data = []
    for name in policies:
        of = sorted(
            (one for one in result["sums"] if one["policy"] == name),
            key=lambda one: one["over_provisioning"],
        )
        x = [one["over_provisioning"] for one in of]
        y = [one["write_amplification"] for one in of]
        data.append(line(name, x, y, colours))
    layout = axes(
        title("over-provisioning", tickformat=".0%"), title("write amplification, all volumes")
    )
    base, best = baseline(result), ranked(result)[0]
    reading = f"From {_times(base)} with {_of(base)} to {_times(best)} with {_of(best)}."
    return Figure("saved", "Write amplification over all volumes", reading, data, layout)


def sums_table(result: Mapping[str, Any]) -> Table:
    """Give each policy and spare space, the least written first."""
    base = baseline(result)
    has_drives = "drives" in base
    first = "left free" if has_drives else "over-provisioning"
    heads = [
        (first, "right"), ("policy", "left"), ("write amplification", "right"),
        ("saved", "right"), ("steady", "right"),
    ]  # fmt: skip
    if has_drives:
        heads += [("drives", "right"), ("worn a year", "right"), (f"in {YEARS} years", "right")]
    rows = []
    ordered = ranked(result)
    for one in ordered:
        spare = percent(one["left_free"], 2) if has_drives else _spare(one)
        cells = [spare, one["policy"], _times(one)]
        cells += [percent(saved(one, base), 2), percent(one["steady_share"], 2)]
        if has_drives:
            names = ("drives", "drives_worn_a_year", "drives_bought")
            cells += [_drives(one, name) for name in names]
        rows.append(cells)
    note = (
        f"Saved: of what the flash programs with {_of(base)}. Steady: the share of the bytes that "
    )
    note += "are written to volumes of which the run had become steady."
    if has_drives:
        note += f" The drive has {base['policy']}; other policies are for those who make drives. "
        note += f"Drives: that what is written fills. In {YEARS} years: as many, or as wear out, "
        note += "whichever is more."
    bold = frozenset({ordered.index(base)})
    return Table("All volumes together", heads, rows, note, emphasised=bold)


def _amplification(rows: Sequence[Mapping[str, Any]]) -> Figure:
    drawn = [row for row in rows if row["written_bytes"]]
    x = [row["written_bytes"] for row in drawn]
    y = [row["write_amplification"] for row in drawn]
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": x,
            "y": y,
            "text": [f"volume {row['volume']}" for row in drawn],
            "hovertemplate": "%{text}: %{x:.3s}B written, %{y:.3g}<extra></extra>",
            "marker": {"color": "@c0", "size": 6, "opacity": 0.6},
        }
    ]
    x_axis = title("bytes written", type="log", tickformat="~s", dtick=1)
    layout = axes(x_axis, title("write amplification"), showlegend=False)
    little = sum(value < 1.05 for value in y)
    reading = f"By less than 5 %: {several(little, 'volume')} of {count(len(y))}."
    return Figure("amplification", "Write amplification of each volume", reading, data, layout)


def _most(rows: Sequence[Mapping[str, Any]], base: Mapping[str, Any]) -> Table:
    total = sum(map(_moved, rows)) or 1.0
    cells, so_far = [], 0.0
    for row in rows[:MOST_VOLUMES]:
        so_far += _moved(row)
        steady = "" if row["steady"] else " *"
        cells.append(
            [
                str(row["volume"]),
                size(row["pages"] * _page_bytes(row)),
                size(row["written_bytes"]),
                f"{significant(row['write_amplification'])}{steady}",
                size(_moved(row)),
                percent(_moved(row) / total),
                percent(so_far / total),
            ]
        )
    heads = (
        ("volume", "left"), ("data", "right"), ("written", "right"),
        ("write amplification", "right"), ("moved", "right"), ("of all", "right"),
        ("so far", "right"),
    )  # fmt: skip
    note = f"With {_of(base)}. * is not steady yet. All that were counted are in volumes.parquet."
    return Table("Volumes of which cleaning moves most", heads, cells, note)


def _page_bytes(row: Mapping[str, Any]) -> float:
    return float(row["written_bytes"]) / row["page_writes"] if row["page_writes"] else 0.0


def savings_remarks(result: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know before trusting the sums."""
    said = [
        "Each volume is cleaned by itself, in erase blocks of its own. Volumes that share a drive "
        "without streams of their own mix, and amplify more."
    ]
    said.append(
        "A page that is written in part is written whole; of what is only read nothing is counted."
    )
    if result["sampled_volumes"]:
        said.append(
            f"One page in {result['sample']}, or more of them, was followed of "
            f"{several(result['sampled_volumes'], 'volume')}; docs/scale.md says how far that is "
            "from all pages. `part(STORE, sample=1)` follows all."
        )
    if result["repeated_volumes"]:
        said.append(
            f"Played over until its pages were written four times, as if it went on like that: "
            f"{several(result['repeated_volumes'], 'volume')}."
        )
    if result["idle_volumes"]:
        said.append(f"Without a write: {several(result['idle_volumes'], 'volume')}.")
    if result["left_out_volumes"]:
        first = result["left_out_for"][0]
        said.append(
            f"Left out of all sums, as a policy could not run there: "
            f"{several(result['left_out_volumes'], 'volume')}, with "
            f"{percent(result['left_out_share'], 2)} of the bytes written; volume "
            f"{first['volume']}: {first['error']}."
        )
    drive = result.get("drive")
    if drive is not None and drive["endurance_bytes"] is None:
        said.append(
            f"How many drives wear out is not known: nothing is known of the endurance of "
            f"{drive['name']}."
        )
    if result["bytes_per_day"] is None:
        said.append(
            f"What a day brings is not known: the trace is of {span(result['traced_seconds'])}, "
            f"below {span(LEAST_SECONDS)}."
        )
    return [*said, *reading_words.lines(result), *_missing(result)]
