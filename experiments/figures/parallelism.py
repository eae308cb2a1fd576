"""PARALLELISM figures 2-7 and table 2.

The inside of SSD-S found from outside, and what its parallelism is good for. SSD-S is `intel-x25e`
and SSD-M `intel-x25m`. As in section 3.2, requests go to the first 1024 MB, and the drive was
filled in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from experiments.figures import ill_mapped, written_order
from experiments.figures.drawing import (
    GIB,
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

SSD_S, SSD_M = "intel-x25e", "intel-x25m"
JOBS = "1+2+4+6+8+10+12+16+24+32"
SIZES = "1Ki..256Ki"
KIB = 1024
MOST = 32.0
FEW, MANY = 30, 120
"""Device time of an experiment in seconds."""


def first_gib(profile: str) -> Probed:
    """Give a drive of which the first 1024 MB are used."""
    return probed(profile, GIB)


def inside(profile: str = SSD_S) -> list[dict[str, Any]]:
    """Give what is found of the inside of a drive.

    Each experiment knows what the ones before it found.
    """
    drive = first_gib(profile)
    found: list[dict[str, Any]] = []
    for name in ("chunk_size", "interleaving", "mapping"):
        found.append(drive.find(name, MANY, found))
    return found


def reading(profile: str) -> dict[str, Any]:
    """Give the throughput of sequential and random reads."""
    return first_gib(profile).find(
        f"throughput_read(sizes={SIZES},depths={JOBS},accesses=sequential+random)", MANY
    )


def writing(profile: str) -> dict[str, Any]:
    """Give the throughput of sequential writes; random ones are like them (section 5.1)."""
    spec = (
        f"throughput_write(sizes={SIZES},depths={JOBS},accesses=sequential+random,mixes=0,fill=no,"
        "area=0)"
    )
    return first_gib(profile).find(spec, 2 * MANY)


def depth() -> dict[str, Any]:
    """Give the knee of random reads of SSD-S."""
    return first_gib(SSD_S).find("depth_read", FEW)


def together() -> dict[str, Any]:
    """Give table 2."""
    return probed(SSD_S, 2 * GIB).find("interference(fill=no)", FEW)


def streams() -> dict[str, Any]:
    """Give figure 6; 32 spaces of 1024 MB do not fit into 32 GB: they have 976 MiB each."""
    return probed(SSD_S).find("streams(sizes=4Ki..256Ki,streams=1+2+3+4+6+8+12+16+24+32)", MANY)


def layout() -> dict[str, Any]:
    """Give figure 7, with the chunk and the domains that were found."""
    return first_gib(SSD_S).find("ill_mapped", FEW, inside())


def bandwidth(profile: str, access: str, kind: str, size: int, jobs: float) -> float:
    """Give the bandwidth in MB/s at one point of figure 5."""
    finding = reading(profile) if kind == "read" else writing(profile)
    text = f"{size // KIB} KiB"
    return points(chart(finding, f"throughput_{access}_{kind}_by_depth"), text)[jobs]


def _inside_value(key: str, profile: str = SSD_S) -> Any:
    for finding in inside(profile):
        for one in finding["values"]:
            if one["key"] == key and one["verdict"] != "not_found":
                return one.get("number", one.get("word"))
    return None


def _number(key: str) -> float:
    return float(_inside_value(key) or 0)


def _mapping() -> tuple[str, bool]:
    word = _inside_value("mapping")
    return str(word), word == "write_order"


def _alike() -> tuple[str, bool]:
    """Tell what is found of the inside of SSD-M: chunks, domains, a layout by order of writes."""
    keys = ("chunk_bytes", "domains", "mapping")
    chunk, domains, mapping = (_inside_value(key, SSD_M) or 0 for key in keys)
    said = f"chunks of {chunk:.0f} bytes, {domains:.0f} domains, mapping {mapping}"
    return said, chunk > 0 and domains > 1 and mapping == _inside_value("mapping")


def _stride(jobs: int, *, is_dip: bool) -> float:
    """Give the lowest bandwidth over strides, or the median."""
    drawn = chart(inside()[1], "bandwidth_over_stride")
    series = next(one for one in drawn["series"] if str(jobs) in one["name"])
    rates = sorted(point["y"] for point in series["points"])
    return float(rates[0] if is_dip else rates[len(rates) // 2])


def _inside_drawings() -> list[Drawing]:
    def strides() -> dict[str, Any]:
        return chart(inside()[1], "bandwidth_over_stride")

    def mappings(name: str) -> dict[str, Any]:
        return chart(inside()[2], name)

    found = [
        Drawing(
            "2",
            "detecting the chunk size, SSD-S",
            SSD_S,
            lambda: chart(inside()[0], "latency_over_offset"),
            [Mark("published: chunk of 8 sectors", x=8)],
            published=[
                Published(
                    "chunk size of SSD-S",
                    "4.2, figure 2",
                    4096,
                    "bytes",
                    partial(_number, "chunk_bytes"),
                )
            ],
        ),
        Drawing(
            "3",
            "detecting the interleaving degree, SSD-S",
            SSD_S,
            strides,
            [
                Mark("published: 33 MB/s in one domain (2 jobs)", y=33),
                Mark("published: 40 MB/s in two domains", y=40),
            ],
            published=[
                Published("domains of SSD-S", "4.3, figure 3", 10, "", partial(_number, "domains")),
                Published(
                    "sub-domains of SSD-S", "4.3, figure 3", 2, "", partial(_number, "sub_domains")
                ),
                Published(
                    "2 jobs, bottom of the dips",
                    "4.3, figure 3",
                    33,
                    "MB/s",
                    partial(_stride, 2, is_dip=True),
                ),
                Published(
                    "2 jobs, elsewhere (median)",
                    "4.3, figure 3",
                    40,
                    "MB/s",
                    partial(_stride, 2, is_dip=False),
                ),
            ],
        ),
    ]
    shape = Shape("mapping of SSD-S", "4.4, figure 4", "by the order of writes", _mapping)
    parts: tuple[tuple[str, str, str, list[Shape]], ...] = (
        ("4 (I)", "stride_by_address", "reading by address after random writes", []),
        ("4 (II)", "stride_by_write_order", "reading in the order of those writes", [shape]),
    )
    found += [
        Drawing(
            number,
            f"detecting the mapping policy, SSD-S: {title}",
            SSD_S,
            partial(mappings, name),
            shapes=shapes,
        )
        for number, name, title, shapes in parts
    ]
    return found


def _other_drive() -> Drawing:
    """SSD-M in the experiments of figures 2 to 4."""
    shape = Shape(
        "inside of SSD-M: chunks, several domains, the mapping of SSD-S",
        "4.1",
        "SSD-M behaves similarly",
        _alike,
    )
    return Drawing(
        "3 SSD-M",
        "detecting the interleaving degree, SSD-M",
        SSD_M,
        lambda: chart(inside(SSD_M)[1], "bandwidth_over_stride"),
        shapes=[shape],
    )


def _curves(profile: str, access: str, kind: str) -> dict[str, Any]:
    finding = reading(profile) if kind == "read" else writing(profile)
    return chart(finding, f"throughput_{access}_{kind}_by_depth")


def _figure_5() -> list[Drawing]:
    """Figure 5: (a) ... (c) are of SSD-S, (d) ... (f) of SSD-M."""

    def at(
        what: str, where: str, published: float, *place: Any, profile: str = SSD_S, remark: str = ""
    ) -> Published:
        return Published(
            what, where, published, "MB/s", partial(bandwidth, profile, *place), remark
        )

    def over(a: tuple[str, str, int, float], b: tuple[str, str, int, float]) -> float:
        return bandwidth(SSD_S, *a) / bandwidth(SSD_S, *b)

    def most(profile: str) -> float:
        drawn = chart(writing(profile), "throughput_sequential_write_by_depth")
        return float(
            max(point["y"] for one in drawn["series"] for point in one["points"] if point["x"] > 1)
        )

    def alike(profile: str) -> tuple[str, bool]:
        rates = [
            bandwidth(profile, access, "write", 4 * KIB, MOST)
            for access in ("sequential", "random")
        ]
        return f"{rates[0]:.0f} MB/s sequential, {rates[1]:.0f} random (4 KB, 32 jobs)", abs(
            rates[1] / rates[0] - 1
        ) < 0.1

    small = ("random", "read", 4 * KIB)
    disagree = (
        "145 MB/s at 32 jobs means 0.9 ms a request, and section 5.4 says 0.7: no drive can have "
        "both"
    )
    reads = [
        at("4 KB random reads, 32 jobs", "5.1", 145, *small, MOST, remark=disagree),
        Published(
            "4 KB random reads, 32 jobs over 1",
            "5.1",
            7.2,
            "x",
            partial(over, (*small, MOST), (*small, 1.0)),
        ),
        at("16 KB random reads, 1 job", "5.1", 65.5, "random", "read", 16 * KIB, 1.0),
        at("16 KB random reads, 32 jobs", "5.1", 225.5, "random", "read", 16 * KIB, MOST),
        Published(
            "returns of random reads diminish beyond, jobs",
            "5.1 (8-10)",
            9,
            "",
            lambda: float(value(depth(), "random_read_diminishing_depth")),
        ),
    ]
    writes = [
        at("4 KB writes, 32 jobs", "5.1", 186.1, "sequential", "write", 4 * KIB, MOST),
        Published(
            "4 KB, 32 jobs: writes over reads",
            "5.1",
            1.283,
            "x",
            partial(over, ("sequential", "write", 4 * KIB, MOST), (*small, MOST)),
        ),
        Published(
            "SSD-S: highest write bandwidth", "5.1 (about)", 200, "MB/s", partial(most, SSD_S)
        ),
    ]
    ceiling = [
        Published("SSD-M: highest write bandwidth", "5.1 (about)", 80, "MB/s", partial(most, SSD_M))
    ]
    dip = Shape(
        "SSD-{}: 4 KB sequential reads by jobs",
        "5.1",
        "a slight dip at few jobs",
        lambda: ("", None),
    )
    plans: list[
        tuple[str, str, str, str, Sequence[Mark], Sequence[Published], Sequence[Shape]]
    ] = []
    for profile, name, letters in ((SSD_S, "SSD-S", "abc"), (SSD_M, "SSD-M", "def")):
        is_s = profile == SSD_S
        sequential = (
            [at("64 KB sequential reads, 1 job", "5.1", 221.3, "sequential", "read", 64 * KIB, 1.0)]
            if is_s
            else []
        )
        plans += [
            (
                letters[0],
                profile,
                "sequential",
                "read",
                [Mark("published: 221.3 MB/s (64 KB)", 1, 221.3)] if is_s else [],
                sequential,
                [
                    Shape(
                        dip.what.format(name[-1]), dip.where, dip.published, partial(_dip, profile)
                    )
                ],
            ),
            (
                letters[1],
                profile,
                "random",
                "read",
                [
                    Mark("published: 145 MB/s (4 KB)", MOST, 145),
                    Mark("published: 65.5 MB/s (16 KB)", 1, 65.5),
                    Mark("published: 225.5 MB/s (16 KB)", MOST, 225.5),
                    Mark("published: returns diminish from 8", x=8),
                    Mark("published: to 10 jobs", x=10),
                ]
                if is_s
                else [
                    Mark("published: returns diminish from 8", x=8),
                    Mark("published: to 10 jobs", x=10),
                ],
                reads if is_s else [],
                [],
            ),
            (
                letters[2],
                profile,
                "sequential",
                "write",
                [
                    Mark("published: 186.1 MB/s (4 KB)", MOST, 186.1),
                    Mark("published: about 200 MB/s at most", y=200),
                ]
                if is_s
                else [Mark("published: about 80 MB/s at most", y=80)],
                writes if is_s else ceiling,
                [
                    Shape(
                        f"{name}: random writes",
                        "5.1",
                        "like sequential ones",
                        partial(alike, profile),
                    )
                ],
            ),
        ]
    return [
        Drawing(
            f"5 ({letter})",
            f"bandwidth of {access} {kind}s by jobs, SSD-{'S' if profile == SSD_S else 'M'}",
            profile,
            partial(_curves, profile, access, kind),
            marks,
            published=published,
            shapes=shapes,
        )
        for letter, profile, access, kind, marks, published, shapes in plans
    ]


def _dip(profile: str) -> tuple[str, bool]:
    rates = {
        jobs: bandwidth(profile, "sequential", "read", 4 * KIB, jobs)
        for jobs in (1.0, 2.0, 4.0, 8.0)
    }
    return ", ".join(f"{rate:.0f} MB/s at {jobs:.0f}" for jobs, rate in rates.items()), min(
        rates[2.0], rates[4.0]
    ) < rates[1.0]


TABLE_2 = (
    ("sequential_read_alone", 72.6),
    ("random_read_alone", 21.3),
    ("sequential_write_alone", 61.4),
    ("random_write_alone", 59.4),
    ("sequential_read_and_sequential_write", 109.2),
    ("sequential_read_and_random_write", 103.5),
    ("random_read_and_sequential_write", 32.8),
    ("random_read_and_random_write", 33.2),
)


def _together(key: str) -> float:
    return float(value(together(), f"{key}_mb_per_second"))


def _table_2() -> Drawing:
    numbers = {"alone": 0, "sequential": 1, "random": 2}
    marks = []
    for key, rate in TABLE_2:
        parts = key.split("_")
        # `random_write_alone` is a writer without reads, `random_read_and_sequential_write` a pair.
        beside = parts[0] if parts[1] == "write" else parts[-2] if "and" in parts else "alone"
        marks.append(
            Mark(f"published: {key.replace('_', ' ')}, {rate} MB/s", numbers[beside], rate)
        )
    found = [
        Published(key.replace("_", " "), "table 2", rate, "MB/s", partial(_together, key))
        for key, rate in TABLE_2
    ]
    return Drawing(
        "table 2",
        "a reader beside a writer, SSD-S",
        SSD_S,
        lambda: chart(together(), "interference"),
        marks,
        published=found,
    )


def _figure_6() -> Drawing:
    def rate(count: float) -> float:
        return points(chart(streams(), "streams"), "4 KiB")[count]

    def dips() -> tuple[str, bool]:
        words = {
            one["key"]: one["word"] for one in streams()["values"] if one["key"].endswith("_dip")
        }
        count = sum(word == "yes" for word in words.values())
        return f"of {len(words)} sizes, {count} dip", count > len(words) / 2

    published = [
        Published("one sequential stream of 4 KB reads", "5.3", 65, "MB/s", partial(rate, 1.0)),
        Published("two sequential streams of 4 KB reads", "5.3", 37, "MB/s", partial(rate, 2.0)),
        Published("two streams over one", "5.3 (-43 %)", 0.57, "x", lambda: rate(2.0) / rate(1.0)),
    ]
    marks = [Mark("published: 65 MB/s (4 KB)", 1, 65), Mark("published: 37 MB/s (4 KB)", 2, 37)]
    shape = Shape("dip at two streams", "5.3, figure 6", "in nearly all curves", dips)
    return Drawing(
        "6",
        "parallel sequential readers, SSD-S",
        SSD_S,
        lambda: chart(streams(), "streams"),
        marks,
        published=published,
        shapes=[shape],
    )


def _figure_7() -> Drawing:
    def at(key: str, scale: float) -> float:
        return float(value(layout(), f"ill_mapped_depth_32_{key}")) * scale

    disagree = "145 MB/s at 32 jobs (5.1) means 0.9 ms a request: no drive can have both"
    published = [
        Published("32 jobs in one domain", "5.4", 3, "ms", partial(at, "one_domain_us", 1e-3)),
        Published(
            "32 jobs over ten domains",
            "5.4",
            0.7,
            "ms",
            partial(at, "all_domains_us", 1e-3),
            disagree,
        ),
        Published("one domain over ten", "5.4", 4.2, "x", partial(at, "factor", 1)),
    ]
    marks = [
        Mark("published: 3 ms in one domain", MOST, 3000),
        Mark("published: 0.7 ms over ten", MOST, 700),
    ]

    def comparable() -> tuple[str, bool]:
        factor = float(value(layout(), "ill_mapped_depth_1_factor"))
        return f"{factor:.2f} times as long in one domain at depth 1", 0.9 < factor < 1.1

    shape = Shape(
        "one domain against ten at a low depth", "5.4, figure 7", "comparable", comparable
    )
    return Drawing(
        "7",
        "reads within one domain against ten, SSD-S",
        SSD_S,
        lambda: chart(layout(), "ill_mapped"),
        marks,
        published=published,
        shapes=[shape],
    )


def drawings() -> list[Drawing]:
    """Give all figures in the order of their numbers."""
    mixed, writers = written_order.drawings()
    inner = [*_inside_drawings(), mixed, _other_drive()]
    layouts = [_figure_7(), ill_mapped.drawing(), writers]
    return [*inner, *_figure_5(), _table_2(), _figure_6(), *layouts]


def drives() -> list[Probed]:
    """Give the drives that were probed."""
    return [first_gib(SSD_S), first_gib(SSD_M), probed(SSD_S, 2 * GIB), probed(SSD_S)]
