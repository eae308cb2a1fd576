"""Stores of many volumes: studied, compared and advised on, a job a volume."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import flashwright as fw
from flashwright.comparing import counting as count
from flashwright.engine import worker
from flashwright.engine.store import Store
from flashwright.engine.task import Found, Limits, task_of, version_hash
from flashwright.engine.worker import Order
from flashwright.fleet.counting import erase_block_pages
from flashwright.jobs import generic
from support import Cli

VOLUMES, REQUESTS = 12, 60_000
Document = dict[str, Any]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small fleet: its trace, and the store of it."""
    folder = tmp_path_factory.mktemp("fleet")
    asked = {"volumes": VOLUMES, "requests": REQUESTS, "days": 2, "largest": "64Mi"}
    trace = folder / "fleet.csv"
    generic.run("fleet_synth", {"out": str(trace), **asked})
    generic.run("trace_split", {"sources": [str(trace)], "out": str(folder / "store")})
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """Give a copy of the store, in the folder where commands start."""
    shutil.copytree(made / "store", tmp_path / "store")
    return tmp_path / "store"


def lines(made: Path) -> pl.DataFrame:
    """Read the trace with polars alone: an oracle."""
    names = ["volume", "op", "offset", "length", "us"]
    return pl.read_csv(made / "fleet.csv", has_header=False, new_columns=names)


def pages_written(made: Path) -> pl.DataFrame:
    """Give a row for each page write, in the order of the trace."""
    writes = lines(made).filter(pl.col("op") == "W")
    first, last = pl.col("offset") // 4096, (pl.col("offset") + pl.col("length") - 1) // 4096
    return writes.with_columns(page=pl.int_ranges(first, last + 1)).explode("page")


def test_the_sums_of_a_study_are_those_of_the_trace(
    cli_json: Callable[..., Document], made: Path, store: Path
) -> None:
    found = cli_json("trace", "stats", store.name)
    trace, pages = lines(made), pages_written(made)
    assert (found["volumes"], found["reads"] + found["writes"]) == (VOLUMES, REQUESTS)
    written = trace.filter(pl.col("op") == "W")
    assert found["written_bytes"] == written["length"].sum()
    assert found["page_writes"] == pages.height
    assert found["counted_written_pages"] == pages.select("volume", "page").unique().height
    assert found["written_pages"] == pytest.approx(found["counted_written_pages"], rel=0.02)
    exact = np.quantile(written["length"].to_numpy(), found["shares"], method="inverted_cdf")
    assert found["write_sizes"]["quantiles"] == pytest.approx(exact.tolist(), rel=0.001)


def test_what_was_studied_is_not_studied_again(cli: Cli, made: Path, store: Path) -> None:
    cli("trace", "stats", store.name, "--out", "a")
    assert "Who writes" in (store.parent / "a" / "report.html").read_text()
    again = cli("trace", "stats", store.name, "--out", "b")
    assert f"{VOLUMES} of {VOLUMES} volumes were finished by an earlier run" in again.stdout
    tables = [pl.read_parquet(store.parent / name / "volumes.parquet") for name in "ab"]
    assert tables[0].equals(tables[1])


def test_what_a_split_proposes_works_as_it_is_printed(cli: Cli, made: Path) -> None:
    printed = cli("trace", "split", made / "fleet.csv", "--out", "my store").stdout
    [line] = re.findall(r"^Next:\s+flashwright (.*)$", printed, re.MULTILINE)
    assert f"{VOLUMES} volumes: " in cli(*shlex.split(line)).stdout


@pytest.fixture
def compared(cli_json: Callable[..., Document], store: Path) -> Document:
    """Compare two policies on the store."""
    how = ("--placements", "none,sepbit", "--victims", "greedy", "--op", "0.3,0.6")
    return cli_json("compare", store.name, *how, "--out", "cmp", "--jobs", "2")


def test_sums_are_those_of_the_volumes_one_by_one(compared: Document, store: Path) -> None:
    rows = pl.read_parquet(store.parent / "cmp" / "volumes.parquet")
    assert len(compared["sums"]) == 4
    for one in compared["sums"]:
        at = rows.filter(
            (pl.col("placement") == one["placement"])
            & (pl.col("over_provisioning") == one["over_provisioning"])
        )
        flash = (at["write_amplification"] * at["written_bytes"]).sum()
        assert one["flash_bytes"] == pytest.approx(flash)
        assert one["write_amplification"] == pytest.approx(flash / compared["written_bytes"])
    # One of them by itself, as a trace like any other.
    row = rows.filter(pl.col("one_in") == 1).row(0, named=True)
    alone = fw.simulate(
        fw.load_workload(str(store / f"volume={row['volume']}"), repeat=row["repeat"]),
        placement=row["placement"],
        victim=row["victim"],
        over_provisioning=row["over_provisioning"],
        pages_per_erase_block=row["pages_per_erase_block"],
    )
    assert alone["write_amplification"] == row["write_amplification"]


def test_no_byte_is_missing_from_the_sums(compared: Document, made: Path) -> None:
    all_pages = pages_written(made).height * 4096
    left_out = compared["left_out_share"]
    assert compared["written_bytes"] == pytest.approx(all_pages * (1 - left_out))
    counted = compared["volumes"] + compared["left_out_volumes"] + compared["idle_volumes"]
    assert counted == VOLUMES
    assert (left_out > 0) == (compared["left_out_volumes"] > 0)


def test_the_dataset_opens_in_duckdb(compared: Document, store: Path) -> None:
    path = store.parent / "cmp" / "volumes.parquet"
    query = f"SELECT placement, sum(flash_bytes) FROM '{path}' GROUP BY ALL"
    assert len(duckdb.execute(query).fetchall()) == 2
    assert compared["complete"]


def test_advice_says_how_many_drives_wear_out(
    cli: Cli, cli_json: Callable[..., Document], store: Path
) -> None:
    found = cli_json("advise", store.name, "--device", "nvme-tlc", "--out", "adv")
    drive = found["drive"]
    for one in found["sums"]:
        a_year = found["bytes_per_day"] * one["write_amplification"] * 365.25
        assert one["drives_worn_a_year"] == pytest.approx(a_year / drive["endurance_bytes"])
        room = drive["capacity_bytes"] * (1 - one["left_free"])
        assert one["drives"] == pytest.approx(found["data_bytes"] / room)
        most = max(one["drives"], 5 * one["drives_worn_a_year"])
        assert one["drives_bought"] == pytest.approx(most)
    assert {round(one["left_free"], 2) for one in found["sums"]} == {0, 0.07, 0.15, 0.28}
    page = (store.parent / "adv" / "report.html").read_text()
    assert "drives worn out a year" in page
    refused = cli("advise", store.name, code=2).stderr
    assert "--device nvme-tlc" in refused
    assert "map pages" in cli("advise", store.name, "--device", "mtron-pro-7500", code=2).stderr


def test_a_part_of_a_store_says_its_sample(
    cli_json: Callable[..., Document], cli: Cli, store: Path
) -> None:
    how = ("--placements", "none", "--op", "0.5", "--victims", "greedy")
    all_pages = cli_json("compare", f"part({store.name}, sample=1)", *how)
    assert all_pages["sample"] == 1
    assert all_pages["sampled_volumes"] == 0
    # All volumes are too small for a sample: 32 Ki pages are left at least.
    sampled = cli_json("compare", f"part({store.name}, sample=64)", *how)
    assert sampled["sums"] == all_pages["sums"]
    studied = cli_json("trace", "stats", f"part({store.name}, sample=4)")
    assert studied["most_one_in"] == 4
    assert studied["written_bytes"] == cli_json("trace", "stats", store.name)["written_bytes"]
    assert "`repeat`" in cli("compare", f"part({store.name}, repeat=2)", *how, code=2).stderr


def test_a_store_is_refused_where_one_volume_is_meant(cli: Cli, store: Path) -> None:
    said = cli("compare", store.name, "synth:zipf(pages=1k)", code=2).stderr
    assert "right would be one of them: store/volume=N" in said
    # One of its volumes is a trace.
    volume = f"{store.name}/volume=1"
    assert "requests" in cli("trace", "stats", volume).stdout
    for words in (("play", volume, "--on"), ("advise", volume, "--device")):
        assert "nvme-tlc" in cli(*words, "nvme-tlc", "--json", "-").stdout
    assert (
        "of a store of many volumes"
        in cli("trace", "stats", "synth:zipf(pages=1k)", "--engine", "ray", code=2).stderr
    )


def test_a_damaged_volume_is_named_and_the_rest_counted(
    cli: Cli, cli_json: Callable[..., Document], store: Path
) -> None:
    part = next((store / "volume=3").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])
    error = cli("trace", "stats", store.name, "--out", "d", code=1).stderr
    assert "volume" in error
    assert part.name in error
    result = json.loads((store.parent / "d" / "result.json").read_text())
    assert not result["complete"]
    assert result["volumes"] == VOLUMES - 1
    assert len(result["failures"]) == 1


def test_an_unfinished_split_is_no_store(cli: Cli, store: Path) -> None:
    manifest = store / "fleet.json"
    manifest.write_text(manifest.read_text().replace('"complete":true', '"complete":false'))
    assert "its split was stopped before the end" in cli("trace", "stats", "store", code=2).stderr
    manifest.write_text("{}")
    assert "no store of volumes" in cli("trace", "stats", "store", code=2).stderr


@pytest.mark.parametrize(
    ("pages", "block"), [(1, 4), (256, 4), (512, 8), (4095, 32), (4096, 64), (1 << 20, 64)]
)
def test_small_volumes_have_small_erase_blocks(pages: int, block: int) -> None:
    assert erase_block_pages(64, pages) == block


def test_the_same_store_gives_the_same_numbers(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    generic.run("trace_split", {"sources": [str(made / "fleet.csv")], "out": str(again)})

    def hashes(folder: Path) -> list[str]:
        files = sorted(folder.rglob("*.parquet"))
        return [hashlib.sha256(one.read_bytes()).hexdigest() for one in files]

    assert hashes(again) == hashes(made / "store")


def test_what_a_volume_has_lost_is_missed_before_anything_is_said(cli: Cli, store: Path) -> None:
    part = next((store / "volume=3").rglob("*.parquet"))
    shutil.copy(part, part.with_name("part-0000009999.parquet"))
    assert "fleet.json says" in cli("trace", "stats", "store", code=2).stderr
    part.with_name("part-0000009999.parquet").unlink()
    part.unlink()
    assert "volume=3: it has" in cli("compare", "store", code=2).stderr
    shutil.rmtree(store / "volume=3")
    assert "volume=3: it has 0 files" in cli("trace", "stats", "store", code=2).stderr


def test_figures_of_a_volume_that_changed_meanwhile_are_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "volume=1"
    folder.mkdir()
    (folder / "a").write_text("1")
    task = task_of("test_fleet", {"source": str(folder)}, [str(folder)])
    results = Store(str(tmp_path / "kept"))
    order = Order(task, Limits(), results.url, results.open(), version_hash(), "1")
    reply = worker.do(order)
    assert (reply.outcome.ended, reply.is_kept) == ("died", False)
    assert "changed while it was read" in str(reply.outcome.error)
    assert not list(results.known([task.key]))


def do(settings: dict[str, Any], _: Any) -> Found:
    """Change what is read: this module is a kind of job."""
    (Path(settings["source"]) / "a").write_text("two")
    return Found({"figure": 1})


def test_times_before_the_first_are_told_of_a_store(cli: Cli, tmp_path: Path) -> None:
    rows = [f"{one % 2},W,{4096 * one},4096,{1000 + one}" for one in range(50)]
    (tmp_path / "fleet.csv").write_text("\n".join([*rows, "1,W,0,4096,10"]) + "\n")
    cli("trace", "split", "fleet.csv", "--out", "told")
    for words in (("trace", "stats"), ("compare", "--placements", "none", "--op", "1")):
        said = " ".join(cli(*words, "told").stdout.split())
        assert "1 time lay before that of the first request, which is taken in their place." in said


def test_advice_on_a_store_takes_workers_and_results_of_ones_own(cli: Cli, store: Path) -> None:
    asked = ("advise", store.name, "--device", "nvme-tlc", "--jobs", "1", "--store", "mine")
    assert "drives" in cli(*asked).stdout
    assert (store.parent / "mine" / "flashwright-store.json").is_file()
    assert not (store.parent / "runs" / "store").exists()
    assert "leave it out" in cli("advise", "synth:zipf(pages=1k)", "--store", "x", code=2).stderr


def test_other_options_of_advice_are_not_passed_over(cli: Cli, store: Path) -> None:
    for given in (("--size", "1T"), ("--writes-per-day", "40G"), ("--goal", "latency")):
        said = cli("advise", store.name, "--device", "nvme-tlc", *given, code=2).stderr
        assert f"{given[0]}: it is of one trace" in said


def test_a_sample_is_what_a_part_says_and_no_name(
    cli_json: Callable[..., Document], store: Path
) -> None:
    store.rename(store.with_name("my_sample_store"))
    how = ("--placements", "none", "--op", "0.5", "--victims", "greedy")
    assert cli_json("compare", "my_sample_store", *how)["sample"] == 8


def test_a_long_description_of_a_workload_is_no_path(cli: Cli) -> None:
    spec = f"synth:zipf(pages=4k,updates=2x,s=0.{'9' * 300})"
    assert "requests" in cli("trace", "stats", spec).stdout


def test_a_sampled_trace_says_so(cli: Cli, tmp_path: Path) -> None:
    cli("trace", "convert", "synth:uniform(pages=100k,updates=4x)", "x.parquet")
    how = ("--placements", "none", "--op", "0.3", "--victims", "greedy", "--out", "run")
    # As many as asked for would leave too few.
    said = "One page in 2 was followed"
    part = f"part({tmp_path}/x.parquet, sample=8)"
    assert count.settings({"source": part})["sample"] == 8
    assert said in cli("compare", "part(x.parquet, sample=8)", *how).stdout
    assert said in (tmp_path / "run" / "report.html").read_text()
    assert "sample is 0" in cli("compare", "part(x.parquet, sample=0)", code=2).stderr
    assert (
        "which only counting takes"
        in cli("play", "part(x.parquet, sample=2)", "--on", "nvme-tlc", code=2).stderr
    )
