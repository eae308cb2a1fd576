"""Choice of a stack for a device: tried on a trace, or by what was measured of the device."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flashwright import _core
from flashwright.layering.candidates import CANDIDATES, NOT_TRIED, by_facts, by_played, choice
from flashwright.layering.facts import Facts
from support import Cli

CARD = {
    "times": {"sequential_ns": 1.5e6, "partitioned_ns": 707e6, "focused_ns": 1.5e6},
    "erase_block_bytes": 2 << 20,
}
"""Measurements of the SD card of class 4: a turn costs a merge."""


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep measurements for layers for the other tests, and not in the user's cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


def random_writes(folder: Path) -> Path:
    """Write a trace as a database makes one: pages at random, and a flush after eight of them."""
    random = np.random.default_rng(7)
    ops = ["flush" if number % 9 == 8 else "write" for number in range(450)]
    columns = {
        "time_ns": [number * 100_000 for number in range(len(ops))],
        "op": ops,
        "offset": [0 if op == "flush" else int(random.integers(8192)) * 4096 for op in ops],
        "length": [0 if op == "flush" else 4096 for op in ops],
    }
    path = folder / "small.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_every_layer_of_the_registry_is_a_candidate_or_has_a_reason_not_to_be() -> None:
    tried = {name for one in CANDIDATES for name in _core.check_stack(one.stack)}
    assert tried | set(NOT_TRIED) == {entry["name"] for entry in _core.registry()["layer"]}
    assert not tried & set(NOT_TRIED)


def test_a_candidate_is_found_again_in_any_form() -> None:
    for one in CANDIDATES:
        for text in {one.stack, one.played or one.stack}:
            assert by_played(_core.settled_stack(text, facts=CARD)) is one
    assert by_played("checksums") is None


def test_the_form_of_a_log_follows_from_what_is_known() -> None:
    settled = _core.settled_stack
    assert settled("log_volume", facts=CARD) == "log_volume(summaries=segments)"
    assert settled("log_volume(summaries=ring)", facts=CARD) == "log_volume(summaries=ring)"
    assert settled("log_volume") == "log_volume"
    assert settled("scheduler(coalesce)|log_volume(segment=1Mi)", facts=CARD) == (
        "scheduler(coalesce)|log_volume(segment=1Mi,summaries=segments)"
    )


@pytest.mark.parametrize(
    ("facts", "stack", "said"),
    [
        (Facts(), "direct", "nothing is known of how the device writes: `flashwright probe"),
        (Facts(random_over_sequential=0.9), "direct", "nothing to gain"),
        (
            Facts(CARD, random_over_sequential=320.0),
            "log_volume(summaries=segments)",
            "a small volume holds less",
        ),
        (Facts({}, random_over_sequential=115.7), "log_volume", "116 times as long"),
    ],
)
def test_what_is_known_of_a_device_says_what_is_right(facts: Facts, stack: str, said: str) -> None:
    advice = by_facts(facts)
    assert advice.stack == stack
    assert said in advice.line


def _row(stack: str, times_faster: float | None, capacity_bytes: int = 900) -> dict[str, Any]:
    verdict = {"times_faster": times_faster, "summary": f"{times_faster} times faster"}
    return {"stack": stack, "verdict": verdict, "capacity_bytes": capacity_bytes}


def _choice(*rows: Mapping[str, Any]) -> dict[str, Any]:
    direct = {"stack": "direct", "verdict": None, "capacity_bytes": 1000}
    return choice([direct, *rows], Facts(CARD).document())


def test_the_choice_says_gain_cost_and_risk() -> None:
    found = _choice(
        _row("stable_buffer", 1.8), _row("log_volume(filled=yes,summaries=segments)", 123.0)
    )
    assert found["stack"] == "log_volume(summaries=segments)"
    assert found["times_faster"] == 123.0
    assert found["capacity_lost"] == pytest.approx(0.1)
    assert "of the capacity is gone" in found["line"]
    assert "Its risk: only the log's own tables" in found["line"]
    assert "two pages of each segment" in found["cost"]


def test_of_two_that_are_as_good_the_simpler_one_is_chosen() -> None:
    found = _choice(
        _row("scheduler(coalesce)|log_volume(filled=yes)", 10.2),
        _row("log_volume(filled=yes)", 10.0),
    )
    assert found["stack"] == "log_volume(summaries=segments)"


@pytest.mark.parametrize("times", [0.98, 1.0, 1.02, None])
def test_where_nothing_is_gained_the_device_alone_is_right(times: float | None) -> None:
    found = _choice(_row("stable_buffer", times))
    assert found["stack"] is None


def test_without_a_stack_the_right_one_for_a_card_is_found(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    """1.82 times faster with what the table of names offers, and 123 with what it does not."""
    trace = random_writes(tmp_path)
    drive = "profile(sd-card, media.erase_blocks_per_plane=128)"
    asked = ("play", trace, "--on", drive, "--stack", "auto")
    found = cli_json(*asked)
    assert [one["line"] for one in found["choices"].values()]
    (chosen,) = found["choices"].values()
    assert chosen["stack"] == "log_volume(summaries=segments)"
    assert chosen["times_faster"] > 10
    stacks = {row["stack"] for row in found["runs"]}
    assert "log_volume(filled=yes,summaries=segments)" in stacks
    assert "stable_buffer" in stacks
    said = " ".join(cli(*asked).stdout.split())
    assert "Right for this trace is log_volume(summaries=segments): " in said


def test_without_a_stack_a_drive_that_maps_pages_gets_none(
    cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    trace = random_writes(tmp_path)
    drive = "profile(a16, media.erase_blocks_per_plane=64)"
    found = cli_json("play", trace, "--on", drive, "--stack", "auto")
    (chosen,) = found["choices"].values()
    assert chosen["stack"] is None or chosen["times_faster"] > 1.02
    assert "Right for this trace is" in chosen["line"]


def test_a_volume_on_an_emulated_card_gets_the_form_for_it(cli: Cli, tmp_path: Path) -> None:
    device = "emulated(profile=sd-card,size=512Mi,data=card.img)"
    made = json.loads(cli("volume", "create", device, "--json", "-").stdout)
    assert made["stack"] == "log_volume(summaries=segments)"
    about = json.loads(cli("volume", "info", device, "--json", "-").stdout)
    assert about["stack"] == "log_volume(summaries=segments)"


def test_a_volume_on_what_nobody_measured_says_what_it_takes(cli: Cli) -> None:
    done = cli("volume", "create", "plain", "--size", "64M")
    said = " ".join(done.stdout.split())
    assert "stack direct" in said
    assert "No layers, as nothing is known of how the device writes" in said
    assert "--facts" in said
    ring = " ".join(
        cli("volume", "create", "log", "--size", "64M", "--stack", "log_volume").stdout.split()
    )
    assert "The log keeps its summaries in a ring, as nothing is known" in ring
