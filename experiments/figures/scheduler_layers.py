"""SCHEDULER figures 7.4-7.21.

What deferring, coalescing, converting and aligning gain on the Mtron SSD. As in chapter 7: the
reads and writes of a database's data, one by one, on a raw device, recorded once for each interval
of checkpoints. The window of deferring closes where a checkpoint of the database ended, told by a
flush, so that a batch is alone on the device (7.3.2, static). The write time is that of all that
the device was sent but reads.

The paper's traces were recorded on the Mtron itself, which takes 137 random writes a second (eq.
4.4); ours on a faster device, and all times of the load were a sixth of the paper's, so that
windows hold about as many writes as theirs (the README beside the traces).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from experiments.data import TPCC_SCHEDULER
from experiments.figures.drawing import Drawing, Published, Shape
from experiments.figures.layered import Case, Played, Runs, axis, named_values
from flashwright.jobs.play.names import DIRECT
from flashwright.sources import REQUESTS_FILE

RUNS = Runs()
MTRON = "mtron-pro-7500"
INTERVALS = (30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds of the paper between checkpoints, each with a recording of its own."""
SECONDS: float | None = None
"""Of each recording: all, which is a sixth of the paper's 600 s."""
COMBINATIONS = {
    "drt": DIRECT,
    "dfr": "dfr",
    "dfr_cls": "dfr_cls",
    "dfr_cnv": "dfr_cnv",
    "dfr_cls_cnv": "dfr_cls_cnv",
    "dfr_cnv_aln": "dfr_cnv_aln",
    "dfr_cls_cnv_aln": "dfr_cls_cnv_aln",
}
"""Table 7.2."""
CONVERTING = tuple(name for name in COMBINATIONS if "cnv" in name)
ALIGNED_BYTES = 64 << 10
PAPER_SECONDS = 600.0
"""Seconds of the paper that each recording stands for."""
LOST = 2.0
"""Times by which a gain has to be smaller for the better part of it to be lost."""
NO_LIMIT = "off"
LOG = "filled=yes,over_provisioning=3.8,outstanding=1,placement=multi_log"
"""A volume in use, one by one, with room for the 6 GiB of the traces, a fifth of the drive: the
paper's data is 5.5 GB of 16 or more, and never cleaned. The placement is named, as the default was
another one when the page of results was made.
"""
ONLINE_INTERVAL = 300.0
"""Seconds of the paper between checkpoints, for the figures that have one interval: 7.4 and the
online ones.
"""
CLEARLY = 1.01
"""Times by which write times have to differ for one to count as longer."""
BOUND = 0.1
"""Deviation from the time of the trace up to which the device's time is close to it."""
FLUSH_TIMES = ("1", "3", "10", NO_LIMIT)
"""theta_t in seconds (7.3.3)."""
BUFFERS = ("1Mi", "4Mi", "16Mi", "64Mi")
"""theta_n: section 7.3.3 varies it, and the values are in the images alone."""


def stack(name: str, *, buffer: str = NO_LIMIT, flush_time: str = NO_LIMIT) -> str:
    """Give a combination of table 7.2 as a stack: static unless limits are given."""
    if name == "drt":
        return DIRECT
    align = f",align={ALIGNED_BYTES}" if name.endswith("aln") else ""
    log = f",log=log_volume({LOG}{align})" if name in CONVERTING else ""
    # As its numbers have it, the paper merges what overlaps and nothing else, and keeps the order
    # in which writes came.
    return (
        f"scheduler({COMBINATIONS[name]},order=arrival,join=no,buffer={buffer},"
        f"flush_time={flush_time}{log})"
    )


def recording(interval: float) -> Path:
    """Give the requests that were recorded with a checkpoint each so many seconds of the paper."""
    return TPCC_SCHEDULER / f"{interval:.0f}s" / REQUESTS_FILE


def static_case(name: str, interval: float) -> Case:
    """Give a run with windows of this interval (7.3.2). Without layers there is no window."""
    return Case(
        MTRON, stack(name), seconds=SECONDS, recording=recording(interval), closes=name != "drt"
    )


def static(names: Sequence[str]) -> dict[tuple[str, float], Played]:
    """Run combinations at all intervals."""
    wanted = {
        (name, interval): static_case(name, interval) for name in names for interval in INTERVALS
    }
    RUNS.make(wanted.values())
    return {key: RUNS.of(one) for key, one in wanted.items()}


def write_time(run: Played) -> float:
    """Give the time that the device took for all but reads, in seconds."""
    return float(run["total_write_seconds"])


def read_time(run: Played) -> float:
    """Give the sum of the response times of reads, in seconds."""
    latency = run["latency_ns"]["read"]
    return float(latency["mean"]) * float(latency["count"]) / 1e9


def gains(name: str, over: str, time: Callable[[Played], float] = write_time) -> dict[float, float]:
    """Give how many times less time a combination takes than another, by interval."""
    runs = static((name, over))
    return {
        interval: time(runs[over, interval]) / time(runs[name, interval]) for interval in INTERVALS
    }


def figure(
    names: Sequence[str], time: Callable[[Played], float] = write_time, *, is_log: bool = False
) -> dict[str, Any]:
    """Give the time of combinations by the interval of checkpoints."""
    runs = static(names)
    series = [
        {
            "name": name,
            "points": [{"x": interval, "y": time(runs[name, interval])} for interval in INTERVALS],
        }
        for name in names
    ]
    label = "write time" if time is write_time else "read time"
    return {
        "name": "times",
        "title": "",
        "x": axis("checkpoint interval", "s", is_log=True),
        "y": axis(label, "s", is_log=is_log),
        "series": series,
    }


def _range(
    what: str,
    low: float,
    high: float,
    name: str,
    over: str,
    time: Callable[[Played], float] = write_time,
) -> list[Published]:
    return [
        Published(
            f"{what}: {word} over the intervals",
            "7.3.2",
            number,
            "times",
            partial(_end, name, over, time, end),
        )
        for word, number, end in (("least", low, min), ("greatest", high, max))
    ]


def _end(name: str, over: str, time: Callable[[Played], float], end: Callable[..., float]) -> float:
    return end(gains(name, over, time).values())


def _told(found: Mapping[float, float]) -> str:
    return ", ".join(f"{interval:.0f} s {gain:.2f}x" for interval, gain in found.items())


def grows(name: str, over: str) -> tuple[str, bool | None]:
    """Tell whether the gain grows with the interval."""
    found = gains(name, over)
    return _told(found), found[INTERVALS[-1]] > found[INTERVALS[0]]


def slower(name: str, over: str) -> tuple[str, bool | None]:
    """Tell whether a combination takes longer than another at every interval."""
    found = gains(name, over)
    return _told(found), all(gain < 1 for gain in found.values())


def sixty_times() -> tuple[str, bool | None]:
    """Tell whether all four techniques gain 60 times and more, the aim of this project."""
    found = gains("dfr_cls_cnv_aln", "drt")
    return _told(found), min(found.values()) >= 60


def direct_and_log() -> tuple[Played, Played]:
    """Run the raw device, and a log-structured volume that defers nothing.

    As a log-structured file system that knows of no checkpoints.
    """
    cases = (
        static_case("drt", ONLINE_INTERVAL),
        Case(MTRON, f"log_volume({LOG})", seconds=SECONDS, recording=recording(ONLINE_INTERVAL)),
    )
    RUNS.make(cases)
    direct, log = map(RUNS.of, cases)
    return direct, log


def figure_4() -> dict[str, Any]:
    """Give read and write times of the raw device, and of a log that defers nothing."""
    drt, log = direct_and_log()
    values = {
        "raw: reads": read_time(drt),
        "raw: writes": write_time(drt),
        "log: reads": read_time(log),
        "log: writes": write_time(log),
    }
    return named_values("figure 7.4", axis("sum of the times", "s", is_log=True), values)


def log_gain() -> float:
    """Give how many times less write time a log that defers nothing takes."""
    drt, log = direct_and_log()
    return write_time(drt) / write_time(log)


def figure_5() -> dict[str, Any]:
    """Give the sum of all response times, direct."""
    runs = static(("drt",))
    points = [
        {"x": interval, "y": read_time(run) + write_time(run)}
        for (_, interval), run in runs.items()
    ]
    return {
        "name": "sum",
        "title": "",
        "x": axis("checkpoint interval", "s", is_log=True),
        "y": axis("sum of the response times", "s"),
        "series": [{"name": "drt", "points": points}],
    }


def bound_by_io() -> tuple[str, bool | None]:
    """Tell whether the device's time is close to that of the load, as 7.3.1 finds.

    The load's is six times that of the recording, as of everything in it. The rate of writes was
    chosen so that this could come out (the README beside the traces); the reads were not.
    """
    runs = static(("drt",))
    shares = {
        interval: (read_time(run) + write_time(run)) / PAPER_SECONDS
        for (_, interval), run in runs.items()
    }
    said = _told(shares) + " the time of the load"
    return said, all(abs(share - 1) <= BOUND for share in shares.values())


def mixing_costs_a_log() -> tuple[str, bool | None]:
    """Tell how much longer writes take in a log that defers nothing than in one that defers.

    7.3.3 explains by writes among reads why nilfs2 gained 5 times where converting what was
    deferred gained 60: then most of the gain would be lost here, too.
    """
    drt, log = direct_and_log()
    case = static_case("dfr_cnv", ONLINE_INTERVAL)
    RUNS.make([case])
    deferred = RUNS.of(case)
    gained = [write_time(drt) / write_time(run) for run in (log, deferred)]
    said = f"gains {gained[0]:.1f}x without deferring, {gained[1]:.1f}x with"
    return said, gained[0] < gained[1] / LOST


def online(names: Sequence[str], limit: str, *, waits: bool) -> dict[tuple[str, str], Played]:
    """Run combinations with one of the limits varied (7.3.3)."""
    values = FLUSH_TIMES if limit == "flush_time" else BUFFERS
    wanted = {
        (name, value): Case(
            MTRON,
            stack(name, **{limit: value}),
            seconds=SECONDS,
            recording=recording(ONLINE_INTERVAL),
            closes=name != "drt",
            waits=waits,
        )
        for name in names
        for value in values
    }
    RUNS.make(wanted.values())
    return {key: RUNS.of(one) for key, one in wanted.items()}


DEFERRING = tuple(name for name in COMBINATIONS if name != "drt")
RANDOM = tuple(name for name in DEFERRING if name not in CONVERTING)


def figure_online(names: Sequence[str], limit: str, *, waits: bool) -> dict[str, Any]:
    """Give the write time by a limit; no limit is drawn ten times as far as the greatest."""
    runs = online(names, limit, waits=waits)
    if limit == "flush_time":
        places = {value: float(value) if value != NO_LIMIT else 100.0 for value in FLUSH_TIMES}
        x = axis("limit of the flush time (100: none)", "s", is_log=True)
    else:
        places = {value: float(int(value.removesuffix("Mi")) << 20) for value in BUFFERS}
        x = axis("limit of the buffer", "bytes", is_log=True)
    series = [
        {
            "name": name,
            "points": [
                {"x": place, "y": write_time(runs[name, value])} for value, place in places.items()
            ],
        }
        for name in names
    ]
    return {
        "name": "online",
        "title": "",
        "x": x,
        "y": axis("write time", "s", is_log=True),
        "series": series,
    }


def longer_with_more(limit: str, *, waits: bool) -> tuple[str, bool | None]:
    """Tell whether random writes take longer the larger the limit, from the least to the greatest.

    Those of deferring, and of deferring and coalescing.
    """
    runs = online(RANDOM, limit, waits=waits)
    values = FLUSH_TIMES if limit == "flush_time" else BUFFERS
    times = {name: [write_time(runs[name, value]) for value in values] for name in RANDOM}
    said = "; ".join(
        f"{name} " + ", ".join(f"{one:.0f}" for one in of) + " s" for name, of in times.items()
    )
    return said, all(of[-1] >= CLEARLY * of[0] for of in times.values())


def hardly_sensitive(limit: str, *, waits: bool) -> tuple[str, bool | None]:
    """Tell how much the limit changes the write time of the converting combinations."""
    runs = online(CONVERTING, limit, waits=waits)
    values = FLUSH_TIMES if limit == "flush_time" else BUFFERS
    spreads = {}
    for name in CONVERTING:
        times = [write_time(runs[name, value]) for value in values]
        spreads[name] = max(times) / min(times)
    return ", ".join(f"{name} {spread:.2f}x" for name, spread in spreads.items()), max(
        spreads.values()
    ) < 1.5


def more_buffer_helps(*, waits: bool) -> tuple[str, bool | None]:
    """Tell whether all four techniques take less time with a larger buffer."""
    runs = online(("dfr_cls_cnv_aln",), "buffer", waits=waits)
    times = [write_time(runs["dfr_cls_cnv_aln", value]) for value in BUFFERS]
    return ", ".join(
        f"{value} {time:.2f} s" for value, time in zip(BUFFERS, times, strict=True)
    ), times[-1] < times[0]


def _static_drawings() -> list[Drawing]:
    return [
        Drawing(
            "7.6",
            "write time by deferring",
            MTRON,
            partial(figure, ("drt", "dfr")),
            shapes=[
                Shape(
                    "deferred random writes against direct ones",
                    "7.3.2",
                    "take longer",
                    partial(slower, "dfr", "drt"),
                )
            ],
        ),
        Drawing(
            "7.7",
            "deferring and coalescing",
            MTRON,
            partial(figure, ("dfr", "dfr_cls")),
            published=_range("coalescing over deferring", 1.05, 1.25, "dfr_cls", "dfr"),
            shapes=[
                Shape(
                    "coalescing by interval",
                    "7.3.2",
                    "gains more with longer ones",
                    partial(grows, "dfr_cls", "dfr"),
                )
            ],
        ),
        Drawing(
            "7.8",
            "deferring and converting",
            MTRON,
            partial(figure, ("dfr", "dfr_cnv"), is_log=True),
            published=_range("converting over deferring", 64.75, 76.88, "dfr_cnv", "dfr"),
        ),
        Drawing(
            "7.9",
            "deferring, coalescing and converting",
            MTRON,
            partial(figure, ("dfr_cnv", "dfr_cls_cnv")),
            published=_range("coalescing over converting", 1.07, 1.27, "dfr_cls_cnv", "dfr_cnv"),
        ),
        Drawing(
            "7.10",
            "deferring, converting and aligning",
            MTRON,
            partial(figure, ("dfr_cnv", "dfr_cnv_aln")),
            published=_range("aligning over converting", 1.84, 1.87, "dfr_cnv_aln", "dfr_cnv"),
        ),
        Drawing(
            "7.11",
            "all four",
            MTRON,
            partial(figure, ("dfr_cnv_aln", "dfr_cls_cnv_aln")),
            published=_range(
                "coalescing over aligning", 1.08, 1.31, "dfr_cls_cnv_aln", "dfr_cnv_aln"
            ),
        ),
        Drawing(
            "7.12",
            "total write time",
            MTRON,
            partial(figure, ("drt", "dfr_cls_cnv_aln"), is_log=True),
            published=_range("all four over direct", 110.30, 156.39, "dfr_cls_cnv_aln", "drt"),
            shapes=[
                Shape(
                    "all four over direct", "aim of this project", "60 times and more", sixty_times
                )
            ],
        ),
        Drawing(
            "7.13",
            "reads when writes are deferred",
            MTRON,
            partial(figure, ("drt", "dfr"), read_time),
            published=_range("reads, deferring over direct", 2.71, 3.63, "dfr", "drt", read_time),
        ),
    ]


def _online_drawings() -> list[Drawing]:
    found = []
    numbers = iter(range(14, 22))
    for waits in (False, True):
        with_waiting = "with I/O waiting" if waits else "without I/O waiting"
        for limit, words in (
            ("flush_time", "limits of the flush time"),
            ("buffer", "limits of the buffer"),
        ):
            for names, which in ((DEFERRING, ""), (CONVERTING, " (converting)")):
                shapes = [
                    Shape(
                        f"deferring and coalescing by {words}, {with_waiting}",
                        "7.3.3",
                        "longer with larger ones",
                        partial(longer_with_more, limit, waits=waits),
                    )
                ]
                if names is CONVERTING:
                    said = partial(hardly_sensitive, limit, waits=waits)
                    shapes = [
                        Shape(
                            f"converting by {words}, {with_waiting}",
                            "7.3.3",
                            "hardly sensitive",
                            said,
                        )
                    ]
                if names is CONVERTING and limit == "buffer":
                    said = partial(more_buffer_helps, waits=waits)
                    shapes.append(
                        Shape(
                            f"all four by the buffer, {with_waiting}",
                            "7.3.3",
                            "slightly less time with more",
                            said,
                        )
                    )
                found.append(
                    Drawing(
                        f"7.{next(numbers)}",
                        f"online, {words}, {with_waiting}{which}",
                        MTRON,
                        partial(figure_online, names, limit, waits=waits),
                        shapes=shapes,
                    )
                )
    return found


def drawings() -> list[Drawing]:
    """Give all figures."""
    remark = (
        "theirs is nilfs2 against ext2, on a drive with a file system; ours a log below a raw "
        "device"
    )
    return [
        Drawing(
            "7.4",
            "I/O time of the trace, direct and on a log that defers nothing",
            MTRON,
            figure_4,
            published=[
                Published(
                    "a log-structured file system's write time against in-place",
                    "5.4.1, 7.3.3",
                    5.0,
                    "times",
                    log_gain,
                    remark,
                )
            ],
            shapes=[
                Shape(
                    "a log that defers nothing against deferring and converting",
                    "7.3.3",
                    "gains 5 of 60 times: its writes are among reads",
                    mixing_costs_a_log,
                )
            ],
        ),
        Drawing(
            "7.5",
            "sum of the response times, direct",
            MTRON,
            figure_5,
            shapes=[
                Shape(
                    "sum of the response times against the time of the load",
                    "7.3.1",
                    "very close: bound by I/O",
                    bound_by_io,
                )
            ],
        ),
        *_static_drawings(),
        *_online_drawings(),
    ]
