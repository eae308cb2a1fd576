"""The engine: what is done, tried again, ended and kept; and the store of results."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sweep_kind
from flashwright import _core
from flashwright._core import Cancelled, InputError, Progress
from flashwright.comparing import counting as count
from flashwright.engine import worker
from flashwright.engine.engine import Engine
from flashwright.engine.pools import Processes
from flashwright.engine.store import Store
from flashwright.engine.task import Limits, Outcome, Task, input_of, task_of, version_hash
from flashwright.engine.worker import Order
from flashwright.runs import plain
from flashwright.sweeps.kinds import play

KIND = "sweep_kind"


def task(tables: Sequence[str] = (), **asked: Any) -> Task:
    settings = sweep_kind.settings(asked)
    return task_of(KIND, settings, sweep_kind.inputs(settings), tables)


def run(tasks: Sequence[Task], store: Path, jobs: int = 2, **how: Any) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}

    def take(outcome: Outcome) -> None:
        assert outcome.key not in found, "a job came twice"
        found[outcome.key] = outcome

    engine = Engine(tasks, Store(str(store)), lambda: Processes(jobs), take=take, **how)
    engine.run()
    return found


def logged(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_job_is_done_once_and_then_known(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = [task(x1=number, log=str(log)) for number in range(5)]
    first = run(tasks, tmp_path / "store")
    assert {one.ended for one in first.values()} == {"done"}
    assert sorted(logged(log)) == [f"{number}:1" for number in range(5)]
    second = run(tasks, tmp_path / "store")
    assert {key: vars(one) for key, one in first.items()} == {
        key: vars(one) for key, one in second.items()
    }
    assert len(logged(log)) == 5


def test_figures_are_the_same_to_the_bit_in_this_process_and_in_another(tmp_path: Path) -> None:
    asked = [
        (play, {"source": "synth:zipf(pages=4Ki)", "requests": "2k", "on": "intel-x25e"}),
        (count, {"source": "synth:zipf(pages=4Ki)", "placement": "dac", "seed": 3}),
    ]
    for kind, given in asked:
        settings = kind.settings(given)
        one = task_of(kind.__name__, settings, kind.inputs(settings))
        [found] = run([one], tmp_path / "store", 1).values()
        assert found.error is None
        here = kind.do(settings, Progress()).figures
        assert found.figures == json.loads(json.dumps(here))
        assert {name: repr(value) for name, value in found.figures.items()} == {
            name: repr(value) for name, value in here.items()
        }


def test_a_worker_that_is_killed_costs_its_own_job_one_more_try(tmp_path: Path) -> None:
    log, mark = tmp_path / "log", tmp_path / "killed"
    tasks = [task(x1=number, log=str(log)) for number in range(6)]
    tasks.append(task(x1=9, log=str(log), kill_once=str(mark)))
    found = run(tasks, tmp_path / "store")
    assert {one.ended for one in found.values()} == {"done"}
    assert len(found) == 7
    assert sorted(logged(log)) == [*(f"{number}:1" for number in range(6)), "9:1", "9:1"]


def test_a_job_that_always_kills_its_worker_ends_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    bad = task(x1=9, log=str(log), kill_once="always")
    found = run([bad, task(x1=1)], tmp_path / "store")
    assert found[bad.key].ended == "died"
    said = "its worker was ended by SIGKILL, as the kernel does where memory runs out, 3 times"
    assert found[bad.key].error == said
    assert logged(log) == ["9:1"] * 3
    assert [one.ended for one in found.values()].count("done") == 1
    # It may do better at another time.
    run([bad], tmp_path / "store")
    assert len(logged(log)) == 6


@pytest.mark.parametrize(
    ("why", "ended", "said"),
    [("fail", "error", "x1 = 2 was told to fail"), ("refuse", "refused", "x1 = 2 is wrong")],
)
def test_a_job_that_fails_is_kept_with_its_error_and_tried_again_if_asked(
    tmp_path: Path, why: str, ended: str, said: str
) -> None:
    log = tmp_path / "log"
    told: dict[str, Any] = {why: True}
    tasks = [task(x1=1, log=str(log)), task(x1=2, log=str(log), **told)]
    found = run(tasks, tmp_path / "store")
    assert (found[tasks[1].key].ended, found[tasks[1].key].error) == (ended, said)
    assert run(tasks, tmp_path / "store").keys() == found.keys()
    assert len(logged(log)) == 2
    run(tasks, tmp_path / "store", again=True)
    assert len(logged(log)) == 3


def test_a_panic_ends_its_job_and_no_other(tmp_path: Path) -> None:
    tasks = [task(x1=1, panic=True), task(x1=2)]
    found = run(tasks, tmp_path / "store")
    assert found[tasks[0].key].error == "KeyboardInterrupt: it was told to panic"
    assert found[tasks[1].key].ended == "done"


@pytest.mark.parametrize("deaf", [False, True])
def test_a_job_over_its_time_is_ended(tmp_path: Path, deaf: bool) -> None:
    tasks = [task(x1=1, sleep=60, deaf=deaf), task(x1=2)]
    found = run(tasks, tmp_path / "store", limits=Limits(seconds=5))
    assert found[tasks[0].key].ended == "time"
    assert found[tasks[0].key].error == "ended: it took longer than 5 s"
    assert found[tasks[1].key].ended == "done"


@pytest.mark.parametrize("deaf", [False, True])
def test_a_job_over_its_memory_is_ended_and_the_next_is_not_blamed(
    tmp_path: Path, deaf: bool
) -> None:
    big = task(x1=1, hold=700 << 20, sleep=30, deaf=deaf)
    tasks = [big, *(task(x1=number) for number in range(2, 5))]
    found = run(tasks, tmp_path / "store", 1, limits=Limits(memory_bytes=600 << 20))
    assert found[big.key].ended == "memory"
    assert "may hold 600 MiB" in str(found[big.key].error)
    assert [found[one.key].ended for one in tasks[1:]] == ["done"] * 3


def test_a_stop_keeps_what_has_ended_and_the_next_run_does_the_rest(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tasks = [task(x1=1, log=str(log)), task(x1=2, sleep=60, log=str(log))]
    engine = Engine(tasks, Store(str(tmp_path / "store")), lambda: Processes(2))
    engine.take = lambda outcome: engine.cancel() if outcome.key == tasks[0].key else None
    with pytest.raises(Cancelled):
        engine.run()
    assert [one.key for one in engine.store.known([one.key for one in tasks])] == [tasks[0].key]
    short = [tasks[0], task(x1=2, log=str(log))]
    run(short, tmp_path / "store")
    assert logged(log).count("1:1") == 1


def test_within_a_time_no_more_is_begun(tmp_path: Path) -> None:
    tasks = [task(x1=number, sleep=0.3) for number in range(50)]
    found = run(tasks, tmp_path / "store", within=0.5)
    assert 0 < len(found) < 50


def test_it_follows_its_progress(tmp_path: Path) -> None:
    tasks = [task(x1=number) for number in range(3)]
    engine = Engine(tasks, Store(str(tmp_path / "store")), lambda: Processes(1))
    assert engine.state() == (0, 3000)
    engine.run()
    assert engine.state() == (3000, 3000)


def test_the_key_is_of_contents_and_not_of_names(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("same")
    other.write_text("same")
    assert task(file=str(one)).key == task(file=str(other)).key
    other.write_text("else")
    assert task(file=str(one)).key != task(file=str(other)).key
    assert task(x1=1).key != task(x1=2).key
    # Whoever wants its tables finds what was done for others, if they kept those.
    assert task(x1=1).key == task(("parts",), x1=1).key


def test_a_folder_is_an_input_by_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_text("1")
    before = input_of(str(folder))
    assert before.size_bytes == 1
    (folder / "a").rename(folder / "b")
    assert input_of(str(folder)).sha256 != before.sha256
    with pytest.raises(InputError, match="cannot read it"):
        input_of(str(tmp_path / "none"))


def test_a_worker_of_another_version_does_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    order = Order(task(x1=1), Limits(), store.url, store.open(), "another", "a")
    reply = worker.do(order)
    assert reply.outcome.ended == "died"
    assert "another version" in str(reply.outcome.error)
    assert not list(store.known([order.task.key]))


def test_a_store_that_a_worker_does_not_see_is_written_by_whoever_ordered(tmp_path: Path) -> None:
    one = task(("parts",), x1=1)
    reply = worker.do(
        Order(one, Limits(), str(tmp_path / "elsewhere"), "name", version_hash(), "a")
    )
    assert not reply.is_kept
    assert list(reply.tables) == ["parts"]
    assert not (tmp_path / "elsewhere").exists()


def test_tables_are_kept_and_one_that_is_missing_is_an_error(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    good, bad = task(("parts",), x1=1, log=log), task(("none",), x1=1, log=log)
    store = tmp_path / "store"
    assert run([good], store)[good.key].ended == "done"
    table = Store(str(store)).table(good.key, "parts")
    assert table is not None
    assert table["part"].to_pylist() == [1, 2]
    assert run([bad], store)[bad.key].error == "it has no table none; there is parts"
    # That is no fault of the job: what it has kept stays, with its tables or without.
    for one in (good, task(x1=1, log=log)):
        assert run([one], store)[one.key].ended == "done"
    assert len(logged(tmp_path / "log")) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"key": 1}', b"\xff\x00"])
def test_a_damaged_result_is_as_if_it_was_not_there(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "log"
    one = task(("parts",), x1=1, log=str(log))
    run([one], tmp_path / "store")
    [result] = (tmp_path / "store").rglob(f"{one.key}.json")
    result.write_bytes(content)
    assert run([one], tmp_path / "store")[one.key].ended == "done"
    assert len(logged(log)) == 2
    [table] = (tmp_path / "store").rglob("*.parquet")
    table.write_bytes(table.read_bytes()[:100])
    assert run([one], tmp_path / "store")[one.key].ended == "done"
    assert len(logged(log)) == 3


def test_nothing_is_left_of_a_write_that_was_cut(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    store.open()
    key = "ab" * 20
    (tmp_path / "store" / "ab").mkdir()
    (tmp_path / "store" / "ab" / f"{key}.json.0123.part").write_text("{")
    assert list(store.known([key])) == []


def test_a_store_is_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="the folder is not empty and no store"):
        Store(str(tmp_path)).open()
    with pytest.raises(InputError, match="cannot open the store"):
        Store("nonsense://x").open()
    name = Store(str(tmp_path / "store")).open()
    assert Store(str(tmp_path / "store")).open() == name
    assert Store(str(tmp_path / "store")).is_the_one(name)
    assert not Store(str(tmp_path / "other")).is_the_one(name)


def test_a_store_need_not_be_a_folder() -> None:
    store = Store(f"memory://{os.getpid()}-{time.time_ns()}")
    name = store.open()
    assert store.is_the_one(name)
    outcome = Outcome("ab" * 20, "done", {"y": 0.1 + 0.2}, ("parts",), attempt="a")
    store.put(outcome, {"parts": pa.table({"part": [1]})})
    assert [vars(one) for one in store.known([outcome.key, "cd" * 20])] == [vars(outcome)]
    assert store.table(outcome.key, "parts") is not None
    assert store.table(outcome.key, "none") is None


def test_two_sweeps_use_one_store_at_a_time(tmp_path: Path) -> None:
    tasks = [task(("parts",), x1=number, sleep=0.01) for number in range(20)]
    found: list[dict[str, Outcome]] = []
    threads = [
        threading.Thread(target=lambda order=order: found.append(run(order, tmp_path / "store")))
        for order in (tasks, tasks[::-1])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, other = ({key: one.figures for key, one in part.items()} for part in found)
    assert one == other
    assert len(one) == 20
    assert not list((tmp_path / "store").rglob("*.part"))


def test_a_store_that_several_make_at_once_has_one_name(tmp_path: Path) -> None:
    """Regression: one sweep took the other's beginning for a folder of something else."""
    for number in range(40):
        names: list[str] = []
        store = str(tmp_path / str(number))
        begin = threading.Barrier(4)

        def make(store: str = store, begin: threading.Barrier = begin, to: Any = names) -> None:
            begin.wait()
            to.append(Store(store).open())

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(names) == 4
        assert len(set(names)) == 1


def test_what_is_not_a_number_is_kept_as_nothing(tmp_path: Path) -> None:
    found = Outcome("ab" * 20, "done", {"y": float("nan")})
    store = Store(str(tmp_path / "store"))
    store.open()
    with pytest.raises(ValueError, match="JSON"):
        store.put(found, {})
    assert plain({"y": float("nan")}) == {"y": None}


def test_workers_leave_with_whoever_ordered(tmp_path: Path) -> None:
    pool = Processes(2)
    store = Store(str(tmp_path / "store"))
    order = Order(task(x1=1, sleep=60), Limits(), store.url, store.open(), version_hash(), "a")
    pool.submit(order)
    deadline = time.monotonic() + 20
    while not pool._processes and time.monotonic() < deadline:
        time.sleep(0.01)
    pids = [process.pid for process in pool._processes.values()]
    pool.close()
    assert pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_the_core_is_part_of_the_key() -> None:
    assert version_hash() == version_hash()
    assert len(task(x1=1).key) == 40
    assert Path(_core.__file__).exists()
