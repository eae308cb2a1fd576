"""Reports of simulated drives in a real browser, and what their figures are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

from browsing import check_report
from flashwright.jobs.play.charts import over_time_line
from flashwright.jobs.play.page import page as page_of
from flashwright.jobs.play.remarks import caveats
from flashwright.pages.tails import tail
from flashwright.runs import Run
from flashwright.steady import of_drive
from support import Cli

A16 = "a16, media.erase_blocks_per_plane=64, state=aged"
ONE = ["--on", f"profile({A16})"]
MIXED = "io:random(reads=0.5,requests=20000)"
COMMANDS = {
    "one": ["play", MIXED, *ONE, "--timeline", "100"],
    "reads": ["play", "io:sequential(reads=1,requests=100)", *ONE, "--pace", "1"],
    "a single request": ["play", "io:random(requests=1)", *ONE],
    "several": [
        *("play", MIXED),
        *(
            f"--on=profile({A16}, op={op}, victim={victim})"
            for op in ("20%", "30%")
            for victim in ("greedy", "lru")
        ),
    ],
    "paces": [
        *("play", "io:sequential(requests=5000)"),
        *(*ONE, "--on", "replication-table-2", "--pace", "1,32"),
    ],
}


@pytest.fixture
def commits(tmp_path: Path) -> Path:
    """A trace of pages written at random, with a flush after every eighth, as a database has."""
    random = np.random.default_rng(11)
    rows = [
        (number, "flush", 0, 0)
        if number % 9 == 8
        else (number, "write", int(random.integers(8192)) * 4096, 4096)
        for number in range(9000)
    ]
    times, ops, offsets, lengths = zip(*rows, strict=True)
    path = tmp_path / "commits.parquet"
    table = {"time_ns": times, "op": ops, "offset": offsets, "length": lengths}
    pq.write_table(pa.table(table), path)
    return path


X25E = ["--on", "profile(intel-x25e, media.erase_blocks_per_plane=64, state=aged)"]


def test_flushes_have_a_cause_and_a_line_of_their_own(
    browser: Browser, cli: Cli, commits: Path
) -> None:
    cli("play", commits, *X25E, "--out", "run")
    run = Run.read(commits.parent / "run")
    [row] = run.result["runs"]
    delays = row["simulated"]["delays"]
    flush = delays["flush"]
    assert flush["flush"]["share_of_latency"] > 0.5
    assert flush["queue"]["share_of_latency"] < 0.1
    assert delays["write"]["flush"]["delayed"] == 0
    over_time = run.tables["over_time"].to_pydict()
    sums = sum(
        mean * number
        for mean, number in zip(over_time["mean_flush_ns"], over_time["flushes"], strict=True)
        if number
    )
    latency = row["latency_ns"]["flush"]
    assert sums / latency["count"] == pytest.approx(latency["mean"])
    page = page_of(run)
    figures = {figure.id: figure for figure in page.figures()}
    assert [line["name"] for line in figures["latency-time"].data] == ["write", "flush"]
    assert "buffer to flash" in [bar["name"] for bar in figures["delays"].data]
    assert "a flush takes" in page.headline
    check_report(browser, commits.parent / "run" / "report.html", least_plots=3)


@pytest.mark.parametrize("command", COMMANDS)
def test_report_is_drawn_without_complaint_or_request(
    browser: Browser, cli: Cli, tmp_path: Path, command: str
) -> None:
    cli(*COMMANDS[command], "--out", "run")
    check_report(browser, tmp_path / "run" / "report.html", least_plots=3)


def test_report_is_made_again_from_the_folder_alone(cli: Cli, tmp_path: Path) -> None:
    cli(*COMMANDS["one"], "--out", "run")
    report = tmp_path / "run" / "report.html"
    first = report.read_bytes()
    report.unlink()
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    cli("report", moved)
    assert (moved / "report.html").read_bytes() == first
    text = first.decode()
    assert "ui.perfetto.dev" in text
    assert "timeline.json" in text


def test_a_latency_curve_has_all_ends_and_few_points() -> None:
    values = list(range(1000, 2_000_000, 7))
    xs, ys = tail(values, [1] * len(values))
    assert (xs[0], ys[0]) == (1e-6, 1)
    assert xs[-1] == values[-1] / 1e9
    assert ys[-1] == pytest.approx(1 / len(values))
    assert len(xs) < 3000
    assert ys == sorted(ys, reverse=True)


def test_a_value_between_gaps_is_drawn() -> None:
    columns: dict[str, Any] = {
        "seconds": [1.0, 2.0, 3.0, 4.0],
        "ns": [None, 5.0, None, float("nan")],
    }
    line = over_time_line("flush", columns, "ns", "@c3", 1.0)
    assert (line["y"], line["mode"]) == ([None, 5.0, None, None], "lines+markers")
    columns["ns"] = [None, 5.0, 6.0, None]
    assert over_time_line("flush", columns, "ns", "@c3", 1.0)["mode"] == "lines"


PROFILE = {
    "read_cache": {"bytes": 0},
    "write_buffer": {"bytes": 1 << 20},
    "ftl": {"scheme": "page_mapped(allocation=dynamic)"},
}
SUMMARY = {
    "physical_pages": 12_000,
    "logical_pages": 10_000,
    "erase_blocks": 100,
    "planes": 4,
    "pages_per_erase_block": 120,
    "page_bytes": 4096,
}


def _outcome(iops: list[float], moved: list[float], **changed: Any) -> dict[str, Any]:
    """Give an outcome of as many windows of a second, with 100 pages written in each."""
    windows = len(iops)
    return {
        "state": "aged",
        "requests": 1000,
        "read_bytes": 0,
        "written_bytes": 100 << 20,
        "host_page_writes": 100 * windows,
        "relocated_pages": sum(moved),
        "wear_moved_pages": 0,
        "mapping_page_writes": 0,
        "erases": 400,
        "tables": {
            "over_time": {
                "length_seconds": [1.0] * windows,
                "iops": iops,
                "host_page_writes": [100] * windows,
                "relocated_pages": moved,
                "mapping_page_writes": [0] * windows,
            }
        },
        **changed,
    }


def test_steady_knows_drift_noise_and_too_little() -> None:
    level = [100.0 + (number * 7919 % 11) for number in range(200)]
    rising = [100.0 + number for number in range(200)]
    judged = of_drive(PROFILE, SUMMARY, _outcome(level, rising))
    assert judged["iops"]["steady"] is True
    assert judged["iops"]["low"] < 105 < judged["iops"]["high"]
    assert judged["write_amplification"]["steady"] is False
    assert "halves differ" in judged["write_amplification"]["unsteady"]
    short = of_drive(PROFILE, SUMMARY, _outcome([1.0] * 12, [300.0] * 12))
    assert short["iops"]["steady"] is None
    assert short["iops"]["low"] is None


@pytest.mark.parametrize(
    ("changed", "scheme", "reason"),
    [
        ({"written_bytes": 9 << 20}, None, "write buffer of 1 MiB was filled 9.0 times"),
        ({"host_page_writes": 1}, None, "50 % of the spare space"),
        ({"state": "filled", "erases": 50}, None, "erased 0.50 times"),
        ({"written_bytes": 20 << 20}, "bast(log_blocks=8,interleave=0)", "filled 1.3 times"),
        ({"written_bytes": 20 << 20}, "fast(log_blocks=8,interleave=1)", None),
        ({"written_bytes": 20 << 20}, "block_mapped(open_blocks=20)", "filled 0.53 times"),
    ],
)
def test_what_has_not_turned_over_is_not_called_steady(
    changed: dict[str, Any], scheme: str | None, reason: str | None
) -> None:
    """However level the figures are: a buffer that is not full yet makes any drive fast."""
    profile = PROFILE if scheme is None else {**PROFILE, "ftl": {"scheme": scheme}}
    level = [100.0 + (number * 7919 % 11) for number in range(200)]
    outcome = _outcome(level, [50.0] * 200, relocated_pages=999, **changed)
    judged = of_drive(profile, SUMMARY, outcome)
    assert judged["iops"]["steady"] is (reason is None)
    assert (reason or "") in (judged["iops"]["unsteady"] or "")


COUNTERS = {
    "host_page_writes": 64_000,
    "relocated_pages": 64_000,
    "wear_moved_pages": 0,
    "mapping_page_writes": 0,
    "erases": 2_000,
}
DEVICE = {"scheme": "page_mapped(allocation=dynamic)", "pages_per_erase_block": 64}


def _row(**changed: Any) -> dict[str, Any]:
    """Give the part of a run that caveats look at: of a drive in balance, at its own pace."""
    counters = {key: changed.pop(key, number) for key, number in COUNTERS.items()}
    return {
        "state": {"kind": "aged"},
        "pace": "closed(32)",
        "steady": {"iops": True, "write_amplification": True},
        "judged": {
            "iops": {"steady": True},
            "write_amplification": {"steady": True},
        },
        "requests": 10_000,
        "seconds": 10.0,
        "latency_ns": {"all": {"mean": 1e6}},
        "simulated": {"counters": counters, "zones": None, "streams_left_out": 0},
        **changed,
    }


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"erases": 1_000}, ["Not in balance: 50 % of what was programmed"]),
        ({"erases": 2_500}, ["Not in balance: 25 % more was erased"]),
        ({"erases": 1_000, "scheme": "bast(log_blocks=8)"}, []),
        ({"erases": 0, "relocated_pages": 0}, ["No erase block was cleaned"]),
        ({"latency_ns": {"all": {"mean": 4e9}}}, []),
        (
            {"latency_ns": {"all": {"mean": 4e9}}, "pace": "open"},
            ["The drive did not keep up"],
        ),
        (
            {
                "judged": {
                    "iops": {"steady": False, "unsteady": "its two halves differ by 9.0 %"},
                    "write_amplification": {"steady": True},
                }
            },
            ["Not steady: throughput, as its two halves differ by 9.0 %"],
        ),
    ],
)
def test_caveats_say_what_figures_hide(changed: dict[str, Any], said: list[str]) -> None:
    device = {**DEVICE, "scheme": changed.pop("scheme", DEVICE["scheme"])}
    found = caveats(_row(**changed), device)
    assert [line.startswith(start) for line, start in zip(found, said, strict=True)] == [
        True
    ] * len(said)
