"""A PostgreSQL server's log, kept while it runs, and what other settings would have written."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import flashwright as fw
from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.recording.files import PURPOSES
from flashwright.recording.server_facts import AsksServer, counted_of
from flashwright.recording.server_log import SERVER, WAL, ServerLog
from flashwright.workloads.databases.server import Server, server_account
from flashwright.workloads.supervisor import Supervisor
from servers import find_server
from support import Cli, wait_for

SETTINGS = {
    "fsync": "off",
    "shared_buffers": "64MB",
    "checkpoint_timeout": "1h",
    "max_wal_size": "1GB",
    "autovacuum": "off",
}
ROWS = 4000
PAD = 400


def versions() -> list[Path | None]:
    """Give the programs of each version that is installed; None stands for any that is found."""
    return [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")] or [None]


@dataclass
class Kept:
    """A log that was kept, and what the server counted."""

    folder: Path
    counted: dict[str, Any]

    @property
    def log(self) -> Path:
        return self.folder / WAL

    def copy(self, to: Path) -> Kept:
        return Kept(Path(shutil.copytree(self.folder, to / "kept")), self.counted)


def started(programs: Path, folder: Path, supervisor: Supervisor, **settings: str) -> Server:
    server = Server(programs, folder / "data", folder, supervisor, server_account())
    server.initialise()
    server.start({**SETTINGS, **settings})
    server.query(f"CREATE TABLE t (k int PRIMARY KEY, v int, pad char({PAD}))")
    server.query(f"INSERT INTO t SELECT k, 0, 'x' FROM generate_series(1, {ROWS}) k")
    return server


def load(server: Server, rounds: int) -> None:
    """Change a row in each page in turn, a transaction each, with a checkpoint in between."""
    change = f"""
        DO $$ BEGIN FOR one IN 1..{ROWS} BY 13 LOOP
            UPDATE t SET v = v + 1 WHERE k = one; COMMIT;
        END LOOP; END $$
    """
    for _ in range(rounds):
        server.query(change)
        server.query("CHECKPOINT")
    server.query(change)
    # A session tells what it did as it ends, which may be after its program has.
    ends = """
        SELECT pid FROM pg_stat_activity
        WHERE query LIKE '%COMMIT%' AND query NOT LIKE '%pg_stat_activity%'
    """
    wait_for(lambda: not server.query(ends))


def keep(server: Server, folder: Path, rounds: int = 2, most_bytes: int = 1 << 30) -> ServerLog:
    folder.mkdir()
    server.query("CHECKPOINT")
    log = ServerLog(AsksServer(server), server.data.resolve(), folder, most_bytes)
    try:
        log.begin()
        load(server, rounds)
        log.end()
    finally:
        log.close()
    return log


@pytest.fixture(scope="module", params=versions(), ids=lambda path: path and path.parts[-2])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        folder.chmod(0o711)
        with Supervisor() as supervisor:
            server = started(request.param or find_server(), folder / "server", supervisor)
            try:
                log = keep(server, folder / "kept")
            finally:
                server.stop()
        assert log.gap is None
        counted = json.loads((folder / "kept" / SERVER).read_text())["counted"]
        yield Kept(folder / "kept", counted)


def what_if(log: Path, **settings: Any) -> dict[str, Any]:
    asked = json.dumps({"log": str(log), **settings}).encode()
    return dict(json.loads(_core.run_job("postgres_what_if", asked)[0]))


def test_the_rule_gives_each_image_of_a_real_server(kept: Kept) -> None:
    found = what_if(kept.log)
    check = found["self_check"]
    assert check["images"] > 300
    assert check["right"] == check["images"]
    assert check["extra"] <= 1
    assert abs(check["bytes_error"]) < 1e-5
    recorded = found["recorded"]
    # The server's statistics come late, and count what it writes while it is asked.
    assert recorded["images"] == pytest.approx(kept.counted["images"], rel=0.05)
    assert recorded["wal_bytes"] == pytest.approx(kept.counted["wal_bytes"], rel=0.05)
    assert recorded["checkpoints"] == 2
    assert "the log ends at LSN" in found["log_end"]
    assert kept.counted["background_full"] == 0


def test_a_server_tells_how_long_checkpoints_wait_for_their_files() -> None:
    """Log files are not used again before: a fast load makes new ones meanwhile."""
    old = [
        {"checkpoints_timed": 1, "checkpoints_req": count, "checkpoint_sync_time": time_ms}
        for count, time_ms in ((2, 300.0), (6, 1300.0))
    ]
    new = [
        {"num_timed": 1, "num_requested": count, "sync_time": time_ms}
        for count, time_ms in ((2, 300.0), (6, 1300.0))
    ]
    for view, (before, after) in (("pg_stat_bgwriter", old), ("pg_stat_checkpointer", new)):
        found = counted_of({view: before}, {view: after}, [])
        assert found["checkpoint_sync_s"] == pytest.approx(0.25)
        assert counted_of({view: before}, {view: before}, [])["checkpoint_sync_s"] is None


def test_fewer_checkpoints_have_fewer_images(kept: Kept) -> None:
    names = [
        {"name": "none", "checkpoint_timeout": "1h"},
        {"name": "off", "full_page_writes": False},
        {"name": "lz4", "wal_compression": "lz4"},
        {"name": "late", "synchronous_commit": False},
    ]
    found = what_if(kept.log, candidates=names)
    none, off, lz4, late = found["candidates"]
    images = found["recorded"]["images"]
    # Each of three rounds changes the same pages, and each but the first came after a checkpoint.
    assert none["images"] < images
    assert off["images"] < none["images"]
    assert lz4["image_bytes"] < none["image_bytes"] / 4
    assert late["log_file_bytes"] < none["log_file_bytes"]
    assert [none["lost"], lz4["lost"]] == ["none", "none"]
    assert "600 ms" in late["lost"]
    assert "torn" in off["lost"] or "tears" in off["lost"]


def test_a_background_writer_leaves_a_share_or_is_held_up_as_its_rounds_say(
    kept: Kept, tmp_path: Path
) -> None:
    mine = kept.copy(tmp_path)
    path = mine.folder / SERVER
    facts = json.loads(path.read_text())
    facts["settings"] |= {"shared_buffers": 1 << 20, "bgwriter_delay": 0.001}

    def found(pages: int, full: int, **settings: Any) -> tuple[int, dict[str, Any]]:
        facts["counted"] |= {"background_pages": pages, "background_full": full}
        path.write_text(json.dumps(facts))
        found = what_if(mine.log, **settings)
        return found["recorded"]["modelled"]["background_pages"], found["fitted"]

    every, all_of_them = found(1 << 40, 0)
    assert every > 20
    assert (all_of_them["background_share"], all_of_them["background_page_us"]) == (1, 0)
    counted = every * 6 // 10
    written, share = found(counted, 0)
    assert written == pytest.approx(counted, rel=0.1)
    assert 0 < share["background_share"] < 0.9
    assert share["background_page_us"] == 0
    held_up, time = found(counted, counted)
    assert held_up == pytest.approx(counted, rel=0.25)
    assert time["background_page_us"] > 0
    assert time["background_share"] == 1
    for known, modelled in ((share, written), (time, held_up)):
        assert found(counted, 0, fitted=known) == (modelled, known)


def test_a_real_server_at_another_pace_has_as_many_more_commits(kept: Kept) -> None:
    paces = {"hundredth": 0.01, "same": 1, "thrice": 3}
    found = what_if(
        kept.log, candidates=[{"name": name, "pace": pace} for name, pace in paces.items()]
    )
    hundredth, same, thrice = found["candidates"]
    assert same == {**what_if(kept.log, candidates=[{"name": "same"}])["candidates"][0]}
    assert thrice["commits"] == pytest.approx(3 * same["commits"], rel=0.1)
    # How many come in the first half is the machine's affair: none, or all.
    assert hundredth["commits"] < same["commits"]
    assert {one["seconds"] for one in found["candidates"]} == {same["seconds"]}


def test_the_writes_are_a_trace_that_a_drive_can_play(kept: Kept, tmp_path: Path) -> None:
    small = {"name": "small", "shared_buffers": "1Mi", "checkpoint_timeout": "1s"}
    asked = {"candidates": [small], "traces": str(tmp_path)}
    found = what_if(kept.log, **asked)
    together = found["candidates"][0]
    trace = pl.read_parquet(together["traces"]["trace"])
    files = pl.read_parquet(together["traces"]["files"])
    amounts = together
    writes = trace.filter(pl.col("op") == "write").join(
        files, left_on="stream", right_on="file", how="left", validate="m:1", suffix="_of"
    )
    log = writes.filter(pl.col("purpose") == "wal")
    assert log["length"].sum() == amounts["log_file_bytes"] + amounts["log_made_bytes"]
    data = writes.filter(pl.col("purpose") != "wal")
    # The kernel holds some of what the server writes.
    assert data["length"].sum() <= 8192 * amounts["data_pages"]
    own = pl.read_parquet(found["recorded"]["traces"]["trace"])
    of_log = pl.read_parquet(found["recorded"]["traces"]["files"]).filter(
        pl.col("purpose") == "wal"
    )
    at_checkpoints = own.filter(pl.col("op") == "write").join(
        of_log, left_on="stream", right_on="file", how="anti"
    )
    pages = found["recorded"]["modelled"]["data_pages"]
    assert 0.5 * 8192 * pages < at_checkpoints["length"].sum() <= 8192 * pages
    inside = (pl.col("offset") >= pl.col("offset_of")) & (
        pl.col("offset") + pl.col("length") <= pl.col("offset_of") + pl.col("length_of")
    )
    assert writes.select(inside.all()).item()
    assert set(files["purpose"]) <= set(PURPOSES)
    assert {"t", "t_pkey"} <= set(files["name"])
    assert trace["time_ns"].is_sorted()
    assert (trace["op"] == "flush").sum() >= amounts["log_flushes"]
    assert fw.trace_stats(together["traces"]["trace"]) is not None
    apart = what_if(kept.log, **asked, log_apart=True)["candidates"][0]
    own = pl.read_parquet(apart["traces"]["log"])
    assert own.filter(pl.col("op") == "write")["length"].sum() == log["length"].sum()
    assert own.filter((pl.col("op") == "write") & (pl.col("offset") < 16 << 20)).height > 0
    assert (tmp_path / "recorded.log.parquet").exists()
    (tmp_path / "small.parquet").write_text("mine")
    with pytest.raises(InputError, match=r"small.parquet: is there, and no file that Flashwright"):
        what_if(kept.log, **asked)
    assert (tmp_path / "small.parquet").read_text() == "mine"


def test_a_torn_tail_is_said_and_a_damaged_segment_is_refused(kept: Kept, tmp_path: Path) -> None:
    mine = kept.copy(tmp_path)
    segments = sorted(mine.log.iterdir())
    bytes_ = bytearray(segments[0].read_bytes())
    middle = len(bytes_) // 2 // 8192 * 8192
    # The first segment begins before the recording: its middle may lie before it, too.
    bytes_[middle:] = bytes(len(bytes_) - middle)
    as_recorded = {"as_recorded": {"checkpoint_timeout": "1h"}}
    if len(segments) > 1:
        segments[0].write_bytes(bytes_)
        with pytest.raises(InputError, match=f"{segments[0].name}: offset {middle} ") as wrong:
            what_if(mine.log, **as_recorded)
        assert "\n" not in str(wrong.value)
    shutil.rmtree(mine.folder)
    mine = kept.copy(tmp_path)
    last = sorted(mine.log.iterdir())[-1]
    facts = json.loads((mine.folder / SERVER).read_text())
    high, low = facts["end"]["lsn"].split("/")
    at = (int(high, 16) << 32 | int(low, 16)) % facts["segment_bytes"]
    torn = bytearray(last.read_bytes())
    # Of the last page that holds something the second half was never written.
    half = at // 8192 * 8192 - 8192 + 4096
    torn[half:] = bytes(len(torn) - half)
    last.write_bytes(torn)
    (mine.folder / SERVER).unlink()
    said = what_if(mine.log, **as_recorded)["log_end"]
    assert "it is torn there" in said
    assert last.name in said
    with pytest.raises(InputError, match=r"server.json: No such file.*right would be the server"):
        what_if(mine.log)


def test_what_is_wrong_is_said_with_its_key(kept: Kept, tmp_path: Path) -> None:
    for candidate, said in [
        ({"name": ""}, r"candidates\[0\].name: `` is no name"),
        ({"name": "../x"}, "is no name; right would be"),
        ({"name": "recorded"}, "`recorded` is taken"),
        ({"name": "a", "max_wal_size": "1Mi"}, "below two segments"),
        ({"name": "a", "wal_compression": "gzip"}, "wal_compression.*gzip"),
        ({"name": "a", "shared_bufers": "1Gi"}, "shared_bufers"),
        ({"name": "a", "pace": 101}, r"candidates\[0\].pace: right would be a pace from 0.01"),
        ({"name": "a", "pace": 0.001}, r"candidates\[0\].pace: right would be"),
    ]:
        with pytest.raises(InputError, match=said):
            what_if(kept.log, candidates=[candidate])
    for ratio in ("pace", "disk_time", "busy_page"):
        with pytest.raises(InputError, match=r"as_recorded: .*give them to a candidate"):
            what_if(kept.log, as_recorded={ratio: 2})
    mine = kept.copy(tmp_path)
    facts = json.loads((mine.folder / SERVER).read_text())
    facts["gap"] = "the server used segment X again before it was copied"
    (mine.folder / SERVER).write_text(json.dumps(facts))
    with pytest.raises(InputError, match="not whole: the server used segment X again"):
        what_if(mine.log)
    facts["gap"] = None
    facts["end"]["lsn"] = "F/0"
    (mine.folder / SERVER).write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"the log ends at LSN .*before F/0"):
        what_if(mine.log)
    del facts["settings"]["max_wal_size"]
    (mine.folder / SERVER).write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"server.json: line .*max_wal_size"):
        what_if(mine.log)


def test_it_is_a_function_of_python_and_no_command(kept: Kept, cli: Cli) -> None:
    found = fw.postgres_what_if(log=str(kept.log), candidates=[{"name": "a"}])
    assert found["self_check"]["images"] > 0
    assert "postgres_what_if" in _core.job_names()
    assert "postgres_what_if" not in _core.job_names(commands=True)
    assert "No such command" in cli("postgres_what_if", code=2).stderr


def test_what_was_found_by_trying_is_taken_and_not_found_again(kept: Kept, tmp_path: Path) -> None:
    asked = [{"name": "a"}, {"name": "b", "shared_buffers": "1Mi"}]
    first = what_if(kept.log, flushes=3, candidates=asked)
    again = what_if(kept.log, fitted=first["fitted"], candidates=asked)
    assert again["fitted"] == first["fitted"]
    assert again["candidates"] == first["candidates"]
    assert again["recorded"] == first["recorded"]
    into = {"fitted": first["fitted"], "candidates": asked, "traces": str(tmp_path)}
    assert what_if(kept.log, **into)["recorded"]["traces"] is None
    assert sorted(path.name for path in tmp_path.glob("?.parquet")) == ["a.parquet", "b.parquet"]
    at_once = {**first["fitted"], "flush_us": 0}
    found = what_if(kept.log, fitted=at_once, candidates=asked)
    assert found["candidates"][0]["log_flushes"] > first["candidates"][0]["log_flushes"]
    with pytest.raises(InputError, match=r"fitted: .*give neither flushes nor flush_time"):
        what_if(kept.log, fitted=at_once, flushes=3)
    with pytest.raises(InputError, match=r"fitted.flush_us: .*-1. is not a duration"):
        what_if(kept.log, fitted={**at_once, "flush_us": -1})


@pytest.fixture
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        folder = Path(place)
        folder.chmod(0o711)
        with Supervisor() as supervisor:
            found = started(find_server(), folder / "server", supervisor, max_wal_size="32MB")
            try:
                yield found
            finally:
                found.stop()


def test_a_log_that_grows_too_long_is_not_kept_and_that_is_said(
    server: Server, tmp_path: Path
) -> None:
    log = keep(server, tmp_path / "kept", most_bytes=1 << 20)
    assert "longer than 1 MiB" in str(log.gap)
    with pytest.raises(InputError, match="not whole: it is longer than 1 MiB"):
        what_if(tmp_path / "kept" / WAL)


def test_a_segment_that_was_used_again_before_it_was_copied_is_said(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    log = ServerLog(AsksServer(server), server.data.resolve(), tmp_path / "kept")
    # Nobody looks until the end.
    monkeypatch.setattr(ServerLog, "_copy_on", lambda _: None)
    try:
        log.begin()
        for _ in range(4):
            server.query("SELECT pg_switch_wal()")
            load(server, 1)
        log.end()
    finally:
        log.close()
    assert "used segment" in str(log.gap)
    assert "again" in str(log.gap)


def test_a_segment_that_has_lost_its_name_is_still_copied(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").mkdir()
    log = ServerLog(AsksServer(server), server.data.resolve(), tmp_path / "kept")
    monkeypatch.setattr(ServerLog, "_copy_on", lambda _: None)
    try:
        log.begin()
        first = log._name(log._next)
        server.query("SELECT pg_switch_wal()")
        log._open_written()
        load(server, 1)
        server.query("CHECKPOINT")
        server.query("CHECKPOINT")
        assert not (server.data / "pg_wal" / first).exists()
        log._open_written()
        kept = log.end()
    finally:
        log.close()
    assert log.gap is None
    assert kept["segments"] >= 2
    assert (tmp_path / "kept" / WAL / first).is_file()


def test_a_checkpoint_that_ends_while_the_log_is_looked_for_is_followed(
    server: Server, tmp_path: Path
) -> None:
    """The server had used the segment again that it had named: the log had a gap at its begin."""

    class Moves(AsksServer):
        asked = 0

        def state(self) -> dict[str, Any]:
            found = super().state()
            Moves.asked += 1
            if Moves.asked == 2:
                server.query("SELECT pg_switch_wal()")
                load(server, 1)
                server.query("CHECKPOINT")
                server.query("CHECKPOINT")
            return found

    (tmp_path / "kept").mkdir()
    log = ServerLog(Moves(server), server.data.resolve(), tmp_path / "kept")
    try:
        log.begin()
        load(server, 1)
        log.end()
    finally:
        log.close()
    assert Moves.asked > 2
    assert log.gap is None
    assert what_if(tmp_path / "kept" / WAL)["self_check"]["images"] > 0


def test_a_server_that_does_not_answer_is_said(tmp_path: Path) -> None:
    class Silent:
        def state(self) -> dict[str, Any]:
            raise RunError("no answer within 60 s")

        def relations(self) -> list[dict[str, Any]]:
            return []

        def close(self) -> None:
            pass

    log = ServerLog(Silent(), tmp_path, tmp_path)
    log.begin()
    assert log.end() == {"segments": 0, "bytes": 0, "gap": "no answer within 60 s"}
    log.close()
