"""Several flows at once, on simulated drives and others: paces, priorities, addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browsing import Opened, check_report
from support import Cli, write_trace

READS, WRITES = "io:random(reads=1)", "io:random(size=4Ki)"
DRIVE = ["--on", "profile(intel-x25e, media.erase_blocks_per_plane=64)"]


def flows(cli_json: Callable[..., Any], *arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli_json("play", *arguments)["runs"][0]["flows"]
    return found


def test_a_higher_priority_waits_less_for_room_in_the_queue(cli_json: Callable[..., Any]) -> None:
    def latency(*more: str) -> float:
        beside = f"--flow=flow({WRITES}, pace=128)"
        asked = [*more, *DRIVE, "--pace", "4", "--for", "0.5", beside]
        return float(flows(cli_json, *asked)[0]["latency_ns"]["all"]["mean"])

    first, last = latency(f"part({READS}, priority=1)"), latency(READS)
    # 32 of 132 requests fit into the queue: otherwise reads wait for a hundred writes.
    assert first < last / 2


def test_flows_have_their_own_addresses_and_paces(cli_json: Callable[..., Any]) -> None:
    result = cli_json(
        "play", "io:random(reads=1,requests=2000)", *DRIVE, "--pace", "1",
        "--flow", f"flow({WRITES}, region=16Mi+8Mi, pace=2, priority=3)",
        "--flow", "flow(io:sequential(size=64Ki,pause_us=1000), pace=open)",
    )  # fmt: skip
    own, placed, timed = result["runs"][0]["flows"]
    assert own["requests"] == 2000
    assert (placed["offset"], placed["priority"]) == (16 << 20, 3)
    assert [flow.get("region") for flow in result["settings"]["flow"]] == ["16777216+8388608", None]
    # One each millisecond, until the reads have ended.
    assert timed["requests"] == pytest.approx(own["seconds"] * 1000, rel=0.05)
    assert timed["seconds"] <= own["seconds"] * 1.05
    inputs = result["provenance"]["inputs"]
    assert len({one["content_hash"] for one in inputs} - {None}) == 3


def test_a_flow_whose_file_changes_makes_another_job(cli: Cli, tmp_path: Path) -> None:
    for count in (10, 20):
        write_trace(tmp_path / "beside.parquet", count)
        cli("play", "io:random(reads=1,requests=20)", *DRIVE, "--flow", "flow(beside.parquet)")
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_flow_beside_a_trace_ends_with_it(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "small.parquet")
    beside = ["--flow", f"flow({READS}, pace=2, region=32Mi+16Mi)", "--pace", "open"]
    for device in (DRIVE, ["--on", "memory(bytes=64Mi)"]):
        run = cli_json("play", trace, *device, *beside)["runs"][0]
        own, other = run["flows"]
        assert own["requests"] == 600
        assert other["requests"] > 50
        sent = run["requests"] if run["sent"] is None else run["sent"]["sent"]
        assert sent == own["requests"] + other["requests"]
        assert other["seconds"] <= own["seconds"] * 1.2
    alone = cli_json("play", trace, *DRIVE, "--pace", "open")["runs"][0]
    assert [flow["requests"] for flow in alone["flows"]] == [600]
    assert "Flows" in cli("play", trace, *DRIVE, *beside).stdout


def test_the_report_has_a_table_of_flows(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    beside = ["--flow", f"flow({WRITES})"]
    cli("play", READS, *DRIVE, "--requests", "2000", *beside, "--out", "run")
    report = tmp_path / "run" / "report.html"
    check_report(browser, report)
    opened = Opened(browser, report)
    assert opened.page.get_by_text("Flows", exact=True).count() == 1
    assert opened.page.get_by_text(WRITES).count() >= 1
    opened.page.close()


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        ("flow(io:nope)", "nope"),
        ("flow(no.trace)", "no such file"),
        (f"flow({READS}, depht=3)", "depht"),
        (f"flow({READS}, pace=0)", "depth is 0: it must be from 1"),
        (f"flow({READS}, pace=1, pace=2)", "pace"),
        (f"flow({READS}, pace=open(depth=2))", "depth"),
        (f"flow({READS}, pace=open)", "has no times"),
        (f"flow({READS}, region=1T)", "does not lie within the device's"),
        (f"flow({READS}, priority=256)", "256"),
    ],
)
def test_wrong_flows_are_one_line(cli: Cli, flow: str, said: str) -> None:
    done = cli("play", READS, *DRIVE, "--flow", flow, code=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
