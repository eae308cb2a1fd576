"""Predictions of trials: the drive is the emulated one, and clients wait for it as recorded."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from advice_cases import HEAP, Known, actions_of, candidate, database_like, requests
from flashwright import _core
from flashwright._core import Cancelled, Progress
from flashwright.advice import emulated, traces, trials
from flashwright.advice import load as loads
from flashwright.advice.answer import Advising
from flashwright.advice.case import Case
from flashwright.advice.commits import commits_of, thought_elsewhere
from flashwright.advice.engine import DEPTH, Clients, Conditions, Engine
from flashwright.advice.load import FLUSH, LOG, WRITE, Load
from flashwright.advice.loop import Loop
from flashwright.advice.processors import AtWork
from flashwright.advice.proving import Bench, Change
from flashwright.advice.setup import Commits, Drive, Figures, Setup
from flashwright.advice.trial_recording import LEAST_COMMITS, Predicting, clients_of
from flashwright.advice.trial_setups import predicted, setup_of
from flashwright.advice.trials import Trial

GIB = 1 << 30
ONCE = Conditions("aged", capacities_written=0.0)
DRIVE = Drive("emmc-51", (), GIB, 1.0)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    path = database_like(tmp_path_factory.mktemp("load") / "load.parquet", 2000)
    return loads.of_file(path, "load", None)


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(None, conditions=ONCE)
    yield made
    made.close()


def case(load: Load, engine: Engine, seconds: float) -> Case:
    base = Setup(replace(load, seconds=seconds), DRIVE)
    return Case(base.load, base, engine.figures(base))


@pytest.mark.parametrize("profile", ["emmc-51", "sd-card", "mtron-pro-7500", "micron-7450-pro"])
def test_the_drive_is_the_one_that_is_emulated(profile: str, tmp_path: Path) -> None:
    found = emulated.sized(Drive(profile, (), GIB, 1.0), tmp_path / "load.parquet")
    spec = f"emulated(profile={profile},size={GIB},state=fresh)"
    opened = _core.open_device(spec, access="write")
    assert found.device.capacity_bytes == opened.info["capacity_bytes"]
    assert found.slices == 1


def test_what_holds_nothing_is_spare_space(load: Load) -> None:
    full, half = (
        emulated.sized(replace(DRIVE, fill=fill), load.path).device for fill in (1.0, 0.5)
    )
    assert half.summary["physical_pages"] == full.summary["physical_pages"]
    assert half.capacity_bytes == pytest.approx(full.capacity_bytes / 2, rel=0.01)


def test_a_drive_has_room_for_what_a_load_touches(load: Load, engine: Engine) -> None:
    """It was refused where extents are a little more than what the file system holds."""
    engine.conditions = replace(ONCE, clients=Clients(1, 0.0))
    empty = replace(DRIVE, fill=emulated.touched_bytes(load.path) / GIB * 0.8)
    assert engine.figures(Setup(load, empty)).seconds_taken > 0


def test_clients_that_think_take_as_long_as_was_recorded(load: Load, engine: Engine) -> None:
    alone = engine.figures(Setup(load, DRIVE)).seconds_taken
    of_drive = clients_of(case(load, engine, 1.0e9), engine)
    assert of_drive is not None
    wanted = 60.0
    found = clients_of(case(load, engine, wanted), engine)
    assert found is not None
    assert found.outstanding == 1
    engine.conditions = replace(ONCE, clients=found)
    taken = engine.figures(Setup(replace(load, seconds=wanted), DRIVE)).seconds_taken
    assert taken == pytest.approx(wanted, rel=0.05)
    assert alone < wanted


def test_a_load_that_is_faster_than_one_by_one_has_more_outstanding(
    load: Load, engine: Engine
) -> None:
    engine.conditions = replace(ONCE, clients=Clients(1, 0.0))
    alone = engine.figures(Setup(load, DRIVE)).seconds_taken
    engine.conditions = ONCE
    found = clients_of(case(load, engine, alone / 2), engine)
    assert found is not None
    assert 1 < found.outstanding <= DEPTH


def test_without_times_no_loop_is_found(load: Load, engine: Engine) -> None:
    assert clients_of(case(load, engine, 0.0), engine) is None


def test_twice_the_spare_space_makes_a_busy_drive_faster(load: Load, engine: Engine) -> None:
    """Without the closed loop a drive that takes half as long would gain nothing."""
    engine.conditions = replace(ONCE, clients=Clients(1, 0.0))
    now, more = (
        engine.figures(Setup(load, replace(DRIVE, fill=fill))).seconds_taken for fill in (1.0, 0.5)
    )
    assert more < 0.8 * now


def test_a_recording_of_a_few_commits_predicts_nothing(
    load: Load, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(load, commits=Commits(LEAST_COMMITS - 1, 1e-3, 1e-3, 1e-3, 1e-3))
    known = replace(case(load, engine, 1.0), load=few)
    predicting = Predicting(tmp_path)
    monkeypatch.setattr(predicting, "_case", lambda *_: (known, engine))
    trial = Bench("tpcb(scale=1)").trial("emmc-51")
    same = Change("same", lambda one: one)
    assert predicting.predicted(tmp_path, trial, same) == {}
    [(place, why)] = predicting.unknown.items()
    assert place == (tmp_path, "same")
    assert f"{LEAST_COMMITS - 1} commits are recorded" in why


def test_a_commit_that_waits_for_others_waits_beside_the_drive(load: Load, engine: Engine) -> None:
    """Of a fast drive 2 ms for each flush were left out: a third of the throughput was a gain."""
    trial = Bench("tpcb(scale=1)").trial("emmc-51")
    delayed = replace(trial, settings={"commit_delay": "2000", "commit_siblings": "1"})
    known = case(load, engine, 1.0)
    assert setup_of(delayed, trial, known).waits == pytest.approx(0.002)
    assert setup_of(trial, trial, known).waits == 0
    not_waiting = replace(known, base=known.base.changed(waits=None))
    assert setup_of(delayed, trial, not_waiting).waits is None


@pytest.mark.parametrize("slowest", [0.001, 3.0])
def test_slow_commits_that_are_not_the_drive_s_are_not_predicted(
    load: Load, engine: Engine, slowest: float
) -> None:
    """The drive took a hundredth of them: processors were busy, of which nothing is known."""
    commits = Commits(2000, 1e-3, 1e-3, slowest, slowest)
    known = case(replace(load, commits=commits), engine, 60.0)
    clients = clients_of(known, engine)
    engine.conditions = replace(ONCE, clients=clients)
    trial = Bench("tpcb(scale=1)").trial("emmc-51")
    more = replace(trial, drive=replace(trial.drive, overrides=("ftl.over_provisioning=0.5",)))
    assert ("p99" in predicted(known, engine, more, trial)) == (slowest < 1)


def test_a_turn_is_as_long_as_each_client_takes_to_commit_once() -> None:
    begin = np.arange(400, dtype=np.int64) * 10_000_000
    took = np.full(400, 2e6)
    took[200] = 9e6
    is_flush = np.ones(400, bool)
    found = commits_of(begin, took, ~is_flush, is_flush, clients=4)
    assert found is not None
    assert found.turn_p99 == pytest.approx(0.04, abs=1e-6)
    # Where two share a flush a turn has half as many.
    at_work = AtWork(4.0, 1.0, 2, busy=1.0, beside=1.0, flushes=400)
    clients = Clients(1, 0.0, 4, at_work=at_work)
    assert clients.turn(400, 1.0) == 4.0
    assert clients.turn(40, 4.0) == 1.0
    assert Clients(1, 0.0, 4).turn(400, 2.0) == 4.0
    turn = clients.turn(400, 2.0)
    shared = commits_of(begin, took, ~is_flush, is_flush, clients=turn)
    assert shared is not None
    assert shared.turn_p99 == pytest.approx(0.02, abs=1e-6)
    alone = commits_of(begin, took, ~is_flush, is_flush)
    assert alone is not None
    assert alone.turn_p99 == 0


def test_a_commit_of_several_flushes_waits_for_all_of_them() -> None:
    """That of a rollback journal has four; it was taken for four commits."""
    begin = np.arange(400, dtype=np.int64) * 10_000_000
    took, is_flush = np.full(400, 2e6), np.ones(400, bool)
    found = commits_of(begin, took, ~is_flush, is_flush, clients=1, flushes_of_commit=4)
    assert found is not None
    assert found.count == 100
    assert found.mean == pytest.approx(0.008)
    assert found.turn_p99 == pytest.approx(0.04, abs=1e-6)


def test_a_turn_has_no_more_commits_as_each_has_more_flushes(load: Load, engine: Engine) -> None:
    """A rollback journal's four counted twice: the slowest turn was of 16 flushes in place of 4."""
    at_work = AtWork(1.0, 1.0, 2, busy=1.0, beside=1.0, flushes=load.requests["flush"] // 4)
    setup = Setup(replace(load, flushes_of_commit=4), DRIVE)

    def turn(at_work: AtWork | None) -> float:
        engine.conditions = replace(ONCE, clients=Clients(1, 0.0, at_work=at_work))
        commits = engine.figures(setup).commits
        assert commits is not None
        return commits.turn_p99

    assert turn(at_work) == turn(None) > 0


def test_nobody_thinks_after_what_a_server_writes_behind_their_backs() -> None:
    # Each takes 1 and is followed by 10; the two in the middle are of the server.
    begin = np.array([0, 11, 22, 33], dtype=np.int64)
    behind = np.array([False, True, True, False])
    assert list(thought_elsewhere(begin, behind, 10)) == [0, 21, 22, 23]
    late = np.array([3, 0, 1, 2])
    assert list(thought_elsewhere(begin[late], behind[late], 10)) == [23, 0, 21, 22]
    assert list(thought_elsewhere(begin, np.ones(4, bool), 10)) == [0, 11, 22, 33]


def test_a_burst_of_a_server_holds_a_commit_up_by_the_drive_alone(
    engine: Engine, tmp_path: Path
) -> None:
    """The pauses of clients were after each page of a checkpoint, too: p99 was far too long."""
    made = []
    for number in range(1000):
        made += [(number, WRITE, 100_000 + number % 2048, 1, LOG), (number, FLUSH, 0, 0, LOG)]
        if number % 50 == 0:
            made += [(number, WRITE, (17 * number + page) % 20_000, 1, HEAP) for page in range(100)]
    traces.write(requests(made), tmp_path / "load.parquet")
    setup = Setup(loads.of_file(tmp_path / "load.parquet", "load", None), DRIVE)

    def figures(*, served: bool) -> Figures:
        engine.conditions = replace(ONCE, clients=Clients(1, 60.0, 1, served=served))
        return engine.figures(setup)

    server, alone = figures(served=True), figures(served=False)
    assert server.seconds_taken == alone.seconds_taken
    assert server.commits is not None
    assert alone.commits is not None
    assert server.commits.turn_p99 < 0.5 * alone.commits.turn_p99


def test_what_a_sync_takes_beside_the_drive_goes_with_the_flushes(
    load: Load, engine: Engine
) -> None:
    """The rest of the way was time to think, which stays: commits that do not wait gained nothing.

    The drive's own part is what the simulated one takes.
    """
    wanted = 60.0
    recorded = case(load, engine, wanted)
    slow = replace(recorded, loop=Loop(1.0, 10.0, wait=0.02, of_drive=0.001))
    found = clients_of(slow, engine)
    assert found is not None
    flushes = load.requests["flush"]
    assert 0.5 < found.flushing / 0.02 <= 1
    plain = clients_of(replace(recorded, loop=None), engine)
    assert plain is not None
    assert found.thinks + found.flushing * flushes == pytest.approx(plain.thinks)
    requests = sum(load.requests.values())
    with_them, without = (
        found.pace(requests, found.thinking(number, waits=0.0, work=1.0))["closed"]["think"]
        for number in (flushes, 0)
    )
    assert without == pytest.approx(1e6 * found.thinks / requests)
    assert with_them > without


def test_clients_that_do_not_wait_keep_the_drive_busy(load: Load, engine: Engine) -> None:
    clients = Clients(1, 10.0)
    waits, goes_on = (clients.pace(1000, 10, waits=one)["closed"] for one in (True, False))
    assert (waits["depth"], goes_on["depth"]) == (1, DEPTH)
    engine.conditions = replace(ONCE, clients=Clients(1, 60.0))
    setup = Setup(load, DRIVE)
    taken = [engine.figures(one).seconds_taken for one in (setup, setup.changed(waits=None))]
    # They think as long, and the drive works meanwhile.
    assert 60.0 * 0.95 < taken[1] < taken[0]


@dataclass
class Stops(Known):
    """What-ifs that stop who looks through the log for the nth time, from 0 on."""

    at: int = 0
    advising: Advising | None = None
    looks: int = 0

    def prepare(self, many: Sequence[Mapping[str, str]], progress: Progress | None = None) -> None:
        super().prepare(many, progress)
        self.looks += 1
        if self.advising is not None and self.looks == self.at + 1:
            assert progress is not None
            self.advising.cancel()
            raise Cancelled("stopped")


def stopped_at(load: Load, engine: Engine, at: int, *found: object) -> Advising:
    known = Stops(load, at=at)
    asked = replace(case(load, engine, 1.0), what_ifs=known)
    known.advising = Advising(asked, engine, actions_of(*found))
    return known.advising


@pytest.mark.parametrize("at", [0, 1])
def test_who_stops_while_the_log_is_read_gets_no_answer(
    load: Load, engine: Engine, at: int
) -> None:
    """The stop was forgotten, and all was simulated; the first look could not be stopped at all."""
    with pytest.raises(Cancelled):
        stopped_at(load, engine, at).run()


def test_who_stops_before_the_log_is_read_gets_no_answer(load: Load, engine: Engine) -> None:
    """A stop before anything was read was forgotten."""
    advising = stopped_at(load, engine, -1, candidate("shared", merge_seconds=0.2))
    advising.cancel()
    with pytest.raises(Cancelled):
        advising.run()


def test_who_stops_while_all_are_put_together_keeps_the_answer(load: Load, engine: Engine) -> None:
    settings = [
        replace(candidate(name, merge_seconds=0.1), action=name, settings={name: "1"})
        for name in ("a", "b")
    ]
    # As recorded, then with both, and then with the combination.
    found = stopped_at(load, engine, 2, *settings).run()
    assert not found.is_complete
    assert found.combination is None
    assert sorted(one.candidate.name for one in found.weighed) == ["a", "b"]


def test_layers_that_do_nothing_gain_nothing(load: Load, engine: Engine) -> None:
    """More is outstanding through layers: that alone made them faster."""
    clients = Clients(1, 5.0, commit=8)
    engine.conditions = replace(ONCE, clients=clients)
    base = Setup(load, DRIVE)
    told = Case(load, base, engine.figures(base))
    trial = Trial(trials.Drive("emmc-51", GIB, "aged"), "tpcb(scale=1)", "sqlite")
    found = predicted(told, engine, replace(trial, stack="direct"), trial)
    assert found["throughput"] == pytest.approx(1, rel=0.02)
    assert found["flash_bytes"] == pytest.approx(1, rel=0.02)


def test_what_needs_no_log_is_simulated_while_the_log_is_read(load: Load, engine: Engine) -> None:
    other = replace(candidate("other", merge_seconds=0.2), combines=False)
    larger = replace(candidate("larger", merge_seconds=0.1), settings={"shared_buffers": "1GB"})
    seen: list[int] = []

    @dataclass
    class Waits(Known):
        def prepare(
            self, many: Sequence[Mapping[str, str]], progress: Progress | None = None
        ) -> None:
            super().prepare(many, progress)
            if many == [{}]:
                return
            until = time.monotonic() + 60
            while not advising.state()[0] and time.monotonic() < until:
                time.sleep(0.01)
            seen.append(advising.state()[0])

    known = Waits(load)
    asked = replace(case(load, engine, 1.0), what_ifs=known)
    advising = Advising(asked, engine, actions_of(larger, other))
    found = advising.run()
    assert seen[0] == 1, "the one that needs no log was done, and the other waited"
    assert [one.candidate.name for one in found.weighed] == ["larger", "other"]


def test_layers_answer_as_many_at_a_time_as_there_are_clients() -> None:
    """Writes of data wait for layers that are durable at once: one by one was too slow."""
    clients = Clients(1, 10.0, commit=4)
    direct, layered = (clients.pace(1000, 10, layered=one)["closed"] for one in (False, True))
    assert (direct["depth"], layered["depth"]) == (1, 4)
    assert layered["think"] == 4 * direct["think"]
