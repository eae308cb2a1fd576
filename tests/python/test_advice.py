"""Advice: commits, what setups send, figures, the engine, and a trace from end to end."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flashwright
from advice_cases import database_like, requests, rows_of
from flashwright import _core
from flashwright._core import InputError, Progress
from flashwright.advice import load as loads
from flashwright.advice import nearest, traces
from flashwright.advice.building import Question, case_of, clients_of
from flashwright.advice.case import Case
from flashwright.advice.commits import commits_of
from flashwright.advice.engine import Engine, years
from flashwright.advice.load import FLUSH, LOG, READ, WRITE, Load
from flashwright.advice.loop import Loop
from flashwright.advice.processors import Processors
from flashwright.advice.setup import Commits, Drive, Figures, Interval, Setup
from flashwright.advice.what_ifs import Made, OfLog, OfPostgres
from flashwright.recording.files import PURPOSES
from flashwright.slices.cut import Stopper
from support import Cli

MS = 1_000_000
HEAP = PURPOSES.index("heap")
PAGE = 4096


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    path = database_like(tmp_path_factory.mktemp("load") / "load.parquet")
    return loads.of_file(path, "load", None)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "kept", seconds_each=1.0)
    yield made
    made.close()


SMALL = Drive("emmc-51", (), 1 << 30, 0.9)


def case(load: Load, engine: Engine, drive: Drive = SMALL, **known: object) -> Case:
    base = Setup(load, drive)
    return Case(load, base, engine.figures(base), **known)  # type: ignore[arg-type]


class TestCommits:
    def test_take_the_longest_log_write_and_the_flush(self) -> None:
        begin = np.array([0, 1, 2, 10, 11], np.int64)
        took = np.array([3e6, 5e6, 2e6, 1e6, 4e6])
        is_log = np.array([True, True, False, True, False])
        is_flush = np.array([False, False, True, False, True])
        found = commits_of(begin, took, is_log, is_flush)
        assert found is not None
        assert found.count == 2
        assert found.mean == pytest.approx((5e-3 + 2e-3 + 1e-3 + 4e-3) / 2)
        assert found.flush_mean == pytest.approx(3e-3)

    def test_without_log_writes_of_its_own_a_flush_takes_those_before(self) -> None:
        begin = np.array([0, 1, 2], np.int64)
        took = np.array([3e6, 2e6, 1e6])
        found = commits_of(
            begin, took, np.array([True, False, False]), np.array([False, True, True])
        )
        assert found is not None
        assert found.mean == pytest.approx((5e-3 + 4e-3) / 2)

    def test_without_flushes_are_log_writes(self) -> None:
        found = commits_of(
            np.arange(3), np.array([1e6, 2e6, 3e6]), np.ones(3, bool), np.zeros(3, bool)
        )
        assert found is not None
        assert found.count == 3
        assert found.p50 == pytest.approx(2e-3)
        assert found.flush_mean == 0

    def test_there_are_none_of_reads_alone(self) -> None:
        nothing = np.zeros(3, bool)
        assert commits_of(np.arange(3), np.ones(3), nothing, nothing) is None


class TestWhatASetupSends:
    def test_commits_that_share_a_flush_write_each_log_page_once(self) -> None:
        found = traces.merged(
            requests(
                [
                    (0, WRITE, 10, 1, LOG),
                    (1, FLUSH, 0, 0, LOG),
                    (2, WRITE, 10, 2, LOG),
                    (3, FLUSH, 0, 0, LOG),
                    (4, WRITE, 900, 1, HEAP),
                    (11, WRITE, 11, 1, LOG),
                    (12, FLUSH, 0, 0, LOG),
                ]
            ),
            0.01,
        )
        assert rows_of(found) == [
            (4, WRITE, 900, 1, HEAP),
            (9, WRITE, 10, 2, LOG),
            (9, FLUSH, 0, 0, 0),
            (19, WRITE, 11, 1, LOG),
            (19, FLUSH, 0, 0, 0),
        ]

    def test_merging_is_the_union_of_pages_of_each_time(self) -> None:
        """Against a plain oracle: sets of pages by time."""
        rng = np.random.default_rng(3)
        made = [
            (int(at), WRITE, int(rng.integers(0, 40)), int(rng.integers(1, 5)), LOG)
            for at in np.sort(rng.integers(0, 500, 800))
        ]
        wanted: dict[int, set[int]] = {}
        for at, _, page, pages, _ in made:
            wanted.setdefault(at // 50, set()).update(range(page, page + pages))
        found: dict[int, list[int]] = {}
        for at, _, page, pages, _ in rows_of(traces.merged(requests(made), 0.05)):
            found.setdefault(at // 50, []).extend(range(page, page + pages))
        assert {at: sorted(pages) for at, pages in wanted.items()} == found

    def test_a_flush_goes_to_the_drives_that_were_written(self) -> None:
        log, rest = traces.apart(
            requests(
                [
                    (0, WRITE, 10, 1, LOG),
                    (1, FLUSH, 0, 0, LOG),
                    (2, WRITE, 900, 1, HEAP),
                    (3, FLUSH, 0, 0, HEAP),
                    (4, WRITE, 11, 1, LOG),
                    (5, WRITE, 901, 1, HEAP),
                    (6, FLUSH, 0, 0, LOG),
                    (7, READ, 900, 1, HEAP),
                    (8, FLUSH, 0, 0, LOG),
                ]
            )
        )
        assert [(row[0], row[1]) for row in rows_of(log)] == [
            (0, WRITE),
            (1, FLUSH),
            (4, WRITE),
            (6, FLUSH),
        ]
        assert [row[0] for row in rows_of(rest)] == [2, 3, 5, 6, 7, 8]

    def test_nothing_is_lost_between_two_drives(self, load: Load) -> None:
        whole = traces.load(load.path)
        log, rest = traces.apart(whole)
        assert log.written_bytes + rest.written_bytes == whole.written_bytes
        assert set(log.stream.tolist()) == {LOG}


class TestLoad:
    def test_counts_what_is_there(self, load: Load) -> None:
        whole = traces.load(load.path)
        assert load.written_bytes == whole.written_bytes
        assert sum(load.written_by.values()) == load.written_bytes
        assert load.requests["flush"] == 4000
        assert load.share("wal") == pytest.approx(4000 / (4000 + 2000 * 2))
        assert load.knows_purposes

    def test_of_another_trace_knows_no_purposes(self, tmp_path: Path) -> None:
        file = tmp_path / "trace.csv"
        file.write_text("1,host,0,Write,0,4096,10\n2,host,0,Read,8192,4096,10\n")
        found = loads.read(str(file), tmp_path, "msr", stopper=Stopper())
        assert found.written_by == {"unknown": 4096}
        assert not found.knows_purposes

    def test_that_writes_nothing_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "trace.csv"
        file.write_text("1,host,0,Read,0,4096,10\n")
        with pytest.raises(InputError, match="no writes"):
            loads.read(str(file), tmp_path, "msr", stopper=Stopper())

    def test_a_synthetic_one_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="recording or a trace file"):
            loads.read("synth:uniform(pages=1k)", tmp_path, stopper=Stopper())


class TestFigures:
    def test_go_to_json_and_back(self) -> None:
        commits = Commits(3, 1.0, 0.5, 2.0, 3.0, 0.1)
        figures = Figures(
            10.0,
            Interval(20.0, 19.0, 21.0),
            {"the drive": {"flash_bytes": 20.0}},
            commits,
            5.0,
            steady=True,
            slices=4,
            seconds_simulated=0.5,
        )
        assert Figures.of(json.loads(json.dumps(figures.document()))) == figures

    def test_a_ratio_has_the_width_of_both(self) -> None:
        found = Interval(2.0, 1.8, 2.2).over(Interval(4.0, 3.6, 4.4))
        assert found.value == 0.5
        assert found.low == pytest.approx(0.5 - 0.5 * math.hypot(0.1, 0.1))
        assert Interval(2.0).over(Interval(4.0)).low is None

    def test_the_drive_that_wears_first_ends_the_life(self) -> None:
        by_drive = {
            "a": {"flash_bytes": 10.0, "endurance_bytes": 1000.0},
            "b": {"flash_bytes": 5.0, "endurance_bytes": 100.0},
        }
        figures = Figures(15.0, Interval(15.0, 12.0, 18.0), by_drive)
        share = figures.life_share()
        assert share.value == pytest.approx(0.05)
        lives = years(figures, 2.0)
        assert lives is not None
        assert lives.value == pytest.approx(1 / (0.05 * 365.25 * 2))
        assert lives.low is not None
        assert lives.high is not None
        assert lives.low < lives.value < lives.high
        assert years(Figures(1.0, Interval(1.0)), 2.0) is None

    def test_a_drive_of_which_nothing_is_known_leaves_the_life_open(self) -> None:
        by_drive = {
            "a": {"flash_bytes": 10.0, "endurance_bytes": 1000.0},
            "b": {"flash_bytes": 5.0},
        }
        assert math.isnan(Figures(15.0, Interval(15.0), by_drive).life_share().value)


def test_commits_share_as_many_flushes_as_the_disk_got(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of a log of images hardly tell. What is found by trying stays for other settings."""
    asked, times = [], iter([3000, 3000, 0, 0])

    def run_job(_name: str, job: bytes, _progress: None) -> tuple[bytes, dict[str, Any], None]:
        asked.append(json.loads(job))
        fitted = {
            "flush_us": next(times),
            "background_page_us": 70,
            "background_share": 1,
            "reads": None,
            "commits": 9,
        }
        return json.dumps({"fitted": fitted}).encode(), {}, None

    monkeypatch.setattr(_core, "run_job", run_job)
    server = tmp_path / "server.json"
    server.write_text('{"settings": {"synchronous_commit": "on"}}')
    one = OfPostgres(tmp_path, tmp_path, load)
    one._told({"a": {}})
    one._told({"b": {}, "c": {"full_page_writes": "off"}})
    assert asked[0]["flushes"] == load.requests["flush"]
    assert "fitted" not in asked[0]
    assert asked[1]["fitted"] == {
        "flush_us": 3000,
        "background_page_us": 70,
        "background_share": 1,
        "reads": None,
        "commits": 9,
    }
    assert "flushes" not in asked[1]
    assert asked[1]["candidates"] == [{"name": "b"}, {"name": "c", "full_page_writes": False}]
    without = OfPostgres(tmp_path, tmp_path, replace(load, requests={**load.requests, "flush": 0}))
    without._told({"d": {}})
    assert not {"flushes", "fitted"} & set(asked[2])
    # Where commits did not wait, flushes tell nothing of how long one takes.
    server.write_text('{"settings": {"synchronous_commit": "off"}}')
    OfPostgres(tmp_path, tmp_path, load)._told({"e": {}})
    assert not {"flushes", "fitted"} & set(asked[3])
    assert asked[3]["candidates"] == [{"name": "e"}]


class TestManyLoads:
    class Counts(OfLog):
        """Tells all but one setting, and counts how often the log is looked through."""

        passes = 0

        def _make(
            self,
            asked: Mapping[str, Mapping[str, str]],
            progress: Progress | None,
        ) -> Iterator[Callable[[], Made]]:
            self.passes += 1
            if any("no" in one for one in asked.values()):
                raise InputError("cannot be told")
            for _ in asked:
                yield lambda: Made(traces.load(self._recorded.path), 2)

    def test_are_found_in_one_pass(self, load: Load, tmp_path: Path) -> None:
        found = self.Counts(tmp_path, tmp_path, load)
        found.prepare([{}, {"a": "1"}, {"b": "2"}, {"a": "1"}])
        assert found.load({"b": "2"}).written_by == load.written_by
        assert found.load({"a": "1"}).flushes_of_commit == 2
        assert found.refused is None
        assert found.passes == 1

    def test_under_the_least_siblings_of_a_delay_are_no_others(
        self, load: Load, tmp_path: Path
    ) -> None:
        """Each delay was looked for twice: it is offered with its siblings, and asked without."""
        found = self.Counts(tmp_path, tmp_path, load)
        found.prepare([{"commit_delay": "9", "commit_siblings": "1"}])
        assert found.load({"commit_delay": "9"}).written_by == load.written_by
        assert found.passes == 1

    def test_that_cannot_be_told_leave_the_others(self, load: Load, tmp_path: Path) -> None:
        found = self.Counts(tmp_path, tmp_path, load)
        found.prepare([{"a": "1"}, {"no": "1"}])
        assert found.load({"a": "1"}).written_by == load.written_by
        passes = found.passes
        for _ in range(2):
            with pytest.raises(InputError, match="cannot be told"):
                found.load({"no": "1"})
        assert found.passes == passes


class TestLoop:
    def test_clients_that_only_wait_gain_all(self) -> None:
        loop = Loop(clients=4, per_second=1000.0, wait=0.004, of_drive=0.004)
        assert loop.thinks == 0
        assert loop.gain(0.5) == pytest.approx(2.0)

    def test_clients_that_think_gain_their_share(self) -> None:
        loop = Loop(clients=10, per_second=1000.0, wait=0.005, of_drive=0.004)
        assert loop.thinks == pytest.approx(0.005)
        assert loop.waiting_share == pytest.approx(0.5)
        assert loop.gain(0.0) == pytest.approx(0.010 / 0.006)
        # Of commits that do not wait the way to the drive is gone, too.
        assert loop.gain(None) == pytest.approx(0.010 / 0.005)
        assert loop.gain(2.0) < 1

    def test_processors_allow_only_so_much(self) -> None:
        """Two of them are at work half of 100 s: twice as much is the most, however fast a drive.

        A recording in which they were at work all the time, by other counts, allows no less than
        was done.
        """
        told: dict[str, Any] = {
            "processors": {"count": 2, "server_seconds": 60.0, "clients_seconds": 40.0}
        }
        found = Processors.of(told)
        assert found is not None
        assert found.most(100.0) == pytest.approx(2.0)
        loop = Loop(4, 1000.0, wait=0.004, of_drive=0.004, most=found.most(100.0))
        assert loop.gain(0.8) == pytest.approx(1.25)
        assert loop.gain(0.01) == pytest.approx(2.0)
        assert loop.gain(None) == pytest.approx(2.0)
        assert found.most(10.0) == 1.0
        told["processors"] |= {"clients_seconds": None}
        assert Processors.of(told) == Processors(2, 60.0)
        assert Processors.of({"processors": {"count": 2}}) is None
        assert Processors.of({}) is None


class TestClients:
    def test_come_and_go(self) -> None:
        """Two that stay, and two of which the second comes when the first has gone."""
        at = np.arange(100) * 10**8
        pid = np.concatenate([np.full(100, 1), np.full(100, 2), np.where(at < 5 * 10**9, 3, 4)])
        found = clients_of(pid, np.tile(at, 3), 10.0)
        assert found == pytest.approx(3.0, rel=0.05)

    def test_are_not_who_hardly_syncs(self) -> None:
        at = np.arange(100) * 10**8
        pid = np.concatenate([np.full(100, 1), [9, 9]])
        assert clients_of(pid, np.append(at, [0, 99 * 10**8]), 10.0) == pytest.approx(1.0)

    def test_are_one_at_least(self) -> None:
        assert clients_of(np.array([1]), np.array([0]), 10.0) == 1.0


class TestEngine:
    def test_gives_the_same_again_and_keeps_it(self, load: Load, tmp_path: Path) -> None:
        first = Engine(tmp_path / "kept", seconds_each=1.0)
        setup = Setup(load, SMALL)
        found = first.figures(setup)
        first.close()
        again = Engine(tmp_path / "kept", seconds_each=1.0)
        assert again.knows(setup)
        assert again.figures(setup) == found
        again.close()
        anew = Engine(None, seconds_each=1.0)
        fresh = anew.figures(setup)
        anew.close()
        assert replace(fresh, seconds_simulated=found.seconds_simulated) == found

    def test_spare_space_saves_flash(self, load: Load, engine: Engine) -> None:
        full = engine.figures(Setup(load, replace(SMALL, fill=1.0)))
        spare = engine.figures(Setup(load, replace(SMALL, fill=0.6)))
        assert spare.flash_bytes.value <= full.flash_bytes.value
        assert full.host_bytes == pytest.approx(load.written_bytes, rel=0.02)

    def test_a_log_apart_is_simulated_on_a_second_drive(self, load: Load, engine: Engine) -> None:
        one = engine.figures(Setup(load, SMALL))
        two = engine.figures(Setup(load, SMALL, log_apart=Drive("nvme-tlc", (), 1 << 30, 0.5)))
        assert set(two.by_drive) == {"the drive", "the log's drive"}
        assert two.host_bytes == pytest.approx(one.host_bytes, rel=0.02)
        assert two.commits is not None
        assert one.commits is not None
        assert two.commits.p50 < one.commits.p50

    def test_commits_that_share_flushes_program_less(self, load: Load, engine: Engine) -> None:
        each = engine.figures(Setup(load, SMALL))
        shared = engine.figures(Setup(load, SMALL, merge_seconds=0.2))
        assert shared.flash_bytes.value < 0.8 * each.flash_bytes.value

    def test_layers_are_simulated(self, load: Load, engine: Engine) -> None:
        found = engine.figures(Setup(load, SMALL, stack="scheduler(coalesce)"))
        assert found.flash_bytes.value > 0
        assert found.steady is None


class TestNearest:
    @pytest.mark.parametrize(
        ("about", "profile", "how"),
        [
            ({"name": "nvme0n1", "model": "Micron_7450_MTFDKBG960TFR"}, "micron-7450-pro", "model"),
            ({"name": "nvme0n1", "model": "SomeSSD"}, "nvme-tlc", "nearest"),
            ({"name": "mmcblk0"}, "emmc-51", "nearest"),
            ({}, "nvme-tlc", "nearest"),
        ],
    )
    def test_goes_by_model_then_by_how_it_is_attached(
        self, about: dict[str, str], profile: str, how: str
    ) -> None:
        found = nearest.of_disk(about)
        assert (found.profile, found.how) == (profile, how)
        assert ("assumed" in found.said) == (how == "nearest")

    def test_a_name_that_is_none_is_refused(self) -> None:
        with pytest.raises(InputError, match="neither a profile nor a file"):
            nearest.named("no-such-drive")

    def test_every_profile_that_a_model_leads_to_is_there(self) -> None:
        known = set(flashwright.profiles())
        assert {profile for _, profile in nearest.MODELS} <= known


class TestFromEndToEnd:
    @pytest.fixture
    def trace(self, tmp_path: Path) -> Path:
        return database_like(tmp_path / "app.parquet", 1500)

    def test_a_trace_is_answered_on_the_command_line(
        self, cli: Cli, trace: Path, tmp_path: Path
    ) -> None:
        asked = ("advise", str(trace), "--device", "emmc-51", "--size", "1G", "--fill", "90%")
        done = cli(*asked, "--out", str(tmp_path / "run"), "--writes-per-day", "40G")
        for part in ("As things stand", "What to change", "What it rests on", "42.9 GB a day"):
            assert part in done.stdout
        result = json.loads((tmp_path / "run" / "result.json").read_text())
        stands = result["as_things_stand"]
        assert (
            stands["written_bytes"]
            == pq.read_table(trace)
            .filter(pa.compute.equal(pq.read_table(trace)["op"].cast("string"), "write"))["length"]
            .to_numpy()
            .sum()
        )
        assert (tmp_path / "run" / "report.html").is_file()

    def test_python_has_the_same(self, trace: Path, tmp_path: Path) -> None:
        found = flashwright.advise(
            trace, device="emmc-51", size="1G", fill=0.9, kept=tmp_path / "kept", progress=False
        )
        again = flashwright.advise(
            trace, device="emmc-51", size="1G", fill=0.9, kept=tmp_path / "kept", progress=False
        )
        assert found["as_things_stand"] == again["as_things_stand"]
        assert found["changes"] == again["changes"]

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            (("--fill", "150%"), "at most 100%"),
            (("--device", "nothing"), "neither a profile"),
            (("--goal", "speed"), "is not one of"),
        ],
    )
    def test_wrong_options_are_one_line(
        self, cli: Cli, trace: Path, wrong: tuple[str, str], said: str
    ) -> None:
        done = cli("advise", str(trace), *wrong, code=2)
        assert said in done.stderr
        assert done.stderr.count("\n") == 1

    def test_a_source_is_needed(self, cli: Cli) -> None:
        assert "name one SOURCE" in cli("advise", code=2).stderr

    def test_the_case_of_a_trace_knows_what_it_does_not_know(
        self, trace: Path, tmp_path: Path, engine: Engine
    ) -> None:
        found = case_of(Question(str(trace)), engine, tmp_path)
        assert found.drive_known == "nearest"
        assert "assumed" in found.drive_said
        assert found.database is None
        assert found.loop is None
        assert "if all of the day were like" in found.rate_said
