"""`flashwright bench` of several, side by side, and of their layers.

On real volumes, what it leaves behind, and its arithmetic against plain counting.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Browser

from browsing import check_report
from flashwright import InputError
from flashwright.benches import grounds
from flashwright.benches.drive import DrivePlan
from flashwright.benches.life import SECONDS_IN_YEAR, life_figures, years_by_guarantee
from flashwright.benches.measure import layer_figures
from flashwright.benches.options import BenchOptions
from flashwright.benches.plan import Benches
from flashwright.cli.listing import settings_tables
from flashwright.devices import DriveProfile
from flashwright.recording import file_systems
from flashwright.reports.bench_summary import cells, pairs
from flashwright.workloads.supervisor import Supervisor
from kill_recording import settings, settings_at_rest
from processes import until
from servers import find_server
from support import ROOT, Cli, find_program

MIB = 1 << 20
TINY = "tpcc(items=300,customers=30)"
SHORT = ("--for", "1.5", "--layers")
SCHEDULERS = Path("/sys/block/loop0/queue/scheduler")


@pytest.fixture(scope="module")
def _recordable() -> None:
    """Recording needs root and the kernel's blk tracer: CI has both."""
    tracers = Path("/sys/kernel/tracing/available_tracers")
    if os.geteuid() != 0 or not tracers.exists() or "blk" not in tracers.read_text():
        message = "recording needs root, and a kernel with the blk tracer"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


def made_here(*wanted: str) -> list[str]:
    """List those of the file systems that can be made here: in CI all of them."""
    there = []
    for name in wanted:
        one = next(one for one in file_systems.ALL if one.name == name)
        if one.is_there():
            find_program(one.make[0])
            there.append(name)
        elif os.environ.get("CI"):
            pytest.fail(f"this kernel has no {name}")
    return there


def on(*file_systems: str, size: str = "128M", **settings: str) -> tuple[str, str]:
    """A volume here of each of these file systems."""
    more = "".join(f",{name}={value}" for name, value in settings.items())
    return "--on", ",".join(f"volume({one},size={size},folder=.{more})" for one in file_systems)


def of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "result.json").read_text()))


def left_behind(where: Path) -> list[str]:
    """Mounts and folders of ours below a folder. Others may record on this machine."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in mounts if str(where) in line] + [
        path.name for path in where.glob("flashwright-*")
    ]


@pytest.mark.usefixtures("_recordable")
def test_file_systems_are_compared_layer_by_layer(
    cli: Cli, tmp_path: Path, browser: Browser
) -> None:
    names = made_here("ext4", "btrfs")
    before = settings_at_rest()
    done = cli(
        "bench", TINY, *SHORT, *on(*names), "--repeat", "2", "--record", "out/recordings",
        "--device", "intel-x25e", "--life", "life(tbw=2000)", "--out", "out",
    )  # fmt: skip
    assert settings_at_rest() == before
    assert left_behind(tmp_path) == []
    result, rows = of(tmp_path / "out"), pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert result["complete"]
    # Every other round goes backwards.
    assert rows["file_system"].to_list() == [*names, *names[::-1]]
    assert rows["repeat"].to_list() == [0] * len(names) + [1] * len(names)
    assert all(rows["is_consistent"])
    for row in rows.iter_rows(named=True):
        [folder] = (tmp_path / "out" / "recordings").glob(f"{row['run']:03}-*")
        requests = pl.read_parquet(folder / "requests.parquet")
        writes = requests.filter(pl.col("op") == "write")
        assert row["issued_writes"] == len(writes) > 0
        assert row["issued_write_bytes"] == writes["length"].sum()
        # On a busy machine a short run may end without a transaction.
        each = writes["length"].sum() / row["transactions"] if row["transactions"] else None
        assert row["issued_write_bytes_per_transaction"] == pytest.approx(each)
        queued = pl.read_parquet(folder / "queued.parquet").filter(pl.col("op") == "write")
        assert row["queued_writes"] == len(queued)
        calls = pl.read_parquet(folder / "calls.parquet").filter(
            pl.col("op").cast(pl.String) == "write"
        )
        # The recording of calls begins before the measurement.
        assert 0 < row["called_writes"] <= len(calls)
        assert row["called_flushes"] > 0
        assert row["device_amplification"] == pytest.approx(
            row["issued_write_bytes"] / row["called_write_bytes"]
        )
        assert row["total_amplification"] == pytest.approx(
            row["drive_bytes_amplification"] * row["device_amplification"]
        )
        assert row["lost_call_events"] == 0
        assert row["writes_queued_per_issued"] == pytest.approx(len(queued) / len(writes))
        assert of(folder)["recording"]["file_system"]["type"] == row["file_system"]
        flushes = requests.filter(pl.col("op").cast(pl.String) == "flush")["latency_ns"]
        assert row["issued_flush_p50_ns"] == pytest.approx(flushes.median())
        assert row["drive_write_amplification"] >= 1
        # Seconds say nothing of a day.
        assert row["life_years"] is row["life_years_by_guarantee"] is None
        assert "--for 600" in row["life_unknown"]
        assert row["life_transactions"] > 0
        assert 0 < row["cpu_busy_share"] <= 1
    for cell in result["cells"]:
        own = rows.filter(pl.col("file_system") == cell["file_system"])["transactions_per_second"]
        spread = cell["figures"]["transactions_per_second"]
        assert spread["median"] == pytest.approx(own.median())
        assert (spread["least"], spread["most"]) == (own.min(), own.max())
    windows = pl.read_parquet(tmp_path / "out" / "windows.parquet")
    assert (
        windows.group_by("run").agg(pl.col("count").sum()).sort("run")["count"].to_list()
        == rows["transactions"].to_list()
    )
    assert "transactions a second" in done.stdout
    check_report(browser, tmp_path / "out" / "report.html", least_plots=6)


def varied(what: str) -> tuple[str, ...]:
    """Words of the command for a bench in which one thing varies."""
    mixes = ("read-intensive", "write_intensive")
    return {
        "buffers": (TINY, "--db", "sqlite(buffer=256k),sqlite(buffer=2M)", *on("ext4")),
        "mixes": (",".join(TINY.replace(")", f",mix={mix})") for mix in mixes), *on("ext4")),
        # Between two checkpoints SQLite's log grows.
        "intervals": (
            *(TINY, "--db", "sqlite(checkpoint=0.2),sqlite(checkpoint=1.1)"),
            *on("ext4", size="500M"),
        ),
        "commits": (TINY, "--on", ",".join((on("ext4", commit=s)[1]) for s in ("1", "5"))),
        "clients": (TINY, "--clients", "1,2", *on("ext4")),
    }[what]


@pytest.mark.usefixtures("_recordable")
@pytest.mark.parametrize(
    ("what", "column", "expected"),
    [
        ("buffers", "buffer_bytes", [262144, 2 * MIB]),
        ("mixes", "level", ["read_intensive", "write_intensive"]),
        ("intervals", "value", [0.2, 1.1]),
        ("commits", "value", [1.0, 5.0]),
        ("clients", "value", [1.0, 2.0]),
    ],
)
def test_what_varies_reaches_what_is_run(
    what: str, column: str, expected: list[Any], cli: Cli, tmp_path: Path
) -> None:
    made_here("ext4")
    length = "1.2" if what == "intervals" else "1.5"
    words = (*varied(what), "--layers", "--for", length)
    cli("bench", *words, "--record", "out/recordings", "--out", "out")
    rows = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert rows[column].to_list() == expected
    if what == "mixes":
        # Mostly reading writes less.
        assert (
            rows["queued_write_bytes_per_transaction"][0]
            < rows["queued_write_bytes_per_transaction"][1]
        )
    if what == "intervals":
        # Without the setting SQLite is asked for none; how many there is time for depends on how
        # busy the machine is.
        assert rows["checkpoints"][0] >= max(rows["checkpoints"][1], 1)
    if what == "commits":
        options = [
            of(one)["recording"]["file_system"]["options"]
            for one in sorted((tmp_path / "out/recordings").iterdir())
        ]
        # The kernel leaves out what is its default, 5 s.
        assert ["commit=1" in one.split(",") for one in options] == [True, False]
    cli("report", "out")


@pytest.mark.usefixtures("_recordable")
def test_an_out_of_place_file_system_is_cleaned_at_intervals(cli: Cli, tmp_path: Path) -> None:
    made_here("btrfs")
    find_program("btrfs")
    places = ",".join((on("btrfs")[1], on("btrfs", clean="0.3")[1]))
    cli("bench", TINY, "--layers", "--for", "1", "--on", places, "--out", "out")
    rows = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert rows["level"].to_list() == ["off", "0.3 s"]
    off, cleaned = rows.iter_rows(named=True)
    assert off["cleanings"] is None
    assert cleaned["cleanings"] > 0
    assert cleaned["cleanings_failed"] == 0, cleaned["cleaning_error"]
    assert cleaned["cleaning_seconds"] > 0
    assert left_behind(tmp_path) == []


@pytest.mark.usefixtures("_recordable")
def test_layers_of_postgres_are_measured_and_a_guarantee_needs_no_drive(
    cli: Cli, tmp_path: Path
) -> None:
    made_here("ext4")
    find_server()
    with Supervisor() as supervisor:
        # The server's user has to come to it.
        place = supervisor.folder(Path("/var/tmp"), "flashwright-test-", mode=0o755)  # noqa: S108
        done = cli(
            "bench", "tatp(scale=1000)", "--db", "postgres", "--for", "2",
            "--on", f"volume(ext4,size=600M,folder={place})",
            "--life", "life(tbw=2000)", "--out", "out",
        )  # fmt: skip
        assert left_behind(place) == []
    [row] = pl.read_parquet(tmp_path / "out" / "runs.parquet").iter_rows(named=True)
    assert of(tmp_path / "out")["benches"][0]["settings"]["database"]["name"] == "postgres"
    # Asked for, as nothing was said.
    assert row["checkpoints"] >= 2
    assert row["life_years_by_guarantee"] is None
    assert "life_years" not in row
    assert "How long a drive lives is not known" in done.stdout
    assert "a checkpoint each 0.5 s" in done.stdout


@pytest.mark.usefixtures("_recordable")
def test_a_run_that_fails_is_told_and_those_before_it_are_kept(cli: Cli, tmp_path: Path) -> None:
    made_here("ext4")
    database = "sqlite(checkpoint=0.1),sqlite(checkpoint=50)"
    words = ("--db", database, "--for", "60", "--layers", *on("ext4", size="24M"))
    done = cli("bench", TINY, *words, "--out", "out", code=1)
    assert "run 1 of 2, ext4 0.1 s: the database: database or disk is full" in done.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.usefixtures("_recordable")
def test_schedulers_are_set_and_put_back(cli: Cli, tmp_path: Path) -> None:
    made_here("ext4")
    before = {path: path.read_text() for path in Path("/sys/block").glob("loop*/queue/scheduler")}
    offered = SCHEDULERS.read_text().replace("[", "").replace("]", "").split()
    chosen = [next(name for name in offered if name != "none"), "none"]
    places = ",".join(on("ext4", scheduler=one)[1] for one in chosen)
    cli("bench", TINY, *SHORT, "--on", places, "--record", "out/recordings", "--out", "out")
    recorded = [
        of(one)["recording"]["device"]["scheduler"]
        for one in sorted((tmp_path / "out/recordings").iterdir())
    ]
    assert recorded == chosen
    assert {path: path.read_text() for path in before} == before
    said = cli("bench", TINY, *on("ext4", scheduler="anticipatory"), code=2).stderr
    assert "the kernel offers" in said


def start_long(places: str, cwd: Path) -> subprocess.Popen[str]:
    """Start more runs than any test waits for."""
    databases = ",".join(f"sqlite(buffer={size})" for size in ("1M", "4M"))
    words = ["bench", TINY, "--for", "1", "--layers", "--db", databases, "--on", places]
    return subprocess.Popen(
        [sys.executable, "-m", "flashwright", *words, "--repeat", "50", "--out", "out"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("_recordable")
def test_ctrl_c_keeps_the_runs_before(tmp_path: Path) -> None:
    made_here("ext4", "btrfs")
    process = start_long(on("ext4", "btrfs")[1], tmp_path)
    table = tmp_path / "out" / "runs.parquet"
    assert until(table.exists, 60)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    result, rows = of(tmp_path / "out"), pl.read_parquet(table)
    assert not result["complete"]
    assert 0 < len(rows) == result["runs"]["done"] < result["runs"]["of"] == 200
    assert "are kept in out" in stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert left_behind(tmp_path) == []


@pytest.mark.usefixtures("_recordable")
def test_kill_9_leaves_the_runs_before_and_nothing_else(tmp_path: Path) -> None:
    made_here("ext4")
    before = settings_at_rest()
    process = start_long(
        ",".join(on("ext4", scheduler=one)[1] for one in ("none", "mq-deadline")), tmp_path
    )
    assert until((tmp_path / "out" / "runs.parquet").exists, 60)
    assert until(lambda: settings() != before)
    process.kill()
    process.communicate()
    assert until(lambda: left_behind(tmp_path) == [], 240)
    assert settings_at_rest() == before
    assert len(pl.read_parquet(tmp_path / "out" / "runs.parquet")) > 0
    # A run that was killed has all that its report needs.
    done = subprocess.run(
        [sys.executable, "-m", "flashwright", "report", "out"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


TWO = "volume(ext4),volume(btrfs)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["files"], "unknown workload `files`; known are: tpcc"),
        (["tpcc", "--on", "volume(ext5)"], "unknown file system `ext5`"),
        (["tpcc", "--on", "volume(ext4),volume(ext4)"], "`volume(ext4)` is named twice"),
        (["tpcc", "--on", "volume(ext4),volume(all)"], "is named twice"),
        (["tpcc,tpcc(scale=1)"], "`tpcc(scale=1)` is named twice"),
        (["tpcc", "--db", "sqlite,sqlite(synchronous=full)"], "is named twice"),
        (["tpcc", "--db", "sqlite(buffer=much)"], "`much` is not a size in bytes"),
        (["tpcc(mix=heavy)"], "'heavy' is not known: choose one of standard"),
        (
            ["tpcc", "--db", "sqlite(checkpoint=5),sqlite(checkpoint=30)", "--for", "15"],
            "in runs of 15 s there is no checkpoint each 30 s; take a longer --for",
        ),
        (["tpcc", "--on", "volume(ext2,commit=5)"], "ext2 has no interval of commits"),
        (["tpcc", "--on", "volume(ext4,commit=1.5)"], "it should be whole seconds"),
        (["tpcc", "--on", "volume(ext4,clean=1)"], "ext4 has no cleaner that can be asked"),
        (
            ["tpcc", "--on", "volume(btrfs),volume(btrfs,clean=20)", "--for", "15"],
            "nothing is cleaned each 20 s",
        ),
        (["tpcc", "--life", "life(cycles=3000)"], "so give --device too"),
        (["tpcc", "--life", "life(years=3)"], "there is no parameter `years`; known are: tbw"),
        (["tpcc", "--db", "oracle"], "unknown database `oracle`"),
        (["tpcc", "--device", "profile(state=aged)"], "`name` is missing"),
        (["tpcc", "--device", "floppy"], "no such profile"),
        (
            ["tpcc", "--on", "volume(size=60G)", "--device", "profile(intel-x25e,capacity=own)"],
            "leave out capacity=own",
        ),
        (["tpcc", "--on", "volume(ext4,size=1M)"], "ext4 needs 16,777,216 at least"),
        (["tpcc", "--layers", "--on", "."], "its device is recorded"),
        (["tpcc", "--keep", "--repeat", "2", "--on", "."], "--keep: DIR has room for"),
        (["tpcc", "--clients", "0"], "`0` is not a count from 1 to 1,000"),
    ],
)
@pytest.mark.usefixtures("_recordable")
def test_wrong_use_is_told_in_one_line(
    arguments: list[str], said: str, cli: Cli, tmp_path: Path
) -> None:
    done = cli("bench", *arguments, code=2)
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert left_behind(tmp_path) == []


def test_recordings_of_earlier_runs_are_not_mixed_with_others(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "out" / "recordings" / "001-ext4"
    kept.mkdir(parents=True)
    (tmp_path / "out" / "result.json").write_text(
        '{"command": "bench", "provenance": {"flashwright": "0"}}'
    )
    said = cli("bench", TINY, "--on", TWO, "--record", "out/recordings", code=2).stderr
    assert "recordings of an earlier bench" in said
    assert kept.exists()


def test_every_database_and_place_is_listed(cli_json: Any) -> None:
    listed = {
        kind: {entry["name"] for entry in entries} for kind, entries in cli_json("list").items()
    }
    assert listed["database"] == {"sqlite", "postgres"}
    assert listed["place"] == set(grounds.GROUNDS)


def test_the_tables_of_settings_in_the_docs_are_up_to_date() -> None:
    text = (ROOT / "docs/workloads.md").read_text(encoding="utf-8")
    for name, table in settings_tables().items():
        shown = text.partition(f"<!-- {name} -->\n")[2].partition(f"\n<!-- end of {name} -->")[0]
        assert shown == table, "docs/workloads.md is out of date: run `make readme`"


def planned(**options: Any) -> Benches:
    return Benches.of(BenchOptions((TINY,), duration=8.0, **options))


@pytest.mark.usefixtures("_recordable")
def test_postgres_is_asked_for_checkpoints_and_gets_room_for_its_log() -> None:
    made_here("ext4")
    asked = planned(db=("sqlite", "postgres"), on=("volume",), layers=True)
    one, other = asked.each
    assert one.plan.database.checkpoint is None
    assert other.plan.database.checkpoint == 2.0
    sizes = [grounds.device_bytes_of(bench.ground) for bench in asked.each]
    assert sizes[1] - sizes[0] == 1536 * MIB
    [bench] = planned(db=("postgres(checkpoint=5)",), on=("volume",), layers=True).each
    assert bench.plan.database.checkpoint == 5.0


def test_benches_are_named_by_what_sets_them_apart() -> None:
    def levels(**options: Any) -> tuple[list[str], list[float | None], str]:
        asked = planned(**options)
        return (
            [one.level for one in asked.each],
            [one.value for one in asked.each],
            asked.axis.title,
        )

    buffers = ("sqlite(buffer=1Mi)", "sqlite(buffer=16Mi)")
    title = "buffer of the database, MiB"
    assert levels(db=buffers) == (["1 MiB", "16 MiB"], [1.0, 16.0], title)
    shares = ("sqlite(buffer=1%)", "sqlite(buffer=16Mi)")
    assert levels(db=shares) == (["1 %", "16 MiB"], [None] * 2, "buffer of the database")
    # Defaults that differ between databases set nothing apart.
    assert levels(db=("sqlite", "postgres")) == (["sqlite", "postgres"], [None] * 2, "database")
    assert levels() == ([""], [None], "file system")
    both = levels(db=buffers, clients=(1, 2))
    assert both[0][:2] == [
        "buffer of the database 1 MiB, clients 1",
        "buffer of the database 1 MiB, clients 2",
    ]
    assert both[2] == "buffer of the database, clients"


def test_years_are_those_of_scheduler_table_5_4() -> None:
    """Its years and its 2 PB give the rates of its figure 5.7.

    12 to 44 MB/s, the order of its measurements.
    """
    for years in (5.47, 2.19, 2.32, 1.43):
        rate = 2e15 / (years * 365.25 * 86_400)
        assert 11e6 < rate < 45e6
        assert years_by_guarantee(2e15, rate) == pytest.approx(years)
    assert years_by_guarantee(2e15, 0.0) is None


def test_life_by_cycles_is_flash_times_erases_over_what_is_programmed() -> None:
    drive = DriveProfile.load("intel-x25e")
    row = {
        "issued_write_bytes_per_second": 1e6,
        "issued_write_bytes_per_transaction": 50e3,
        "drive_bytes_amplification": 2.0,
        "drive_flash_write_bytes_per_transaction": 100e3,
        "drive_is_steady": True,
        "recorded_seconds": 600.0,
    }
    found = life_figures(row, drive, 1000.0, None)
    lifetime_bytes = 1000 * drive.summary["physical_bytes"]
    assert found["life_years"] == pytest.approx(lifetime_bytes / 2e6 / SECONDS_IN_YEAR)
    assert found["life_transactions"] == pytest.approx(lifetime_bytes / 100e3)
    assert "life_years" not in life_figures(row, None, 1000.0, 1e12)
    guaranteed = life_figures(row, None, None, 1e12)["life_years_by_guarantee"]
    assert guaranteed == pytest.approx(years_by_guarantee(1e12, 1e6))


def test_a_short_run_or_one_that_is_not_steady_gives_no_life() -> None:
    drive = DriveProfile.load("intel-x25e")
    row = {
        "issued_write_bytes_per_second": 1e6,
        "issued_write_bytes_per_transaction": 50e3,
        "drive_bytes_amplification": 2.0,
        "drive_flash_write_bytes_per_transaction": 100e3,
        "drive_is_steady": True,
        "recorded_seconds": 599.0,
    }
    short = life_figures(row, drive, 1000.0, 1e12)
    assert short["life_years"] is short["life_years_by_guarantee"] is None
    assert "86.4 GB a day; runs of --for 600" in short["life_unknown"]
    unsteady = life_figures(
        {**row, "recorded_seconds": 600.0, "drive_is_steady": False}, drive, 1000.0, None
    )
    assert unsteady["life_years"] is None
    assert "not steady" in unsteady["life_unknown"]


@pytest.mark.parametrize("profile", ["intel-x25e", "mtron-pro-7500", "ocz-vertex-ex", "nvme-tlc"])
def test_a_drive_is_cut_to_the_volume_and_keeps_its_dies(profile: str) -> None:
    plan = DrivePlan(DriveProfile.load(profile))
    fitted = plan.drive_for(1 << 30)
    assert (1 << 30) * 0.999 <= fitted.capacity_bytes < plan.own.capacity_bytes
    for key in ("dies", "channels", "planes", "page_bytes"):
        assert fitted.summary[key] == plan.own.summary[key]
    whole = replace(plan, is_whole=True)
    assert whole.drive_for(1 << 30) is plan.own
    with pytest.raises(InputError, match="leave out capacity=own"):
        whole.drive_for(1 << 40)


def test_figures_of_a_layer_without_requests_are_zero_or_unknown() -> None:
    found = layer_figures("issued", None, 2.0, 10)
    assert found["issued_writes"] == found["issued_write_bytes_per_second"] == 0
    assert found["issued_mean_write_bytes"] is None
    assert found["issued_sequential_share_of_writes"] is None


def test_cells_hold_median_and_range_and_pairs_divide_them() -> None:
    rows = [
        {
            "run": number,
            "repeat": 0,
            "file_system": name,
            "is_out_of_place": name == "btrfs",
            "level": "",
            "value": None,
            "rate": rate,
        }
        for number, (name, rate) in enumerate(
            [("ext4", 10.0), ("btrfs", 4.0), ("ext4", 30.0), ("ext4", 11.0), ("btrfs", None)], 1
        )
    ]
    found = cells(rows)
    assert [cell["runs"] for cell in found] == [3, 2]
    assert found[0]["figures"]["rate"] == {"median": 11.0, "least": 10.0, "most": 30.0}
    assert found[1]["figures"]["rate"] == {"median": 4.0, "least": 4.0, "most": 4.0}
    [(level, out, inside, ratio)] = pairs(found, "rate")
    assert (level, out, inside) == ("", "btrfs", "ext4")
    assert ratio == pytest.approx(4 / 11)


def test_a_file_system_without_its_program_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mkfs.ext4" else real(name))
    chosen, remarks = grounds.there()
    assert "ext4" not in chosen
    assert [line for line in remarks if "mkfs.ext4 is not installed" in line]
    with pytest.raises(
        InputError, match=r"mkfs\.ext4 is not installed \(Debian: apt-get install e2fsprogs\)"
    ):
        grounds.read("volume(ext4)", ())
