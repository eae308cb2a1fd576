"""The bars of the placement study, measured: `python -m flashwright.reproduce.placement_bars`.

A bar is a check: what a policy costs on a load, against a model or another policy, within a
tolerance. All numbers come from this run; what a paper printed stands in the column "published"
only. Speed of the simulator is not here: `cargo bench -p flashwright-ssd --bench placement_speed`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from flashwright import _core, sources
from flashwright._core import FlashwrightError, InputError, Workload
from flashwright._text import significant
from flashwright.cli.output import write_json
from flashwright.cli.progress import follow
from flashwright.reproduce.pages import command_of, errors_told, made_with, markdown_table
from flashwright.runs import provenance
from flashwright.sweeps.grid import Device, Grid, Job, Outcome
from flashwright.sweeps.policies import Policy

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "data" / "traces" / "tpcc_postgres.parquet"
PAGES_PER_ERASE_BLOCK = 64
"""As in MULTILOG 6.1."""

THREADS = 2
BEST_OF = 3
"""Times that reading a trace is measured; the best counts, as everything else only disturbs."""

LRU, GREEDY = Policy("none", "lru"), Policy("none", "greedy")
COST_BENEFIT, FFS = Policy("none", "cost_benefit"), Policy("separate", "cost_benefit")
ENVY, CONTAINER_MARKING = Policy("envy_hybrid", "lru"), Policy("container_marking", "greedy")
MULTI_LOG, OPTIMAL = Policy("multi_log", "lru"), Policy("multi_log_optimal", "lru")
MULTI_LOG_GREEDY = Policy("multi_log", "greedy")

MODAL = {
    2: "0.1:0.9,0.9:0.1",
    3: "0.1:0.5,0.3:0.4,0.6:0.1",
    4: "0.05:0.4,0.15:0.3,0.3:0.2,0.5:0.1",
    5: "0.02:0.3,0.08:0.3,0.2:0.2,0.3:0.15,0.4:0.05",
}
"""k -> sets as size:share of the updates. MULTILOG names none; these span frequency ratios from 2
to 120 in steps.
"""

EIGHTY_TWENTY = "0.2:0.8,0.8:0.2"


@dataclass(frozen=True)
class Load:
    """What is played, and how people call it."""

    name: str
    source: str
    page_size: int = 4096
    repeat: int = 1


@dataclass(frozen=True)
class Model:
    """A number that theory gives for a load at an over-provisioning."""

    name: str
    value: Callable[[Workload, float], float]


@dataclass(frozen=True)
class Check:
    """One bar: `quantity` of `policy`, relative to the reference.

    It is between `least` and `most` (both deviations).
    """

    load: Load
    over_provisioning: float
    policy: Policy
    quantity: str
    reference: Model | Policy
    least: float
    most: float
    beside: Model | Policy | None = None
    published: str = ""


@dataclass(frozen=True)
class Row:
    """A bar and what was found.

    `met` is None for what is only shown, and for runs that failed (`error`).
    """

    load: str
    over_provisioning: float | None
    what: str
    measured: float | None
    reference_name: str = ""
    reference: float | None = None
    deviation: float | None = None
    tolerance: str = ""
    met: bool | None = None
    beside_name: str = ""
    beside: float | None = None
    published: str = ""
    steady: bool = True
    error: str | None = None


@dataclass(frozen=True)
class Scale:
    """How large and how long: in full, or a subset for CI."""

    pages: str = "1Mi"
    updates: str = "60x"
    skewed_updates: str = "100x"
    requests: int = 5_000_000
    full: bool = True

    def pick(self, values: Sequence[Any], *few: Any) -> list[Any]:
        """Give all values, or the few."""
        return list(values if self.full else few)

    def synthetic(self, name: str, spec: str, updates: str | None = None) -> Load:
        """Give a synthetic load of this size."""
        mark = "&" if "?" in spec else "?"
        return Load(name, f"synth:{spec}{mark}pages={self.pages}&updates={updates or self.updates}")


QUICK = Scale(pages="128Ki", updates="15x", skewed_updates="20x", requests=300_000, full=False)


@dataclass(frozen=True)
class Group:
    """Bars that are measured together."""

    name: str
    bar: str
    title: str
    rows: Callable[[Scale, Path], list[Row]] = field(repr=False)


# Checks: what is compared with what.


def judge(deviation: float, least: float, most: float) -> bool:
    """Tell whether a relative deviation is within a tolerance, its ends included.

    A `most` of 0 is "never above".
    """
    return least <= deviation <= most


def tolerance(least: float, most: float) -> str:
    """Say a tolerance in words."""
    if np.isinf(least) and np.isinf(most):
        return ""
    if least == -most:
        return f"within {most * 100:g} %"
    if np.isneginf(least):
        return (
            "never above"
            if most == 0
            else f"at least {-most * 100:g} % below"
            if most < -1e-3
            else "below"
        )
    return "at least as much" if np.isposinf(most) else f"{least:+.1%} to {most:+.1%}"


WITHIN = {percent: (-percent / 100, percent / 100) for percent in (0.5, 1, 2, 5)}
NEVER_ABOVE = (-np.inf, 0.0)
# The largest number below 0 for this purpose: costs that are equal are not below each other.
BELOW = (-np.inf, -1e-9)
FIFTH_BELOW = (-np.inf, -0.2)
SHOWN = (-np.inf, np.inf)


def _bound(workload: Workload, over_provisioning: float) -> float:
    return _core.cleaning_cost_bound(
        workload.update_weights(), over_provisioning, "exact"
    ).write_amplification


def _random_placement(sets: str) -> Callable[[Workload, float], float]:
    sizes, shares = zip(*(map(float, part.split(":")) for part in sets.split(",")), strict=True)
    return lambda _, alpha: _core.kmodal_random(sizes, shares, alpha).p_avg


EQ_3 = Model("eq. 3", lambda _, alpha: _core.p_gc_lru(alpha))
MEAN_FIELD = Model(
    "mean field, C = 64", lambda _, alpha: _core.p_gc_greedy(alpha, PAGES_PER_ERASE_BLOCK)
)
BOUND = Model("bound", _bound)


def uniform_checks(scale: Scale) -> Iterator[Check]:
    """Bar 1: LRU and Greedy on uniform updates."""
    load = scale.synthetic("uniform", "uniform")
    for alpha in scale.pick((0.07, 0.1, 0.2, 0.3, 0.5, 1.0), 0.1, 1.0):
        near = "fig. 1a: difference “virtually zero”"
        yield Check(load, alpha, LRU, "p_gc", EQ_3, *WITHIN[0.5], published=near)
        greedy = Check(load, alpha, GREEDY, "p_gc", EQ_3, *WITHIN[2], beside=MEAN_FIELD)
        yield replace(greedy, published="fig. 1c: p_gc decreases by at most 2 %")
        yield replace(greedy, reference=LRU, least=-np.inf, most=0.0)


def random_checks(scale: Scale) -> Iterator[Check]:
    """Bar 1: sets of pages mixed in one log."""
    all_sets = {"80/20": EIGHTY_TWENTY} | {f"{k}-modal": sets for k, sets in MODAL.items()}
    for name, sets in all_sets.items() if scale.full else list(all_sets.items())[1:3]:
        load = scale.synthetic(f"{name} {sets}", f"kmodal?sets={sets}")
        model = Model("eq. 6-9, solved", _random_placement(sets))
        for alpha in scale.pick((0.1, 0.3, 0.5), 0.3):
            yield Check(load, alpha, LRU, "p_gc", model, *WITHIN[1])


def bound_checks(scale: Scale) -> Iterator[Check]:
    """Bar 2: MultiLog-Optimal against Algorithm 1 with every frequency its own set."""
    loads = [
        scale.synthetic(f"{k}-modal {sets}", f"kmodal?sets={sets}") for k, sets in MODAL.items()
    ]
    zipf = scale.synthetic("Zipf 0.99", "zipf?s=0.99", scale.skewed_updates)
    loads += [zipf, scale.synthetic(f"80/20 {EIGHTY_TWENTY}", f"kmodal?sets={EIGHTY_TWENTY}")]
    for load in scale.pick(loads, loads[1], zipf):
        for alpha in scale.pick((0.1, 0.2, 0.3, 0.5), 0.2):
            yield Check(load, alpha, OPTIMAL, "write_amplification", BOUND, *WITHIN[5])


def multi_log_uniform_checks(scale: Scale) -> Iterator[Check]:
    """Bar 2: MultiLog where there is nothing to gain."""
    load = scale.synthetic("uniform", "uniform")
    for alpha in scale.pick((0.07, 0.1, 0.2, 0.3, 0.5, 1.0), 0.3):
        for quantity in ("write_amplification", "p_gc"):
            check = Check(load, alpha, MULTI_LOG, quantity, GREEDY, *WITHIN[5], beside=LRU)
            yield replace(check, published="6.2: follows Greedy closely")


def skewed_checks(scale: Scale) -> Iterator[Check]:
    """Bar 2: MultiLog against every policy that MULTILOG compares."""
    zipf = scale.synthetic("Zipf 1", "zipf?s=1", scale.skewed_updates)
    tpce = scale.synthetic("TPC-E", "tpce", scale.skewed_updates)
    for load in scale.pick((zipf, tpce), zipf):
        for alpha in scale.pick((0.1, 0.2, 0.3, 0.5, 1.0), 0.2):
            for other in (LRU, GREEDY, COST_BENEFIT, FFS, ENVY, CONTAINER_MARKING):
                yield Check(load, alpha, MULTI_LOG, "cleaning_cost", other, *BELOW, beside=OPTIMAL)


def tpcc_checks(loads: Iterable[Load], alphas: Sequence[float]) -> Iterator[Check]:
    """Bar 2: MultiLog on the recorded trace.

    Beside it the same with an oracle, which is what is attainable. Shown for the database's page
    size: what a victim choice that sees dead erase blocks adds, and the best of the simple
    policies.
    """
    for load in loads:
        for alpha in alphas:
            check = Check(
                load,
                alpha,
                MULTI_LOG,
                "cleaning_cost",
                CONTAINER_MARKING,
                *FIFTH_BELOW,
                beside=OPTIMAL,
            )
            yield replace(check, published="6.3, TPC-C on Shore-MT: 30 % lower on average")
            yield replace(check, reference=ENVY, published="6.3: 20 % to 75 % lower")
            if load.page_size == 8192:
                for policy in (MULTI_LOG_GREEDY, FFS):
                    yield replace(check, policy=policy, least=SHOWN[0], most=SHOWN[1], beside=None)


# Measuring.

Measured = dict[tuple[Load, Policy, float], Outcome]


def measure(checks: Sequence[Check], label: str) -> list[Row]:
    """Run what the checks need, each simulation once, and judge them.

    Raises InputError for a load that cannot be read.
    """
    loads = list(dict.fromkeys(check.load for check in checks))
    workloads = {
        load: sources.load(
            load.source, sources.Reading(page_size=load.page_size, repeat=load.repeat)
        )
        for load in loads
    }
    jobs: dict[Job, tuple[Load, Policy, float]] = {}
    for check in checks:
        for policy in (check.policy, check.reference, check.beside):
            if isinstance(policy, Policy):
                job = Job(loads.index(check.load), policy, check.over_provisioning)
                jobs[job] = (check.load, policy, check.over_provisioning)
    device = Device(pages_per_erase_block=PAGES_PER_ERASE_BLOCK)
    grid = Grid([workloads[load] for load in loads], list(jobs), device, THREADS)
    tell(f"{label}: {len(jobs)} simulations")
    outcomes = follow(label, "page writes", grid, grid.run)
    measured = {jobs[outcome.job]: outcome for outcome in outcomes}
    return [row(check, workloads[check.load], measured) for check in checks]


def _value(
    of: Model | Policy | None, check: Check, workload: Workload, measured: Measured
) -> tuple[str, float | None, bool, str | None]:
    """Give name, value, whether it is a steady one, and why there is none."""
    if of is None:
        return "", None, True, None
    if isinstance(of, Model):
        return of.name, of.value(workload, check.over_provisioning), True, None
    outcome = measured[check.load, of, check.over_provisioning]
    if outcome.result is None:
        return of.label, None, True, outcome.error
    return of.label, float(outcome.result[check.quantity]), bool(outcome.result["steady"]), None


def row(check: Check, workload: Workload, measured: Measured) -> Row:
    """Judge a check by what was measured."""
    name, value, steady, error = _value(check.policy, check, workload, measured)
    other, reference, other_steady, other_error = _value(check.reference, check, workload, measured)
    beside_name, beside, _, _ = _value(check.beside, check, workload, measured)
    deviation = value / reference - 1 if value is not None and reference else None
    return Row(
        load=check.load.name,
        over_provisioning=check.over_provisioning,
        what=f"{name}: {check.quantity}",
        measured=value,
        reference_name=other,
        reference=reference,
        deviation=deviation,
        tolerance=tolerance(check.least, check.most),
        met=None
        if deviation is None or not tolerance(check.least, check.most)
        else judge(deviation, check.least, check.most),
        beside_name=beside_name,
        beside=beside,
        published=check.published,
        steady=steady and other_steady,
        error=error or other_error,
    )


def tpcc_loads(scale: Scale, folder: Path) -> list[Load]:
    """Give the recorded trace and its data pages alone, by page size and number of passes.

    Raises InputError if the trace or the script that takes it apart is not here.
    """
    layout = ROOT / "scripts" / "record_tpcc" / "layout.py"
    for path in (RECORDED, layout):
        if not path.exists():
            raise InputError(
                f"{path}: no such file; the bars on the recorded trace need Flashwright's source "
                "tree"
            )
    data_pages = folder / "tpcc_data_pages.parquet"
    done = subprocess.run(
        [sys.executable, layout, RECORDED, "no-log", data_pages],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise FlashwrightError(f"{layout}: exit {done.returncode}: {done.stderr.strip()}")
    return [
        Load(f"TPC-C {part}, {size // 1024} KiB pages, played {repeat} x", str(path), size, repeat)
        for part, path in scale.pick(
            (("whole", RECORDED), ("data pages", data_pages)), ("data pages", data_pages)
        )
        for size in scale.pick((4096, 8192), 8192)
        for repeat in scale.pick((1, 4), 1)
    ]


def skew_rows(load: Load) -> list[Row]:
    """Tell which share of the updates the hottest pages take.

    Shown beside what MULTILOG says of its loads, and not judged.
    """
    reading = sources.Reading(page_size=load.page_size)
    weights = np.sort(sources.load(load.source, reading).update_weights())[::-1]
    published = {0.1: "6.3, TATP: 80 % to about 10 %", 0.2: "6.2, Zipf 1: 80 % to 20 %"}
    return [
        Row(
            load.name.partition(", played")[0],
            None,
            f"share of updates to the hottest {part:.0%} of the written pages",
            float(weights[: round(part * len(weights))].sum() / weights.sum()),
            published=published[part],
        )
        for part in (0.1, 0.2)
    ]


def tpcc_rows(scale: Scale, folder: Path) -> list[Row]:
    """Measure the recorded trace."""
    loads = tpcc_loads(scale, folder)
    skew = [found for load in loads if load.repeat == 1 for found in skew_rows(load)]
    return skew + measure(
        list(tpcc_checks(loads, scale.pick((0.1, 0.2, 0.3, 0.5), 0.2))), "recorded TPC-C trace"
    )


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(BEST_OF):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _read(path: Path) -> int:
    """Read a trace as Python gets it, batch by batch; give its requests."""
    reader = pa.RecordBatchReader.from_stream(_core.open_trace(path))
    return sum(batch.num_rows for batch in reader)


def trace_rows(scale: Scale, folder: Path) -> list[Row]:
    """Bar 4: requests a second, on one thread."""
    kept = folder / "requests.parquet"
    spec = f"synth:zipf?s=0.99&pages=1Mi&updates={scale.requests}"
    tell(f"traces: writing {scale.requests} requests")
    _core.write_synthetic(spec, kept)
    texts = {
        "MSR CSV": _msr(kept, folder / "requests.csv"),
        "Alibaba CSV": _alibaba(kept, folder / "alibaba.csv"),
    }
    rows = []
    for name, path, wanted in [
        ("Parquet", kept, 5e6),
        *((name, path, 1e6) for name, path in texts.items()),
    ]:
        found = _read(path)
        if found != scale.requests:
            raise FlashwrightError(
                f"{path}: {found} requests were read, and {scale.requests} written"
            )
        tell(f"traces: {name}")
        for verb, work in (
            ("read", partial(_read, path)),
            (
                "convert to Parquet",
                partial(_core.convert_trace, path, folder / "converted.parquet"),
            ),
        ):
            rate = scale.requests / _seconds(work)
            rows.append(
                Row(
                    f"{scale.requests} requests, {name}",
                    None,
                    f"{verb}: requests a second",
                    rate,
                    reference_name="wanted",
                    reference=wanted,
                    deviation=rate / wanted - 1,
                    tolerance=tolerance(0.0, np.inf),
                    met=judge(rate / wanted - 1, 0.0, np.inf),
                )
            )
    return rows


def _lines(src: Path, dst: Path, line: Callable[[int, int, int, int], str]) -> Path:
    """Write a trace of page writes as text, as its recorder would have.

    There is no writer for formats that are only read.
    """
    with dst.open("w", encoding="ascii") as file:
        for batch in pa.RecordBatchReader.from_stream(_core.open_trace(src)):
            columns = [
                batch.column(name).to_pylist() for name in ("time_ns", "offset", "length", "stream")
            ]
            file.writelines(map(line, *columns))
    return dst


def _msr(src: Path, dst: Path) -> Path:
    # Ticks of 100 ns since 1601, as Windows counts them; 17 us is a usual response time.
    began = 128_166_372_000_000_000
    return _lines(
        src,
        dst,
        lambda time, offset, length, stream: (
            f"{began + time},host,{stream},Write,{offset},{length},170\n"
        ),
    )


def _alibaba(src: Path, dst: Path) -> Path:
    began = 1_577_808_000_000_000
    return _lines(
        src,
        dst,
        lambda time, offset, length, stream: f"{stream},W,{offset},{length},{began + time}\n",
    )


def _of(
    checks: Callable[[Scale], Iterator[Check]], label: str
) -> Callable[[Scale, Path], list[Row]]:
    return lambda scale, _: measure(list(checks(scale)), label)


GROUPS = (
    Group("uniform", "1", "LRU and Greedy on uniform updates", _of(uniform_checks, "uniform")),
    Group(
        "random",
        "1",
        "Sets of pages mixed in one log, cleaned by LRU",
        _of(random_checks, "random placement"),
    ),
    Group(
        "bound", "2", "MultiLog-Optimal against the bound (Algorithm 1)", _of(bound_checks, "bound")
    ),
    Group(
        "multi_log_uniform",
        "2",
        "MultiLog on uniform updates",
        _of(multi_log_uniform_checks, "MultiLog, uniform"),
    ),
    Group(
        "skewed",
        "2",
        "MultiLog against every policy that MULTILOG compares",
        _of(skewed_checks, "skewed loads"),
    ),
    Group("tpcc", "2", "MultiLog on the recorded TPC-C trace", tpcc_rows),
    Group("traces", "4", "Reading and converting traces", trace_rows),
)


# Telling.


def tell(line: str) -> None:
    """Say on standard error how far it is."""
    sys.stderr.write(f"bars: {line}\n")
    sys.stderr.flush()


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.2f} M" if value >= 1e5 else significant(value, 4)


def _cells(found: Row) -> list[str]:
    verdict = {True: "met", False: "**missed**", None: "shown"}[found.met]
    if found.error is not None:
        verdict = f"no result: {found.error}"
    elif not found.steady:
        verdict += ", drifts"
    beside = f"{found.beside_name} {_number(found.beside)}" if found.beside is not None else ""
    if beside and found.reference:
        beside += f" ({(found.beside or 0) / found.reference - 1:+.1%})"
    return [
        found.load,
        "" if found.over_provisioning is None else f"{found.over_provisioning:g}",
        found.what,
        _number(found.measured),
        f"{found.reference_name} {_number(found.reference)}".strip(),
        "" if found.deviation is None else f"{found.deviation:+.2%}",
        found.tolerance,
        verdict,
        beside,
        found.published,
    ]


HEADINGS = (
    "load",
    "alpha",
    "measured",
    "",
    "reference",
    "deviation",
    "tolerance",
    "verdict",
    "beside",
    "published",
)
"""MULTILOG is the source of all that is under "published"."""


def document(results: Sequence[tuple[Group, list[Row]]], command: str) -> str:
    """Give all that was found as a Markdown page."""
    summary = []
    for group, rows in results:
        judged = [found for found in rows if found.met is not None]
        met = sum(found.met is True for found in judged)
        summary.append([group.bar, group.name, group.title, f"{met} of {len(judged)}"])
    parts = [
        "# Bars of the placement study, measured",
        f"    {command}",
        f"{made_with()} Seed 1; {PAGES_PER_ERASE_BLOCK} pages an erase block; every device starts "
        "filled. Only figures of speed depend on the machine. Published figures are MULTILOG's "
        "(VLDB 2013). A deviation is measured / reference - 1; “beside” is not judged, and its own "
        "deviation from the reference follows in brackets. “Drifts”: the halves of what was taken "
        "as steady, of one of the two runs, differ by more than 2 %. Bar 3, the speed of the "
        "simulator, is `cargo bench -p flashwright-ssd --bench placement_speed`; what is missed "
        "and why is in [placement.md](placement.md).",
        markdown_table(("bar", "group", "what", "met"), summary),
    ]
    for group, rows in results:
        parts += [
            f"## {group.name}: {group.title} (bar {group.bar})",
            markdown_table(HEADINGS, list(map(_cells, rows))),
        ]
    return "\n\n".join(parts) + "\n"


def run(groups: Sequence[Group], scale: Scale) -> list[tuple[Group, list[Row]]]:
    """Measure groups of bars, one after the other."""
    with tempfile.TemporaryDirectory(prefix="flashwright-bars-") as folder:
        return [(group, group.rows(scale, Path(folder))) for group in groups]


@click.command()
@click.option(
    "--quick",
    is_flag=True,
    help="An eighth of the pages and few of the bars: to see that it works.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([group.name for group in GROUPS]),
    help="Only this group; may be given again.",
)
@click.option(
    "--json", "json_path", metavar="PATH", help="Write all figures to PATH; `-` prints only JSON."
)
def main(*, quick: bool, only: tuple[str, ...], json_path: str | None) -> None:
    """Measure the bars of the placement study and print them as a Markdown page."""
    command = command_of("placement_bars")
    with errors_told("bars"):
        results = run(
            [group for group in GROUPS if not only or group.name in only],
            QUICK if quick else Scale(),
        )
        rows = [
            {"group": group.name, "bar": group.bar, **vars(found)}
            for group, found_rows in results
            for found in found_rows
        ]
        write_json({"rows": rows, "provenance": provenance(shlex.split(command), [], 1)}, json_path)
    if json_path != "-":
        click.echo(document(results, command), nl=False)
    if any(found.error is not None for _, found_rows in results for found in found_rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
