"""`transactions`: what it plays and measures, what it refuses, how it stops."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

import flashwright as fw
from browsing import check_report
from flashwright._core import InputError
from flashwright.runs import Run
from support import Cli, wait_until_used

SMALL = ("replication-table-2", "media.erase_blocks_per_plane=512")
LOAD = "tpcb(bytes=40M)"


def on(*more: str) -> tuple[str, str]:
    """Give the drive with more of it stated."""
    return "--on", f"profile({', '.join((*SMALL, *more))})"


DRIVE = on()


def play(
    cli: Cli, *words: str, source: str = LOAD, drive: tuple[str, str] = DRIVE
) -> dict[str, Any]:
    """Give the result of a play."""
    done = cli("transactions", source, *drive, *words, "--json", "-")
    return dict(json.loads(done.stdout))


def refused(cli: Cli, *words: str) -> str:
    """Give the one line that says why it is not played."""
    done = cli("transactions", *words, code=2)
    assert done.stderr.count("\n") == 1, done.stderr
    return str(done.stderr)


def write_trace(path: Path, transactions: int, pages: int = 64) -> Path:
    """Write transactions that read one page and change another."""
    rows: list[tuple[int, str, int | None, int | None]] = []
    for number in range(transactions):
        rows.append((number, "begin", None, None))
        rows.append((number, "read", 0, number * 7 % pages))
        rows.append((number, "write", 0, number * 5 % pages))
        rows.append((number, "commit", None, None))
    columns = dict(
        zip(("transaction", "kind", "relation", "page"), zip(*rows, strict=True), strict=True)
    )
    pq.write_table(pa.table(columns), path)
    return path


def test_copies_on_other_dies_are_those_of_the_measured_part(cli: Cli) -> None:
    keys = ("cleaning.occupies_die=true", "ftl.over_provisioning=0.3", "replication.policy=lru")
    words = ("--warm-up", "8k", "--transactions", "2k", "--clients", "5")
    found = play(cli, *words, drive=on(*keys))
    copies, counts = found["replication"], found["replication"]["counts"]
    assert counts["replica_page_writes"] > 0
    for key in ("reads_by_ios", "writes_by_ios"):
        assert sum(copies[key]) == pytest.approx(1)
    # A warm-up four times as long would show.
    written = counts["host_page_writes"] + counts["replica_page_writes"]
    assert 0 < written <= found["flash"]["page_programs"]
    assert play(cli, *words, drive=on(*keys[:2]))["replication"] is None


def test_layers_lie_between(cli: Cli) -> None:
    stack = "replicas(partitions=4,page=8Ki,patience=300us,read_threshold=0)"
    words = ("--clients", "5", "--no-log", "--transactions", "2k", "--pool", "64")
    found = play(cli, *words, "--warm-up", "4k", "--stack", stack)
    (layer,) = found["layers"]
    counted = layer["counters"]
    assert (layer["layer"], found["settings"]["stack"]) == ("replicas", stack)
    assert counted["extra_writes"] > 0
    # Of the measured part alone: the warm-up is twice as long. A few are under way at its ends.
    for name, kind in (("read", "rread"), ("write_back", "rwrite")):
        calls = sum(counted[f"{kind}_{number}"] for number in (1, 2, 3))
        assert calls == pytest.approx(found["io_ns"][name]["count"], abs=10)
    programs = found["flash"]["page_programs"] * found["flash"]["page_bytes"]
    assert programs > 8192 * (found["io_ns"]["write_back"]["count"] + counted["extra_writes"] // 2)
    direct = play(cli, *words, "--warm-up", "4k")
    assert direct["layers"] == []
    assert direct["settings"] == {**found["settings"], "stack": "direct"}


def test_figures_add_up(cli: Cli) -> None:
    found = play(cli, "--transactions", "2k", "--clients", "5")
    assert (found["committed"], found["complete"]) == (2000, True)
    mean_s = found["response_ns"]["mean"] / 1e9
    # Little: clients that never think.
    assert found["transactions_per_second"] * mean_s == pytest.approx(5, rel=0.02)
    assert sum(found["client_share"].values()) == pytest.approx(1)
    assert sum(found["die_share"].values()) == pytest.approx(1, abs=0.01)
    assert found["transactions"]["scale"] == {"branches": 3}
    assert found["io_ns"]["log"]["count"] > 0


def test_several_drives_are_one(cli: Cli) -> None:
    words = ("--transactions", "500")
    one = play(cli, *words)["device"]

    def array(more: str) -> tuple[str, str]:
        return "--on", f"array(diff_raid(shares=70), of={DRIVE[1]}, drives=3{more})"

    several = play(cli, *words, drive=array(""))["device"]
    assert several["capacity_bytes"] == pytest.approx(2 * one["capacity_bytes"], rel=0.01)
    assert several["state"]["array"] == {
        "kind": "diff_raid(shares=70)",
        "drives": 3,
        "missing": None,
    }
    assert "array" not in one["state"]
    without = play(cli, *words, drive=array(", missing=1"))["device"]
    assert without["name"].endswith("without drive 1")
    assert "unknown array `x`" in refused(cli, LOAD, "--on", "array(x, of=intel-x25e)")
    assert "`drives`" in refused(cli, LOAD, *on("drives=3"))
    on_real = ("--on", "array(raid5, of=memory(bytes=64Mi))")
    assert "memory" in refused(cli, LOAD, *on_real)


def test_a_fragmented_drive_is_slower(cli: Cli) -> None:
    words = ("--transactions", "2k", "--no-log", "--pool", "64")
    restored = play(cli, *words, drive=on("state=fresh"))
    aged = play(cli, *words, drive=on("state=aged"))
    rates = aged["transactions_per_second"], restored["transactions_per_second"]
    assert rates[0] < 0.8 * rates[1]
    assert aged["die_share"]["cleaning"] > restored["die_share"]["cleaning"]
    assert play(cli, *words, drive=on("state=fresh"))["response_ns"] == restored["response_ns"]


def test_a_trace_is_played_once_or_again(cli: Cli, tmp_path: Path) -> None:
    trace = str(write_trace(tmp_path / "accesses.parquet", 300))
    found = play(cli, "--clients", "4", source=trace)
    assert (found["committed"], found["locks"]) == (300, "page")
    assert found["transactions"]["counts"]["writes"] == 300
    again = play(cli, "--repeat", "--transactions", "1k", source=trace)
    assert again["committed"] == 1000


def test_what_cannot_be_played_is_told_in_one_line(cli: Cli, tmp_path: Path) -> None:
    trace = str(write_trace(tmp_path / "accesses.parquet", 3))
    assert "locks on pages" in refused(cli, trace, *DRIVE, "--locks", "row")
    assert "benchmarks that are built in are: tpcc, tpcb, tatp" in refused(cli, "tpcx", *DRIVE)
    assert "right would be a smaller database" in refused(cli, "tpcb(bytes=90G)", *DRIVE)
    assert "known are: lru, clock, cflru_e" in refused(cli, LOAD, *DRIVE, "--buffer", "mru")
    assert "known are: detect, wait_die" in refused(cli, LOAD, *DRIVE, "--lock-rule", "hope")
    assert "unknown layer `shield`" in refused(cli, LOAD, *DRIVE, "--stack", "shield")
    smaller = ("--on", "memory(bytes=60Mi)", "--stack", "replicas(budget=0.6,page=8Ki)")
    assert "right would be a smaller database" in refused(cli, LOAD, *smaller)
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(64 << 20))
    assert "add --write" in refused(cli, LOAD, "--on", str(disk))


def test_a_function_is_the_command(cli: Cli) -> None:
    words = ("--transactions", "300", "--pool", "5%", "--no-log", "--clients", "3")
    shown = play(cli, *words)
    found = fw.transactions(
        LOAD, on=DRIVE[1], transactions=300, pool="5%", no_log=True, clients=3, progress=False
    )
    given = json.loads(json.dumps({**found, "provenance": shown["provenance"]}))
    assert given == {key: shown[key] for key in given}
    assert found.tables == ["response", "windows"]
    with pytest.raises(InputError, match="clients: 0: it must be 1 to 65536"):
        fw.transactions(LOAD, on=DRIVE[1], clients=0, progress=False)
    with pytest.raises(InputError, match="on: no device is named"):
        fw.transactions(LOAD, progress=False)


def test_a_sweep_takes_the_job(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "job": "transactions",
        "fixed": {"source": LOAD, "on": DRIVE[1], "transactions": 300, "stack": "direct"},
        "axes": {"clients": [1, 4], "on.ftl.over_provisioning": [0.2, 0.5]},
    }
    found = fw.sweep(document, store=str(tmp_path / "store"), jobs=1, progress=False)
    jobs = found.table("jobs").to_arrow().to_pylist()
    rates = {
        (one["clients"], one["on_ftl_over_provisioning"]): one["transactions_per_second"]
        for one in jobs
    }
    assert len(rates) == 4
    assert found.rows["mean"].tolist() == sorted(rates.values(), reverse=True)
    drive = on("ftl.over_provisioning=0.5")[1]
    alone = fw.transactions(LOAD, on=drive, transactions=300, clients=4, progress=False)
    assert alone["transactions_per_second"] == rates[4, 0.5]
    document["fixed"]["on"] = str(tmp_path)
    with pytest.raises(InputError, match="a sweep runs on simulated drives"):
        fw.sweep(document, progress=False)


def test_the_report_has_its_plots(cli: Cli, tmp_path: Path, browser: Browser) -> None:
    folder = tmp_path / "run"
    done = cli("transactions", LOAD, *DRIVE, "--transactions", "2k", "--out", str(folder))
    assert "transactions a second" in done.stdout
    assert set(Run.read(folder).tables) == {"windows", "response"}
    check_report(browser, folder / "report.html")


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = (LOAD, *DRIVE, "--transactions", "1G", "--out", str(folder))
    process = subprocess.Popen([sys.executable, "-m", "flashwright", "transactions", *words])
    try:
        wait_until_used(process, 3)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    result = Run.read(folder).result
    assert result["complete"] is False
    assert result["committed"] > 0
