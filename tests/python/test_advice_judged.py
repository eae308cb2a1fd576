"""The bars of advice against figures that were worked out by hand, and proofs with a fake run."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.advice import matrix
from experiments.advice.judged import Pair, judge, kendall_tau, tau_of_first
from experiments.registry import Request
from flashwright._core import Cancelled, InputError, RunError
from flashwright.advice import trial_job, trials
from flashwright.advice.own_commands import OwnCommand
from flashwright.advice.prove import ProvenRow
from flashwright.advice.proving import FIGURES, Bench, Change, Proving, Ratio
from flashwright.advice.trial_loads import database_of, grow_log
from flashwright.advice.trial_recording import Predicting, TrialRecording
from flashwright.advice.trials import Drive, DriveWork, Measured, Trial
from flashwright.cli.advise_said import say_proven
from flashwright.comparing import counting
from flashwright.engine import task
from flashwright.engine.task import task_of
from flashwright.engine.where import Where
from flashwright.progress import StoppedError
from flashwright.workloads.databases.embedded import Sqlite

FLASH, THROUGHPUT, P99 = FIGURES
MakeProving = Callable[..., Proving]
TRIAL = Trial(Drive("intel-x25e", 1 << 30), "tpcb(scale=1)", "sqlite", seconds=1)


def pair(predicted: float, measured: float, change: str = "a", case: str = "case") -> Pair:
    return Pair(case, change, FLASH, predicted, Ratio(measured))


def test_the_bars_are_those_worked_out_by_hand() -> None:
    found = judge(
        [
            # Flash bytes: a gain of 40 % predicted, of 50 % measured; 20 % off.
            pair(0.6, 0.5, "a"),
            # 10 % predicted, 8 % measured; (0.90 - 0.92) / 0.92 is 2.2 % off.
            pair(0.9, 0.92, "b"),
            # A gain that is a loss: 5 % predicted, -10 % measured; 13.6 % off.
            pair(0.95, 1.1, "c"),
            # 30 % promised, 2 % measured; 28.6 % off.
            pair(0.7, 0.98, "d"),
        ]
    )
    assert found.pairs == 4
    assert found.median_error == pytest.approx((0.2 + (1 - 0.95 / 1.1)) / 2)
    assert found.near == 2 / 4
    assert found.far == 4 / 4
    # Those above 5 %: a, b and c, of which c has the other sign.
    assert found.clear == 3
    assert found.sign_right == pytest.approx(2 / 3)
    assert found.false_promises == 1
    # First three as predicted: a, d, b with 50 %, 2 %, 8 % measured: a > d, a > b are right.
    assert found.cases == 1
    assert found.tau == pytest.approx((2 - 1) / 3)


def test_more_is_better_where_a_figure_is_no_cost() -> None:
    promised = Pair("case", "a", THROUGHPUT, 1.5, Ratio(1.02))
    assert promised.predicted_gain == pytest.approx(0.5)
    assert judge([promised]).false_promises == 1
    assert judge([replace(promised, measured=Ratio(1.3))]).sign_right == 1


def test_a_bar_of_nothing_is_none() -> None:
    found = judge([])
    assert (found.pairs, found.median_error, found.near, found.sign_right) == (0, None, None, None)
    assert (found.cases, found.tau, found.false_promises) == (0, None, 0)


def test_changes_are_ordered_within_their_case_only() -> None:
    # Across cases the order would be wrong; within each it is right.
    pairs = [pair(0.5, 0.9, "a", "x"), pair(0.6, 0.95, "b", "x")]
    pairs += [pair(0.8, 0.4, "a", "y"), pair(0.9, 0.5, "b", "y")]
    found = judge(pairs)
    assert (found.cases, found.tau) == (2, 1.0)


def test_kendalls_tau_of_small_orders() -> None:
    assert kendall_tau([(1, 1), (2, 2), (3, 3)]) == 1
    assert kendall_tau([(1, 3), (2, 2), (3, 1)]) == -1
    assert kendall_tau([(1, 2), (2, 1), (3, 3)]) == pytest.approx(1 / 3)
    # A tie is neither.
    assert kendall_tau([(1, 1), (1, 2), (3, 3)]) == pytest.approx(2 / 3)
    assert tau_of_first([pair(0.5, 0.5)]) is None


def test_a_ratio_has_the_interval_of_students_t() -> None:
    # Logarithms 0, ln 2 and ln 4: mean ln 2, deviation ln 2, so t (4.303) / sqrt(3) of it.
    found = Ratio.of([(1, 1), (2, 1), (8, 2)])
    assert found is not None
    assert found.low is not None
    assert found.value == pytest.approx(2)
    wide = 4.303 / math.sqrt(3) * math.log(2)
    assert found.low == pytest.approx(2 * math.exp(-wide))
    single = Ratio.of([(3, 2)])
    assert single is not None
    assert single.value == pytest.approx(1.5)
    assert (single.low, single.high) == (None, None)
    assert Ratio.of([(3, 0)]) is None
    assert Ratio.of([]) is None


def measured(flash_bytes: int, transactions: int = 100, p99: float | None = 0.01) -> Measured:
    work = DriveWork(1000, flash_bytes, 0, 1, 0)
    return Measured(transactions, 1.0, 100, 0.001, p99, None, 1000, work, checks=("check",))


def with_pages(size: str) -> Callable[[Trial], Trial]:
    return lambda trial: replace(trial, settings={"page_size": size})


class Runner:
    """Runs trials of nothing, and stops when so many are done."""

    def __init__(self, most: int = 1000) -> None:
        self.runs: list[Trial] = []
        self.most = most

    def __call__(
        self, trial: Trial, folder: Path, say: Callable[[str], None], stop: threading.Event
    ) -> Measured:
        if len(self.runs) >= self.most:
            stop.set()
            raise Cancelled("stopped")
        self.runs.append(trial)
        say("running")
        if trial.settings.get("page_size") == "512":
            raise RunError("too small")
        # The machine becomes slower: what is compared with another repeat would show it.
        drift = 2 ** (trial.seed - 1)
        return measured(drift * (500 if trial.settings else 1000))


@pytest.fixture
def proving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeProving:
    def make(runner: Runner, repeats: int = 3) -> Proving:
        monkeypatch.setattr(trials, "run", runner)
        return proving_of(tmp_path, repeats)

    return make


def proving_of(folder: Path, repeats: int) -> Proving:
    changes = [
        Change("pages", with_pages("8192")),
        Change("none", lambda trial: trial),
        Change("log", lambda trial: replace(trial, log_drive=trial.drive)),
        Change("small", with_pages("512")),
    ]
    return Proving(TRIAL, changes, repeats, folder, Where(store=str(folder / "store")))


def test_trials_are_run_in_turn_and_compared_within_their_repeat(proving: MakeProving) -> None:
    runner = Runner()
    proof = proving(runner).run()
    order = [(trial.seed, trial.settings.get("page_size")) for trial in runner.runs]
    first = [(1, None), (1, "8192"), (1, "512")]
    assert order == [*first, (2, None), (2, "8192"), (3, None), (3, "8192")]
    pages, none, log, small = proof.changes
    ratio = proof.ratio(pages, FLASH)
    assert ratio is not None
    assert list(ratio.document().values()) == pytest.approx([0.5, 0.5, 0.5])
    assert none.refused == "it changes nothing of what is run"
    assert log.refused is not None
    assert "only that of postgres" in log.refused
    assert small.refused == "too small"
    assert proof.ratios(small) == {}
    assert set(proof.ratios(pages)) == {"flash_bytes", "throughput", "p99"}


def test_one_run_of_a_change_is_compared_with_all_of_the_baseline(proving: MakeProving) -> None:
    once = proving(runner := Runner(), repeats=1)
    once.baselines = 3
    proof = once.run()
    bases = [trial.seed for trial in runner.runs if not trial.settings]
    assert (bases, runner.runs[-1].seed) == ([1, 2, 3], 3), "the others lie between them"
    # Of 1000, 2000 and 4000 bytes the middle is 2000.
    ratio = proof.ratio(proof.changes[0], FLASH)
    assert ratio is not None
    assert list(ratio.document().values()) == [pytest.approx(0.25), None, None]
    again = proving(rerun := Runner(), repeats=1)
    again.baselines = 3
    assert len(again.run().baseline.runs) == 3
    assert all(trial.settings for trial in rerun.runs), "the baseline was kept"
    twice = proving(Runner(), repeats=2)
    twice.baselines = 3
    assert len(twice.run().baseline.runs) == 2, "a third would be compared with nothing"


def test_a_proof_that_was_stopped_goes_on(proving: MakeProving) -> None:
    stopped = proving(Runner(most=2))
    with pytest.raises(StoppedError, match="stopped after 1 of 2"):
        stopped.run()
    runner = Runner()
    again = proving(runner)
    begun = again.found()
    assert begun is not None
    assert len(begun.baseline.runs) == len(begun.changes[0].runs) == 1
    assert runner.runs == []
    again.run()
    assert [(one.seed, bool(one.settings)) for one in runner.runs[:2]] == [(1, True), (2, False)]
    whole = proving(Runner(most=1)).run()
    assert len(whole.baseline.runs) == 3


def test_nothing_is_run_beside_a_baseline_that_fails(proving: MakeProving) -> None:
    broken = proving(runner := Runner())
    broken.base = replace(TRIAL, settings={"page_size": "512"})
    with pytest.raises(RunError, match="too small"):
        broken.run()
    assert len(runner.runs) == 1


def test_two_changes_of_one_name_are_refused(proving: MakeProving) -> None:
    twice = proving(Runner())
    twice.changes = [Change("a", with_pages("8192")), Change("a", with_pages("4096"))]
    with pytest.raises(InputError, match="two changes have this name"):
        twice.run()


def test_a_figure_that_is_not_known_has_no_ratio(proving: MakeProving) -> None:
    class NoCommits(Runner):
        def __call__(self, *given: Any) -> Measured:
            return replace(super().__call__(*given), p99_seconds=None)

    proof = proving(NoCommits()).run()
    assert set(proof.ratios(proof.changes[0])) == {"flash_bytes", "throughput"}


def test_what_was_measured_is_read_as_it_was_kept() -> None:
    log = DriveWork(1, 2, 3, 4, 5)
    found = replace(measured(1000), log_drive=log, busy_share=0.5)
    assert Measured.of_document(found.document()) == found
    assert (found.host_bytes, found.flash_bytes, found.erases) == (1001, 1002, 3)


def test_a_bench_is_a_trial_on_any_drive() -> None:
    bench = Bench("tpcb(scale=2)", "sqlite", seconds=5, warm_up=1, size_bytes=1 << 29, seed=7)
    trial = bench.trial("sd-card", overrides=("ftl.over_provisioning=0.2",))
    assert trial.drive == Drive("sd-card", 1 << 29, "aged", ("ftl.over_provisioning=0.2",))
    assert (trial.seconds, trial.warm_up, trial.seed) == (5, 1, 7)
    trial.check()


@pytest.mark.parametrize("cell", matrix.PARTS, ids=lambda one: one.name)
def test_every_change_of_the_matrix_can_be(cell: matrix.Cell) -> None:
    trial = cell.trial(300, 1, 4)
    trial.check()
    changes = matrix.changes_of(cell, trial.seconds)
    names = [one.name for one in changes]
    assert len(set(names)) == len(names) > 8
    for change in changes:
        changed = change.of(trial)
        changed.check()
        assert changed != trial, change.name
    # A run of half a minute has no two checkpoints of two minutes.
    few = {one.name for one in matrix.changes_of(cell, 30)}
    assert {name for name in names if name not in few} <= {"checkpoint_timeout=120s"}


def test_what_is_not_predicted_is_said_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    said = ProvenRow("off", "flash bytes", None, None, unknown="the log is torn")
    say_proven([said, ProvenRow("on", "flash bytes", 0.5, Ratio(0.5, None, None))])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "predicted of" in line] == [
        "Nothing is predicted of off: the log is torn."
    ]
    assert said.document()["unknown"] == "the log is torn"


def test_a_part_is_a_page_with_its_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "run", Runner())

    def record(self: TrialRecording) -> None:
        self.folder.mkdir(parents=True)
        (self.folder / "requests.parquet").touch()

    seen: list[Path] = []

    def predicted(self: Predicting, recording: Path, _: object, change: Change) -> dict[str, float]:
        seen.append(recording)
        if change.name == "page_size=16384":
            return {"flash_bytes": 0.6}
        self.unknown[recording, change.name] = "the log is torn"
        return {}

    monkeypatch.setattr(TrialRecording, "make", record)
    monkeypatch.setattr(Predicting, "predicted", predicted)
    [part] = [one for one in matrix.PARTS if one.name == "advice-sqlite-tpcb-emmc-51"]
    values: dict[str, Any] = {
        "trial_seconds": 1.0,
        "trial_warm_up": 0.0,
        "trial_clients": 1,
        "repeats": 2,
    }
    values |= {"changes": "page*,synchronous*", "only_kept": False, "on": tmp_path, "out": tmp_path}
    made = matrix._make(Request([part], values, "command", {}))
    assert made.is_complete
    assert len(set(seen)) == 1
    lines = made.page.splitlines()
    [row] = [line for line in lines if line.startswith("| `page_size=16384`")]
    # Flash bytes: half, within an interval of nothing, and 0.6 predicted.
    assert "0.500 (0.500 to 0.500)" in row
    assert "0.600" in row
    assert "Nothing is predicted of `synchronous=normal`: the log is torn." in lines
    bars = made.figures["bars"]["all"]
    assert bars["median_error"] == pytest.approx(0.2)
    assert bars["false_promises"] == 0
    # What is kept is shown again without a run.
    kept = matrix._make(Request([part], {**values, "only_kept": True}, "command", {}))
    assert kept.figures == made.figures
    other = matrix.PARTS[0]
    with pytest.raises(InputError, match="nothing is kept"):
        matrix._make(Request([other], {**values, "only_kept": True}, "command", {}))


@pytest.mark.parametrize(
    ("settings", "frames"), [({}, 1000), ({"wal_autocheckpoint": "2000"}, 2000)]
)
def test_a_log_of_sqlite_has_its_length_before_a_trial_begins(
    settings: dict[str, str], frames: int, tmp_path: Path
) -> None:
    """Half of a run on a slow drive went into making it longer."""
    path = tmp_path / "database.sqlite"
    grow_log(path, written(settings))
    log = path.with_name("database.sqlite-wal")
    begun = log.stat().st_size
    assert begun > frames * 4096
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        database.execute(f"PRAGMA wal_autocheckpoint={frames}")
        database.execute("CREATE TABLE t (a, b)")
        for number in range(frames):
            database.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 5000))
            database.commit()
        assert log.stat().st_size == begun
        assert database.execute("SELECT count(*) FROM t").fetchone() == (frames,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("settings", [{"journal_mode": "delete"}, {"wal_autocheckpoint": "0"}])
def test_what_has_no_end_of_its_log_gets_none(settings: dict[str, str], tmp_path: Path) -> None:
    grow_log(tmp_path / "database.sqlite", written(settings))
    assert not list(tmp_path.iterdir())


def written(settings: dict[str, str]) -> Sqlite:
    found = database_of("sqlite", settings)
    assert isinstance(found, Sqlite)
    return found


def test_what_was_measured_stays_when_the_program_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hours of runs were lost with each build: a simulation's name has the build in it."""

    def keys() -> tuple[str, str]:
        simulated = counting.settings({"source": "synth:uniform"})
        return (
            trial_job.task(TRIAL, "baseline", Path("on")).key,
            task_of(counting.__name__, simulated, ()).key,
        )

    measured_before, simulated_before = keys()
    monkeypatch.setattr(task, "version_hash", lambda: "another")
    measured_now, simulated_now = keys()
    assert measured_now == measured_before
    assert simulated_now != simulated_before


def test_a_trial_is_named_by_what_decides_on_it_and_not_by_where_it_is_run() -> None:
    named = trial_job.task(TRIAL, "baseline", Path("on")).key
    assert trial_job.task(TRIAL, "other, 1 of 2", Path("elsewhere")).key == named
    assert trial_job.task(replace(TRIAL, seconds=1.0), "baseline", Path("on")).key == named
    others = [replace(TRIAL, seed=2), replace(TRIAL, settings={"page_size": "8192"})]
    assert named not in [trial_job.task(one, "baseline", Path("on")).key for one in others]
    assert TRIAL.recording_key != replace(TRIAL, seed=2).recording_key


def test_a_trial_is_sent_as_json_whatever_it_runs(tmp_path: Path) -> None:
    data = tmp_path / "data.sqlite"
    data.touch()
    whole = Trial(
        Drive("sd-card", 1 << 30, "aged", ("ftl.over_provisioning=0.2",)),
        OwnCommand(("./load", "-n", "5"), str(data)),
        settings={"synchronous": "normal"},
        stack="stable_buffer",
        log_drive=Drive("emmc-51", 1 << 30),
        is_trimmed=True,
        seed=7,
    )
    for trial in (TRIAL, whole):
        sent = json.loads(json.dumps(trial.document()))
        assert Trial.of_document(sent) == trial
