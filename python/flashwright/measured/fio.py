"""Rows of measurements from the JSON that fio writes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright.measured import fio_documents
from flashwright.measured.fio_options import LeftOutError, Options, Region, merged
from flashwright.measured.rows import Row, WriteRow, is_each_once

GIB = 1 << 30
MIB = 1 << 20
NANOS_PER_US = 1e3
MOST_ERRNO = 4096
LEAST_S = 1.0
"""Shortest job that is a measurement at all, in seconds."""
SHORT_S = 60.0
"""A job that ran shorter is no measurement of a steady drive."""
SLACK_S = 2.0
"""Most seconds by which fio's elapsed time may fall short of the times of its jobs."""
SIZE_TOLERANCE = 0.1
COLD = 0.05
"""Share of the used space that is never written again, from which on this matters."""
MAP = (
    "fio's random writes reach each place once before any again, of which a drive copies less than "
    "of uniform ones: each_once in a row. With norandommap they are uniform; fio's JSON has that "
    "only with its value, norandommap=1"
)


@dataclass
class FioRows:
    """Rows that were taken of fio's files, and the jobs that were left out."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """File, job and reason, for each job that became no row."""
    notes: list[str] = field(default_factory=list)
    """Remarks on the rows, and on what was passed over in the files."""


@dataclass(frozen=True)
class _Job:
    """One job, or one of the equal ones of `numjobs`, as a document has it."""

    number: int
    name: str
    options: Options
    told: Mapping[str, Any]

    def way(self, name: str) -> Mapping[str, Any]:
        found = self.told.get(name)
        return found if isinstance(found, Mapping) else {}

    @property
    def write(self) -> Mapping[str, Any]:
        """Figures of writes; `unified_rw_reporting` calls all directions mixed."""
        return self.way("write") or self.way("mixed")

    @property
    def written(self) -> float:
        return _bytes(self.way("write") or ({} if self._reads() else self.way("mixed")))

    def _reads(self) -> bool:
        return "write" not in self.options.given.get("rw", "read")

    @property
    def seconds(self) -> float:
        ways = ("read", "write", "trim", "mixed")
        return max(_number(self.way(one).get("runtime")) for one in ways) / 1e3

    @property
    def error(self) -> str:
        """Error of the job, in words; empty if there is none."""
        code = int(_number(self.told.get("error"))) or int(_number(self.told.get("first_error")))
        count = int(_number(self.told.get("total_err")))
        if code:
            name = f" ({os.strerror(code)})" if 0 < code < MOST_ERRNO else ""
            return f"it ended with error {code}{name}"
        return f"{count} of its requests failed" if count else ""


def read(paths: Iterable[Path], drive: str, capacity_gb: float) -> FioRows:
    """Read jobs in their order: each begins in the state that those before have left.

    A job of writes alone, past the page cache, in sequence or at random, becomes a row of steady
    writes, with the mean throughput of the job; the equal ones of `numjobs` are one. What was
    written before counts as written, too. `docs/measured.md` says what else a job may be.

    Raises:
        InputError: a file that cannot be read, or is not what fio writes with
            `--output-format=json`.
    """
    reader = _Reader(drive, capacity_gb)
    for path in paths:
        found = fio_documents.read(path)
        reader.found.notes += found.notes
        for number, document in enumerate(found.runs, 1):
            where = str(path) if len(found.runs) == 1 else f"{path}: run {number}"
            reader.run(where, document)
    if any(isinstance(row, WriteRow) and is_each_once(row) for row in reader.found.rows):
        reader.found.notes.append(MAP)
    return reader.found


class _Reader:
    """Goes through runs, and keeps what was written to the drive until then."""

    def __init__(self, drive: str, capacity_gb: float) -> None:
        self.drive, self.capacity_gb = drive, capacity_gb
        self.capacity = capacity_gb * 1e9
        self.found = FioRows()
        self.written = 0.0
        self.held: dict[str, float] = {}
        """Bytes that hold data, by device or files."""
        self.wrote: dict[str, float] = {}
        """Bytes that were written in all, by device or files."""
        self.device = ""

    def run(self, where: str, document: fio_documents.Document) -> None:
        """Take one run."""
        jobs = [_job(number, document, one) for number, one in enumerate(_told(document), 1)]
        if not jobs:
            self.found.left_out.append(f"{where}: no job ran")
        hosts = {(one.told.get("hostname"), one.told.get("port")) for one in jobs}
        for phase in [jobs] if len(hosts) > 1 else _phases(jobs):
            self.written += sum(one.written for one in phase if not self._is_elsewhere(one))
            equal = _equal(phase)
            for group in equal:
                self._group(where, group, [one for one in phase if one not in group], len(hosts))
            if sum(_bytes(one.way("trim")) for one in phase) > 0.95 * self.capacity:
                self.written, self.held, self.wrote = 0.0, {}, {}

    def _group(self, where: str, group: Sequence[_Job], beside: Sequence[_Job], hosts: int) -> None:
        first = group[0]
        numbers = f"job {first.number}"
        if len(group) > 1:
            numbers = f"jobs {first.number} to {group[-1].number}"
        name = f"{where}: {numbers} ({first.name})"
        try:
            _check(group, beside, hosts)
            row, notes = self._row(group)
        except LeftOutError as why:
            self.found.left_out.append(f"{name}: {why}")
            self._keep(group)
        else:
            self.found.rows.append(row)
            self.found.notes += [f"{name}: {note}" for note in notes]

    def _row(self, group: Sequence[_Job]) -> tuple[WriteRow, list[str]]:
        first, options = group[0], group[0].options
        jobs = max(options.jobs, len(group))
        region = options.region(first.name, self.capacity, jobs)
        pattern, parameters = options.pattern(region)
        size = options.request_bytes()
        if region.used < size:
            raise LeftOutError(f"it uses {region.used:.0f} bytes, in which no request has room")
        if self._is_elsewhere(first):
            raise LeftOutError(
                f"it writes to {_device(options)}, and jobs before to {self.device}: another drive"
            )
        seconds, bytes_per_s = _rate(group)
        _check_sizes(group, size)
        times, notes = _times(group)
        used, others = region.used, self._others(region)
        total = self.wrote.get(region.target, 0.0) + sum(one.written for one in group)
        if used > self.capacity * 1.01:
            notes.append(
                f"it uses {used / GIB:.4g} GiB, and the drive has {self.capacity / GIB:.4g}: "
                "capacity_gb is not this drive's"
            )
        if others > COLD * (used + others) and pattern != "sequential":
            if pattern != "uniform" or parameters:
                raise LeftOutError(
                    f"{others / GIB:.4g} GiB that were written before keep their data, which no "
                    f"row of {pattern} {parameters} has"
                )
            used, hot, total = used + others, used / (used + others), self.written
            pattern, parameters = "zones", f"s{1 - hot:.4f} f0 s{hot:.4f} f1"
        if seconds < SHORT_S or total < used:
            notes.append(
                f"it ran {seconds:.3g} s, and what it uses was written {total / used:.2g} times in "
                "all: whether the drive was steady is not known"
            )
        if pattern == "sequential" and jobs > 1:
            notes.append(f"{jobs} write in sequence at once, and the row is of one")
        row = WriteRow(
            drive=self.drive,
            capacity_gb=self.capacity_gb,
            used_gib=used / GIB,
            pattern=pattern,
            parameters=parameters,
            request_bytes=size,
            written_capacities=max(total / used, 0.5),
            steady_mib_s=bytes_per_s / MIB,
            depth=options.depth * jobs,
            **times,
        )
        self.device = self.device or _device(options)
        self._keep(group)
        return row, notes

    def _keep(self, group: Sequence[_Job]) -> None:
        """Remember what jobs left behind, whether they became a row or not."""
        first, options = group[0], group[0].options
        written = sum(one.written for one in group)
        try:
            region = options.region(first.name, self.capacity, max(options.jobs, len(group)))
        except LeftOutError:
            return
        if not written or self._is_elsewhere(first):
            return
        target = region.target
        self.wrote[target] = self.wrote.get(target, 0.0) + written
        self.held[target] = max(self.held.get(target, 0.0), min(region.used, written))
        if options.is_on("unlink"):
            del self.held[target]

    def _is_elsewhere(self, job: _Job) -> bool:
        device = _device(job.options)
        return bool(device and self.device) and device != self.device

    def _others(self, region: Region) -> float:
        """Bytes that hold data and are not written again."""
        own = max(0.0, self.held.get(region.target, 0.0) - region.used)
        others = own + sum(held for name, held in self.held.items() if name != region.target)
        return max(0.0, min(others, self.capacity - region.used))


def _device(options: Options) -> str:
    """Give the device that a job writes to; "" for files. Its partitions are the same device."""
    first = (*options.files, "")[0]
    if not first.startswith(("/dev/", "\\\\.\\")):
        return ""
    return re.sub(r"(?<=\d)p\d+$|(?<=/[sv]d[a-z])\d+$", "", first)


def _told(document: fio_documents.Document) -> list[dict[str, Any]]:
    return fio_documents.jobs(document)


def _job(number: int, document: fio_documents.Document, told: Mapping[str, Any]) -> _Job:
    shared = document.get("global options")
    if isinstance(shared, list):
        shared = shared[0] if len(shared) == 1 else None
    levels = told.get("iodepth_level")
    deep = isinstance(levels, Mapping) and any(
        _number(share) > 0 for level, share in levels.items() if level != "1"
    )
    options = Options(merged(shared, told.get("job options")), deep)
    return _Job(number, str(told.get("jobname") or "without a name"), options, told)


def _phases(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Give jobs that ran at the same time together, in the order of their starts.

    Options without a value are not in fio's JSON: that a job waited for those before shows in its
    group alone. `new_group` makes a group, too, which the times give away.
    """
    phases: list[list[_Job]] = []
    waited = False
    for job in jobs:
        before = phases[-1][-1] if phases else None
        named = job.options.is_on("stonewall") and before is not None and before.name != job.name
        apart = before is None or job.told.get("groupid") != before.told.get("groupid")
        if before is not None and job.options.is_on("new_group") and not named:
            apart = False
        waited = waited or named
        if apart or named:
            phases.append([job])
        else:
            phases[-1].append(job)
    elapsed = max((_number(job.told.get("elapsed")) for job in jobs), default=0.0)
    lengths = sum(max(job.seconds for job in phase) for phase in phases)
    if not waited and 0 < elapsed + SLACK_S < lengths:
        return [list(jobs)]
    return phases


def _equal(phase: Sequence[_Job]) -> list[list[_Job]]:
    """Give the equal ones of `numjobs` together."""
    found: dict[tuple[Any, ...], list[_Job]] = {}
    for job in phase:
        key = (job.name, tuple(sorted(job.options.given.items())), job.told.get("hostname"))
        found.setdefault(key, []).append(job)
    return list(found.values())


def _check(group: Sequence[_Job], beside: Sequence[_Job], hosts: int) -> None:
    """Find what makes jobs no measurement of a drive.

    Raises:
        LeftOutError: what that is.
    """
    first, options = group[0], group[0].options
    for job in group:
        if job.error:
            one = "" if len(group) == 1 else f" in job {job.number}"
            raise LeftOutError(job.error + one)
    if not options.given:
        raise LeftOutError(
            "nothing says how it wrote: fio before 2.3 does not write a job's options, and sums of "
            "clients have none"
        )
    if hosts > 1:
        raise LeftOutError(
            f"{hosts} machines ran at the same time: right would be one file for each"
        )
    options.is_random()
    options.check()
    for way in ("read", "trim"):
        if any(_bytes(job.way(way)) for job in group):
            raise LeftOutError(f"it did {way}s, too: a job of its group, or of its own")
    if beside:
        raise LeftOutError(
            f"it ran at the same time as job {beside[0].number} ({beside[0].name}): right would be "
            "`stonewall` between both"
        )
    if len(group) not in (1, options.jobs):
        raise LeftOutError(f"numjobs={options.jobs}, and {len(group)} are in the file")
    runtime = _number(first.told.get("job_runtime")) / 1e3
    if len(group) == 1 and runtime > (options.jobs + 0.5) * max(first.seconds, 0.001):
        raise LeftOutError(
            "group_reporting has added other jobs to it: right would be a group for each"
        )


def _rate(group: Sequence[_Job]) -> tuple[float, float]:
    """Give seconds, and bytes a second over all of them, of jobs that began together."""
    rates = [_bytes_per_s(job.write) for job in group]
    seconds = [_number(job.write.get("runtime")) / 1e3 for job in group]
    if sum(rates) <= 0:
        raise LeftOutError("it wrote nothing")
    longest = max(seconds)
    if 0 < longest < LEAST_S:
        raise LeftOutError(f"it ran {longest * 1e3:.0f} ms, which is too short for a measurement")
    if longest <= 0:
        return longest, sum(rates)
    return longest, sum(rate * one for rate, one in zip(rates, seconds, strict=True)) / longest


def _check_sizes(group: Sequence[_Job], size: int) -> None:
    requests = sum(_number(job.write.get("total_ios")) for job in group)
    total = sum(_bytes(job.write) for job in group)
    if requests and abs(total / requests / size - 1) > SIZE_TOLERANCE:
        raise LeftOutError(
            f"its requests had {total / requests:,.0f} bytes on average, and bs is {size}: "
            "group_reporting has added other jobs, or it is not what it says"
        )


def _times(group: Sequence[_Job]) -> tuple[dict[str, float], list[str]]:
    """Give the response times of a row, and a note where they are not known."""
    for key in ("clat_ns", "lat_ns", "clat", "lat"):
        told = [job.write.get(key) for job in group]
        found = [one for one in told if isinstance(one, Mapping)]
        if len(found) == len(group) and all("percentile" in one for one in found):
            return _of_all(found, NANOS_PER_US if key.endswith("_ns") else 1.0)
    return {}, ["no percentiles are in it: response times are not known"]


def _of_all(told: Sequence[Mapping[str, Any]], unit: float) -> tuple[dict[str, float], list[str]]:
    times: dict[str, float] = {}
    notes: list[str] = []
    bins = [one.get("bins") for one in told]
    for name, percent in (("p50_us", 50.0), ("p99_us", 99.0)):
        own = [_percentile(one["percentile"], percent) for one in told]
        known = [one / unit for one in own if one is not None]
        if len(known) == len(told) and min(known) == max(known):
            times[name] = known[0]
        elif all(isinstance(one, Mapping) and one for one in bins):
            times[name] = _of_bins(bins, percent) / unit
        elif len(known) == len(told):
            notes.append(
                f"{name[:3]} is between {min(known):.4g} and {max(known):.4g} us, those of its "
                "jobs: right would be group_reporting, or json+"
            )
        else:
            notes.append(f"percentile_list has no {percent:g}: {name[:3]} is not known")
    return times, notes


def _percentile(found: Any, percent: float) -> float | None:
    """Give what is under `"50.000000"`."""
    for key, value in (found if isinstance(found, Mapping) else {}).items():
        if abs(float(key) - percent) < 1e-6:
            return _number(value)
    return None


def _of_bins(bins: Sequence[Any], percent: float) -> float:
    """Give a percentile of all, as fio does of the bins of a group."""
    counts: dict[float, float] = {}
    for one in bins:
        for key, count in one.items():
            counts[float(key)] = counts.get(float(key), 0.0) + _number(count)
    rest = sum(counts.values()) * percent / 100
    for value in sorted(counts):
        rest -= counts[value]
        if rest <= 0:
            return value
    return max(counts)


def _is_old(way: Mapping[str, Any]) -> bool:
    """Tell whether fio before 2.21 wrote it, whose `io_bytes` are KiB."""
    return not any(key in way for key in ("io_kbytes", "bw_bytes", "clat_ns", "lat_ns"))


def _bytes(way: Mapping[str, Any]) -> float:
    return _number(way.get("io_bytes")) * (1024 if _is_old(way) else 1)


def _bytes_per_s(way: Mapping[str, Any]) -> float:
    """Give the throughput; before 3.2 in KiB."""
    return _number(way["bw_bytes"]) if "bw_bytes" in way else _number(way.get("bw")) * 1024


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
