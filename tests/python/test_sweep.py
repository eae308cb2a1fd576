"""Sweeps: their files, designs, datasets, effects, and the command."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.stats

import flashwright as fw
from flashwright._core import InputError, Progress, RunError
from flashwright.comparing import counting as count
from flashwright.engine.store import Store
from flashwright.engine.task import Outcome
from flashwright.intervals import t_975
from flashwright.runs import Run
from flashwright.sweeps import design, effects, file
from flashwright.sweeps.dataset import Dataset
from flashwright.sweeps.kinds import rust
from flashwright.sweeps.plan import Plan, plan
from processes import processes_of
from support import ROOT, Cli
from test_docs import sweeps

KIND = "python:sweep_kind"
COUNT: dict[str, Any] = {"job": "count", "fixed": {"source": "synth:zipf(pages=4Ki)"}}
PLAY: dict[str, Any] = {
    "job": "play",
    "fixed": {"source": "synth:zipf(pages=4Ki)", "on": "intel-x25e"},
}


def made(**document: Any) -> Plan:
    return plan(file.of({"job": KIND, **document}, "S.toml"))


def points(**document: Any) -> list[dict[str, Any]]:
    return [job.point for job in made(**document).jobs]


BAD: list[tuple[dict[str, Any], str]] = [
    ({**COUNT, "axes": {"bogus": [1]}}, "axes.bogus: bogus: there is no such option; known are: "),
    ({**COUNT, "axes": {"placement": ["zz"]}}, "axes.placement: placement: unknown placement "),
    ({**COUNT, "axes": {"placement": "some"}}, "axes.placement: 'some': right would be a list"),
    ({**COUNT, "axes": {"seed": "all"}}, "axes.seed: 'all': right would be a list"),
    ({**COUNT, "axes": {"seed": []}}, "axes.seed: it has no levels"),
    ({**COUNT, "axes": {"seed": [1, 1]}}, "axes.seed: it names a level twice"),
    ({**COUNT, "axes": {"seed": {"low": 1, "high": 3}}}, "axes.seed: right would be levels = 2"),
    ({**COUNT, "axes": {"seed": {"low": 1, "hihg": 3}}}, "hihg: there is no such key; right would"),
    ({**COUNT, "axes": {"seed": {"low": 3, "high": 1}}}, "axes.seed: low 3 has to be below high"),
    ({**COUNT, "axes": {"source": ["x"]}}, "axes.source: it is fixed too; leave one of them out"),
    ({**COUNT, "axes": {"on.op": [0.1]}}, "axes.on.op: this job has no keys within options"),
    ({**COUNT}, "axes: there is none; right would be such as seed = [1, 2]"),
    ({**COUNT, "axes": {"seed": [1]}, "replications": 2}, "axes.seed: replications go over seeds"),
    ({**COUNT, "axes": {"seed": [1]}, "replications": 0}, "replications: right would be 1 or more"),
    ({**COUNT, "axes": {"seed": [1]}, "desing": {}}, "desing: there is no such key; right would"),
    ({**COUNT, "axes": {"seed": [1]}, "design": {"kind": "x"}}, "design.kind: Invalid enum value"),
    ({**COUNT, "axes": {"seed": [1]}, "design": {"points": 3}}, "design.points: right would be a"),
    ({**COUNT, "axes": {"seed": [1]}, "design": {"kind": "list"}}, "points: they are of design."),
    ({**COUNT, "axes": {"seed": [1]}, "partition_by": "x"}, "partition_by: x is no axis; "),
    ({**COUNT, "axes": {"seed": [1]}, "memory": "much"}, "memory: much: right would be bytes"),
    ({**COUNT, "axes": {"seed": [1]}, "time": "long"}, "time: long: right would be seconds"),
    ({**COUNT, "job": "coutn", "axes": {"seed": [1]}}, "job: there is no `coutn`; right would be"),
    ({"job": "python:none_such", "axes": {"x": [1]}}, "job: cannot import `none_such`: "),
    (
        {**COUNT, "design": {"kind": "list"}, "points": [{"seed": 1}, {"repeat": 1}]},
        "points[1]: each point has to name the same options",
    ),
    (
        {**COUNT, "axes": {"seed": [1, 2]}, "design": {"kind": "sobol", "points": 100}},
        "design.points: 100: it is balanced at powers of two; right would be 64 or 128",
    ),
    ({**PLAY, "axes": {"depth": [1]}}, "axes.depth: depth: unknown field `depth`"),
    ({**PLAY, "axes": {"on.bogus": [1]}}, "axes.on.bogus: there is no such key; known are: state"),
    ({**PLAY, "axes": {"on.media.bogus": [1]}}, "axes.on.media.bogus: on: profile `intel-x25e`: "),
    ({**PLAY, "axes": {"source.bogus": [1]}}, "axes.source.bogus: unknown field `bogus`"),
    ({**PLAY, "axes": {"pace.x": [1]}}, "axes.pace.x: keys are of the drive, `on.KEY`, and of "),
    ({**PLAY, "axes": {"requests": ["many"]}}, "axes.requests: requests"),
    (
        {"job": "play", "fixed": {"source": "io:random"}, "axes": {"on": ["/dev/null"]}},
        "axes.on: on: /dev/null: a sweep runs on simulated drives",
    ),
    (
        {"job": "play", "fixed": {"source": "io:random", "on": ["sd-card", "usb-stick"]},
         "axes": {"seed": [1]}},
        "fixed: on: a job of a sweep has one; make an axis of it",
    ),
    (
        {**PLAY, "fixed": {**PLAY["fixed"], "per_request": True}, "axes": {"seed": [1]}},
        "fixed: per_request: a sweep has no place for it; leave it out",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_what_is_wrong_in_a_file_is_said_in_one_line(document: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as raised:
        plan(file.of(document, "S.toml")).file.limits()
    assert str(raised.value).startswith("S.toml: ")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_none_is_said_in_one_line(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "S.toml").write_text("job = ")
    assert "S.toml: not TOML: " in cli("sweep", "S.toml", code=2).stderr
    assert "does not exist" in cli("sweep", "none.toml", code=2).stderr


def test_a_grid_is_every_level_with_every_other() -> None:
    found = points(axes={"x1": [1, 2], "x2": {"low": 1, "high": 100, "log": True, "levels": 3}})
    assert [one["x1"] for one in found] == [1, 1, 1, 2, 2, 2]
    assert [one["x2"] for one in found[:3]] == pytest.approx([1, 10, 100])
    whole = points(axes={"x1": {"low": 1, "high": 4, "integer": True, "levels": 7}})
    assert [one["x1"] for one in whole] == [1, 2, 3, 4]


def test_a_list_is_what_it_says() -> None:
    given = [{"x1": 1, "x2": 5}, {"x1": 2, "x2": 7}]
    assert points(design={"kind": "list"}, points=given) == given


@pytest.mark.parametrize("kind", ["latin_hypercube", "sobol", "saltelli"])
def test_a_sample_keeps_to_its_axes_and_its_seed(kind: str) -> None:
    axes = {
        "x1": {"low": 2, "high": 3},
        "x2": {"low": 0.1, "high": 1000, "log": True},
        "x3": {"low": 1, "high": 3, "integer": True},
        "how": ["sum", "ishigami"],
    }
    found = points(axes=axes, design={"kind": kind, "points": 32})
    assert len(found) == (32 * 6 if kind == "saltelli" else 32)
    assert all(2 <= one["x1"] <= 3 and 0.1 <= one["x2"] <= 1000 for one in found)
    assert {one["x3"] for one in found} == {1, 2, 3}
    assert {one["how"] for one in found} == {"sum", "ishigami"}
    assert found == points(axes=axes, design={"kind": kind, "points": 32})
    assert found != points(axes=axes, design={"kind": kind, "points": 32, "seed": 2})


def test_a_latin_hypercube_has_a_point_in_each_part_of_each_axis() -> None:
    found = points(
        axes={"x1": {"low": 0, "high": 1}, "x2": {"low": 0, "high": 1}},
        design={"kind": "latin_hypercube", "points": 10},
    )
    for axis in ("x1", "x2"):
        assert sorted(math.floor(10 * one[axis]) for one in found) == list(range(10))


def test_replications_are_seeds_that_follow_each_other() -> None:
    found = made(fixed={"seed": 5}, axes={"x1": [1, 2]}, replications=3)
    assert [job.seed for job in found.jobs] == [5, 6, 7] * 2
    assert len(found.unique) == 6


def test_dots_of_toml_and_quoted_ones_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "S.toml").write_text('job = "play"\n[axes]\non.op = [0.1]\n"on.media.dies" = [2]\n')
    assert file.read(tmp_path / "S.toml").axes == ("on.op", "on.media.dies")


def test_an_axis_over_a_key_of_a_profile_changes_the_drive() -> None:
    axes = {"on.op": [0.2, "30%"], "on.placement": "all", "source.repeat": [1, 2]}
    found = plan(file.of({**PLAY, "axes": axes}, "S.toml"))
    profiles = [job.task.settings["on"][0]["profile"] for job in found.jobs]
    assert {one["op"] for one in profiles} == {0.2, 0.3}
    assert len({one["placement"] for one in profiles}) > 10
    assert {job.task.settings["source"].get("repeat", 1) for job in found.jobs} == {1, 2}


def test_the_same_work_written_otherwise_is_one_job() -> None:
    found = plan(file.of({**PLAY, "axes": {"requests": ["20k", 20000]}}, "S.toml"))
    assert len(found.jobs) == 2
    assert len(found.unique) == 1


# What was found


def outcomes(asked: Plan, goal: Any) -> dict[str, Outcome]:
    return {
        key: Outcome(key, "done", {"y": goal(job.point, job.seed)})
        for key, job in asked.unique.items()
    }


def test_effects_of_a_grid_add_up_to_the_variance() -> None:
    asked = made(axes={"x1": [0, 1, 2], "x2": [0, 1], "x3": [5, 6]})
    found = effects.document(
        asked, outcomes(asked, lambda at, _: at["x1"] + 3 * at["x1"] * at["x2"])
    )
    shares = {one["axis"]: one["share"] for one in found["effects"]}
    assert shares["x3"] == pytest.approx(0)
    [pair] = [one for one in found["interactions"] if one["axes"] == ["x1", "x2"]]
    assert sum(shares.values()) + pair["share"] == pytest.approx(1)
    assert pair["share"] > 0.1
    assert found["heat_map"]["axes"] == ["x1", "x2"]
    assert found["heat_map"]["means"] == [[0, 1, 2], [0, 4, 8]]
    assert found["best"][0]["mean"] == 0


def test_intervals_are_students() -> None:
    mean, half = effects.interval([1.0, 2.0, 3.0])
    assert mean == 2
    assert half == pytest.approx(4.303 / math.sqrt(3))
    assert effects.interval([1.0]) == (1.0, None)
    # Of 400 samples of 5 so many hold the mean.
    rng = random.Random(1)
    drawn = (effects.interval([rng.gauss(0, 1) for _ in range(5)]) for _ in range(400))
    held = sum(abs(mean) <= (half or 0) for mean, half in drawn)
    assert 0.91 < held / 400 < 0.985


def test_what_does_nothing_has_no_share_in_a_sample() -> None:
    axes = {name: {"low": 0, "high": 1} for name in ("x1", "x2", "x3")}
    asked = made(axes=axes, design={"kind": "latin_hypercube", "points": 200})
    found = effects.document(asked, outcomes(asked, lambda at, _: 10 * at["x1"] + at["x2"]))
    shares = {one["axis"]: one["share"] for one in found["effects"]}
    assert shares["x1"] > 0.9
    assert shares["x3"] < 0.06
    correlations = {one["axis"]: one["rank_correlation"] for one in found["effects"]}
    assert correlations["x1"] > 0.95
    assert abs(correlations["x3"]) < 0.2


def test_indices_of_a_known_function_are_found() -> None:
    axes = {name: {"low": -math.pi, "high": math.pi} for name in ("x1", "x2", "x3")}
    how = {"kind": "saltelli", "points": 1024, "second_order": True}
    asked = made(axes=axes, design=how)

    def ishigami(at: dict[str, Any], _: int | None) -> float:
        a, b, c = (float(at[name]) for name in axes)
        return math.sin(a) + 7 * math.sin(b) ** 2 + 0.1 * c**4 * math.sin(a)

    found = effects.document(asked, outcomes(asked, ishigami))["indices"]
    first = [one["first"] for one in found["axes"]]
    total = [one["total"] for one in found["axes"]]
    # Ishigami and Homma 1990, with a = 7 and b = 0.1.
    assert first == pytest.approx([0.3139, 0.4424, 0], abs=0.05)
    assert total == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.05)
    [pair] = [one["second"] for one in found["pairs"] if one["axes"] == ["x1", "x3"]]
    assert pair == pytest.approx(0.2437, abs=0.06)
    part = outcomes(asked, ishigami)
    part.popitem()
    assert effects.document(asked, part)["indices"] is None


def test_best_is_more_or_less_as_asked() -> None:
    for better, best in (("less", 0.0), ("more", 9.0)):
        asked = made(axes={"x1": [0, 9]}, goal="y", better=better)
        found = effects.document(asked, outcomes(asked, lambda at, _: at["x1"]))
        assert found["best"][0]["mean"] == best


# The dataset


def test_all_files_of_a_dataset_have_the_same_columns(tmp_path: Path) -> None:
    asked = made(axes={"how": ["a=b/c", "d"], "x1": [1, 2]})
    data = Dataset(tmp_path, Store(str(tmp_path / "store")), ["how"])
    late: list[dict[str, Any]] = [{"n": 1}, {"n": 2, "empty": None}, {"n": 2.5}, {"text": "x"}]
    for (key, job), figures in zip(asked.unique.items(), late, strict=True):
        data.add(job, Outcome(key, "done", figures))
        data.write()
    files = sorted((tmp_path / "results").rglob("*.parquet"))
    assert [one.parent.name for one in files] == ["how=a%3Db%2Fc"] * 2 + ["how=d"] * 2
    schemas = [pq.read_schema(one) for one in files]
    assert all(one.equals(schemas[0]) for one in schemas)
    assert str(schemas[0].field("n").type) == "double"
    assert str(schemas[0].field("empty").type) == "double"
    assert "how" not in schemas[0].names
    read = pd.read_parquet(tmp_path / "results")
    assert sorted(read["how"].astype(str)) == ["a=b/c", "a=b/c", "d", "d"]
    rows = duckdb.execute(
        f"select how, n from read_parquet('{tmp_path}/results/**/*.parquet', "
        "hive_partitioning = true) order by all"
    ).fetchall()
    assert rows == [("a=b/c", 1.0), ("a=b/c", 2.0), ("d", 2.5), ("d", None)]
    assert data.table().num_rows == 4


def test_readers_open_a_dataset_while_it_is_written(tmp_path: Path) -> None:
    asked = made(axes={"how": ["a", "b", "c"], "x1": list(range(60))})
    data = Dataset(tmp_path, Store(str(tmp_path / "store")), ["how"])
    every = f"{tmp_path}/results/**/*.parquet"
    ended, errors, seen = threading.Event(), [], [0, 0, 0]

    def duck() -> Any:
        found = duckdb.connect().execute(
            f"select task from read_parquet('{every}', hive_partitioning = true)"
        )
        return [one for (one,) in found.fetchall()]

    def polar() -> Any:
        return pl.scan_parquet(every, hive_partitioning=True).collect()["task"].to_list()

    def panda() -> Any:
        return pd.read_parquet(tmp_path / "results")["task"].to_list()

    def look(number: int, read: Any) -> None:
        while not ended.is_set():
            try:
                tasks = read()
                assert len(tasks) == len(set(tasks)), "a job is seen twice"
                assert len(tasks) >= seen[number], "a job is gone"
                seen[number] = len(tasks)
            except Exception as error:
                errors.append((number, repr(error)))

    rows = list(asked.unique.items())
    for key, job in rows[:3]:
        data.add(job, Outcome(key, "done", {"y": 1.0, "n": 1}))
    data.write()
    threads = [threading.Thread(target=look, args=one) for one in enumerate((duck, polar, panda))]
    for thread in threads:
        thread.start()
    for number, (key, job) in enumerate(rows[3:]):
        data.add(job, Outcome(key, "done", {"y": 1.0, "n": 1}))
        if number % 3 == 0:
            data.write()
            time.sleep(0.02)
    data.write()
    time.sleep(0.5)
    ended.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert seen == [180, 180, 180]


# The command


@pytest.mark.parametrize("start", ["filled", "fresh"])
def test_a_drive_that_is_counted_begins_in_any_state_that_there_is(start: str) -> None:
    found = count.settings({"source": "synth:zipf(pages=4Ki)", "start": start})
    amplified = count.do(found, Progress()).figures["write_amplification"]
    assert isinstance(amplified, float)
    assert amplified >= 1


def test_all_files_of_a_job_are_inputs_also_those_of_a_list(tmp_path: Path) -> None:
    """Another content under the same name would be taken for known."""
    names = [str(tmp_path / name) for name in ("one.parquet", "two.parquet")]
    for name in names:
        Path(name).touch()
    asked = rust.settings({rust.JOB: "fleet_merge", "sketches": names})
    assert rust.inputs(asked) == names


@pytest.mark.parametrize("degrees", [1, 2, 5, 20, 21, 30, 100, 10_000])
def test_quantiles_of_students_t_are_those_of_a_library(degrees: int) -> None:
    assert t_975(degrees) == pytest.approx(scipy.stats.t.ppf(0.975, degrees), abs=6e-4)


def write(folder: Path, name: str = "S.toml", **document: Any) -> Path:
    """Write a sweep file, whose values JSON and TOML write alike."""
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in document.items()
        if not isinstance(value, dict)
    ]
    for key, value in document.items():
        if isinstance(value, dict):
            lines += [f"[{key}]", *(f"{one} = {json.dumps(given)}" for one, given in value.items())]
    (folder / name).write_text("\n".join(lines))
    return folder / name


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "flashwright", "sweep", *words]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "python")}


def sweep(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command as it is run: its processes import the kind of job of these tests."""
    done = subprocess.run(
        command(*words), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr or done.stdout
    return done


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pd.read_parquet(folder / "results").to_dict("records")
    return found


def test_a_sweep_from_its_file_to_its_report(tmp_path: Path) -> None:
    axes = {"placement": ["none", "dac"], "over_provisioning": [0.2, 0.4]}
    write(tmp_path, **COUNT, axes=axes, replications=2, tables=["wear"])
    said = sweep(tmp_path, "S.toml", "--dry-run").stdout
    assert "8 jobs, 0 known already. How long one takes is unknown" in " ".join(said.split())
    done = sweep(tmp_path, "S.toml", "--out", "out")
    assert "Best points" in done.stdout
    run = Run.read(tmp_path / "out")
    assert run.result["complete"]
    assert run.result["done"] == 8
    assert run.tables["points"].num_rows == 4
    assert len(rows(tmp_path / "out")) == 8
    wear = pd.read_parquet(tmp_path / "out" / "tables" / "wear")
    assert wear["task"].nunique() == 8
    report = (tmp_path / "out" / "report.html").read_text()
    for title in ("Best points", "What each axis does", "Interactions"):
        assert title in report
    again = sweep(tmp_path, "S.toml", "--out", "out", "--resume")
    assert "8 of 8 jobs were finished by an earlier run" in again.stdout
    said = " ".join(sweep(tmp_path, "S.toml", "--dry-run").stdout.split())
    assert "8 known already: nothing is left to do." in said


POLICY = """
import numpy as np
import flashwright as fw


class Halves(fw.Placement):
    streams = 2

    def host_streams(self, lpns, previous_blocks, previous_streams, flash):
        return (lpns > flash.logical_pages // 2).astype(np.uint16)

    def relocation_streams(self, block, stream, offsets, lpns, flash):
        return np.full(len(lpns), stream, np.uint16)
"""


def test_a_policy_of_ones_own_is_swept_and_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(POLICY)
    write(tmp_path, **COUNT, axes={"placement": ["none", "mine.py:Halves"]})
    sweep(tmp_path, "S.toml", "--out", "out")
    found = {one["placement"]: one["write_amplification"] for one in rows(tmp_path / "out")}
    assert found["mine.py:Halves"] != found["none"]
    here = fw.compare(
        COUNT["fixed"]["source"],
        placements=[str(tmp_path / "mine.py")],
        victims=["greedy"],
        over_provisionings=[0.2],
    )
    [row] = here["results"]
    assert row["write_amplification"] == found["mine.py:Halves"]
    assert "2 known already" in sweep(tmp_path, "S.toml", "--dry-run").stdout
    (tmp_path / "mine.py").write_text(POLICY.replace("// 2", "// 4"))
    assert "1 known already" in sweep(tmp_path, "S.toml", "--dry-run").stdout


def test_a_dry_run_says_how_long_it_takes(tmp_path: Path) -> None:
    write(tmp_path, job=KIND, axes={"x1": [1, 2]})
    sweep(tmp_path, "S.toml", "--out", "out")
    write(tmp_path, job=KIND, axes={"x1": [1, 2, 3, 4]})
    found = json.loads(sweep(tmp_path, "S.toml", "--dry-run", "--jobs", "1", "--json", "-").stdout)
    assert (found["jobs"], found["known"], found["left"]) == (4, 2, 2)
    assert found["seconds_left"] == pytest.approx(2 * found["seconds_each"])
    assert found["most_bytes"] > 1 << 20
    # Of another sweep none is known; how long jobs of its kind take is.
    write(tmp_path, job=KIND, axes={"x1": [7, 8]})
    said = " ".join(sweep(tmp_path, "S.toml", "--dry-run", "--jobs", "1").stdout.split())
    assert "2 jobs, 0 known already. Of other jobs of this kind one took" in said
    write(tmp_path, **COUNT, axes={"placement": ["none"]})
    assert "no job of this kind is in the store" in sweep(tmp_path, "S.toml", "--dry-run").stdout


def test_a_job_that_fails_costs_the_others_nothing(tmp_path: Path) -> None:
    write(tmp_path, job=KIND, axes={"x1": [1, 2], "fail": [False, True]})
    done = sweep(tmp_path, "S.toml", "--out", "out", code=1)
    assert done.stderr.strip().endswith("was told to fail (and 1 more)")
    assert len(done.stderr.splitlines()) == 1
    found = rows(tmp_path / "out")
    assert sorted(one["ended"] for one in found) == ["done", "done", "error", "error"]
    result = Run.read_result(tmp_path / "out").result
    assert not result["complete"]
    assert result["failed"] == 2
    assert "Jobs without a result" in (tmp_path / "out" / "report.html").read_text()


def test_resume_needs_something_that_was_begun(tmp_path: Path) -> None:
    write(tmp_path, job=KIND, axes={"x1": [1, 2]})
    said = sweep(tmp_path, "S.toml", "--resume", code=2).stderr
    assert "--resume: nothing of S.toml is in runs/store" in said
    assert len(said.splitlines()) == 1


def test_a_goal_that_no_job_has_ends_the_sweep_early(tmp_path: Path) -> None:
    write(tmp_path, job=KIND, goal="third_", axes={"x1": list(range(200))}, fixed={"sleep": 0.2})
    said = sweep(tmp_path, "S.toml", code=2).stderr
    assert "goal: third_: a job has no such figure; right would be third" in said


def test_within_a_time_the_rest_is_left(tmp_path: Path) -> None:
    write(tmp_path, job=KIND, axes={"x1": list(range(40))}, fixed={"sleep": 0.3})
    done = sweep(tmp_path, "S.toml", "--within", "1s", "--out", "out")
    left = Run.read_result(tmp_path / "out").result["left"]
    assert 0 < left < 40
    assert f"{left} of 40 jobs are left; the same command goes on" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_is_stopped_keeps_what_is_finished(tmp_path: Path, number: int) -> None:
    log, axes = tmp_path / "log", {"x1": list(range(24))}
    write(tmp_path, job=KIND, axes=axes, fixed={"sleep": 0.2, "log": str(log)})
    words = command("S.toml", "--out", "out", "--jobs", "2")
    with subprocess.Popen(words, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE) as started:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(list((tmp_path / "runs").rglob("*.json"))) < 7:
            time.sleep(0.02)
        started.send_signal(number)
        _, error = started.communicate(timeout=60)
    if number == signal.SIGINT:
        assert started.returncode == 130
        assert b"of 24" in error
        assert "finished" in error.decode()
        assert 6 <= len(rows(tmp_path / "out")) < 24
    before = log.read_text().splitlines()
    finished = len(list((tmp_path / "runs").rglob("??/*.json")))
    assert 6 <= finished < 24
    with contextlib.suppress(FileNotFoundError):
        assert Run.read_result(tmp_path / "out").result["complete"] is False
    sweep(tmp_path, "S.toml", "--out", "out", "--resume")
    assert len(rows(tmp_path / "out")) == 24
    # Only what was under way, and what was not begun.
    assert len(log.read_text().splitlines()) - len(before) == 24 - finished
    assert not processes_of(str(tmp_path))


def test_a_sweep_in_python_has_a_row_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"job": KIND, "axes": {"x1": [1, 2, 3]}, "replications": 2}
    found = fw.sweep(asked, jobs=2, progress=False)
    assert found["done"] == 6
    assert len(found.table("jobs")) == 6
    assert found.rows["mean"].tolist() == pytest.approx([1.15, 2.15, 3.15])
    assert "sweep(" in found.provenance["command"][0]
    assert found.plots()
    with pytest.raises(RunError, match="no job has a result"):
        fw.sweep({**asked, "fixed": {"fail": True}}, jobs=2, progress=False)


def test_fewer_at_a_time_where_memory_is_short(tmp_path: Path) -> None:
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    write(tmp_path, job=KIND, axes={"x1": [1, 2]}, memory=room // 2 + 1)
    done = sweep(tmp_path, "S.toml", "--jobs", "8")
    assert "1 at a time instead of 8: each may hold" in " ".join(done.stdout.split())


def test_wrong_use_is_said(tmp_path: Path, cli: Cli) -> None:
    write(tmp_path, **COUNT, axes={"seed": [1]})
    for words, said in (
        (["--address", "x"], "--address: it is of --engine ray"),
        (["--detach"], "--detach: it is for a cluster"),
        (["--detach", "--engine", "ray"], "--detach: name a --store"),
        (["--within", "soon"], "right would be a time such as 90, 5min or 2h"),
    ):
        assert said in cli("sweep", "S.toml", *words, code=2).stderr


def test_design_shares_are_in_order() -> None:
    axis = file.Range(1, 3, integer=True)
    assert [design.at(axis, share) for share in (0, 0.3, 0.4, 0.7, 0.999)] == [1, 1, 2, 3, 3]
    assert [design.at(["a", "b"], share) for share in (0, 0.49, 0.5, 0.999)] == ["a", "a", "b", "b"]


@pytest.mark.parametrize("name", ["policies.toml", "drives.toml", "sensitivity.toml"])
def test_examples_of_docs_run_and_so_does_the_script_on_them(name: str, tmp_path: Path) -> None:
    for file_name, example in sweeps():
        (tmp_path / file_name).write_text(example)
    sweep(tmp_path, name, "--out", name.removesuffix(".toml"))
    if name != "drives.toml":
        return
    text = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    script = text.partition("```python\n")[2].partition("```")[0]
    assert len(script.splitlines()) <= 20
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=100)
    assert "intel-x25m" in (tmp_path / "best.html").read_text()


def test_the_files_for_clusters_are_whole() -> None:
    yaml = pytest.importorskip("yaml")
    cluster = yaml.safe_load((ROOT / "deploy" / "kuberay.yaml").read_text())
    assert (cluster["kind"], cluster["apiVersion"]) == ("RayCluster", "ray.io/v1")
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    for group in groups:
        for container in group["template"]["spec"]["containers"]:
            assert container["image"]
            assert container["resources"]["limits"] == container["resources"]["requests"]
    script = ROOT / "deploy" / "slurm.sh"
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", script], check=True)


def test_the_script_for_slurm_starts_a_node_each_and_ends_as_the_sweep(tmp_path: Path) -> None:
    """With stand-ins for Slurm, Ray and the command, which log what they are asked."""
    stand_in = '#!/bin/bash\necho "$(basename "$0") $*" >> "$LOG"\n'
    programs = {
        "scontrol": "printf 'a\\nb\\nc\\n'",
        "srun": 'case "$*" in *hostname*) echo 10.0.0.1 ;; esac',
        "ray": "exit 0",
        "flashwright": "exit 7",
    }
    for name, does in programs.items():
        (tmp_path / name).write_text(f"{stand_in}{does}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "SLURM_JOB_NODELIST": "x[1-3]",
        "SLURM_MEM_PER_CPU": "2048",
        "SLURM_CPUS_PER_TASK": "16",
    }
    script = [str(ROOT / "deploy" / "slurm.sh"), "S.toml", "--within", "2h"]
    done = subprocess.run(script, env=environment, check=False, timeout=60)
    assert done.returncode == 7
    time.sleep(0.3)
    log = (tmp_path / "log").read_text().splitlines()
    starts = [line for line in log if "ray start" in line]
    assert len(starts) == 3
    assert next(line for line in starts if "--head" in line).count("--nodelist=a") == 1
    asked = "flashwright S.toml --within 2h --engine ray --address 10.0.0.1:6379"
    assert asked.replace(" S", " sweep S") in log
