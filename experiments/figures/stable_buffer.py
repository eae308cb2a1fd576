"""STABLEBUFFER figures 4-7.

What a staging buffer on flash gains on an SSD, a USB stick and an SD card. Set up as in section
4.1: writes of TPC-C on PostgreSQL, as many as the paper's trace has, one by one; pages of 4 KiB,
1,024 slots on the SSD and 512 on the others; the header within the page, and a write replied to
when its slot is written. The focused area is as large as the buffer (4.2.2). The SSD is of the
model that the paper's table 1 and thresholds are of. The trace's pages are of 8 KiB: page n is
taken for page n of 4 KiB, or the buffer would have half the slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq

from experiments.figures import thresholds, writes_in_time
from experiments.figures.drawing import Drawing, Published, Shape, probed, value
from experiments.figures.layered import (
    Case,
    Played,
    Runs,
    axis,
    latency_ms,
    named_values,
    with_pages_of,
)
from flashwright._text import size
from flashwright.jobs.play.names import DIRECT

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
PAPER_S = 1800.0
"""Time of the paper's trace in seconds: "over 30 minutes" (4.1)."""
COMPUTED_WRITES, ATTEMPTS = 20_000, 3
"""Writes of a run of which the processor's time is taken, and such runs: others on the machine can
only add to it, so the least is taken.
"""
CLEARLY = 1.1
"""Times by which the processor's share of two methods has to differ to be told apart."""
PATTERNS_S, PARALLEL_S = 60, 60
"""Device time of what is measured with the prober."""
EFFICIENT = 2.5
"""Up to so many times a sequential write a pattern is efficient here: those of table 1 take up to
2.0 times, and random ones 22 and 30.
"""


@dataclass(frozen=True)
class PaperDevice:
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
    PaperDevice(
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
    PaperDevice(
        "USB stick",
        "usb-stick",
        2 * MIB,
        {"incremental+proactive": 4.17, "ondemand+passive": 7.24},
        {"incremental+proactive": 0.23, "incremental+passive": 0.13},
        {"ondemand+passive": 0.051, "incremental+passive": 0.053},
        "same",
    ),
    PaperDevice(
        "SD card",
        "sd-card",
        2 * MIB,
        {"incremental+proactive": 1.49, "ondemand+passive": 13.56},
        {"incremental+proactive": 0.67, "incremental+passive": 0.03},
        {"ondemand+passive": 0.042, "incremental+passive": 0.055},
        "slower",
    ),
)


def case(device: PaperDevice, method: str, scale: float = 1.0, limit: int | None = None) -> Case:
    """Give a run of the paper's set-up, of fewer writes if a limit says so."""
    slots_bytes = round(device.default_bytes * scale)
    stack = DIRECT
    if method != DIRECT:
        said = (
            f"page={PAGE_BYTES},sequential=off,layout=embedded,ack=written,"
            f"{METHODS[method]}{device.said}"
        )
        stack = f"stable_buffer(size={slots_bytes},focused_area={device.default_bytes},{said})"
    return Case(device.profile, stack, ops=("write",), limit=limit or WRITES, page_bytes=PAGE_BYTES)


def cases(device: PaperDevice, scales: Sequence[float] = (1.0,)) -> dict[tuple[str, float], Played]:
    """Run all methods at these sizes."""
    wanted = {
        (method, scale): case(device, method, scale)
        for method in (DIRECT, *METHODS)
        for scale in scales
    }
    RUNS.make(wanted.values())
    return {key: RUNS.of(one) for key, one in wanted.items()}


def throughput(run: Played) -> float:
    """Give writes a second: those completed by the whole time of the run."""
    return float(run["iops"])


def response(run: Played) -> float:
    """Mean response of a write in milliseconds."""
    return latency_ms(run, "write")


def figure_4(device: PaperDevice, what: str) -> dict[str, Any]:
    """Give throughput or response of all methods."""
    of = {"throughput": throughput, "response": response}[what]
    y = axis("throughput", "writes/s") if what == "throughput" else axis("mean response", "ms")
    runs = cases(device)
    return named_values("figure 4", y, {method: of(run) for (method, _), run in runs.items()})


def ratio(device: PaperDevice, method: str, what: str) -> float:
    """Give throughput or response of a method over that of direct writes."""
    of = {"throughput": throughput, "response": response}[what]
    runs = cases(device)
    return of(runs[method, 1.0]) / of(runs[DIRECT, 1.0])


def best_first(device: PaperDevice) -> tuple[str, bool | None]:
    """Order the methods by throughput."""
    runs = cases(device)
    order = sorted(METHODS, key=lambda method: -throughput(runs[method, 1.0]))
    said = ", ".join(
        f"{method} {throughput(runs[method, 1.0]) / throughput(runs[DIRECT, 1.0]):.2f}x"
        for method in order
    )
    return said, order[0] == "ondemand+passive" and order[-1] == "incremental+proactive"


def product(device: PaperDevice, method: str) -> float:
    """Give throughput times mean response over that of direct writes.

    It is 1 where each write is sent when the one before it was replied to. Less is time of the run
    that lies in no response.
    """
    return ratio(device, method, "throughput") * ratio(device, method, "response")


def shortest_first(device: PaperDevice) -> tuple[str, bool | None]:
    """Order the methods by mean response, and tell whether the ends are the published ones.

    4.2.1 names the method with the longest mean response and that with the shortest.
    """
    order = sorted(METHODS, key=lambda method: ratio(device, method, "response"))
    said = ", ".join(f"{method} {ratio(device, method, 'response'):.2f}x" for method in order)
    ends = sorted(device.response, key=lambda method: device.response[method])
    return said, [order[0], order[-1]] == ends


def paced(device: PaperDevice) -> dict[str, Played]:
    """Run all methods at the rate of the paper's trace.

    Intervals are those of our trace, stretched so that it lasts as long as the paper's.
    """
    path = with_pages_of(PAGE_BYTES)
    table = pq.read_table(path, columns=["time_ns", "op"], filters=[("op", "=", "write")])
    times = table["time_ns"].slice(0, WRITES)
    stretch = PAPER_S * 1e9 / (times[-1].as_py() - times[0].as_py())
    wanted = {
        method: replace(case(device, method), waits=True, stretch=stretch)
        for method in (DIRECT, *METHODS)
    }
    RUNS.make(wanted.values())
    return {method: RUNS.of(one) for method, one in wanted.items()}


def paced_ratio(device: PaperDevice, method: str) -> float:
    """Give the mean response over that of direct writes at the rate of the paper's trace."""
    runs = paced(device)
    return response(runs[method]) / response(runs[DIRECT])


def all_gain(device: PaperDevice) -> tuple[str, bool | None]:
    """Tell whether every method beats direct writes in both."""
    gains = [ratio(device, method, "throughput") for method in METHODS]
    answers = [ratio(device, method, "response") for method in METHODS]
    said = (
        f"throughput {min(gains):.2f}-{max(gains):.2f}x, response "
        f"{min(answers):.2f}-{max(answers):.2f}x"
    )
    return said, min(gains) > 1 > max(answers)


def patterns(device: PaperDevice) -> tuple[str, bool | None]:
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


def figure_5(device: PaperDevice) -> dict[str, Any]:
    """Give one thread against two, focused writes."""
    finding = probed(device.profile).find("serial_parallel", PARALLEL_S)
    return dict(finding["charts"][0])


def parallel(device: PaperDevice) -> tuple[str, bool | None]:
    """Tell what two threads do to focused writes."""
    finding = probed(device.profile).find("serial_parallel", PARALLEL_S)
    word, times = value(finding, "parallel_writes"), value(finding, "parallel_over_serial")
    return f"{word}, {times:.2f}x", word == device.parallel


def cpu_share(device: PaperDevice, method: str) -> float:
    """Give the share of a run that is the processor's, of the processor's and the device's.

    The least of several short runs. It is real time of the layers on this machine.
    """
    limit = min(WRITES, COMPUTED_WRITES)
    attempts = [
        replace(case(device, method, limit=limit), attempt=number + 1) for number in range(ATTEMPTS)
    ]
    RUNS.make(attempts)
    shares = []
    for attempt in attempts:
        run = RUNS.of(attempt)
        computing = float(run["computing_ns_per_request"])
        shares.append(computing / (computing + float(run["device_ns_per_request"])))
    return min(shares)


def more_computing(device: PaperDevice) -> tuple[str, bool | None]:
    """Tell whether the incremental passive method computes more than the on-demand one.

    Nothing is told if the two are too near to each other for a measurement of real time.
    """
    on_demand, incremental = (cpu_share(device, method) for method in device.cpu_share)
    times = incremental / on_demand
    said = f"{100 * incremental:.2g} against {100 * on_demand:.2g} %"
    is_clear = max(times, 1 / times) >= CLEARLY
    return said, times > 1 if is_clear else None


def figure_6(device: PaperDevice) -> dict[str, Any]:
    """Give the processor's share of the passive methods."""
    methods = [method for method in METHODS if method.endswith("passive")]
    shares = {method: 100 * cpu_share(device, method) for method in methods}
    return named_values(
        "figure 6",
        axis("share of processor time", "%"),
        {**shares, "published do": device.cpu_share[methods[0]] * 100},
    )


def figure_7(device: PaperDevice, what: str) -> dict[str, Any]:
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


def ends_are_worse(device: PaperDevice, method: str) -> tuple[str, bool | None]:
    """Tell whether the smallest and the largest buffer are worse than the best one between."""
    runs = cases(device, SCALES)
    found = [throughput(runs[method, scale]) for scale in SCALES]
    said = ", ".join(f"{one:.0f}" for one in found) + " writes/s"
    return said, max(found[1:-1]) > max(found[0], found[-1])


def instance_pages(run: Played) -> float:
    """Give the mean number of pages of an instance that was flushed."""
    pages, instances = (
        sum(_counted(run, f"{one}_{what}") for one in PATTERNS) for what in ("pages", "flushes")
    )
    return pages / instances


def small_is_worse(device: PaperDevice, method: str) -> tuple[str, bool | None]:
    """Tell how large instances are, by the size of the buffer."""
    runs = cases(device, SCALES)
    found = [instance_pages(runs[method, scale]) for scale in SCALES]
    return ", ".join(f"{one:.1f}" for one in found) + " pages", found[0] < found[SCALES.index(1.0)]


def long_writes(device: PaperDevice, method: str, scale: float) -> float:
    """Give how many writes take over half of a direct one's time, for each instance flushed.

    One write waits for an instance; the others are those whose own slot wants a merge.
    """
    runs = cases(device, SCALES)
    run = runs[method, scale]
    least_ns = 0.5e6 * response(runs[DIRECT, 1.0])
    times = run["tables"]["latency"]
    is_long = (times["of"] == "latency") & (times["op"] == "write") & (times["from_ns"] >= least_ns)
    instances = sum(_counted(run, f"{one}_flushes") for one in PATTERNS)
    return float(times["count"][is_long].sum() / instances)


def large_is_not_focused(device: PaperDevice, method: str) -> tuple[str, bool | None]:
    """Tell whether writes to the buffer itself want more merges.

    Where it is larger than the focused area.
    """
    found = [long_writes(device, method, scale) for scale in SCALES]
    said = ", ".join(f"{one:.2f}" for one in found) + " long writes an instance"
    return said, found[-1] > found[SCALES.index(1.0)]


def _counted(run: Played, name: str) -> int:
    return sum(int(layer["counters"].get(name, 0)) for layer in run["counters"])


def slots_in_use(device: PaperDevice, scale: float) -> float:
    """Give the mean share of slots in use of the proactive method, over the samples of the run."""
    run = cases(device, SCALES)["incremental+proactive", scale]
    samples = run["tables"]["samples"]
    used = samples["value"][samples["counter"] == "used_slots"]
    return 100 * float(used.mean()) / (device.default_bytes * scale / PAGE_BYTES)


def _figure_4(device: PaperDevice) -> list[Drawing]:
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
    published["response"] += [
        Published(
            f"{device.name}: throughput times response of {method}, direct = 1",
            "4.2.1",
            device.throughput[method] * device.response[method],
            "times",
            partial(product, device, method),
            "of the two published; one by one it has to be 1",
        )
        for method in device.throughput
        if method in device.response
    ]
    answers = sorted(device.response, key=lambda method: device.response[method])
    by_response = Shape(
        f"{device.name}: methods by mean response",
        "4.2.1",
        f"{answers[0]} shortest, {answers[-1]} longest",
        partial(shortest_first, device),
    )
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
            shapes=shapes if what == "throughput" else [by_response],
        )
        for part, what in (("a", "throughput"), ("b", "response"))
    ]


def _paced(device: PaperDevice) -> Drawing:
    """Responses of figure 4 at the rate of the paper's trace, which may have been kept there."""

    def draw() -> dict[str, Any]:
        values = {method: response(run) for method, run in paced(device).items()}
        return named_values("paced", axis("mean response", "ms"), values)

    published = [
        Published(
            f"{device.name}: response of {method} at 68 writes a second, direct = 1",
            "4.2.1",
            number,
            "times",
            partial(paced_ratio, device, method),
            "whether the paper kept its trace's intervals is not said",
        )
        for method, number in device.response.items()
    ]
    return Drawing(
        f"4b {device.name} paced",
        f"response on the {device.name} at the rate of the trace",
        device.profile,
        draw,
        published=published,
    )


def _figure_5(device: PaperDevice) -> Drawing:
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


def _figure_6(device: PaperDevice) -> Drawing:
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
        shapes=[
            Shape(
                f"{device.name}: share of processor time of incremental+passive",
                "4.2.1",
                "more than of ondemand+passive",
                partial(more_computing, device),
            )
        ],
    )


def _figure_7(device: PaperDevice) -> list[Drawing]:
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


def by_paper_rules(device: PaperDevice) -> PaperDevice:
    """Give the device with the paper's rules of patterns (STABLEBUFFER 3.2).

    There single pages are sequential writes and partitions, too, and as many partitions take turns
    as there are. Our rules leave out what the thresholds of the same section do not pay for.
    """
    return replace(device, name=f"{device.name} paper rules", said=device.said + PAPER_RULES)


def drawings() -> list[Drawing]:
    """Give all figures: those of a buffer by our rules of patterns and by the paper's."""
    both = [*DEVICES, *map(by_paper_rules, DEVICES)]
    found = [*writes_in_time.drawings(), *thresholds.drawings()]
    found += [one for device in both for one in _figure_4(device)]
    found.append(_paced(DEVICES[0]))
    found += [_figure_5(device) for device in DEVICES]
    found += [_figure_6(device) for device in DEVICES]
    return found + [one for device in both for one in _figure_7(device)]
