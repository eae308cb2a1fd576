"""A run at another pace: what is written by a clock is shared by more transactions, or by fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from advice_cases import Known
from flashwright._core import InputError
from flashwright.advice import completed, traces
from flashwright.advice import load as loads
from flashwright.advice.case import Case
from flashwright.advice.engine import Clients, Conditions, Engine
from flashwright.advice.load import FLUSH, READ, WRITE, Load
from flashwright.advice.proving import Bench
from flashwright.advice.setup import Drive, Setup
from flashwright.advice.trial_setups import (
    LOG_SHARE,
    MOST_PACE,
    _in_turn,
    _where_it_stays,
    predicted,
)
from flashwright.recording.files import PURPOSES

HEAP, LOG = PURPOSES.index("heap"), PURPOSES.index("wal")
MIB, SECOND = 1 << 20, 1_000_000_000
COMMITS, PAGES = 1000, 3000
DRIVE = Drive("emmc-51", (), 1 << 30, 1.0)


def database(path: Path, work: float, pages: int = PAGES) -> Load:
    """Make commits, `work` times as many, beside pages that a clock writes."""
    rng = np.random.default_rng(5)
    commits = round(COMMITS * work)
    at = np.arange(commits, dtype=np.int64) * (60 * SECOND) // commits
    kinds = [
        (at, WRITE, 800 * MIB + np.arange(commits) % 2048 * 8192, 8192, LOG),
        (at + 1, FLUSH, np.zeros(commits, np.int64), 0, LOG),
        (
            np.sort(rng.integers(0, 60 * SECOND, pages)),
            WRITE,
            rng.integers(0, 80_000, pages) * 8192,
            8192,
            HEAP,
        ),
    ]
    parts = [
        traces.Requests(
            time_ns,
            np.full(len(time_ns), op),
            offset,
            np.full(len(time_ns), length),
            np.full(len(time_ns), stream),
        )
        for time_ns, op, offset, length, stream in kinds
    ]
    traces.write(traces.in_order(parts), path)
    return replace(loads.of_file(path, path.stem, None), work=work)


@dataclass
class ByClock(Known):
    """What-ifs of such a database."""

    folder: Path = Path()
    paces: list[float] = field(default_factory=list)
    disk_times: list[float] = field(default_factory=list)
    HAS_CLOCK: ClassVar[bool] = True

    def load(
        self,
        settings: Mapping[str, str],
        pace: float = 1,
        disk_time: float = 1,
        busy_page_us: float = 0,
    ) -> Load:
        self.paces.append(pace)
        self.disk_times.append(disk_time)
        pages = PAGES // 4 if settings else PAGES
        return database(self.folder / f"{pace:g}-{pages}.parquet", pace, pages)


def predict(folder: Path, what_ifs: Known, *overrides: str) -> dict[str, float]:
    """Predict the drive with keys of its profile changed."""
    engine = Engine(None, conditions=Conditions("aged", 0.0, Clients(1, 0.5, 4)))
    base = Setup(database(folder / "load.parquet", 1.0), DRIVE)
    case = Case(base.load, base, engine.figures(base), what_ifs=what_ifs)
    before = Bench("tpcb(scale=1)").trial("emmc-51")
    after = replace(before, drive=replace(before.drive, overrides=overrides))
    try:
        return predicted(case, engine, after, before)
    finally:
        engine.close()


def test_a_faster_run_writes_less_by_the_clock_for_each_transaction(tmp_path: Path) -> None:
    spare = "ftl.over_provisioning=0.3"
    plain = Known(database(tmp_path / "known.parquet", 1.0))
    as_recorded = predict(tmp_path, plain, spare)
    what_ifs = ByClock(plain.as_recorded, folder=tmp_path)
    found = predict(tmp_path, what_ifs, spare)
    assert as_recorded["throughput"] > 1.1, "the drive was the limit"
    assert found["throughput"] > 1.05 * as_recorded["throughput"]
    assert found["flash_bytes"] < 0.95 * as_recorded["flash_bytes"]
    assert max(what_ifs.paces) <= MOST_PACE
    # The first load is told as the disk was, the next as one that takes its data sooner.
    assert what_ifs.disk_times[0] == 1
    assert what_ifs.disk_times[1] < 0.9
    # The pace that was simulated is the one that comes of it.
    assert what_ifs.paces[-1] == pytest.approx(min(found["throughput"], MOST_PACE), rel=0.1)


def test_a_change_that_changes_no_pace_asks_for_no_other(tmp_path: Path) -> None:
    what_ifs = ByClock(database(tmp_path / "known.parquet", 1.0), folder=tmp_path)
    found = predict(tmp_path, what_ifs)
    assert found["throughput"] == pytest.approx(1.0)
    assert not what_ifs.paces


def test_other_settings_do_not_change_how_long_the_disk_takes_for_a_page(tmp_path: Path) -> None:
    """One that wrote less was taken to slow the disk down, as its time was by the bytes."""
    what_ifs = ByClock(database(tmp_path / "known.parquet", 1.0), folder=tmp_path)
    engine = Engine(None, conditions=Conditions("aged", 0.0, Clients(1, 0.5, 4)))
    base = Setup(what_ifs.as_recorded, DRIVE)
    case = Case(base.load, base, engine.figures(base), what_ifs=what_ifs)
    before = Bench("tpcb(scale=1)").trial("emmc-51")
    after = replace(before, settings={"full_page_writes": "off"})
    try:
        predicted(case, engine, after, before)
    finally:
        engine.close()
    assert len(what_ifs.paces) > 1, "it is told at another pace"
    assert set(what_ifs.disk_times) == {1}


@dataclass
class Shared:
    """A load of so many bytes of log, and of pages that the background writer is held up with."""

    busy_page_us: float = 0.0
    log: float = 30.0

    def share(self, *_: str) -> float:
        return self.log / (self.log + 20 + 80 / (1 + self.busy_page_us / 1000))


def test_a_disk_that_is_never_idle_holds_up_the_background_writer_until_the_log_has_its_share() -> (
    None
):
    def found(log: float) -> Any:
        return _in_turn(cast(Any, Shared(0.0, log)), partial(cast(Any, Shared), log=log), 500.0)

    assert found(30.0).busy_page_us == pytest.approx(4400, rel=0.2)
    assert found(30.0).share("wal") == pytest.approx(LOG_SHARE, abs=0.02)
    assert found(100.0).busy_page_us == 0, "the log has more anyway"
    assert found(10.0).busy_page_us == 32 * 500, "checkpoints alone are more"


@pytest.mark.parametrize(("own", "wanted"), [(12.0, 1.25), (5.0, 3.0), (20.0, 0.75)])
def test_the_pace_is_where_a_load_runs_as_fast_as_it_is_taken_to(own: float, wanted: float) -> None:
    """30 of 45 s are what a clock writes, and 15 s the clients' own before a change."""
    asked: list[float] = []

    def at(pace: float) -> dict[str, float]:
        asked.append(pace)
        return {"throughput": 45 / (own + 30 / pace)}

    found = _where_it_stays(at(1.0), at)
    assert found["throughput"] == pytest.approx(wanted, rel=0.1)
    assert asked[-1] == pytest.approx(wanted, rel=0.15)
    assert len(asked) <= 6


def test_a_pace_without_end_is_taken_to_be_the_most_that_is_told_apart() -> None:
    found = _where_it_stays({"throughput": 3.0}, lambda pace: {"throughput": 3 * pace})
    assert found["throughput"] == pytest.approx(3 * MOST_PACE)


def test_where_no_load_can_be_told_at_a_pace_the_nearest_that_could_be_stands() -> None:
    def refuses(pace: float) -> dict[str, float]:
        if pace > 3:
            raise InputError("the log does not fit the drive")
        return {"throughput": 1.5 * pace}

    assert _where_it_stays({"throughput": 2.5}, refuses)["throughput"] == pytest.approx(3.75)
    assert _where_it_stays({"throughput": 4.0}, refuses) == {"throughput": 4.0}
    assert _where_it_stays({"flash_bytes": 0.5}, refuses) == {"flash_bytes": 0.5}


def test_reads_come_at_the_pace_and_journals_by_the_clock() -> None:
    time_ns = np.arange(101, dtype=np.int64) * SECOND
    ops = np.where(np.arange(101) % 2 == 0, READ, WRITE)
    stream = np.full(101, PURPOSES.index("journal"))
    recorded = traces.Requests(time_ns, ops, time_ns // 1000, np.full(101, 4096), stream)
    for pace in (0.5, 1.0, 2.5):
        found = completed.beside(recorded, [HEAP], reads=pace, pace=pace)
        reads, writes = (found.taken(found.op == one) for one in (READ, WRITE))
        assert len(reads.op) == pytest.approx(51 * pace, abs=1)
        assert len(writes.op) == 50
        assert reads.time_ns.max() == pytest.approx(100 * SECOND, rel=0.05)
        assert (np.diff(found.time_ns) >= 0).all()
