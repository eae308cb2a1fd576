"""Clients of a database, between the machine's processors and its drive."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flashwright.advice.case import Case
from flashwright.advice.closed_network import rate_of
from flashwright.advice.engine import Clients, Engine
from flashwright.advice.load import Load
from flashwright.advice.loop import Loop
from flashwright.advice.processors import IDLE_TAKES, AtWork, Processors
from flashwright.advice.setup import Drive, Setup
from flashwright.advice.trial_recording import clients_of
from flashwright.advice.words import _of_processors
from test_advice_loops import DRIVE, ONCE, case, engine, load

__all__ = ["engine", "load"]


@pytest.mark.parametrize("clients", [1, 2, 4, 16])
@pytest.mark.parametrize("stations", [1, 2, 3])
def test_stations_that_take_as_long_as_each_other(clients: int, stations: int) -> None:
    """Balanced: each turn takes as long as one client and those queued before it (N + K - 1)."""
    turn = 0.5 * (clients + stations - 1)
    assert rate_of(clients, [0.5] * stations, 0.0) == pytest.approx(clients / turn)


@pytest.mark.parametrize("clients", [1, 2, 4, 16])
@pytest.mark.parametrize("away", [0.1, 1.0, 20.0])
def test_clients_that_are_away_are_the_repairman_s_machines(clients: int, away: float) -> None:
    """The station idles with the chance of M/M/1//N (Erlang)."""
    served = 0.5
    ways = [math.perm(clients, number) * (served / away) ** number for number in range(clients + 1)]
    busy = 1 - 1 / sum(ways)
    assert rate_of(clients, [served], away) == pytest.approx(busy / served)


@pytest.mark.parametrize("clients", [1.0, 4.0])
@pytest.mark.parametrize(("busy", "beside"), [(30.0, 10.0), (5.0, 30.0), (40.0, 4.0)])
def test_the_recorded_drive_takes_as_long_as_it_did(
    clients: float, busy: float, beside: float
) -> None:
    found = AtWork(clients, 4.0, 2, busy, beside)
    assert found.seconds(busy) == pytest.approx(busy + beside)
    assert found.seconds(2 * busy, work=2.0) == pytest.approx(2 * (busy + beside))


def test_a_drive_that_takes_no_time_leaves_the_processors() -> None:
    """Two of them, for four clients: never in less than half the processor time."""
    found = AtWork(4.0, 10.0, 2, busy=30.0, beside=12.0).seconds(0.0)
    assert 5.0 <= found < 7.0
    assert AtWork(64.0, 10.0, 2, 30.0, 0.0).seconds(0.0) == pytest.approx(5.0, rel=0.05)


def test_one_client_computes_on_one_processor() -> None:
    assert AtWork(1.0, 10.0, 8, busy=20.0, beside=10.0).seconds(0.0) == pytest.approx(10.0)
    # What it waited beside both goes with both: 30 s for 20 s of them.
    assert AtWork(1.0, 10.0, 8, busy=10.0, beside=20.0).seconds(0.0) == pytest.approx(15.0)


def test_a_slow_drive_hides_what_is_computed() -> None:
    assert AtWork(4.0, 1.0, 2, busy=50.0, beside=0.0).seconds(100.0) == pytest.approx(100.0, 0.01)


def test_what_is_beside_drive_and_processors_grows_with_the_drive() -> None:
    """Of 20 s beside the drive the processors take 4: half the drive's time is half the rest."""
    found = AtWork(4.0, 8.0, 2, busy=40.0, beside=20.0)
    assert found.seconds(20.0) == pytest.approx(20.0 + 4.0 + 8.0)


def test_no_more_than_the_drive_s_own_time_grows_with_it() -> None:
    """A drive that was busy for 2 s of 43 was to blame for all that the processors were not."""
    found = AtWork(4.0, 40.0, 2, busy=2.0, beside=41.0)
    assert found.seconds(2.0) == pytest.approx(43.0)
    # Of the rest, 21 s, 2 s double with the drive.
    assert found.seconds(4.0) == pytest.approx(43.0 + 2.0 + 2.0)


def test_the_way_to_the_drive_stays_and_goes_with_the_flushes() -> None:
    found = AtWork(4.0, 20.0, 2, busy=10.0, beside=30.0, flushes=40_000, way=0.0004)
    assert found.seconds(10.0, flushes=40_000) == pytest.approx(40.0)
    # A drive of no time leaves it, and 10 s of work.
    assert found.seconds(0.0, flushes=40_000) == pytest.approx(16.0 + 10.0, rel=0.02)
    assert found.seconds(10.0, flushes=20_000) == pytest.approx(40.0 - 8.0, rel=0.05)
    # More than there is beside drive and processors it is not.
    long = AtWork(4.0, 20.0, 2, busy=10.0, beside=30.0, flushes=40_000, way=0.1)
    assert long.seconds(10.0, flushes=40_000) == pytest.approx(40.0, rel=0.06)


def test_processors_that_sleep_between_flushes_take_more_for_each() -> None:
    """30 a second took 2.2 times as much as thousands: what is left of 10 s is 4.5 s."""
    idle = AtWork(4.0, 10.0, 1, busy=50.0, beside=10.0, flushes=1800, way=0.0)
    assert idle.seconds(50.0, flushes=1800) == pytest.approx(60.0)
    assert idle.seconds(0.0, flushes=1800) == pytest.approx(10.0 / IDLE_TAKES, rel=0.15)
    # One that was never idle takes as long as it did.
    busy = AtWork(4.0, 10.0, 1, busy=5.0, beside=10.0, flushes=100_000, way=0.0)
    assert busy.seconds(0.0, flushes=100_000) == pytest.approx(10.0, rel=0.05)


def test_who_waits_for_others_waits_while_the_drive_goes_on() -> None:
    """2 ms for each of 10,000 flushes are 20 s: of a drive that is busy for 50 s nothing more."""
    slow = AtWork(4.0, 2.0, 2, busy=50.0, beside=0.0, flushes=10_000)
    assert slow.seconds(50.0, flushes=10_000, delay=0.002) == pytest.approx(50.0, rel=0.05)
    fast = AtWork(4.0, 2.0, 2, busy=1.0, beside=1.0, flushes=10_000)
    assert fast.seconds(1.0, flushes=10_000, delay=0.002) == pytest.approx(21.0, rel=0.05)


def recorded(load: Load, engine: Engine, seconds: float, processor: float) -> Case:
    known = case(load, engine, seconds)
    loop = Loop(4.0, 10.0, wait=0.02, of_drive=0.001)
    return replace(known, loop=loop, processors=Processors(2, processor, is_whole=True))


def test_clients_that_were_recorded_at_work(load: Load, engine: Engine) -> None:
    wanted = 60.0
    found = clients_of(recorded(load, engine, wanted, 30.0), engine)
    assert found is not None
    assert found.at_work is not None
    assert found.at_work.clients == 4.0
    assert found.at_work.processor == 30.0
    assert found.at_work.busy + found.at_work.beside == pytest.approx(wanted, rel=0.05)
    # The same load on the same drive takes as long as it did.
    engine.conditions = replace(ONCE, clients=found)
    base = Setup(replace(load, seconds=wanted), DRIVE)
    assert engine.figures(base).seconds_taken == pytest.approx(wanted, rel=0.05)


def test_a_fast_drive_is_as_fast_as_the_processors(load: Load, engine: Engine) -> None:
    """What was time to think stayed, or was none: 25 times as fast was half or twice what came."""
    engine.conditions = replace(ONCE, clients=Clients(1, 0.0))
    alone = engine.figures(Setup(load, DRIVE)).seconds_taken
    taken = {}
    for processor in (10.0, 30.0):
        engine.conditions = ONCE
        wanted = alone + 0.55 * processor
        found = clients_of(recorded(load, engine, wanted, processor), engine)
        assert found is not None
        engine.conditions = replace(ONCE, clients=found)
        fast = Setup(
            replace(load, seconds=wanted),
            Drive("micron-7450-pro", (), DRIVE.capacity_bytes, 1.0),
        )
        taken[processor] = engine.figures(fast).seconds_taken
        # Those that hardly sleep take less.
        least = processor / 2 / IDLE_TAKES
        assert least <= taken[processor] < 0.6 * processor
        # Commits that do not wait for the drive do not get past the processors, either.
        assert engine.figures(fast.changed(waits=None)).seconds_taken >= 0.95 * least
    assert taken[30.0] > 2 * taken[10.0]


def test_without_the_clients_own_time_nobody_is_known_to_be_at_work(
    load: Load, engine: Engine
) -> None:
    known = recorded(load, engine, 60.0, 30.0)
    found = clients_of(replace(known, processors=Processors(2, 30.0)), engine)
    assert isinstance(found, Clients)
    assert found.at_work is None


def test_processors_that_are_mostly_idle_are_not_said_to_be_the_limit() -> None:
    """At most was said of 67 times as much; a drive that was faster made 80 of it."""
    idle, busy = Processors(2, 6.0), Processors(2, 60.0)
    assert "6.7 times as much" in _of_processors(idle, 20.0)
    assert "It may be above" in _of_processors(idle, 20.0)
    assert "It may be above" not in _of_processors(busy, 40.0)
