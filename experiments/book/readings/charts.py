"""Rows that are read from the curves of charts, where a set judges no row of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from experiments.book.claims import DRAWN, Documents, Reading, ours
from experiments.registry import Outcome

PROBER, LAYERS = "figures-prober", "figures-layers"
Curve = Mapping[float, float]
LIKE = 1.5
"""Our bar for throughputs or times that are about the same: the ratio between them."""
HARDLY = 1.1
"""Our bar for what does not gain: the same."""
NEAR = 0.05
"""Our bar for curves that fall no further: as a fraction of their highest value."""


def curve(found: Documents, part: str, name: str) -> Curve:
    """Give the line of a chart by its name: y by x.

    Raises KeyError if the part has no such line.
    """
    for figure in found[part][DRAWN]:
        for one in figure.data:
            if one.get("name") == name and "lines" in one.get("mode", "markers"):
                return dict(zip(map(float, one["x"]), map(float, one["y"]), strict=True))
    raise KeyError(f"{part}: no line `{name}`")


def bars(found: Documents, part: str) -> dict[str, float]:
    """Give the single value of each name of a chart that has one for each."""
    return {
        str(one["name"]): float(one["y"][-1])
        for figure in found[part][DRAWN]
        for one in figure.data
        if one.get("name") is not None
    }


def reading(
    set_name: str, *parts: str, read: Callable[[Documents], Outcome | Sequence[Outcome]]
) -> Reading:
    """Give a reading of charts."""

    def all_rows(found: Documents) -> Sequence[Outcome]:
        rows = read(found)
        return [rows] if isinstance(rows, Outcome) else rows

    return Reading(set_name, parts, all_rows)


def highest(
    parts: Mapping[str, str], line: str, said: str, first: str | None, last: str | None
) -> Reading:
    """Compare the highest points of a line between drives, by name: which is first, which last."""

    def read(found: Documents) -> Outcome:
        most = {name: max(curve(found, part, line).values()) for name, part in parts.items()}
        order = sorted(most, key=lambda name: -most[name])
        agrees = (first is None or order[0] == first) and (last is None or order[-1] == last)
        words = ", ".join(f"{name} {most[name]:.0f} MB/s" for name in order)
        part = next(iter(parts.values()))
        return ours(
            part,
            f"highest {line} throughput, the drives in order",
            "4.3.1",
            said,
            words,
            agrees=agrees,
        )

    return reading(PROBER, *parts.values(), read=read)


def same_reads(drive: str, sequential: str, random: str) -> Reading:
    """Tell whether random reads are as fast as sequential ones, by size."""

    def read(found: Documents) -> Outcome:
        one, other = curve(found, sequential, "read"), curve(found, random, "read")
        ratios = [other[size] / one[size] for size in one]
        words = f"{min(ratios):.2f} to {max(ratios):.2f} of sequential, by size"
        return ours(
            random,
            f"{drive}: random reads over sequential ones (bar: {LIKE:g} times)",
            "4.3.1",
            "untouched",
            words,
            agrees=min(ratios) > 1 / LIKE,
        )

    return reading(PROBER, sequential, random, read=read)


def writes_do_not_gain(drive: str, one: str, thirty: str) -> Reading:
    """Tell whether threads raise the throughput of writes and of mixes at 4 KB."""

    def read(found: Documents) -> list[Outcome]:
        rows = []
        for line in ("write", "mix (50r50w)"):
            gain = curve(found, thirty, line)[4096] / curve(found, one, line)[4096]
            what = f"{drive}: 4 KB random, {line}: thirty threads over one (bar: {LIKE:g} times)"
            rows.append(
                ours(
                    thirty,
                    what,
                    "4.3.1",
                    "no significant improvement",
                    f"{gain:.2f} times",
                    agrees=gain < LIKE,
                )
            )
        return rows

    return reading(PROBER, one, thirty, read=read)


def like_read_times(parts: Mapping[str, str]) -> Reading:
    """Tell whether the median times of random reads are close to each other."""

    def read(found: Documents) -> Outcome:
        middles = {}
        for name, part in parts.items():
            times = curve(found, part, "random read")
            middles[name] = next(time for time, share in times.items() if share >= 0.5)
        words = ", ".join(f"{name} {time:.0f} us" for name, time in middles.items())
        near = max(middles.values()) / min(middles.values()) <= 2
        part = next(iter(parts.values()))
        return ours(
            part,
            "median of 4 KB random reads (bar: 2 times)",
            "4.3.2",
            "close to each other",
            words,
            agrees=near,
        )

    return reading(PROBER, *parts.values(), read=read)


def writes_dominate(part: str) -> Reading:
    """Compare the times of reads and of writes on the raw device."""

    def read(found: Documents) -> Outcome:
        times = bars(found, part)
        share = times["raw: writes"] / (times["raw: reads"] + times["raw: writes"])
        return ours(
            part,
            "share of writes in the time of all requests, raw device",
            "7.3.2",
            "main part",
            f"{share:.0%}",
            agrees=share > 0.5,
        )

    return reading(LAYERS, part, read=read)


def small_gain_most(part: str, small: str, large: str) -> Reading:
    """Compare the gain by jobs of small requests with that of large ones."""

    def read(found: Documents) -> Outcome:
        gains = {}
        for name in (small, large):
            line = curve(found, part, name)
            gains[name] = line[max(line)] / line[min(line)]
        words = ", ".join(f"{name} {gain:.2f} times" for name, gain in gains.items())
        return ours(
            part,
            "random reads, 32 jobs over 1, by size",
            "5.1",
            "large requests relatively less",
            words,
            agrees=gains[small] > gains[large],
        )

    return reading(PROBER, part, read=read)


def reads_differ_less(reads: tuple[str, str], writes: tuple[str, str], size: str) -> Reading:
    """Compare how far two drives are apart in reads and in writes."""

    def read(found: Documents) -> Outcome:
        apart = []
        for slc, mlc in (reads, writes):
            one, other = (max(curve(found, part, size).values()) for part in (slc, mlc))
            apart.append(max(one, other) / min(one, other))
        words = f"reads {apart[0]:.2f} times, writes {apart[1]:.2f} times ({size})"
        return ours(
            reads[0],
            "SSD-S beside SSD-M: highest bandwidths",
            "5.1",
            "less difference for reads",
            words,
            agrees=apart[0] < apart[1],
        )

    return reading(PROBER, *reads, *writes, read=read)


def no_harm(parts: Sequence[str], size: str) -> Reading:
    """Tell whether bandwidth falls with more jobs beyond its highest."""

    def read(found: Documents) -> list[Outcome]:
        rows = []
        for part in parts:
            rates = list(curve(found, part, size).values())
            falls = max((a - b) / max(rates) for a, b in pairwise(rates))
            rows.append(
                ours(
                    part,
                    f"greatest fall from one depth to the next, {size} (bar: {NEAR:.0%})",
                    "7",
                    "no obvious negative effects",
                    f"{max(falls, 0.0):.1%} of the highest",
                    agrees=falls <= NEAR,
                )
            )
        return rows

    return reading(PROBER, *parts, read=read)


def one_answers_faster(part: str, faster: str, slower: str, where: str) -> Reading:
    """Compare the values of two names in a chart of one value for each: less is better."""

    def read(found: Documents) -> Outcome:
        values = bars(found, part)
        words = f"{faster} {values[faster]:.2f}, {slower} {values[slower]:.2f}"
        agrees = values[faster] < values[slower]
        return ours(part, f"{faster} and {slower}", where, "the first less", words, agrees=agrees)

    return reading(LAYERS, part, read=read)


def close(part: str, one: str, other: str, where: str) -> Reading:
    """Tell whether two names of a chart of one value for each have about the same."""

    def read(found: Documents) -> Outcome:
        values = bars(found, part)
        ratio = max(values[one], values[other]) / min(values[one], values[other])
        what = f"{one} and {other} (bar: {HARDLY:g} times)"
        return ours(part, what, where, "very close", f"{ratio:.2f} times", agrees=ratio <= HARDLY)

    return reading(LAYERS, part, read=read)


def stable_beyond(part: str, name: str, size: float, where: str) -> Reading:
    """Tell whether a line stays near its value at a size for all larger ones."""

    def read(found: Documents) -> Outcome:
        line = curve(found, part, name)
        ratios = [line[one] / line[size] for one in line if one > size]
        words = ", ".join(f"{ratio:.2f}" for ratio in ratios) + " of that at the default size"
        stable = all(1 / HARDLY <= ratio <= HARDLY for ratio in ratios)
        what = f"{name} beyond the default size (bar: {HARDLY:g} times)"
        return ours(part, what, where, "more stable", words, agrees=stable)

    return reading(LAYERS, part, read=read)


def hardly_coalesces(part: str) -> Reading:
    """Tell what coalescing gains over converting with the largest buffer."""

    def read(found: Documents) -> Outcome:
        plain, coalesced = (curve(found, part, name) for name in ("dfr_cnv", "dfr_cls_cnv"))
        gain = plain[max(plain)] / coalesced[max(coalesced)]
        what = f"coalescing over converting with the largest buffer (bar: {LIKE:g} times)"
        return ours(part, what, "7.3.3", "not so large", f"{gain:.2f} times", agrees=gain < LIKE)

    return reading(LAYERS, part, read=read)


def less_with_size(part: str, small: str, large: str) -> Reading:
    """Compare what two streams lose by the size of requests."""

    def read(found: Documents) -> Outcome:
        ratios = {}
        for name in (small, large):
            line = curve(found, part, name)
            ratios[name] = line[2.0] / line[1.0]
        words = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        return ours(
            part,
            "two streams over one, by size",
            "5.3",
            "larger requests lose less",
            words,
            agrees=ratios[large] > ratios[small],
        )

    return reading(PROBER, part, read=read)


def compensates(part: str, size: str) -> Reading:
    """Tell at how many streams the bandwidth of one is reached again."""

    def read(found: Documents) -> Outcome:
        line = curve(found, part, size)
        more = [count for count in sorted(line) if count > 2 and line[count] > line[1.0]]
        words = f"above one stream again at {more[0]:.0f}" if more else "never above one stream"
        return ours(
            part,
            f"{size}: streams that make up for the dip",
            "5.3",
            "quickly",
            words,
            agrees=bool(more) and more[0] <= 8,
        )

    return reading(PROBER, part, read=read)


def between(part: str) -> Reading:
    """Hold sequential reads beside writes against each alone and against their sum (5.2)."""

    def read(found: Documents) -> list[Outcome]:
        rate = {row["what"]: float(row["ours"]) for row in found[part]["rows"]}
        rows = []
        for kind in ("sequential", "random"):
            both = rate[f"sequential read and {kind} write"]
            alone = [rate["sequential read alone"], rate[f"{kind} write alone"]]
            words = f"{both:.0f} MB/s; alone {alone[0]:.0f} and {alone[1]:.0f}"
            rows.append(
                ours(
                    part,
                    f"sequential reads beside {kind} writes",
                    "5.2",
                    "more than either alone, less than their sum",
                    words,
                    agrees=max(alone) < both < sum(alone),
                )
            )
        return rows

    return reading(PROBER, part, read=read)
