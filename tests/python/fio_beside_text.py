"""Rows of fio's JSON beside what fio prints for people of the same runs, on a file with O_DIRECT.

    python tests/python/fio_beside_text.py FOLDER [--seconds 3]

Each kind of job is run once with `--output-format=normal,json` (or json+), so that both are of one
run. A figure is met if it is the text's, to the last digit that the text has.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashwright.measured import fio
from flashwright.measured.rows import WriteRow

MIB = 1 << 20
CAPACITY_GB = 1.0
UNITS = {"K": 1024, "M": MIB, "G": 1 << 30}
TIMES = {"nsec": 1e-3, "usec": 1.0, "msec": 1e3}
MORE = {"": 1, "k": 1e3, "M": 1e6}


@dataclass(frozen=True)
class Kind:
    """One kind of job: how fio is started, and why it is left out, if it is."""

    name: str
    options: tuple[str, ...]
    reason: str = ""
    output: str = "normal,json"


@dataclass(frozen=True)
class Line:
    """One figure of a row beside the text's; or the reason why there is no row."""

    kind: str
    figure: str
    text: str
    ours: str
    is_met: bool


def kind(name: str, words: str, reason: str = "", output: str = "normal,json") -> Kind:
    return Kind(name, tuple(f"--{word}" for word in words.split()), reason, output)


KINDS = (
    kind("sequential", "name=w rw=write bs=128k"),
    kind("random", "name=w rw=randwrite bs=4k"),
    kind("libaio, depth 16", "name=w rw=randwrite bs=4k ioengine=libaio iodepth=16"),
    kind("io_uring, depth 8, 16k", "name=w rw=randwrite bs=16k ioengine=io_uring iodepth=8"),
    kind("numjobs=4", "name=w rw=randwrite bs=4k numjobs=4"),
    kind("numjobs=4, json+", "name=w rw=randwrite bs=4k numjobs=4", output="normal,json+"),
    kind("numjobs=4, a group", "name=w rw=randwrite bs=4k numjobs=4 group_reporting=1"),
    kind("lat_percentiles", "name=w rw=randwrite bs=4k clat_percentiles=0 lat_percentiles=1"),
    kind("other percentiles", "name=w rw=randwrite bs=4k percentile_list=50:90:99.9"),
    kind("bs=4k,16k", "name=w rw=randwrite bs=4k,16k"),
    kind("zipf", "name=w rw=randwrite bs=4k random_distribution=zipf:1.1"),
    kind("status-interval", "name=w rw=randwrite bs=4k status-interval=200ms"),
    kind("ramp_time", "name=w rw=randwrite bs=4k ramp_time=300ms"),
    kind("two, stonewalled", "name=a rw=write bs=64k name=b stonewall rw=randwrite bs=4k"),
    kind("unified_rw_reporting", "name=w rw=randwrite bs=8k unified_rw_reporting=1"),
    kind("randrw, no reads", "name=w rw=randrw rwmixread=0 bs=4k"),
    kind("two at once", "name=a rw=write bs=64k name=b rw=randwrite bs=4k", "at the same time"),
    kind("page cache", "name=w rw=randwrite bs=4k direct=0", "page cache"),
    kind("fsync", "name=w rw=randwrite bs=4k fsync=1", "flushes"),
    kind("bsrange", "name=w rw=randwrite bsrange=4k-16k", "several sizes"),
    kind("bssplit", "name=w rw=randwrite bssplit=4k/50:64k/50", "several sizes"),
    kind("rate", "name=w rw=randwrite bs=4k rate_iops=500", "rate is limited"),
    kind("thinktime", "name=w rw=randwrite bs=4k thinktime=1ms", "rate is limited"),
    kind("mixed", "name=w rw=randrw bs=4k", "no job of writes alone"),
    kind("verify", "name=w rw=randwrite bs=4k verify=crc32c", "reads back"),
    kind("null engine", "name=w rw=randwrite bs=4k ioengine=null", "ioengine=null"),
    kind("an error", "name=w rw=randwrite bs=4KiB", "error 22"),
)


def started(kind: Kind, folder: Path, seconds: float) -> Path:
    """Run fio; gives the file with both outputs."""
    out = folder / f"{re.sub('[^a-z0-9]+', '-', kind.name)}.out"
    shared = [
        f"--filename={folder / 'data'}",
        "--size=64m",
        "--direct=1",
        "--time_based=1",
        f"--runtime={round(seconds * 1e3)}ms",
    ]
    ends = [f"--output-format={kind.output}", f"--output={out}"]
    done = subprocess.run(
        ["fio", *ends, *shared, *kind.options], check=False, capture_output=True, cwd=folder
    )
    if done.returncode and not kind.reason:
        raise SystemExit(f"{kind.name}: {done.stderr.decode()}")
    return out


def compared(folder: Path, seconds: float) -> list[Line]:
    """Run each kind, and give figures beside the text's."""
    lines: list[Line] = []
    for one in KINDS:
        path = started(one, folder, seconds if not one.reason else seconds / 4)
        found = fio.read([path], "drive", CAPACITY_GB)
        if one.reason:
            said = " / ".join(found.left_out)
            is_met = not found.rows and one.reason in said
            lines.append(Line(one.name, "left out", "", said.replace(f"{path}: ", ""), is_met))
            continue
        rows = [row for row in found.rows if isinstance(row, WriteRow)]
        text = Text(path.read_text(), len(rows))
        lines += [
            line for number, row in enumerate(rows) for line in beside(one, row, text, number)
        ]
        lines += [Line(one.name, "left out", "", said, is_met=False) for said in found.left_out]
    (folder / "data").unlink()
    return lines


class Text:
    """Text that fio printed for people at the end of a run."""

    def __init__(self, text: str, rows: int) -> None:
        # With --status-interval each result is there; the last are of the end.
        blocks = re.split(r"^(?=\w+: \(groupid=)", text, flags=re.MULTILINE)
        self.blocks = [block.split("\nRun status group")[0] for block in blocks[1:]]
        self.rates = re.findall(r"^ +(?:WRITE|MIXED): bw=(\S+) \(", text, re.MULTILINE)[-rows:]

    def block(self, row: int, jobs: int) -> str:
        """Give the text of a row, or nothing where it is that of several jobs."""
        if jobs > 1 and "jobs=1)" in self.blocks[-1]:
            return ""
        return self.blocks[row - len(self.rates)]


def number(text: str) -> tuple[float, float]:
    """Give `34.6k` as a number, and one unit of its last digit."""
    digits, unit = re.fullmatch(r"([\d.]+)(.*)", text).groups()  # type: ignore[union-attr]
    last = 10.0 ** -len(digits.partition(".")[2])
    return float(digits) * MORE[unit], last * MORE[unit]


def rate(text: str) -> tuple[float, float]:
    """Give `34.6MiB/s` in MiB/s, and one unit of its last digit."""
    digits, unit = re.fullmatch(r"([\d.]+)([KMG])iB/s", text).groups()  # type: ignore[union-attr]
    last = 10.0 ** -len(digits.partition(".")[2])
    return float(digits) * UNITS[unit] / MIB, last * UNITS[unit] / MIB


def beside(kind: Kind, row: WriteRow, text: Text, at: int) -> Iterator[Line]:
    """Give the figures of a row beside the text's."""
    jobs = 4 if "--numjobs=4" in kind.options else 1
    ours = row.steady_mib_s or 0.0
    yield figure(kind, "MiB/s", text.rates[at], rate(text.rates[at]), ours)
    block = text.block(at, jobs)
    iops = ours * MIB / row.request_bytes
    if not block:
        each = re.findall(r"write: IOPS=([\d.]+[kM]?),.*/(\d+)msec\)", "".join(text.blocks[-jobs:]))
        longest = max(float(length) for _, length in each)
        parts = [(number(one), float(length) / longest) for one, length in each]
        total = sum(value * part for (value, _), part in parts)
        words = " + ".join(one for one, _ in each)
        yield figure(kind, "IOPS", words, (total, sum(last for (_, last), _ in parts)), iops)
        medians = re.findall(r"\b50\.0+th=\[ *(\d+)\]", "".join(text.blocks[-jobs:]))
        # Without bins, that of all is known only where all jobs have the same.
        is_told = kind.output == "normal,json+" or len(set(medians)) == 1
        is_right = row.p50_us is None or is_told
        is_right &= row.p50_us is not None or kind.output != "normal,json+"
        yield Line(kind.name, "p50, us", "of each job alone", said(row.p50_us), is_right)
        return
    found = re.search(r"(?:write|mixed): IOPS=([\d.]+[kM]?),", block)
    assert found is not None
    yield figure(kind, "IOPS", found[1], number(found[1]), iops)
    yield from times(kind, row, block)


def times(kind: Kind, row: WriteRow, block: str) -> Iterator[Line]:
    head = re.search(r"lat percentiles \((\w+)\):", block)
    assert head is not None
    unit = TIMES[head[1]]
    for key, percent in (("p50_us", 50), ("p99_us", 99)):
        ours = getattr(row, key)
        there = re.search(rf"\b{percent}\.0+th=\[ *(\d+)\]", block[head.end() :])
        if there is None:
            yield Line(kind.name, f"{key[:3]}, us", "not printed", said(ours), ours is None)
        else:
            value = float(there[1]) * unit
            yield figure(kind, f"{key[:3]}, us", f"{value:g}", (value, unit), ours or math.nan)


def figure(kind: Kind, name: str, text: str, theirs: tuple[float, float], ours: float) -> Line:
    value, last = theirs
    return Line(kind.name, name, text, said(ours), abs(value - ours) <= last * 1.001)


def said(value: float | None) -> str:
    return "not known" if value is None else f"{value:.6g}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args(arguments)
    lines = compared(given.folder, given.seconds)
    sys.stdout.write("| kind | figure | fio's text | row | |\n|---|---|---|---|---|\n")
    for line in lines:
        met = "met" if line.is_met else "**not met**"
        row = f"| {line.kind} | {line.figure} | {line.text} | {line.ours} | {met} |\n"
        sys.stdout.write(row)
    return any(not line.is_met for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
