"""Queries of the Star Schema Benchmark in virtual time, on drives, and in the cost model."""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from experiments.ssb import figures, model, plans
from experiments.ssb.accesses import RELATIONS, Database, Shape
from experiments.ssb.cells import FIGURE_8, Cell, Load, cells
from experiments.ssb.drives import check_room, hard_disks, size_of
from experiments.ssb.kept import Kept
from experiments.ssb.measuring import Measuring
from experiments.ssb.model import Costs, Counts, ProbedDrive
from experiments.ssb.played import Playing, counted
from experiments.ssb.playing import MOST_AHEAD_PAGES, CoreDrive, Host, play
from experiments.ssb.queries import BY_INDEX, FACT, MOST_KEY, QUERIES, Plan
from experiments.ssb.schema import PAGE_BYTES
from experiments.ssb.server import Warehouse, buffers
from flashwright._core import InputError, RunError
from flashwright.workloads.supervisor import Supervisor
from servers import find_server

SCALE, SEED = 0.02, 1
MANY = 100_000
US, MS = 1e-6, 1e-3


class Servers:
    """A drive of equal servers, each read taking a fixed time and more for each byte."""

    def __init__(self, servers: int, fixed_ns: int, ns_per_byte: float = 0.0) -> None:
        self.servers, self.fixed_ns, self.ns_per_byte = servers, fixed_ns, ns_per_byte
        self.now = self.most = 0
        self.busy: list[tuple[int, int]] = []
        self.queue: deque[tuple[int, int]] = deque()
        self.lengths: list[int] = []

    def read(self, number: int, offset: int, length: int) -> None:
        self.lengths.append(length)
        self.queue.append((number, self.fixed_ns + round(length * self.ns_per_byte)))
        self.most = max(self.most, len(self.queue) + len(self.busy))
        self._serve()

    def _serve(self) -> None:
        while self.queue and len(self.busy) < self.servers:
            number, time = self.queue.popleft()
            heapq.heappush(self.busy, (self.now + time, number))

    def wait(self, until_ns: int | None) -> list[tuple[int, int]]:
        if self.busy and (until_ns is None or self.busy[0][0] <= until_ns):
            self.now, number = heapq.heappop(self.busy)
            self._serve()
            return [(number, self.now)]
        assert until_ns is not None
        self.now = max(self.now, until_ns)
        return []


HOST = Host(memory_pages=MANY, pages=MANY)


def test_one_stream_computes_and_waits_in_turn() -> None:
    pages = np.arange(2, 2002, 2)
    drive = Servers(8, 200_000)
    played = play(drive, HOST, [(pages, 10 * US)])
    assert played.seconds == pytest.approx(1000 * 210 * US)
    assert (played.reads, played.read_pages, drive.most) == (1000, 1000, 1)
    assert played.busy_seconds == pytest.approx(1000 * 10 * US)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_streams_wait_for_a_drive_side_by_side(count: int) -> None:
    streams = [(np.arange(2 + 2 * n, 16_002, 2 * count), 0.0) for n in range(count)]
    alone = play(Servers(8, 200_000), HOST, [(np.arange(2, 16_002, 2), 0.0)])
    assert play(Servers(8, 200_000), HOST, streams).seconds == pytest.approx(alone.seconds / count)
    # A drive with one server gains nothing.
    slow = play(Servers(1, 200_000), HOST, streams)
    assert slow.seconds == pytest.approx(alone.seconds)


def test_streams_share_processors() -> None:
    # Without any wait worth the name.
    streams = [(np.arange(2 + 2 * n, 16_002, 16), 100 * US) for n in range(8)]
    for processors in (1, 2, 4):
        host = Host(MANY, MANY, processors=processors)
        played = play(Servers(64, 1), host, streams)
        assert played.seconds == pytest.approx(8000 * 100 * US / processors, rel=0.01)


def test_what_is_in_memory_is_not_read_again() -> None:
    pages = np.tile(np.arange(2, 202, 2), 3)
    assert play(Servers(1, 1000), HOST, [(pages, 0.0)]).reads == 100
    # The page that was not used for longest goes: of a round that does not fit nothing is left.
    assert play(Servers(1, 1000), Host(99, MANY), [(pages, 0.0)]).reads == 300
    both = play(Servers(1, 1000), HOST, [(pages, 0.0), (pages, 0.0)])
    assert both.reads == 100, "what one stream waits for another one waits for, too"


def test_reading_in_order_opens_windows_that_double() -> None:
    drive = Servers(1, 50_000, 4.0)
    played = play(drive, HOST, [(np.arange(1000), 0.0)])
    assert [length // PAGE_BYTES for length in drive.lengths[:6]] == [2, 4, 8, 16, 16, 16]
    assert max(drive.lengths) == MOST_AHEAD_PAGES * PAGE_BYTES
    assert played.read_pages <= 1000 + 2 * MOST_AHEAD_PAGES
    # The next window comes while the last one is used.
    window = 50 * US + MOST_AHEAD_PAGES * PAGE_BYTES * 4e-9
    slow = play(Servers(1, 50_000, 4.0), HOST, [(np.arange(16_000), window / 8)])
    assert slow.seconds == pytest.approx(16_000 * window / 8, rel=0.01)


def test_read_ahead_ends_with_the_relation() -> None:
    host = Host(MANY, 150, (0, 100))
    drive = Servers(1, 1000)
    played = play(drive, host, [(np.arange(100), 0.0)])
    assert played.read_pages == 100
    assert play(drive, host, [(np.arange(100, 150), 0.0)]).read_pages == 50


def test_a_core_without_single_reads_is_refused() -> None:
    with pytest.raises(RunError, match="takes no single reads"):
        CoreDrive(object())


COSTS = Costs(
    {depth: max(200 * US, depth * 40 * US) for depth in model.DEPTHS},
    dict.fromkeys(model.DEPTHS, 250e6),
)


def test_a_probed_drive_is_as_fast_as_it_was_measured() -> None:
    for depth in (1, 2, 4, 8, 16):
        streams = [(np.arange(2 + 2 * n, 32_002, 2 * depth), 0.0) for n in range(depth)]
        played = play(ProbedDrive(COSTS), HOST, streams)
        assert played.seconds == pytest.approx(16_000 * COSTS.random_at(depth) / depth, rel=0.01)
    in_order = play(ProbedDrive(COSTS), HOST, [(np.arange(16_000), 0.0)])
    assert in_order.seconds == pytest.approx(16_000 * PAGE_BYTES / 250e6, rel=0.01)


@pytest.mark.parametrize("own_us", [0, 20, 200])
@pytest.mark.parametrize("streams", [1, 2, 4, 8, 16])
def test_the_model_predicts_what_is_played(own_us: int, streams: int) -> None:
    """Both know the drive by the same curves; the play has queues, the model has equations."""
    count = 16_000
    parts = [
        (np.arange(2 + 2 * n, 2 + 2 * count, 2 * streams), own_us * US) for n in range(streams)
    ]
    found = play(ProbedDrive(COSTS), HOST, parts).seconds
    index = Counts(Plan.INDEX, count, count, 0, count * own_us * US)
    assert model.seconds(COSTS, index, streams) == pytest.approx(found, rel=0.1)
    scans = [
        (np.arange(n * count // streams, (n + 1) * count // streams), own_us * US)
        for n in range(streams)
    ]
    found = play(ProbedDrive(COSTS), HOST, scans).seconds
    scan = Counts(Plan.HASH, count, 0, count, count * own_us * US)
    assert model.seconds(COSTS, scan, streams) == pytest.approx(found, rel=0.1)


def test_reads_of_a_cache_are_those_of_mackert_and_lohman() -> None:
    assert model.reads(0, 0, 10) == 0
    # PostgreSQL's own examples of its formula: all fit, none fit twice, and beyond.
    assert model.reads(1000, 1000, 2000) == pytest.approx(2e6 / 3000)
    assert model.reads(1e9, 1000, 2000) == 1000
    limit = 2 * 1000 * 500 / 1500
    assert model.reads(limit, 1000, 500) == pytest.approx(500)
    assert model.reads(limit + 100, 1000, 500) == pytest.approx(550)


def test_settings_follow_the_drive() -> None:
    found = model.settings(COSTS)
    assert found.effective_io_concurrency == 8
    assert found.max_parallel_workers_per_gather == 7
    # 40 us a random page with eight at once, 32.8 us one in order.
    assert found.random_page_cost == pytest.approx(40 / (PAGE_BYTES / 250), abs=0.01)
    disk = Costs(
        {depth: 8 * MS * depth for depth in model.DEPTHS},
        {count: 100e6 / count for count in model.DEPTHS},
    )
    alone = model.settings(disk)
    assert alone.effective_io_concurrency == 1
    assert alone.max_parallel_workers_per_gather == 0
    assert alone.random_page_cost == pytest.approx(8000 / (PAGE_BYTES / 100), rel=0.01)
    assert alone.as_settings()["effective_io_concurrency"] == "1"


def test_the_best_plan_changes_with_the_streams() -> None:
    """PARALLELISM 6.3: the hash join by itself, the index join in parallel."""
    index = Counts(Plan.INDEX, 10_000, 10_000, 0, 0.1)
    scan = Counts(Plan.HASH, 30_000, 0, 30_000, 0.5)
    assert model.best(COSTS, [index, scan], [1])[0] is scan
    taken, streams, seconds = model.best(COSTS, [index, scan])
    assert taken is index
    assert streams >= 8
    assert seconds == model.seconds(COSTS, index, streams)


def test_results_are_kept_and_found_again(tmp_path: Path) -> None:
    path = tmp_path / "cells.json"
    Kept(path).put("one", {"seconds": 1.0})
    again = Kept(path)
    again.put("two", {"seconds": 2.0})
    assert Kept(path).get("one") == {"seconds": 1.0}
    assert Kept(path).get("three") is None
    assert [one.name for one in tmp_path.iterdir()] == ["cells.json"]
    path.write_text("nonsense")
    with pytest.raises(InputError, match="it is no file of results"):
        Kept(path)


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    find_server()
    with Supervisor() as supervisor:
        # Not pytest's tmp_path: an unprivileged server cannot enter it.
        folder = supervisor.folder(Path("/var/tmp"), "ssb-test-")  # noqa: S108
        made = Warehouse(folder, folder / "run", supervisor)
        made.make(SCALE, SEED, lambda _: None)
        yield made
        made.close()


def test_accesses_are_those_that_the_server_counts(warehouse: Warehouse) -> None:
    shape = Shape.from_dict(Shape.of(warehouse).as_dict())
    assert shape.total == Shape.of(warehouse).total
    database = Database(shape, SCALE, SEED)
    pages = shape.pages["lineorder"]
    for name in BY_INDEX:
        query = QUERIES[name]
        assert database.keys(query) == warehouse.keys(query)
        for plan in Plan:
            whole = (0, MOST_KEY) if plan is Plan.INDEX else (0, pages)
            found = database.accesses(query, plan, whole)
            with warehouse.connect() as connection:
                plans.use(connection, plan)
                # The first time a session reads the catalogue, too.
                buffers(connection, query.sql(plan, None))
                told = buffers(connection, query.sql(plan, None))
            asked = sum(told.values())
            if plan is Plan.HASH:
                assert len(found) == asked, name
            # Root pages of primary keys are left out, and what a leaf's end brings.
            assert 0.9 * asked <= len(found) <= asked, name
            assert found.min() >= 0
            assert found.max() < shape.total
            split = [
                database.accesses(query, plan, part)
                for part in (warehouse.parts(query, plan, 3))
                if part is not None
            ]
            assert len(split) == 3
            assert set(np.concatenate(split)) == set(found), name


def test_rows_lie_where_the_server_has_them(warehouse: Warehouse) -> None:
    database = Database(Shape.of(warehouse), SCALE, SEED)
    key = int(database.fact["lo_partkey"][777])
    with warehouse.connect() as connection:
        rows = connection.execute(
            "SELECT (ctid::text::point)[0]::int FROM lineorder WHERE lo_partkey = %s ORDER BY 1",
            (key,),
        ).fetchall()
    numbers = np.flatnonzero(database.fact["lo_partkey"] == key)
    assert [page for (page,) in rows] == (numbers // database.shape.rows_per_page).tolist()


def test_counts_know_what_is_read_again() -> None:
    sizes = {**dict.fromkeys(RELATIONS, 0), "dates": 10, FACT: 1000}
    shape = Shape(70, sizes, {})
    memory = Playing.memory_pages(shape)
    pages = np.tile(np.arange(10, 1010), 2)
    found = counted(shape, Load("Q1.1", Plan.INDEX), pages)
    assert found["accesses"] == 2000
    assert found["random_pages"] == 1000 + round(1000 * (1 - memory / 1000))


def test_a_figure_is_drawn_of_any_times() -> None:
    """Published rows are of the paper's drive alone; a disk's word is of a disk."""

    def times(_: str, load: Load, count: int) -> float:
        return 10 / min(count, 5) if load.plan is Plan.INDEX else 4 / min(count, 1.4)

    eight = figures._figure_8("8", times, "intel-x25e", (1, 4, 16))
    ours = {one.what: one.ours() for one in eight.published}
    assert ours == {
        "index joins: the greatest speed-up": pytest.approx(5),
        "hash joins: the greatest speed-up": pytest.approx(1.4),
        "Q0, which joins nothing: speed-up": pytest.approx(1.4),
    }
    assert len(eight.chart()["series"]) == len(FIGURE_8)
    nine = figures._figure_9("9", times, "intel-x25e", (1, 4, 16))
    assert [one.ours() for one in nine.published] == pytest.approx([2.5, 4 / 1.4 / 2])
    assert [one.ours()[1] for one in nine.shapes] == [True, True]
    other = figures._figure_9("9", times, "nvme-tlc", (1, 16))
    assert not other.published
    assert not other.shapes


def test_costs_of_a_hard_disk_are_those_of_seeks() -> None:
    """Reads take turns; an elevator shortens the seeks of many."""
    [name, *_] = hard_disks()
    costs = Costs.probed(name, 1 << 28)
    assert 3 * MS < costs.random_at(1) < 20 * MS
    assert costs.random_at(8) > 3 * costs.random_at(1)
    assert costs.window_at(1) < costs.random_at(1)
    assert model.settings(costs).random_page_cost > 10


def test_streams_that_cannot_be_are_refused() -> None:
    assert figures._numbers("4,1,4") == [1, 4]
    for wrong in ("0", "a", "1,99", ""):
        with pytest.raises(InputError, match="numbers from 1 to 16"):
            figures._numbers(wrong)


@pytest.mark.usefixtures("can_mount")
def test_cells_are_measured_over_an_emulated_drive_and_kept() -> None:
    find_server()
    with Supervisor() as supervisor:
        # Not pytest's tmp_path: an unprivileged server cannot enter it.
        folder = supervisor.folder(Path("/var/tmp"), "ssb-test-")  # noqa: S108
        kept = Kept(folder / "cells.json")
        said: list[str] = []
        wanted = cells(SCALE, "intel-x25e", [Load("Q2.2", plan) for plan in Plan], (1, 2))
        Measuring("intel-x25e", SCALE, folder, kept, said.append).run(wanted, threading.Event())
        found = [kept.get(cell.name) for cell in wanted]
        assert [one["parts"] for one in found] == [1, 2, 1, 2]
        assert len({one["sum"] for one in found}) == 1
        assert all(one["seconds"] > 0 for one in found)
        assert [one.name for one in folder.iterdir()] == ["cells.json"], "nothing else is left"
        said.clear()
        Measuring("intel-x25e", SCALE, folder, kept, said.append).run(wanted, threading.Event())
        assert said == [], "what is there is not measured again"


def test_drives_have_room() -> None:
    check_room("intel-x25e", 6 << 30)
    with pytest.raises(InputError, match=r"intel-x25e: it has .* choose a lower"):
        check_room("intel-x25e", 60 << 30)
    assert size_of("intel-x25e", 5) == 10 << 30
    assert size_of("nvme-tlc", 1) == 24 << 30
    assert Cell(1, "a", Load("Q0", Plan.HASH), 4).name == "1 a Q0 hash 4"
