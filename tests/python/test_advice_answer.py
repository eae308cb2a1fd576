"""The answer: what is advised, in which order, with what it costs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

import flashwright
from advice_cases import HEAP, actions_of, candidate
from browsing import check_report
from flashwright.advice import document, traces, words
from flashwright.advice import load as loads
from flashwright.advice.action import (
    Loss,
    Lost,
    NotKnown,
    Told,
    Useless,
)
from flashwright.advice.answer import WITHIN, Advising, Answer
from flashwright.advice.case import Case
from flashwright.advice.engine import Engine
from flashwright.advice.gain import gain_of
from flashwright.advice.load import WRITE, Load
from flashwright.advice.loop import Loop
from flashwright.advice.setup import Drive
from flashwright.cli.advise import advise
from flashwright.reports import write_report
from flashwright.runs import Run, provenance
from test_advice import case, engine, load

__all__ = ["engine", "load"]


def answer(case: Case, engine: Engine, *found: object) -> Answer:
    return Advising(case, engine, actions_of(*found)).run()


class TestAnswer:
    def test_is_in_order_of_gain_and_names_what_does_not_help(
        self, load: Load, engine: Engine
    ) -> None:
        found = answer(
            case(load, engine),
            engine,
            candidate("shared", merge_seconds=0.2),
            candidate("a little", merge_seconds=0.003),
            candidate("nothing"),
            Useless("x", "X", "it is small"),
            NotKnown("y", "Y", "nobody knows", "look"),
            Told("z", "so it is"),
        )
        assert [one.candidate.name for one in found.changes] == ["shared", "a little"]
        gains = [one.gain.of("life").value for one in found.changes]
        assert gains == sorted(gains, reverse=True)
        assert [one.what for one in found.useless] == ["X", "Do nothing"]
        # Flushes that are shared cannot be shared again.
        assert found.combination is None
        said = "\n".join(words.change_lines(found, found.changes[0], 1))
        for part in ("Do shared", "Lost after a crash: none", "do shared", "undo shared"):
            assert part in said

    def test_changes_go_together_as_far_as_each_adds(
        self, load: Load, engine: Engine, tmp_path: Path
    ) -> None:
        """One writes fewer data pages, one shares flushes, and one shares fewer of the same."""
        whole = traces.load(load.path)
        is_data = (whole.op == WRITE) & (whole.stream == HEAP)
        kept = ~is_data | (np.cumsum(is_data) % 2 == 0)
        traces.write(whole.taken(kept), tmp_path / "less.parquet")
        less = loads.of_file(tmp_path / "less.parquet", "less", None)
        found = answer(
            case(load, engine),
            engine,
            candidate("fewer pages", load=less),
            candidate("shared", merge_seconds=0.2),
            candidate("a little", merge_seconds=0.003),
        )
        assert found.combination is not None
        assert set(found.combination.candidate.name.split(" + ")) == {"fewer pages", "shared"}
        gain = found.combination.gain.of("life").value
        assert gain > max(one.gain.of("life").value for one in found.changes)

    @pytest.mark.parametrize("risk", list(Lost))
    @pytest.mark.parametrize("level", list(Lost))
    def test_what_costs_more_durability_than_is_allowed_is_no_change(
        self, load: Load, engine: Engine, risk: Lost, level: Lost
    ) -> None:
        one = candidate("shared", Loss(level, "up to 0.2 s of commits"), merge_seconds=0.2)
        found = answer(case(load, engine, risk=risk), engine, one)
        assert (len(found.changes), len(found.risky)) == ((1, 0) if level <= risk else (0, 1))

    def test_what_costs_too_much_of_another_goal_is_no_change(
        self, load: Load, engine: Engine
    ) -> None:
        slow = candidate("slow", merge_seconds=0.2, waits=0.05)
        found = answer(case(load, engine, loop=Loop(1, 250.0, 0.002, 0.001)), engine, slow)
        assert not found.changes
        assert "but commit p99 x" in found.useless[0].why

    def test_what_the_time_does_not_suffice_for_is_named(self, load: Load, engine: Engine) -> None:
        asked = case(load, engine)
        late = Advising(asked, engine, actions_of(candidate("shared", merge_seconds=0.2)), within=0)
        assert late.run().out_of_time == ["shared"]

    def test_has_as_much_time_by_the_command_as_in_python(self) -> None:
        [option] = [one for one in advise.params if one.name == "within"]
        assert option.default == WITHIN
        assert signature(flashwright.advise).parameters["within"].default == WITHIN

    def test_what_cannot_be_simulated_is_not_known(self, load: Load, engine: Engine) -> None:
        wrong = candidate("wrong", drive=Drive("nvme-tlc", ("media.channels=0",), 1 << 30))
        found = answer(case(load, engine), engine, wrong)
        assert [one.action for one in found.not_known] == ["wrong"]
        assert not found.changes

    def test_another_drive_is_beside_and_not_in_the_combination(
        self, load: Load, engine: Engine
    ) -> None:
        other = replace(
            candidate("other", drive=Drive("nvme-tlc", (), 1 << 30, 0.9)), combines=False
        )
        found = answer(case(load, engine), engine, other, candidate("shared", merge_seconds=0.2))
        assert [one.candidate.name for one in found.others] == ["other"]
        assert found.combination is None

    def test_a_gain_is_over_how_things_stand(self, load: Load, engine: Engine) -> None:
        asked = case(load, engine, loop=Loop(1, 250.0, 0.002, 0.001))
        same = gain_of(asked, asked.figures)
        assert (same.flash.value, same.latency, same.throughput) == (1.0, 1.0, 1.0)


def test_the_report_shows_gains_on_a_phone_too(
    load: Load, engine: Engine, browser: Browser, tmp_path: Path
) -> None:
    found = answer(
        case(load, engine, writes_per_day=4e10, rate_said="as asked"),
        engine,
        candidate("shared", merge_seconds=0.2),
        candidate("a little", merge_seconds=0.003),
        candidate("risky", Loss(Lost.ANY, "all of it"), merge_seconds=1.0),
        replace(candidate("other", drive=Drive("nvme-tlc", (), 1 << 30, 0.9)), combines=False),
        Useless("x", "The log on a second drive", "commits wait for 0.4 ms of 6"),
        NotKnown("y", "Another file system", "none was recorded", "record on one"),
        Told("z", "a commit is flushed within 1 ms"),
    )
    run = Run(
        "advise",
        {
            "source": "app.parquet",
            **document.document(found),
            "provenance": provenance("flashwright advise app.parquet", [], 1),
        },
        {"simulated": document.table(found)},
    )
    run.write(tmp_path / "run")
    report = write_report(tmp_path / "run")
    check_report(browser, report, on_a_phone=True)
    text = report.read_text()
    for part in ("Do shared", "Only with more risk", "all of it", "Other drives", "not advised"):
        assert part.lower() in text.lower()
