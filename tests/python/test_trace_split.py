"""`trace split`: a trace of many volumes as a store that any data tool opens."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from support import Cli, drawn_on, on_terminal, write_trace

START_US = 1_577_808_000_000_000
DAY_US = 86_400_000_000
NEXT = "Next:   flashwright trace stats store"
Line = tuple[int, str, int, int, int]
"""Volume, R or W, offset, length, microseconds since the start."""


def some(count: int = 600) -> list[Line]:
    """Give requests of three volumes over three days, two writes and then a read."""
    return [
        ((3, 17, 4_000)[number % 3], "WWR"[number % 7 % 3], number * 8192, 4096, number * day)
        for day in (3 * DAY_US // count,)
        for number in range(count)
    ]


def write(path: Path, lines: Sequence[Line]) -> str:
    """Write lines as Alibaba has them."""
    text = "".join(
        f"{volume},{op},{offset},{length},{START_US + at}\n"
        for volume, op, offset, length, at in lines
    )
    path.write_text(text)
    return path.name


def table_of(store: Path) -> pl.LazyFrame:
    """Open a store with polars, as people do."""
    return pl.scan_parquet(store / "*" / "*" / "*.parquet", hive_partitioning=True)


def test_a_store_is_a_table_of_all_requests(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    lines = some()
    found = cli_json("trace", "split", write(tmp_path / "a.csv", lines), "--out", "store")
    written = sum(length for _, op, _, length, _ in lines if op == "W")
    assert (found["command"], found["format"], found["volumes"]) == ("trace_split", "alibaba", 3)
    assert (found["requests"], found["written_bytes"]) == (len(lines), written)
    assert found["read_bytes"] == 4096 * len(lines) - written
    assert sum(one["requests"] for one in found["of_volumes"]) == len(lines)
    parts = list((tmp_path / "store").glob("volume=*/time=*/part-*.parquet"))
    # Three volumes in three days.
    assert len(parts) == found["parts"] == 9

    counts = table_of(tmp_path / "store").group_by("volume", "time").len().collect()
    assert counts["len"].sum() == len(lines)
    assert sorted(counts["volume"].unique()) == [3, 17, 4_000]
    assert sorted(counts["time"].unique()) == [0, 1, 2]
    files = tmp_path / "store" / "*" / "*" / "*.parquet"
    rows = duckdb.execute(
        "select volume, sum(length) filter (op = 'write'), min(time_ns // 86400000000000 - time), "
        f"max(time_ns // 86400000000000 - time) from read_parquet('{files}', "
        "hive_partitioning = true) group by volume order by volume"
    ).fetchall()
    of = {one["volume"]: one["written_bytes"] for one in found["of_volumes"]}
    assert rows == [(volume, of[volume], 0, 0) for volume in sorted(of)]


def test_windows_are_as_long_as_asked_and_files_stay_in_their_order(
    cli: Cli, tmp_path: Path
) -> None:
    """Names do not decide, and of each file the times are on one clock."""
    lines = some()
    last, first = write(tmp_path / "1.csv", lines[300:]), write(tmp_path / "2.csv", lines[:300])
    said = cli("trace", "split", first, last, "--out", "store", "--window", "1h").stdout
    table = table_of(tmp_path / "store").sort("time_ns").collect()
    assert table["offset"].to_list() == [offset for _, _, offset, _, _ in lines]
    assert table["time_ns"].to_list() == [at * 1000 for *_, at in lines]
    assert (table["time"] == table["time_ns"] // (3600 * 10**9)).all()
    assert "before the first request" not in said
    said = cli("trace", "split", last, first, "--out", "other").stdout
    assert re.search(r"times before the first request, set to 0 +300\n", said)


def test_the_result_is_short_and_says_how_to_go_on(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write(tmp_path / "a.csv", some())
    said = cli("trace", "split", name, "--out", "store").stdout
    for row in (r"volumes +3", r"requests +600", r"written +\d.* MiB", r"time traced +3\S* days"):
        assert re.search(rf"^{row}$", said, re.MULTILINE), (row, said)
    assert "skipped" not in said
    assert "from before" not in said
    assert said.endswith(f"{NEXT}\n")
    again = cli("trace", "split", name, "--out", "store", "--threads", "1").stdout
    assert "All 600 requests were there from before." in again
    assert re.search(r"files +9\n", again)
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli("trace", "split", name, "--out", "store").stdout.split("\n"))) <= 80


def test_a_store_that_is_complete_is_not_read_again(cli_json: Any, tmp_path: Path) -> None:
    name = write(tmp_path / "a.csv", some())
    first = cli_json("trace", "split", name, "--out", "store")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*.*")}
    again = cli_json("trace", "split", name, "--out", "store", "--memory", "64Mi")
    assert (first["resumed_requests"], again["resumed_requests"]) == (0, 600)
    assert again["of_volumes"] == first["of_volumes"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*.*")} == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--window", "1h"], "--out: store: its windows are of 86400 s, not of 3600 s"),
        (["--skip-bad", "3"], "--out: store: it was begun with another format, or other lines"),
        (["--threads", "0"], "--threads: right would be 1 to 64"),
        (["--window", "0"], "--window: `0` is not a duration above 0"),
        (["--memory", "much"], "--memory: `much` is not a size in bytes"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_other_options_are_refused_in_one_line(
    cli: Cli, tmp_path: Path, options: list[str], said: str
) -> None:
    words = ["trace", "split", write(tmp_path / "a.csv", some(30)), "--out", "store"]
    cli(*words)
    error = cli(*words, *options, code=2).stderr
    assert error.startswith(f"flashwright: error: {said}")
    assert error.count("\n") == 1


def test_another_trace_is_refused_for_the_same_store(cli: Cli, tmp_path: Path) -> None:
    name, other = write(tmp_path / "a.csv", some(30)), write(tmp_path / "b.csv", some(60))
    cli("trace", "split", name, "--out", "store")
    error = cli("trace", "split", other, "--out", "store", code=2).stderr
    assert "--out: store: it is a store of a.csv, not of b.csv" in error
    assert "right would be the same inputs and options, or a new folder" in error
    write(tmp_path / "a.csv", some(60))
    error = cli("trace", "split", name, "--out", "store", code=2).stderr
    assert "it is a store of another a.csv: its content has changed" in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "new"], "Missing argument 'TRACE...'"),
        (["a.csv"], "Missing option '--out'"),
        (["none.csv", "--out", "new"], "none.csv: open failed: No such file"),
        (["a.csv", "--out", "full"], "full: the folder is not empty and no store"),
        (["a.csv", "--out", "a.csv"], "is not a folder"),
        (["disk.parquet", "--out", "new"], "(--by-stream)"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_wrong_use_is_one_line(cli: Cli, tmp_path: Path, words: list[str], said: str) -> None:
    write(tmp_path / "a.csv", some(30))
    write_trace(tmp_path / "disk.parquet")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("what I know\n")
    error = cli("trace", "split", *words, code=2).stderr
    assert said in error
    assert error.count("\n") == 1


def test_a_malformed_line_names_file_and_line_and_may_be_left_out(cli: Cli, tmp_path: Path) -> None:
    good = write(tmp_path / "a.csv", some(30))
    (tmp_path / "b.csv").write_text((tmp_path / "a.csv").read_text() + "3,Scribble,0,4096,1\n")
    error = cli("trace", "split", good, "b.csv", "--out", "store", code=2).stderr
    assert error.startswith("flashwright: error: b.csv, line 31: ")
    assert "Scribble" in error
    assert error.count("\n") == 1
    said = cli("trace", "split", good, "b.csv", "--out", "other", "--skip-bad", "1").stdout
    assert re.search(r"malformed records skipped +1\n", said)
    assert re.search(r"requests +60\n", said)


def test_streams_of_any_format_are_volumes_where_they_are_said_to_be(
    cli_json: Any, tmp_path: Path
) -> None:
    rows = "".join(f"{number} {number * 4096} 4096 W {number % 2}\n" for number in range(50))
    (tmp_path / "mine.txt").write_text(rows)
    columns = "columns(time=1,unit=s,offset=2,length=3,op=4,stream=5)"
    words = ["mine.txt", "--out", "store", "--by-stream", "--format", columns]
    found = cli_json("trace", "split", *words)
    assert [(one["volume"], one["writes"]) for one in found["of_volumes"]] == [(0, 25), (1, 25)]


def test_ctrl_c_ends_it_and_the_same_command_goes_on(cli: Cli, tmp_path: Path) -> None:
    """Many checkpoints take their time: each writes a file for each volume."""
    lines = [(number % 5, "W", number % 1000 * 4096, 4096, number) for number in range(600_000)]
    words = ["trace", "split", write(tmp_path / "a.csv", lines), "--out", "store"]
    slow = [*words, "--checkpoint", "200"]
    with on_terminal([sys.executable, "-m", "flashwright", *slow], tmp_path) as (process, main):
        text = drawn_on(main, until="bytes/s")
        _wait_for_requests(tmp_path / "store", 20_000)
        process.send_signal(signal.SIGINT)
        text += drawn_on(main)
    assert process.wait(timeout=20) == 130
    assert "Splitting 1 file" in text
    assert "; the same command goes on from the last checkpoint in store" in text
    assert process.stdout is not None
    assert process.stdout.read() == b""
    found = re.search(
        r"([\d\u202f]+) of 600\u202f000 requests were there from before", cli(*words).stdout
    )
    assert found is not None
    assert 20_000 <= int(found[1].replace("\u202f", "")) < 600_000
    assert table_of(tmp_path / "store").select(pl.len()).collect().item() == 600_000


def _wait_for_requests(store: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (store / "fleet.json").exists():
            volumes = json.loads((store / "fleet.json").read_text())["volumes"]
            if sum(sum(one["requests"]) for one in volumes) >= count:
                return
        time.sleep(0.02)
    pytest.fail("no checkpoint in two minutes")
