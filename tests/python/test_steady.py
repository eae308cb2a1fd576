"""Remarks on runs that are not steady: the option and the value that make them so."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright.jobs.play import remarks
from flashwright.jobs.play.remarks import holds
from flashwright.jobs.play.view import View
from flashwright.runs import Run
from flashwright.steady import Played, remedy, repeats, rounded_up
from support import Cli

SMALL = "a16, media.erase_blocks_per_plane=128, media.pages_per_erase_block=16"
"""A drive that is written over in a moment."""


def test_counts_are_rounded_up_as_options_take_them() -> None:
    assert [rounded_up(value) for value in (7, 9_999, 10_000, 47_100, 471_000, 12_345_678)] == [
        "7", "9999", "10k", "48k", "480k", "13M",
    ]  # fmt: skip


def _judged(**changed: Any) -> dict[str, Any]:
    level = {"times": None, "has_space_left": False, "unsteady": None}
    return {"iops": {**level, **changed}, "write_amplification": level}


SUMMARY = {"physical_pages": 12_000, "logical_pages": 10_000}
OUTCOME = {"requests": 1_000, "host_page_writes": 2_000, "simulated_seconds": 4.0}
ENDLESS = Played(None, 1, 0, None, None, 10_000)


@pytest.mark.parametrize(
    ("judged", "played", "said"),
    [
        (_judged(), ENDLESS, None),
        # (12,000 + 8 x 10,000) pages by requests of two.
        (_judged(times=400.0), ENDLESS, "--requests 600k --untimed 46k"),
        (_judged(has_space_left=True), ENDLESS, "--requests 300k --untimed 46k"),
        (
            _judged(times=2.0),
            Played(1_000, 1, 0, None, None, 10_000),
            "part(..., repeat=346) --untimed 13%",
        ),
        (
            _judged(has_space_left=True),
            Played(1_000_000, 2, 0, None, None, 10_000),
            "--untimed 13%",
        ),
        (
            _judged(times=2.0),
            Played(None, 1, 47_000, 500, 4.0, 10),
            "--requests 300k --untimed 48k --for 1200",
        ),
    ],
)
def test_the_options_follow_from_what_the_run_lacks(
    judged: dict[str, Any], played: Played, said: str | None
) -> None:
    assert remedy(SUMMARY, OUTCOME, judged, played) == said


SMALL_X25E = "intel-x25e, media.erase_blocks_per_plane=128"
SMALL_CARD = "sd-card, media.erase_blocks_per_plane=64"


@pytest.mark.parametrize(
    ("source", "drive"),
    [
        ("io:random(reads=0)", f"{SMALL}, ftl.placement=separate"),
        ("io:random(reads=0,range=40Mi)", SMALL),
        ("io:sequential(reads=0,size=64Ki)", SMALL),
        ("io:random(reads=0)", f"{SMALL}, op=28%, state=aged"),
        ("io:random(reads=1)", f"{SMALL}, read_cache.bytes=64Mi"),
        ("synth:zipf(s=0.99,pages=20000,updates=1x)", SMALL),
        ("io:random(reads=0.3)", SMALL_X25E),
        ("io:sequential(reads=0)", SMALL_CARD),
    ],
)
def test_a_run_with_the_options_that_are_named_is_steady(
    cli_json: Callable[..., Any], source: str, drive: str
) -> None:
    """Several policies, loads and drives, each from a run that is far too short."""
    limit = () if source.startswith("synth:") else ("--requests", "2000")
    on = ("--on", f"profile({drive})")
    [short] = cli_json("play", source, *on, *limit)["runs"]
    assert short["steady_with"] is not None
    part, _, options = short["steady_with"].rpartition(")")
    given = f"{part.replace('...', source)})" if part else source
    [found] = cli_json("play", given, *on, *options.split())["runs"]
    assert holds(found), (given, options, found["judged"], found["steady_with"])
    assert found["steady_with"] is None


@pytest.mark.parametrize("placement", ["none", "separate", "sepbit", "dac"])
@pytest.mark.parametrize(
    "source", ["synth:zipf(s=0.99,pages=16Ki,updates=2x)", "synth:uniform(pages=16Ki,updates=1x)"]
)
def test_a_counted_run_that_is_repeated_as_is_said_is_steady(
    cli: Cli, cli_json: Callable[..., Any], source: str, placement: str
) -> None:
    asked = ("compare", source, "--op", "0.2", "--placements", placement)
    short = cli_json(*asked)
    assert not short["steady"]
    times = repeats(short, 1, short["workload"]["logical_pages"])
    assert f"Steady with part(..., repeat={times}) or more." in " ".join(cli(*asked).stdout.split())
    assert cli_json("compare", f"part({source}, repeat={times})", *asked[2:])["steady"]


def _row(name: str, iops: float, *, steady: bool = True, **changed: Any) -> dict[str, Any]:
    times = {"p50": 1e6, "p99": 2e6}
    return {
        "device": name,
        "stack": None,
        "pace": "closed(32)",
        "requests": 1,
        "iops": iops,
        "bytes_per_second": iops * 4096,
        "ended": None,
        "simulated": {"counters": {"host_page_writes": 1}},
        "steady": {"iops": steady, "write_amplification": True},
        "latency_ns": {"read": times},
        **changed,
    }


def _headline(*rows: dict[str, Any]) -> str:
    return remarks.headline(View(Run("play", {"runs": list(rows), "devices": []})))


def test_a_headline_gives_no_ratio_of_runs_that_are_not_steady() -> None:
    """6.23 times as many, of two runs that are not steady, is taken back by their notes."""
    fast, slow = _row("fast", 6230.0), _row("slow", 1000.0)
    assert "6.23 times as many" in _headline(fast, slow)
    unsteady = _headline(fast, _row("slow", 1000.0, steady=False))
    assert "times" not in unsteady
    assert "slow 1\u202f000 (not steady)" in unsteady
    assert "99 %" not in unsteady


def test_a_headline_gives_no_ratio_of_a_run_that_ended_early() -> None:
    early = _headline(_row("fast", 6230.0), _row("slow", 1000.0, ended="worn_out"))
    assert "times" not in early
    assert "slow 1\u202f000 (until it wore out)" in early


def test_the_headline_of_one_run_says_that_it_is_not_steady(cli: Cli, tmp_path: Path) -> None:
    cli(
        "play",
        "io:random(reads=0)",
        "--on",
        f"profile({SMALL})",
        "--requests",
        "2000",
        "--out",
        "run",
    )
    said = (tmp_path / "run" / "report.html").read_text()
    assert "in a run that is not steady" in said
