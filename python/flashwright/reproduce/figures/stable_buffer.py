"""STABLEBUFFER figures 4-7.

What a staging buffer on flash gains on an SSD, a USB stick and an SD card. Set up as in section
4.1: the writes of TPC-C on PostgreSQL alone, as many as the paper's trace has, one by one; pages of
4 KiB, 1,024 slots on the SSD and 512 on the others; the header within the page, and a write replied
to when its slot is written. The focused area is as large as the buffer (4.2.2). The SSD is of the
model that the paper's table 1 and thresholds are of. The trace's pages are of 8 KiB: page n is
taken for page n of 4 KiB, or the buffer would have half the slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flashwright._text import size
from flashwright.layering.measure import DIRECT, Measured
from flashwright.reproduce.figures.drawing import Drawing, Published, Shape, probed, value
from flashwright.reproduce.figures.layered import Case, Runs, axis, latency_ms, named_values

RUNS = Runs()
WRITES = 122_150
METHODS = {
    "ondemand+passive": "patterns=on_demand,flushing=passive",
    "incremental+passive": "patterns=incremental,flushing=passive",
    "incremental+proactive": "patterns=incremental,flushing=proactive",
}
PATTERNS = ("sequential", "partitioned", "focused")
MIB = 1 << 20
PAGE_BYTES = 4096
PAPER_RULES = ",partitions=1024,partition_pages=1,run_pages=1"
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Sizes of the buffer in figure 7, as shares of the default."""
PATTERNS_S, PARALLEL_S = 60, 60
"""Device time of what is measured with the prober."""
EFFICIENT = 2.5
"""Up to so many times a sequential write a pattern is efficient here: those of table 1 take up to
2.0 times, and random ones 22 and 30.
"""


@dataclass(frozen=True)
class Device:
    """One of the paper's devices."""

    name: str
    profile: str
    default_bytes: int
    throughput: Mapping[str, float]
    """Published: throughput over that of direct writes, by method."""
    response: Mapping[str, float]
    """Published: mean response over that of direct writes."""
    cpu_share: Mapping[str, float]
    parallel: str
    """Published of figure 5: two threads against one."""
    said: str = ""
    """Parameters of the layer that the paper gives; the others are what the prober finds on the
    profile.
    """


DEVICES = (
    Device(
        "SSD",
        "mtron-sata7035",
        4 * MIB,
        {"incremental+proactive": 2.32, "ondemand+passive": 2.59},
        {"ondemand+passive": 0.33, "incremental+proactive": 0.29},
        {"ondemand+passive": 0.243, "incremental+passive": 0.315},
        "faster",
        # 3.2; and table 1, of 32 KB: all that counts is how they compare.
        ",theta_sequential=8,theta_partitioned=12,theta_focused=16,t_sequential=400,"
        "t_partitioned=600,t_focused=800",
    ),
    Device(
        "USB stick",
        "usb-stick",
        2 * MIB,
        {"incremental+proactive": 4.17, "ondemand+passive": 7.24},
        {"incremental+proactive": 0.23, "incremental+passive": 0.13},
        {"ondemand+passive": 0.051, "incremental+passive": 0.053},
        "same",
    ),
    Device(
        "SD card",
        "sd-card",
        2 * MIB,
        {"incremental+proactive": 1.49, "ondemand+passive": 13.56},
        {"incremental+proactive": 0.67, "incremental+passive": 0.03},
        {"ondemand+passive": 0.042, "incremental+passive": 0.055},
        "slower",
    ),
)


def case(device: Device, method: str, scale: float = 1.0) -> Case:
    """Give a run of the paper's set-up."""
    slots_bytes = round(device.default_bytes * scale)
    stack = DIRECT
    if method != DIRECT:
        said = (
            f"page={PAGE_BYTES},sequential=off,layout=embedded,ack=written,"
            f"{METHODS[method]}{device.said}"
        )
        stack = f"stable_buffer(size={slots_bytes},focused_area={device.default_bytes},{said})"
    return Case(device.profile, stack, ops=("write",), limit=WRITES, page_bytes=PAGE_BYTES)


def cases(device: Device, scales: Sequence[float] = (1.0,)) -> dict[tuple[str, float], Measured]:
    """Run all methods at these sizes."""
    wanted = {
        (method, scale): case(device, method, scale)
        for method in (DIRECT, *METHODS)
        for scale in scales
    }
    RUNS.make(wanted.values())
    return {key: RUNS.of(one) for key, one in wanted.items()}


def throughput(run: Measured) -> float:
    """Give writes a second: those completed by the whole time of the run."""
    return float(run.figures["iops"])


def response(run: Measured) -> float:
    """Mean response of a write in milliseconds."""
    return latency_ms(run, "write")


def figure_4(device: Device, what: str) -> dict[str, Any]:
    """Give throughput or response of all methods."""
    of = {"throughput": throughput, "response": response}[what]
    y = axis("throughput", "writes/s") if what == "throughput" else axis("mean response", "ms")
    runs = cases(device)
    return named_values("figure 4", y, {method: of(run) for (method, _), run in runs.items()})


def ratio(device: Device, method: str, what: str) -> float:
    """Give throughput or response of a method over that of direct writes."""
    of = {"throughput": throughput, "response": response}[what]
    runs = cases(device)
    return of(runs[method, 1.0]) / of(runs[DIRECT, 1.0])


def best_first(device: Device) -> tuple[str, bool | None]:
    """Order the methods by throughput."""
    runs = cases(device)
    order = sorted(METHODS, key=lambda method: -throughput(runs[method, 1.0]))
    said = ", ".join(
        f"{method} {throughput(runs[method, 1.0]) / throughput(runs[DIRECT, 1.0]):.2f}x"
        for method in order
    )
    return said, order[0] == "ondemand+passive" and order[-1] == "incremental+proactive"


def all_gain(device: Device) -> tuple[str, bool | None]:
    """Tell whether every method beats direct writes in both."""
    gains = [ratio(device, method, "throughput") for method in METHODS]
    answers = [ratio(device, method, "response") for method in METHODS]
    said = (
        f"throughput {min(gains):.2f}-{max(gains):.2f}x, response "
        f"{min(answers):.2f}-{max(answers):.2f}x"
    )
    return said, min(gains) > 1 > max(answers)


def patterns(device: Device) -> tuple[str, bool | None]:
    """Tell what focused writes within the size of the buffer cost.

    Beside sequential ones and those at random.
    """
    finding = probed(device.profile).find(
        f"write_patterns(size=32Ki,area={device.default_bytes})", PATTERNS_S
    )
    focused, random = (
        value(finding, "focused_over_sequential"),
        value(finding, "random_over_sequential"),
    )
    return (
        f"{focused:.2f}x a sequential one; at random {random:.1f}x",
        focused < EFFICIENT < random / 5,
    )


def figure_5(device: Device) -> dict[str, Any]:
    """Give one thread against two, focused writes."""
    finding = probed(device.profile).find("serial_parallel", PARALLEL_S)
    return dict(finding["charts"][0])


def parallel(device: Device) -> tuple[str, bool | None]:
    """Tell what two threads do to focused writes."""
    finding = probed(device.profile).find("serial_parallel", PARALLEL_S)
    word, times = value(finding, "parallel_writes"), value(finding, "parallel_over_serial")
    return f"{word}, {times:.2f}x", word == device.parallel


def cpu_share(device: Device, method: str) -> float:
    """Give the share of a run that is the processor's.

    Of the processor's and the device's together.
    """
    figures = cases(device)[method, 1.0].figures
    computing = float(figures["computing_ns_per_request"])
    return computing / (computing + float(figures["device_ns_per_request"]))


def figure_6(device: Device) -> dict[str, Any]:
    """Give the processor's share of the passive methods."""
    methods = [method for method in METHODS if method.endswith("passive")]
    shares = {method: 100 * cpu_share(device, method) for method in methods}
    return named_values(
        "figure 6",
        axis("share of processor time", "%"),
        {**shares, "published do": device.cpu_share[methods[0]] * 100},
    )


def figure_7(device: Device, what: str) -> dict[str, Any]:
    """Give throughput or response by the size of the buffer."""
    of = {"throughput": throughput, "response": response}[what]
    runs = cases(device, SCALES)
    series = [
        {
            "name": method,
            "points": [
                {"x": device.default_bytes * scale, "y": of(runs[method, scale])}
                for scale in SCALES
            ],
        }
        for method in (DIRECT, *METHODS)
    ]
    y = axis("throughput", "writes/s") if what == "throughput" else axis("mean response", "ms")
    return {
        "name": "figure 7",
        "title": "",
        "x": axis("buffer", "bytes", is_log=True),
        "y": y,
        "series": series,
    }


def ends_are_worse(device: Device, method: str) -> tuple[str, bool | None]:
    """Tell whether the smallest and the largest buffer are worse than the best one between."""
    runs = cases(device, SCALES)
    found = [throughput(runs[method, scale]) for scale in SCALES]
    said = ", ".join(f"{one:.0f}" for one in found) + " writes/s"
    return said, max(found[1:-1]) > max(found[0], found[-1])


def instance_pages(run: Measured) -> float:
    """Give the mean number of pages of an instance that was flushed."""
    pages, instances = (
        sum(_counted(run, f"{one}_{what}") for one in PATTERNS) for what in ("pages", "flushes")
    )
    return pages / instances


def small_is_worse(device: Device, method: str) -> tuple[str, bool | None]:
    """Tell how large instances are, by the size of the buffer."""
    runs = cases(device, SCALES)
    found = [instance_pages(runs[method, scale]) for scale in SCALES]
    return ", ".join(f"{one:.1f}" for one in found) + " pages", found[0] < found[SCALES.index(1.0)]


def long_writes(device: Device, method: str, scale: float) -> float:
    """Give how many writes take over half of a direct one's time, for each instance flushed.

    One write waits for an instance; the others are those whose own slot wants a merge.
    """
    runs = cases(device, SCALES)
    run = runs[method, scale]
    least_ns = 0.5e6 * response(runs[DIRECT, 1.0])
    rows = run.tables["latency"].to_pylist()
    long = sum(row["count"] for row in rows if row["op"] == "write" and row["from_ns"] >= least_ns)
    return float(long / sum(_counted(run, f"{one}_flushes") for one in PATTERNS))


def large_is_not_focused(device: Device, method: str) -> tuple[str, bool | None]:
    """Tell whether writes to the buffer itself want more merges.

    Where it is larger than the focused area.
    """
    found = [long_writes(device, method, scale) for scale in SCALES]
    said = ", ".join(f"{one:.2f}" for one in found) + " long writes an instance"
    return said, found[-1] > found[SCALES.index(1.0)]


def _counted(run: Measured, name: str) -> int:
    return sum(int(layer["counters"].get(name, 0)) for layer in run.outcome["layers"]["counters"])


def slots_in_use(device: Device, scale: float) -> float:
    """Give the mean share of slots in use of the proactive method, over the samples of the run."""
    run = cases(device, SCALES)["incremental+proactive", scale]
    samples = run.tables["samples"].to_pydict()
    found = [
        count
        for name, count in zip(samples["counter"], samples["value"], strict=True)
        if name == "used_slots"
    ]
    return 100 * float(sum(found)) / len(found) / (device.default_bytes * scale / PAGE_BYTES)


def _figure_4(device: Device) -> list[Drawing]:
    published = {
        what: [
            Published(
                f"{device.name}: {what} of {method}, direct = 1",
                "4.2.1",
                number,
                "times",
                partial(ratio, device, method, what),
            )
            for method, number in numbers.items()
        ]
        for what, numbers in (("throughput", device.throughput), ("response", device.response))
    }
    shapes = [
        Shape(
            f"{device.name}: every method against direct",
            "4.2.1",
            "more throughput, shorter response",
            partial(all_gain, device),
        ),
        Shape(
            f"{device.name}: methods by throughput",
            "4.2.1",
            "ondemand+passive first, incremental+proactive last",
            partial(best_first, device),
        ),
    ]
    return [
        Drawing(
            f"4{part} {device.name}",
            f"{what} on the {device.name}",
            device.profile,
            partial(figure_4, device, what),
            published=published[what],
            shapes=shapes if what == "throughput" else (),
        )
        for part, what in (("a", "throughput"), ("b", "response"))
    ]


def _figure_5(device: Device) -> Drawing:
    shapes = [
        Shape(
            f"{device.name}: focused writes of 32 KiB within {size(device.default_bytes)}",
            "1, 4.1",
            "efficient, unlike those at random",
            partial(patterns, device),
        ),
        Shape(
            f"{device.name}: two threads against one, focused writes",
            "figure 5",
            device.parallel,
            partial(parallel, device),
        ),
    ]
    return Drawing(
        f"5 {device.name}",
        f"parallel writes on the {device.name}",
        device.profile,
        partial(figure_5, device),
        shapes=shapes,
    )


def _figure_6(device: Device) -> Drawing:
    remark = (
        "their simulator on a processor of 2007, with its copies; ours is of the layers alone, on "
        "this machine"
    )
    published = [
        Published(
            f"{device.name}: share of processor time, {method}",
            "4.2.1",
            100 * share,
            "%",
            partial(lambda method: 100 * cpu_share(device, method), method),
            remark,
        )
        for method, share in device.cpu_share.items()
    ]
    return Drawing(
        f"6 {device.name}",
        f"I/O against processor time on the {device.name}",
        device.profile,
        partial(figure_6, device),
        published=published,
    )


def _figure_7(device: Device) -> list[Drawing]:
    shapes = [
        Shape(
            f"{device.name}: {method} by size of the buffer",
            "4.2.2",
            "worse at both ends",
            partial(ends_are_worse, device, method),
        )
        for method in METHODS
        if method.endswith("passive")
    ]
    shapes += [
        Shape(
            f"{device.name}: instances of ondemand+passive by size of the buffer",
            "4.2.2",
            "not good enough where it is too small",
            partial(small_is_worse, device, "ondemand+passive"),
        ),
        Shape(
            f"{device.name}: writes to the buffer of ondemand+passive by its size",
            "4.2.2",
            "no longer focused where it is too large",
            partial(large_is_not_focused, device, "ondemand+passive"),
        ),
    ]
    published = []
    if device.profile == DEVICES[0].profile:
        published = [
            Published(
                f"{device.name}: slots in use at 16 MB, incremental+proactive",
                "4.2.2",
                27.0,
                "%",
                partial(slots_in_use, device, 4.0),
            )
        ]
    return [
        Drawing(
            f"7 {device.name} {what}",
            f"{what} by the size of the buffer on the {device.name}",
            device.profile,
            partial(figure_7, device, what),
            published=published if what == "throughput" else (),
            shapes=shapes if what == "throughput" else (),
        )
        for what in ("throughput", "response")
    ]


def by_paper_rules(device: Device) -> Device:
    """Give the device with the paper's rules of patterns (STABLEBUFFER 3.2).

    There single pages are sequential writes and partitions, too, and as many partitions take turns
    as there are. Our rules leave out what the thresholds of the same section do not pay for.
    """
    return replace(device, name=f"{device.name} paper rules", said=device.said + PAPER_RULES)


def drawings() -> list[Drawing]:
    """Give all figures: those of a buffer by our rules of patterns and by the paper's."""
    both = [*DEVICES, *map(by_paper_rules, DEVICES)]
    found = [one for device in both for one in _figure_4(device)]
    found += [_figure_5(device) for device in DEVICES]
    found += [_figure_6(device) for device in DEVICES]
    return found + [one for device in both for one in _figure_7(device)]
