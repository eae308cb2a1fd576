"""Rows on MULTILOG that are read from the numbers of the models and of the placement study."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.book.claims import Documents, Reading, ours
from experiments.registry import Outcome

MODELS, PLACEMENT = "figures-models", "validate-placement"
COLLOCATED = 2.0
"""Frequency ratio up to which pages may share a log (4.2.1)."""
NOTHING = 0.02
"""Difference of p_gc that a figure from 0 to 1 hardly shows: our bar for "virtually zero"."""
CLOSE = 0.05
"""Our bar for costs that are the same: as `follows Greedy closely` has it in validate-placement."""
FEWEST = 0.1
"""Our bar for "close to the minimum", as a share of the range that the figure spans."""

Table = Mapping[str, Sequence[float]]


def model(part: str, table: str, read: Callable[[Table], Outcome]) -> Reading:
    """Give a row that is read from a table of the models."""
    return Reading(MODELS, (part,), lambda found: [read(found[part][table])])


def values_of(table: Table, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Give a column of a table."""
    return np.asarray(table[name], dtype=float)


def faster_than_exponential(table: Table) -> Outcome:
    """Tell whether p_gc lies below the exponential of eq. 4."""
    alphas, p_gc = values_of(table, "over_provisioning"), values_of(table, "p_gc_eq_3")
    below = bool((p_gc < np.exp(-0.9 * alphas)).all())
    said = f"p_gc is {'below' if below else 'not below'} exp(-0.9 alpha) at every alpha"
    return ours(
        "multilog-1a",
        "p_gc by alpha",
        "4.1",
        "slightly faster than exponentially",
        said,
        agrees=below,
    )


def convex(table: Table) -> Outcome:
    """Tell whether the logarithm of the cost steepens with occupancy."""
    occupancy = 1 / (1 + values_of(table, "over_provisioning"))
    order = np.argsort(occupancy)
    cost = np.log(values_of(table, "cleaning_cost_eq_3")[order])
    slopes = np.diff(cost) / np.diff(occupancy[order])
    share = float((np.diff(slopes) > 0).mean())
    least = float(occupancy[order][1:-1][np.diff(slopes) > 0].min())
    said = f"the logarithm of the cost steepens from an occupancy of {least:.0%} on"
    return ours(
        "multilog-1b",
        "cleaning cost by occupancy, 50 to 98 %",
        "2.2",
        "faster than exponentially",
        said,
        agrees=share == 1.0,
    )


def curves(table: Table, column: str) -> list[tuple[float, np.ndarray[Any, Any], Any]]:
    """Give size, frequency ratios and values of each set size."""
    sizes, ratios = values_of(table, "size_1"), values_of(table, "frequency_ratio")
    values = values_of(table, column)
    return [(size, ratios[sizes == size], values[sizes == size]) for size in np.unique(sizes)]


def least_where_alike(column: str, part: str) -> Callable[[Table], Outcome]:
    """Give a reading of where a column is least."""

    def read(table: Table) -> Outcome:
        places = [float(x[int(y.argmin())]) for _, x, y in curves(table, column)]
        said = f"least at f_r = {min(places):.2f} to {max(places):.2f}, by set size"
        within = all(1 / COLLOCATED <= place <= COLLOCATED for place in places)
        return ours(
            part,
            f"{column} by frequency ratio",
            "4.2.1",
            "least for f_r in 0.5 to 2",
            said,
            agrees=within,
        )

    return read


def width(x: Any, y: Any) -> float:
    """Give the width, in powers of two, of the region that is close to the least."""
    near = x[(y - y.min()) <= FEWEST * (y.max() - y.min())]
    return math.log2(float(near.max() / near.min()))


def wider(table: Table) -> Outcome:
    """Compare the widths of the regions near the least p_avg and GC."""
    pairs = zip(curves(table, "p_avg_random"), curves(table, "cleaning_cost_random"), strict=True)
    widths = [(width(x, p), width(x, cost)) for (_, x, p), (_, _, cost) in pairs]
    said = ", ".join(f"{p:.1f} and {cost:.1f}" for p, cost in widths)
    wider = all(cost >= p for p, cost in widths)
    return ours(
        "multilog-2b",
        "width of the region near the least, in doublings of f_r: p_avg and GC, by set size",
        "4.2.1",
        "GC slightly wider",
        said,
        agrees=wider,
    )


def grid(table: Table, column: str) -> tuple[Any, Any, Any]:
    """Give sizes, ratios, and a column as a matrix over them."""
    sizes = np.unique(values_of(table, "size_1"))
    ratios = np.unique(values_of(table, "frequency_ratio"))
    return sizes, ratios, values_of(table, column).reshape(len(sizes), len(ratios))


def mirrored(column: str, part: str) -> Callable[[Table], Outcome]:
    """Give a reading of how far a surface is from its mirror image."""

    def read(table: Table) -> Outcome:
        _, _, values = grid(table, column)
        # Sets change names: s_1 becomes 1 - s_1, and f_r its inverse.
        off = float(np.abs(values / values[::-1, ::-1] - 1).max())
        said = f"{off:.1%} at most between a point and its mirror"
        return ours(part, column, "4.2.2", "symmetric about f_r = 1", said, agrees=off < 0.01)

    return read


def benefit_of_skew(table: Table) -> Outcome:
    """Tell whether separating gains more with more skew."""
    _, ratios, gain = grid(table, "cleaning_cost_random_over_separated")
    right = gain[:, ratios >= 1]
    grows = bool((np.diff(right, axis=1) >= -1e-9).all())
    said = f"up to {float(gain.max()):.1f} times; {'grows' if grows else 'does not grow'} with f_r"
    return ours(
        "multilog-3c",
        "GC mixed over separated",
        "4.2.2",
        "highest in case of heavy skew",
        said,
        agrees=grows,
    )


Found = Sequence[Mapping[str, Any]]


def placement(part: str, read: Callable[[Found], Sequence[Outcome]]) -> Reading:
    """Give rows that are read from a group of the placement study."""
    return Reading(PLACEMENT, (part,), lambda found: read(found[part]["rows"]))


def costs_on(rows: Found, load: str) -> dict[float, dict[str, float]]:
    """Give the cleaning cost of every policy on a load, by over-provisioning.

    Rows of the load itself have none.
    """
    costs: dict[float, dict[str, float]] = {}
    for row in rows:
        over_provisioning = row["over_provisioning"]
        if row["load"] == load and None not in (row["reference"], over_provisioning):
            at = costs.setdefault(float(over_provisioning), {})
            at[row["what"].partition(":")[0]] = row["measured"]
            at[row["reference_name"]] = row["reference"]
    return costs


CM, ENVY, COST_BASED = "container_marking", "envy_hybrid", "separate + cost_benefit"


def lru_like_greedy(rows: Found) -> list[Outcome]:
    """Compare LRU's cost with Greedy's on uniform updates."""
    return [
        ours(
            "multi_log_uniform",
            f"cleaning cost of LRU over Greedy's, alpha {row['over_provisioning']:g} "
            f"(bar: {CLOSE:.0%})",
            "6.2",
            "virtually indistinguishable",
            f"{(row['beside'] - 1) / (row['reference'] - 1) - 1:+.1%}",
            agrees=abs((row["beside"] - 1) / (row["reference"] - 1) - 1) <= CLOSE,
        )
        for row in rows
        if row["what"] == "multi_log: write_amplification"
    ]


def worst_two(rows: Found) -> list[Outcome]:
    """Tell which policies cost most under Zipf."""
    found = []
    for alpha, costs in sorted(costs_on(rows, "Zipf 1").items()):
        order = sorted((name for name in costs if name != "cost_benefit"), key=costs.__getitem__)
        found.append(
            ours(
                "skewed",
                f"Zipf 1, alpha {alpha:g}: policies by cost, the worst last",
                "6.2",
                "LRU and Greedy worst",
                ", ".join(f"{one} {costs[one]:.2f}" for one in order),
                agrees=set(order[-2:]) == {"lru", "greedy"},
            )
        )
    return found


def cost_based_first(rows: Found) -> list[Outcome]:
    """Compare Cost-Based with the others where spare space is low."""
    costs = costs_on(rows, "Zipf 1")[0.1]
    said = ", ".join(f"{one} {costs[one]:.2f}" for one in (COST_BASED, CM, ENVY))
    better = costs[COST_BASED] < min(costs[CM], costs[ENVY])
    return [
        ours(
            "skewed",
            "Zipf 1, alpha 0.1: cleaning cost",
            "6.2",
            "Cost-Based lower at low over-provisioning",
            said,
            agrees=better,
        )
    ]


def rise(rows: Found) -> list[Outcome]:
    """Tell how the cost rises where spare space gets low."""
    costs = costs_on(rows, "Zipf 1")
    rises = {one: costs[0.1][one] / costs[0.2][one] for one in (ENVY, CM, COST_BASED)}
    said = ", ".join(f"{one} {times:.2f}x" for one, times in rises.items())
    sharp = min(rises[ENVY], rises[CM]) > rises[COST_BASED]
    return [
        ours(
            "skewed",
            "Zipf 1: cost at alpha 0.1 over that at 0.2",
            "6.2",
            "ContainerMarking and eNVy rise sharply",
            said,
            agrees=sharp,
        )
    ]


def envy_runs(rows: Found) -> list[Outcome]:
    """Tell at which low over-provisionings eNVy ran to its end."""
    low = sorted(
        alpha for alpha, costs in costs_on(rows, "Zipf 1").items() if alpha < 0.2 and ENVY in costs
    )
    said = f"ran at {', '.join(f'{alpha:g}' for alpha in low)}" if low else "did not run"
    return [
        ours(
            "skewed",
            "eNVy on Zipf 1 below an over-provisioning of 0.2",
            "6.1",
            "cannot be run at all of them",
            said,
            agrees=not low,
        )
    ]


def less_than_uniform(found: Documents) -> list[Outcome]:
    """Compare costs of the skew-aware placements under Zipf with those on uniform updates."""
    uniform = costs_on(found["skew_aware_uniform"]["rows"], "uniform")
    zipf = costs_on(found["skewed"]["rows"], "Zipf 1")
    rows = []
    for name in ("multi_log", CM, ENVY, COST_BASED):
        pairs = {
            alpha: (zipf[alpha][name], uniform[alpha][name])
            for alpha in sorted(zipf)
            if name in zipf[alpha] and name in uniform.get(alpha, {})
        }
        words = ", ".join(f"{alpha:g}: {a:.2f} and {b:.2f}" for alpha, (a, b) in pairs.items())
        rows.append(
            ours(
                "skewed",
                f"{name}: cost under Zipf and uniform, by alpha",
                "6.2",
                "lower under Zipf",
                words,
                agrees=all(a < b for a, b in pairs.values()),
            )
        )
    return rows


LESS_THAN_UNIFORM = Reading(PLACEMENT, ("skew_aware_uniform", "skewed"), less_than_uniform)


def beside_zipf(names: Sequence[str], said: str, *, is_more: bool) -> Reading:
    """Give a reading of costs under TPC-E over those under Zipf."""

    def read(rows: Found) -> list[Outcome]:
        zipf, tpce = costs_on(rows, "Zipf 1"), costs_on(rows, "TPC-E")
        found = []
        for name in names:
            times = {alpha: tpce[alpha][name] / zipf[alpha][name] for alpha in sorted(zipf)}
            words = ", ".join(f"{alpha:g}: {one:.2f}x" for alpha, one in times.items())
            holds = [one > 1 if is_more else one <= 1 + CLOSE for one in times.values()]
            found.append(
                ours(
                    "skewed",
                    f"{name}: cost under TPC-E over Zipf, by alpha",
                    "6.2",
                    said,
                    words,
                    agrees=all(holds),
                )
            )
        return found

    return placement("skewed", read)


def envy_suffers(rows: Found) -> list[Outcome]:
    """Compare eNVy and ContainerMarking on the trace."""
    found = []
    loads = dict.fromkeys(row["load"] for row in rows if row["reference_name"] == CM)
    for load in loads:
        costs = costs_on(rows, load)
        words = ", ".join(
            f"{alpha:g}: {at[ENVY]:.2f} and {at[CM]:.2f}" for alpha, at in sorted(costs.items())
        )
        better = all(at[CM] < at[ENVY] for at in costs.values())
        found.append(
            ours(
                "tpcc",
                f"{load}: eNVy and ContainerMarking by alpha",
                "6.3",
                "ContainerMarking much better than eNVy",
                words,
                agrees=better,
            )
        )
    return found


def greedy_within(rows: Found) -> list[Outcome]:
    """Tell what Greedy gains within MultiLog on the trace."""
    plain = {
        (row["load"], row["over_provisioning"]): row["measured"]
        for row in rows
        if row["what"] == "multi_log: cleaning_cost"
    }
    return [
        ours(
            "tpcc",
            f"{row['load']}, alpha {row['over_provisioning']:g}: Greedy for LRU within MultiLog",
            "5.3",
            "no significant benefit",
            f"{row['measured'] / plain[row['load'], row['over_provisioning']] - 1:+.0%}",
            agrees=row["measured"] > 0.95 * plain[row["load"], row["over_provisioning"]],
        )
        for row in rows
        if row["what"] == "multi_log + greedy: cleaning_cost"
    ]


MULTI_LOG, PAGES = "multi_log", "4 KiB pages"
"""Policy, and the size of pages that both traces were played with."""


def of_traces(read: Callable[[Found, Found], Sequence[Outcome]]) -> Reading:
    """Give rows that compare the recorded traces of TATP and TPC-C."""
    return Reading(
        PLACEMENT,
        ("tatp", "tpcc"),
        lambda found: read(found["tatp"]["rows"], found["tpcc"]["rows"]),
    )


def more_skewed(tatp: Found, tpcc: Found) -> list[Outcome]:
    """Compare the shares of updates that the hottest tenth of the pages takes."""
    ten = "to the hottest 10%"
    [here] = [row["measured"] for row in tatp if ten in row["what"]]
    there = {row["load"]: row["measured"] for row in tpcc if ten in row["what"]}
    return [
        ours(
            "tatp",
            f"share of updates of the hottest tenth, TATP and {load}",
            "6.3",
            "TATP more skewed",
            f"{here:.0%} and {share:.0%}",
            agrees=here > share,
        )
        for load, share in there.items()
        if PAGES in load
    ]


def gains(rows: Found) -> dict[str, dict[float, float]]:
    """Give what MultiLog takes off ContainerMarking's cost, by load and over-provisioning."""
    found: dict[str, dict[float, float]] = {}
    for row in rows:
        if row["what"] == f"{MULTI_LOG}: cleaning_cost" and row["reference_name"] == CM:
            found.setdefault(row["load"], {})[row["over_provisioning"]] = -row["deviation"]
    return found


def _by_alpha(values: Mapping[float, float]) -> str:
    return ", ".join(f"{alpha:g}: {one:.0%}" for alpha, one in sorted(values.items()))


def better_than_on_tpcc(tatp: Found, tpcc: Found) -> list[Outcome]:
    """Compare MultiLog's gains on the two traces, at the over-provisionings of both."""
    [here] = gains(tatp).values()
    found = []
    for load, there in gains(tpcc).items():
        both = sorted(set(here) & set(there))
        if PAGES not in load or not both:
            continue
        mean = [float(np.mean([one[alpha] for alpha in both])) for one in (here, there)]
        found.append(
            ours(
                "tatp",
                f"cost below ContainerMarking's, mean over alpha: TATP and {load}",
                "6.3",
                "better on TATP",
                f"{mean[0]:.0%} and {mean[1]:.0%}",
                agrees=mean[0] > mean[1],
            )
        )
    return found


def others_no_better(tatp: Found, tpcc: Found) -> list[Outcome]:
    """Compare the costs of the other placements on the two traces."""
    [load] = {row["load"] for row in tatp if row["reference_name"] == CM}
    here = costs_on(tatp, load)
    found = []
    for other in gains(tpcc):
        there = costs_on(tpcc, other)
        if PAGES not in other:
            continue
        for name in (CM, ENVY):
            pairs = {
                alpha: (here[alpha][name], there[alpha][name])
                for alpha in sorted(set(here) & set(there))
                if name in here[alpha] and name in there[alpha]
            }
            words = ", ".join(f"{alpha:g}: {a:.2f} and {b:.2f}" for alpha, (a, b) in pairs.items())
            found.append(
                ours(
                    "tatp",
                    f"{name}: cost on TATP and {other}, by alpha",
                    "6.3",
                    "as on TPC-C, or worse",
                    words,
                    agrees=all(a >= (1 - CLOSE) * b for a, b in pairs.values()),
                )
            )
    return found


def greatest_where_practical(rows: Found) -> list[Outcome]:
    """Tell at which over-provisionings MultiLog gains most on the recorded trace."""
    return [
        ours(
            "tpcc",
            f"{load}: cost below ContainerMarking's by alpha",
            "6.3",
            "especially in the range of 0.1 to 0.5",
            _by_alpha(gain),
            agrees=float(np.mean([one for alpha, one in gain.items() if alpha <= 0.5]))
            > max(one for alpha, one in gain.items() if alpha > 0.5),
        )
        for load, gain in gains(rows).items()
        if max(gain) > 0.5
    ]
