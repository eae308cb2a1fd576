"""SCHEDULER figures 4.3-4.32: throughput, response times, mixes and equations of three drives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from experiments.drives.equations import EQUATIONS, SECTOR, SECTORS
from experiments.figures import scheduler_disk
from experiments.figures.drawing import (
    Drawing,
    Mark,
    Probed,
    Published,
    Shape,
    chart,
    points,
    probed,
    value,
)
from experiments.figures.scheduler_curves import (
    THREADS,
    distribution,
    response_read,
    response_write,
    throughput,
)
from experiments.figures.scheduler_drives import DRIVES, HARD_DISK, INTEL, MTRON, OCZ, WHOLE
from experiments.figures.scheduler_mixes import mixes

KIB = 1024


def equations(kind: str) -> dict[str, Any]:
    """Give the equations of the Mtron: of `read` or of `write`."""
    if kind == "read":
        return probed(MTRON).find("equations_read", 60)
    return probed(MTRON).find(f"equations_write({WHOLE})", 600)


def at(profile: str, access: str, depth: int, kind: str, size: int) -> float:
    """Give the throughput in MB/s at one size."""
    return points(throughput(profile, access, depth), "mix (50r50w)" if kind == "mix" else kind)[
        size
    ]


def equation_chart() -> dict[str, Any]:
    """Give measured response times of the Mtron and the lines that fit."""
    reads, writes = (
        chart(equations("read"), "equations_read"),
        chart(equations("write"), "equations_write"),
    )
    return {**reads, "series": [*reads["series"], *writes["series"]], "marks": []}


def published_equations() -> Mapping[str, Mapping[float, float]]:
    """Give the printed equations as curves."""
    return {
        f"{equation.name}: published": {
            float(sectors * SECTOR): equation.us(sectors) for sectors in SECTORS
        }
        for equation in EQUATIONS
    }


def _sequential(number: str, profile: str) -> Drawing:
    """Figures 4.4-4.6."""
    marks: list[Mark] = []
    found: list[Published] = []
    shapes: list[Shape] = []

    def most(kind: str) -> float:
        return max(points(throughput(profile, "sequential", 1), kind).values())

    if profile == MTRON:
        marks = [Mark("both saturate at about 120 MB/s", y=120)]
        found = [
            Published(
                f"Mtron: sequential {kind}s saturate at", "4.3.1", 120, "MB/s", partial(most, kind)
            )
            for kind in ("read", "write")
        ]
    if profile == INTEL:
        marks = [
            Mark("reads 250 MB/s (table 2.3)", KIB * KIB, 250),
            Mark("writes 170 MB/s (table 2.3)", KIB * KIB, 170),
        ]
        found = [
            Published(
                f"Intel: sequential {kind}s of 1 MB",
                "4.3.1, table 2.3",
                rate,
                "MB/s",
                partial(at, profile, "sequential", 1, kind, KIB * KIB),
            )
            for kind, rate in (("read", 250), ("write", 170))
        ]
        shapes = [
            Shape(
                "Intel: writes by size",
                "4.3.1",
                "slower beyond 32 KB than at it",
                _slower_beyond_32,
            )
        ]
    if profile == OCZ:
        marks = [
            Mark("reads: less than 260 MB/s (table 2.3)", y=260),
            Mark("writes: less than 100 MB/s (table 2.3)", y=100),
        ]

        def lower() -> tuple[str, bool]:
            rates = most("read"), most("write")
            return f"{rates[0]:.0f} and {rates[1]:.0f} MB/s", rates[0] < 260 and rates[1] < 100

        shapes = [
            Shape(
                "OCZ: sequential reads and writes",
                "4.3.1",
                "less than the 260 and 100 MB/s of table 2.3",
                lower,
            )
        ]
    draw = partial(throughput, profile, "sequential", 1)
    return Drawing(
        number,
        f"throughput of sequential access, {DRIVES[profile]}",
        profile,
        draw,
        marks,
        published=found,
        shapes=shapes,
    )


def _slower_beyond_32() -> tuple[str, bool]:
    curve = points(throughput(INTEL, "sequential", 1), "write")
    here, beyond = curve[32 * KIB], curve[256 * KIB]
    return f"{here:.0f} MB/s at 32 KiB, {beyond:.0f} at 256 KiB", beyond < here


def _random(number: str, profile: str, depth: int) -> Drawing:
    """Figures 4.8-4.10 and 4.12-4.14."""
    marks: list[Mark] = []
    found: list[Published] = []
    shapes: list[Shape] = []
    threads = "single thread" if depth == 1 else "thirty threads"
    iops = {MTRON: {"read": 12_000, "write": 130}, INTEL: {"read": 35_000, "write": 3_300}}.get(
        profile, {}
    )
    # Data sheets give what a drive does at its best: Intel's with NCQ, and Mtron's is the same
    # either way.
    if iops and (profile == MTRON) == (depth == 1):
        for kind, rate in iops.items():
            marks.append(Mark(f"{rate:,} {kind}s/s (table 2.3)", 4 * KIB, rate * 4096 / 1e6))
            remark = "of a data sheet; the paper's own curve is an image"
            found.append(
                Published(
                    f"{DRIVES[profile]}: 4 KB random {kind}s, {threads}",
                    "table 2.3",
                    rate,
                    "1/s",
                    partial(_iops, profile, depth, kind),
                    remark,
                )
            )
    if profile == INTEL and depth > 1:
        what, said = "Intel: the same on a drive written twice over at random", iops["write"]
        found.append(
            Published(
                what,
                "table 2.3",
                said,
                "1/s",
                _iops_aged,
                "what a data sheet says is of a drive in use",
            )
        )
    if depth == 1:
        shapes.append(
            Shape(
                f"{DRIVES[profile]}: random writes against sequential ones, 4 KB",
                "4.3.1",
                _degraded(profile),
                partial(_degradation, profile),
            )
        )
        shapes.append(
            Shape(
                f"{DRIVES[profile]}: half reads and half writes, 4 KB random",
                "4.3.1",
                "comparable with writes alone",
                partial(_like_writes, profile),
            )
        )
    else:
        gains = (
            "hardly more with thirty threads than with one"
            if profile == MTRON
            else "clearly more with thirty threads than with one"
        )
        shapes.append(
            Shape(f"{DRIVES[profile]}: 4 KB random reads", "4.3.1", gains, partial(_gain, profile))
        )
    draw = partial(throughput, profile, "random", depth)
    return Drawing(
        number,
        f"throughput of random access, {threads}, {DRIVES[profile]}",
        profile,
        draw,
        marks,
        published=found,
        shapes=shapes,
    )


def _iops(profile: str, depth: int, kind: str) -> float:
    return at(profile, "random", depth, kind, 4 * KIB) * 1e6 / 4096


def _iops_aged() -> float:
    spec = f"throughput_write(sizes=4Ki,depths={THREADS},accesses=random,mixes=0,{WHOLE})"
    return float(
        value(probed(INTEL, None, "aged").find(spec, 20), "random_write_4ki_requests_per_second")
    )


def _degraded(profile: str) -> str:
    return "clearly better than a hard disk" if profile == INTEL else "drastically degraded"


def _degradation(profile: str) -> tuple[str, bool | None]:
    sequential, random = (
        at(profile, access, 1, "write", 4 * KIB) for access in ("sequential", "random")
    )
    text = f"{random:.1f} MB/s of {sequential:.1f}"
    return text, random > sequential / 2 if profile == INTEL else random < sequential / 5


def _like_writes(profile: str) -> tuple[str, bool]:
    read, write, mix = (
        at(profile, "random", 1, kind, 4 * KIB) for kind in ("read", "write", "mix")
    )
    # Nearer to writes than to reads, on a scale of ratios.
    return f"{mix:.1f} MB/s; writes {write:.1f}, reads {read:.1f}", abs(
        math.log(mix / write)
    ) < abs(math.log(mix / read))


def _gain(profile: str) -> tuple[str, bool]:
    one, thirty = (at(profile, "random", depth, "read", 4 * KIB) for depth in (1, THREADS))
    return f"{thirty / one:.2f} times", thirty < 1.5 * one if profile == MTRON else thirty > 2 * one


def _distribution(number: str, profile: str) -> Drawing:
    """Figures 4.16-4.18."""

    def one_cliff() -> tuple[str, bool]:
        belts = value(response_read(profile), "random_read_belts")
        return f"{belts:.0f}", belts == 1

    def cliffs() -> tuple[str, bool]:
        belts = value(response_write(profile), "random_write_belts")
        return f"{belts:.0f}", belts > 1

    shapes = [
        Shape(
            f"{DRIVES[profile]}: cliffs of 4 KB random reads",
            "4.3.2",
            "a single sharp one",
            one_cliff,
        ),
        Shape(
            f"{DRIVES[profile]}: cliffs of 4 KB random writes",
            "4.3.2",
            "two" if profile == MTRON else "several",
            cliffs,
        ),
    ]
    marks: list[Mark] = []
    if profile == MTRON:
        marks = [
            Mark("published: cliffs of writes at about 100 us", x=100),
            Mark("and 10 ms", x=10_000),
        ]

        def places() -> tuple[str, bool]:
            lower, upper = _belt(1), _belt(2)
            is_near = all(0.5 < ours / said < 2 for ours, said in ((lower, 100), (upper, 10_000)))
            return f"{lower:.0f} us and {upper:.0f} us", is_near

        shapes.append(
            Shape(
                "Mtron: cliffs of 4 KB random writes are at",
                "4.3.2",
                "around 100 us and 10,000 us",
                places,
            )
        )
    draw = partial(distribution, profile)
    return Drawing(
        number,
        f"response times of random access, {DRIVES[profile]}",
        profile,
        draw,
        marks,
        shapes=shapes,
    )


def _belt(number: int) -> float:
    return float(value(response_write(MTRON), f"random_write_belt_{number}_us"))


def _one_by_one() -> Drawing:
    """Figure 4.19."""

    def draw() -> dict[str, Any]:
        return chart(response_write(MTRON), "response_time_random_write_one_by_one")

    def belts() -> tuple[str, bool]:
        found = response_write(MTRON)
        number = value(found, "random_write_belts")
        if number != 2:
            return f"{number:.0f} belts", False
        lower, upper = _belt(1), _belt(2)
        share = value(found, "random_write_belt_1_share")
        text = f"medians {lower:.0f} us ({share:.0%} of writes) and {upper / 1e3:.1f} ms"
        return text, lower < 100 and 10_000 <= upper <= 30_000

    marks = [
        Mark("lower belt: below 100 us", y=100),
        Mark("upper belt: from 10 ms", y=10_000),
        Mark("upper belt: to 30 ms", y=30_000),
    ]
    shape = Shape(
        "Mtron: belts of 4 KB random writes",
        "4.3.2",
        "two: most of the lower one below 100 us, the upper one 10 to 30 ms",
        belts,
    )
    return Drawing("4.19", "each 4 KB random write, Mtron", MTRON, draw, marks, shapes=[shape])


WELL = 0.999
"""R2 of one line that is said to fit well."""
COEFFICIENTS = (
    ("4.1", "sequential_read", 4.0247, 41.3),
    ("4.2", "random_read", 4.0160, 58.0),
    ("4.3", "sequential_write", 4.2495, 26.4),
)
"""Number, key, and what was printed: us per sector, and us at zero."""


def _coefficient(key: str, what: str) -> float:
    return float(value(equations(key.rpartition("_")[2]), f"{key}_{what}"))


def _random_write_us(sectors: int) -> float:
    drawn = chart(equations("write"), "equations_write")
    return points(drawn, "random write: fit")[float(sectors * SECTOR)]


def _hard_to_fit() -> tuple[str, bool]:
    explained = float(value(equations("write"), "random_write_r_squared"))
    return f"of one line, R2 = {explained:.5f}", explained <= WELL


def _pieces() -> tuple[str, bool]:
    breaks = [
        float(one["number"])
        for one in equations("write")["values"]
        if one["key"].startswith("random_write") and one["key"].endswith("_from_sectors")
    ]
    places = " and ".join(f"{place:.0f}" for place in breaks)
    text = f"{len(breaks) + 1}" + (f", which break at {places} sectors" if breaks else "")
    return text, breaks == [128, 1024]


def _equations() -> Drawing:
    """Figure 4.32."""
    found = []
    for number, key, slope, at_zero in COEFFICIENTS:
        words = key.replace("_", " ")
        where = f"eq. {number}"
        found.append(
            Published(
                f"Mtron: {words}, one line: by sector",
                where,
                slope,
                "us",
                partial(_coefficient, key, "us_per_sector"),
            )
        )
        found.append(
            Published(
                f"Mtron: {words}, one line: at zero",
                where,
                at_zero,
                "us",
                partial(_coefficient, key, "us_at_zero"),
            )
        )
    random_write = next(equation for equation in EQUATIONS if equation.number == "4.4")
    found += [
        Published(
            f"Mtron: random write, {sectors} sectors, our fit",
            "eq. 4.4",
            random_write.us(sectors),
            "us",
            partial(_random_write_us, sectors),
        )
        for sectors in (1, 8, 128, 256, 1024, 2048)
    ]

    def shape(key: str) -> tuple[str, bool]:
        finding = equations(key.rpartition("_")[2])
        word, explained = value(finding, f"{key}_shape"), float(value(finding, f"{key}_r_squared"))
        text = "one line fits" if word == "line" else "pieces fit better than one line"
        return f"{text}; of one line, R2 = {explained:.5f}", explained > WELL

    shapes = [
        Shape(
            f"Mtron: {key.replace('_', ' ')}s by size",
            "4.3.4",
            "one line fits well",
            partial(shape, key),
        )
        for _, key, *_ in COEFFICIENTS
    ]
    shapes += [
        Shape("Mtron: random writes by size", "4.3.4", "hard to fit", _hard_to_fit),
        Shape(
            "Mtron: pieces of random writes by size",
            "eq. 4.4",
            "three, which break at 128 and 1024 sectors",
            _pieces,
        ),
    ]
    return Drawing(
        "4.32",
        "response time by request size and the lines that fit, Mtron",
        MTRON,
        equation_chart,
        lines=published_equations,
        published=found,
        shapes=shapes,
    )


def drawings() -> list[Drawing]:
    """Give all figures in the order of their numbers."""
    drives = tuple(DRIVES)
    found = [_sequential(f"4.{4 + place}", profile) for place, profile in enumerate(drives)]
    found += [_random(f"4.{8 + place}", profile, 1) for place, profile in enumerate(drives)]
    found += [_random(f"4.{12 + place}", profile, THREADS) for place, profile in enumerate(drives)]
    found += [_distribution(f"4.{16 + place}", profile) for place, profile in enumerate(drives)]
    found.append(_one_by_one())
    found += [*scheduler_disk.drawings(), *mixes(), _equations()]
    return sorted(found, key=lambda one: int(one.number.partition(".")[2]))


def drives() -> list[Probed]:
    """Give the drives that were probed."""
    return [*(probed(profile) for profile in (HARD_DISK, *DRIVES)), probed(INTEL, None, "aged")]
