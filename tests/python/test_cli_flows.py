"""Several flows at once, on simulated drives and in replays: paces, priorities, addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browsing import Opened, check_report
from support import Cli
from test_cli_layers import write_trace

READS, WRITES = "io:random(reads=1)", "io:random(size=4Ki)"
DRIVE = ["--device", "intel-x25e", "--set", "media.erase_blocks_per_plane=64"]


def flows(cli_json: Callable[..., Any], *arguments: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli_json("simulate", *arguments)["flows"]
    return found


def test_a_higher_priority_waits_less_for_room_in_the_queue(cli_json: Callable[..., Any]) -> None:
    def latency(*more: str) -> float:
        asked = [READS, *DRIVE, "--depth", "4", "--seconds", "0.5", f"--beside={WRITES};depth=128"]
        return float(flows(cli_json, *asked, *more)[0]["latency_ns"]["mean"])

    first, last = latency("--priority", "1"), latency()
    # 32 of 132 requests fit into the queue: otherwise reads wait for a hundred writes.
    assert first < last / 2


def test_flows_have_their_own_addresses_and_paces(cli_json: Callable[..., Any]) -> None:
    result = cli_json(
        "simulate", "io:random(reads=1,requests=2000)", *DRIVE, "--depth", "1",
        "--beside", f"{WRITES};region=16Mi+8Mi;depth=2;priority=3",
        "--beside", "io:sequential(size=64Ki,pause_us=1000);open-loop",
    )  # fmt: skip
    own, placed, timed = result["flows"]
    assert own["requests"] == 2000
    assert (placed["offset"], placed["priority"]) == (16 << 20, 3)
    assert [flow["region"]["offset"] for flow in result["beside"]] == [16 << 20, 0]
    # One each millisecond, until the reads have ended.
    assert timed["requests"] == pytest.approx(own["seconds"] * 1000, rel=0.05)
    assert timed["seconds"] <= own["seconds"] * 1.05
    inputs = result["provenance"]["inputs"]
    assert len({one["content_hash"] for one in inputs}) == 3


def test_a_flow_beside_a_replay_ends_with_the_trace(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "small.parquet")
    beside = ["--beside", f"{READS};depth=2;region=32Mi+16Mi"]
    for device in (DRIVE, ["--device", "memory(bytes=64Mi)"]):
        result = cli_json("replay", trace, *device, *beside)
        own, other = result["flows"]
        assert own["requests"] == 600
        assert other["requests"] > 50
        assert result["sent"] == own["requests"] + other["requests"]
        assert other["seconds"] <= own["seconds"] * 1.2
    alone = cli_json("replay", trace, *DRIVE)
    assert [flow["requests"] for flow in alone["flows"]] == [600]
    assert "Flows" in cli("replay", trace, *DRIVE, *beside).stdout


def test_the_report_has_a_table_of_flows(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    cli("simulate", READS, *DRIVE, "--requests", "2000", "--beside", WRITES, "--out", "run")
    report = tmp_path / "run" / "report.html"
    check_report(browser, report)
    opened = Opened(browser, report)
    assert opened.page.get_by_text("Flows", exact=True).count() == 1
    assert opened.page.get_by_text(WRITES).count() >= 1
    opened.page.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--beside", "io:nope"], "nope"),
        (["--beside", "no.trace"], "no such file"),
        (
            ["--beside", f"{READS};depht=3"],
            "'depht=3' is nothing of a flow: write open-loop, depth",
        ),
        (["--beside", f"{READS};depth=0"], "0 is not in the range"),
        (["--beside", f"{READS};depth=1;depth=2"], "depth was given already"),
        (["--beside", f"{READS};open-loop;depth=2"], "leave out depth and think-time"),
        (["--beside", f"{READS};open-loop"], "it has no times for open-loop"),
        (["--beside", f"{READS};region=1T"], "it must lie within the drive's"),
        (["--beside", f"{READS};priority=256"], "256 is not in the range"),
    ],
)
def test_wrong_flows_are_one_line(cli: Cli, arguments: list[str], said: str) -> None:
    done = cli("simulate", READS, *DRIVE, *arguments, code=2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_flows_are_for_drives_with_a_clock(cli: Cli) -> None:
    done = cli("simulate", "synth:uniform?pages=1k", "--beside", READS, code=2)
    assert "--beside: it is for a simulated drive" in done.stderr
