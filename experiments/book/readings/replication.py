"""Rows on REPLICATION that are read from the plays of figures-transactions and -replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from experiments.book.claims import Documents, Reading, ours
from experiments.drives import arrays, fragmentation, replicated
from experiments.figures import replicas
from experiments.figures.papers import FAR
from experiments.registry import Outcome

TRANSACTIONS, REPLICAS, ARRAYS = "figures-transactions", "figures-replicas", "figures-arrays"
Play = Mapping[str, Any]
RESTORED = fragmentation.RESTORED.name
FILLED = fragmentation.FILLED.name
"""The state that judges: DiskSim's extension, the paper's simulator, begins with every page mapped.
"""
COPIES = f"{FILLED}, copies"
OTHERS = (fragmentation.OWN.name, fragmentation.AGED.name)


def change(ratio: float) -> float:
    """Give a ratio as a change in percent."""
    return 100 * (ratio - 1)


def _plays(found: Documents) -> dict[tuple[str, str], Play]:
    return {
        (one["benchmark"], one["state"]): one for one in found["replication-4-6"]["replication-4-6"]
    }


def _from_4_6(read: Callable[[Mapping[tuple[str, str], Play]], Sequence[Outcome]]) -> Reading:
    return Reading(TRANSACTIONS, ("replication-4-6",), lambda found: read(_plays(found)))


def ratio_rows(key: str, published: float, state: str = FILLED, over: str | None = None) -> Reading:
    """Give the change of a figure of TPC-C in a state: beside the restored one, or another."""

    def read(plays: Mapping[tuple[str, str], Play]) -> list[Outcome]:
        here = plays["TPC-C", state][key]
        if over is not None:
            here /= plays["TPC-C", over][key]
        beside = over or RESTORED
        what = f"TPC-C, {state}: {key}, beside {beside}"
        return [ours("replication-4-6", what, "5.2", published, change(here), "%")]

    return _from_4_6(read)


def share_rows(key: str, published: float, state: str) -> Reading:
    """Give a share of the dies' time of TPC-C in a state."""

    def read(plays: Mapping[tuple[str, str], Play]) -> list[Outcome]:
        here = 100 * plays["TPC-C", state][key]
        what = f"TPC-C, {state}: share of the dies' time, {key}"
        return [ours("replication-4-6", what, "figure 5", published, here, "%")]

    return _from_4_6(read)


def busier_with_copies(plays: Mapping[tuple[str, str], Play]) -> list[Outcome]:
    """Compare the busy share with copies and without."""
    shares = [plays["TPC-C", state]["busy"] for state in (FILLED, COPIES)]
    said = f"{shares[0]:.0%} without, {shares[1]:.0%} with"
    return [
        ours(
            "replication-4-6",
            "TPC-C: chips busy with requests",
            "figure 5",
            "higher with",
            said,
            agrees=shares[1] > shares[0],
        )
    ]


def alike(plays: Mapping[tuple[str, str], Play]) -> list[Outcome]:
    """Compare the losses of the benchmarks."""
    losses = {name: change(plays[name, FILLED]["throughput"]) for name in fragmentation.BENCHMARKS}
    said = ", ".join(f"{name} {loss:+.0f} %" for name, loss in losses.items())
    near = min(losses.values()) / max(losses.values()) - 1 <= FAR
    what = f"{FILLED}: change of throughput (bar: {FAR:.0%} of each other)"
    return [ours("replication-4-6", what, "5.2", "similar for all three", said, agrees=near)]


BUSIER, ALIKE = _from_4_6(busier_with_copies), _from_4_6(alike)


def _tables(read: Callable[[Iterable[Play]], Sequence[Outcome]]) -> Reading:
    part = "replication-tables"
    return Reading(TRANSACTIONS, (part,), lambda found: read(found[part][part]))


def _copied(plays: Iterable[Play]) -> list[tuple[str, Mapping[str, Any]]]:
    """Give benchmark and counters of the plays with PBLRU that made copies."""
    return [
        (one["benchmark"], one["replication"])
        for one in plays
        if one["state"] == "pblru" and one["replication"]["counts"]["replica_page_writes"]
    ]


def interference(plays: Iterable[Play]) -> list[Outcome]:
    """Give the interference on the worst chip."""
    return [
        ours(
            "replication-tables",
            f"{name}: interference on the worst chip",
            "5.3",
            "below 3 %",
            f"{max(one['interference']):.1%}",
            agrees=max(one["interference"]) < 0.03,
        )
        for name, one in _copied(plays)
    ]


def groups_of_two(plays: Iterable[Play]) -> list[Outcome]:
    """Give the share of groups with two replicas."""
    return [
        ours(
            "replication-tables",
            f"{name}: groups of two replicas",
            "5.3",
            95.0,
            100 * one["groups_by_size"][0] / max(sum(one["groups_by_size"]), 1),
            "%",
        )
        for name, one in _copied(plays)
    ]


def estimate(plays: Iterable[Play]) -> list[Outcome]:
    """Compare the estimate of extra writes, E_p, with the copies that were written."""
    return [
        ours(
            "replication-tables",
            f"{name}: estimated copies over written ones",
            "5.3",
            "within 10 to 20 %",
            f"{one['predicted_copies'] / one['counts']['replica_page_writes'] - 1:+.0%}",
            agrees=abs(one["predicted_copies"] / one["counts"]["replica_page_writes"] - 1) <= FAR,
        )
        for name, one in _copied(plays)
    ]


INTERFERENCE, GROUPS, ESTIMATE = map(_tables, (interference, groups_of_two, estimate))


def _layered(part: str, read: Callable[[Sequence[Play]], Sequence[Outcome]]) -> Reading:
    return Reading(REPLICAS, (part,), lambda found: read(found[part][part]))


def _named(play: Play) -> tuple[str, str, str, str]:
    case = play["case"]
    return case["kind"]["profile"], case["benchmark"], case["policy"], case["buffer"]


def _pairs(plays: Sequence[Play]) -> list[tuple[str, str, Play, Play]]:
    """Give drive, benchmark, and the plays without replicas and with them."""
    by_name = {_named(one): one for one in plays}
    return [
        (drive, benchmark, by_name[drive, benchmark, "", buffer], copied)
        for (drive, benchmark, policy, buffer), copied in by_name.items()
        if policy
    ]


def _counted(play: Play) -> Play:
    """Give a play in the form that the counts of tables 3 to 5 read."""
    return {**play, "layers": [{"counters": play["layer"]}] if play["layer"] else []}


def response_rows(
    key: str, low: float, high: float, *, only: str = "", sign: bool = False
) -> Reading:
    """Hold changes of a response time against a published range, or against a fall."""

    def read(plays: Sequence[Play]) -> list[Outcome]:
        rows = []
        for drive, benchmark, alone, copied in _pairs(plays):
            if only and benchmark != only:
                continue
            found = change(copied["response_ns"][key] / alone["response_ns"][key])
            fits = found < 0 if sign else low * (1 + FAR) <= found <= high * (1 - FAR)
            said = "falls" if sign else f"{high:.0f} to {low:.0f} %"
            rows.append(
                ours(
                    "replication-7",
                    f"{drive}, {benchmark}: {key} of the response",
                    "5.3",
                    said,
                    f"{found:+.1f} %",
                    agrees=fits,
                )
            )
        return rows

    return _layered("replication-7", read)


def throughput(plays: Sequence[Play]) -> list[Outcome]:
    """Give the changes of throughput."""
    key = "transactions_per_second"
    return [
        ours(
            "replication-7",
            f"{drive}, {benchmark}: throughput",
            "5.3",
            "improves similarly",
            f"{change(copied[key] / alone[key]):+.1f} %",
            agrees=copied[key] > alone[key],
        )
        for drive, benchmark, alone, copied in _pairs(plays)
    ]


def largest(plays: Sequence[Play]) -> list[Outcome]:
    """Tell where the mean response gains most."""
    changes = {
        f"{drive}, {benchmark}": change(
            copied["response_ns"]["mean"] / alone["response_ns"]["mean"]
        )
        for drive, benchmark, alone, copied in _pairs(plays)
    }
    best = min(changes, key=changes.__getitem__)
    return [
        ours(
            "replication-7",
            "where the mean response falls most",
            "5.3",
            "Mtron, TPC-C: 22 %",
            f"{best}: {changes[best]:+.1f} %",
            agrees=best == f"{replicated.MTRON.profile}, TPC-C" and changes[best] < 0,
        )
    ]


def worst_gain_more(plays: Sequence[Play]) -> list[Outcome]:
    """Compare the change of the worst percent with that of the mean."""
    rows = []
    for drive, benchmark, alone, copied in _pairs(plays):
        mean, worst = (
            change(copied["response_ns"][key] / alone["response_ns"][key])
            for key in ("mean", "worst_percent_mean")
        )
        rows.append(
            ours(
                "replication-7",
                f"{drive}, {benchmark}: mean and worst 1 %",
                "5.3",
                "the worst gain more",
                f"{mean:+.1f} % and {worst:+.1f} %",
                agrees=worst < min(mean, 0),
            )
        )
    return rows


LARGEST, WORST, THROUGHPUT = (
    _layered("replication-7", one) for one in (largest, worst_gain_more, throughput)
)


def table_3(operation: str, published: Sequence[float]) -> Reading:
    """Give the shares of calls of 1, 2 and 3 I/Os on the Mtron, TPC-C."""

    def read(plays: Sequence[Play]) -> list[Outcome]:
        play = {_named(one)[:2]: one for one in plays}[replicated.MTRON.profile, "TPC-C"]
        shares = replicated.calls(_counted(play), operation)
        return [
            ours(
                "replication-7-layer",
                f"Mtron, TPC-C: {operation} of {number} I/Os",
                "table 3",
                said,
                100 * share,
                "%",
            )
            for number, said, share in zip((1, 2, 3), published, shares, strict=True)
        ]

    return _layered("replication-7-layer", read)


def blocked(plays: Sequence[Play]) -> list[Outcome]:
    """Compare the shares of reads and of writes that are blocked."""
    rows = []
    for play in plays:
        drive, benchmark, *_ = _named(play)
        reads, writes = (
            play["layer"][f"blocked_{kind}s"] / max(play["io_ns"][name]["count"], 1)
            for kind, name in (("read", "read"), ("write", "write_back"))
        )
        rows.append(
            ours(
                "replication-7-layer",
                f"{drive}, {benchmark}: blocked commands",
                "4.2.1",
                "reads less than writes",
                f"{reads:.2f} for each read, {writes:.2f} for each write",
                agrees=reads < writes,
            )
        )
    return rows


BLOCKED = _layered("replication-7-layer", blocked)


def table_4(drive: str, policy: str) -> Reading:
    """Give the extra writes of a policy on a drive, by benchmark."""

    def read(plays: Sequence[Play]) -> list[Outcome]:
        return [
            ours(
                "replication-table-4",
                f"{drive}, {policy}, {benchmark}: extra writes",
                "table 4",
                round(100 * replicas.PUBLISHED_4[drive, policy, benchmark], 1),
                100 * one["extra_writes"],
                "%",
            )
            for one in plays
            for profile, benchmark, found, _ in [_named(one)]
            if (profile, found) == (drive, policy)
        ]

    return _layered("replication-table-4", read)


def fewer_by_pblru(plays: Sequence[Play]) -> list[Outcome]:
    """Compare the extra writes of both policies."""
    extra = {_named(one)[:3]: 100 * one["extra_writes"] for one in plays}
    return [
        ours(
            "replication-table-4",
            f"{drive}, {benchmark}: extra writes, PBLRU and LRU",
            "5.3",
            "PBLRU always fewer",
            f"{extra[drive, benchmark, 'pblru']:.1f} and {lru:.1f} %",
            agrees=extra[drive, benchmark, "pblru"] < lru,
        )
        for (drive, benchmark, policy), lru in extra.items()
        if policy == "lru"
    ]


def by_writes(plays: Sequence[Play]) -> list[Outcome]:
    """Give the share of extra writes that writes cause."""
    rows = []
    for play in plays:
        drive, benchmark, policy, _ = _named(play)
        counted = play["layer"]
        share = 1 - counted["read_replicas"] / max(counted["extra_writes"], 1)
        if policy == "pblru":
            rows.append(
                ours(
                    "replication-table-4",
                    f"{drive}, {benchmark}: by writes",
                    "5.3",
                    "over 90 %",
                    f"{share:.0%}",
                    agrees=share > 0.9,
                )
            )
    return rows


FEWER, BY_WRITES = (_layered("replication-table-4", one) for one in (fewer_by_pblru, by_writes))

VARIANTS = {
    "replication": ("pblru", "lru"),
    "CFLRU/E": ("", replicated.CFLRU_E),
    "CFLRU/E, replication": ("pblru", replicated.CFLRU_E),
}


def _table_5(plays: Sequence[Play]) -> dict[str, tuple[float, float, float]]:
    """Give throughput, response and writes of each variant beside neither, in percent."""
    by_name = {_named(one)[2:]: one for one in plays}
    alone = by_name["", "lru"]
    found = {}
    for name, key in VARIANTS.items():
        play = by_name[key]
        writes = replicated.writes_each(_counted(play)) / replicated.writes_each(_counted(alone))
        found[name] = (
            change(play["transactions_per_second"] / alone["transactions_per_second"]),
            change(play["response_ns"]["mean"] / alone["response_ns"]["mean"]),
            100 * writes,
        )
    return found


def table_5(name: str) -> Reading:
    """Give throughput, response and writes of a variant beside what was published."""

    def read(plays: Sequence[Play]) -> list[Outcome]:
        published = [float(one.removesuffix("%")) for one in replicas.PUBLISHED_5[name]]
        kinds = ("throughput", "response", "writes")
        return [
            ours("replication-table-5", f"{name}: {kind}", "table 5", said, here, "%")
            for kind, said, here in zip(kinds, published, _table_5(plays)[name], strict=True)
        ]

    return _layered("replication-table-5", read)


def table_5_signs(name: str) -> Reading:
    """Give the same as changes: of writes, too, which the paper prints beside 100 %."""

    def read(plays: Sequence[Play]) -> list[Outcome]:
        published = [float(one.removesuffix("%")) for one in replicas.PUBLISHED_5[name]]
        found = _table_5(plays)[name]
        values = zip(("throughput", "response", "writes"), published, found, strict=True)
        less = {"writes": 100.0}
        return [
            ours(
                "replication-table-5",
                f"{name}: change of {kind}",
                "table 5",
                round(said - less.get(kind, 0.0), 1),
                here - less.get(kind, 0.0),
                "%",
            )
            for kind, said, here in values
        ]

    return _layered("replication-table-5", read)


def best_together(plays: Sequence[Play]) -> list[Outcome]:
    """Put the variants in order of throughput."""
    found = {name: values[0] for name, values in _table_5(plays).items()}
    order = sorted(found, key=lambda name: -found[name])
    said = ", ".join(f"{name} {found[name]:+.1f} %" for name in order)
    return [
        ours(
            "replication-table-5",
            "variants by throughput",
            "5.4",
            "both together, replication, CFLRU/E",
            said,
            agrees=order == ["CFLRU/E, replication", "replication", "CFLRU/E"],
        )
    ]


TOGETHER = _layered("replication-table-5", best_together)


def _arrays(read: Callable[[Mapping[str, float], str], Outcome]) -> Reading:
    """Give a row for each setting, read from the transactions a second of the arrays by name."""
    part = "diff-raid-transactions"

    def by_setting(found: Documents) -> list[Outcome]:
        plays = found[part][part]
        rows = []
        for place, setting in enumerate(arrays.SETTINGS):
            own = plays[place * len(arrays.ARRAYS) :]
            rates = {
                array.name: one["transactions_per_second"]
                for array, one in zip(arrays.ARRAYS, own, strict=False)
            }
            rows.append(read(rates, setting.name))
        return rows

    return Reading(ARRAYS, (part,), by_setting)


COPIED, RAID, RAID_COPIED = "striped, replication", "Diff-RAID 70", "Diff-RAID 70, replication"


def inferior(rates: Mapping[str, float], setting: str) -> Outcome:
    """Compare Differential RAID with replication."""
    said = f"{rates[RAID]:.1f} and {rates[COPIED]:.1f} transactions/s"
    return ours(
        "diff-raid-transactions",
        f"{setting}: Differential RAID and replication",
        "5.4",
        "inferior to replication",
        said,
        agrees=rates[RAID] < rates[COPIED],
    )


def combined(rates: Mapping[str, float], setting: str) -> Outcome:
    """Compare both together with replication alone."""
    said = f"{rates[RAID_COPIED]:.1f} and {rates[COPIED]:.1f} transactions/s"
    return ours(
        "diff-raid-transactions",
        f"{setting}: both together and replication",
        "5.4",
        "both together often better",
        said,
        agrees=rates[RAID_COPIED] > rates[COPIED],
    )


INFERIOR, COMBINED = map(_arrays, (inferior, combined))


MOSTLY = 0.5
"""Share of the pages below which they are not most of them."""
STABLE = 0.05
"""Spread of a response that is stable: our bar."""


def _swept(part: str, read: Callable[[Sequence[Play]], Outcome]) -> Reading:
    """Give a row of a sweep, of its plays with copies."""
    return Reading(
        TRANSACTIONS,
        (part,),
        lambda found: [read(found[part][part])],
    )


def _means(plays: Sequence[Play]) -> tuple[str, float]:
    """Give the mean responses in words, and the greatest over the least."""
    means = {one["setting"]["name"]: one["response_ns"]["mean"] / 1e6 for one in plays}
    words = ", ".join(f"{name}: {mean:.4g} ms" for name, mean in means.items())
    return words, max(means.values()) / min(means.values()) - 1


def by_epoch(plays: Sequence[Play]) -> Outcome:
    """Tell whether the response is the same for all epochs."""
    words, spread = _means(plays)
    what = f"mean response of TPC-C with copies, by epoch (bar: {STABLE:.0%})"
    is_stable = spread <= STABLE
    return ours("replication-epochs", what, "5.1", "stable", words, agrees=is_stable)


def by_recency(plays: Sequence[Play]) -> Outcome:
    """Tell whether the recency region makes a difference."""
    words, spread = _means(plays)
    writes = ", ".join(f"{100 * one['replication']['extra_writes']:.2f} %" for one in plays)
    what = "mean response of TPC-C with copies, by recency region; extra writes"
    said = f"{words}; {writes}"
    return ours(
        "replication-recency", what, "5.1", "a tuning parameter", said, agrees=spread > STABLE
    )


EPOCHS = _swept("replication-epochs", by_epoch)
RECENCY = _swept("replication-recency", by_recency)


def often_blocked(plays: Sequence[Play]) -> list[Outcome]:
    """Give the share of pages of which more than 5 % of the accesses were blocked."""
    rows = []
    for play in plays:
        drive, benchmark, *_ = _named(play)
        pages, often = (play["layer"][f"{name}_pages"] for name in ("known", "often_blocked"))
        if not pages:
            continue
        rows.append(
            ours(
                "replication-7-layer",
                f"{drive}, {benchmark}: pages, of those accessed 20 times or more, that are "
                "blocked in more than 5 % of accesses",
                "4.2.1",
                "mostly smaller than 5 %",
                f"{often / pages:.1%} of {pages:,}",
                agrees=often / pages < MOSTLY,
            )
        )
    return rows


OFTEN_BLOCKED = _layered("replication-7-layer", often_blocked)
LITTLE_MB = 20
"""REPLICATION 5.3: memory of the manager, "less than 20 MB"."""


def memory(plays: Sequence[Play]) -> list[Outcome]:
    """Give the layer's memory at the paper's size of database, and beside the buffer."""
    rows = []
    for play in plays:
        drive, benchmark, *_ = _named(play)
        held, pool = play["layer"]["map_bytes"], play["pool_pages"] * replicated.PAGE_BYTES
        whole = held * replicated.DATABASE_GB[benchmark] * 1e9 / play["database_bytes"]
        rows.append(
            ours(
                "replication-7-layer",
                f"{drive}, {benchmark}: memory at {replicated.DATABASE_GB[benchmark]:g} GB, and "
                "of the buffer",
                "5.3",
                f"less than {LITTLE_MB} MB, 2 to 3 %",
                f"{whole / 1e6:.0f} MB, {held / pool:.1%}",
                agrees=whole < LITTLE_MB * 1e6,
            )
        )
    return rows


MEMORY = _layered("replication-7-layer", memory)
