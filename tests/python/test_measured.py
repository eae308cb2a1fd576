"""Rows of measurements, profiles fitted to them, rows predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.data import MEASURED_LATENCIES, MEASURED_WRITES
from experiments.validations import real_drives
from flashwright import _core
from flashwright._core import InputError
from flashwright.measured import fio, fit, play, predict, rows
from flashwright.measured.fit import Fit, path_costs
from flashwright.measured.rows import LatencyRow, WriteRow
from flashwright.measured.template import DataSheet, Estimate, profile
from support import Cli

WRITES = (
    "drive,capacity_gb,used_gib,pattern,parameters,request_bytes,steady_mib_s,written_capacities\n"
)
TRUTH = Estimate(
    sequential_mib_s=1500.0, over_provisioning=0.22, write_gap_us=6.0, relocation_gap_us=3.0
)
SHEET = DataSheet("made-up", 960.0)
SHORT = replace(play.QUICK, settle_s=0.5, measure_s=1.5)
"""For what is compared with itself, played as long: seeds are the same."""
SMALLER = 192
"""Slices for a fit of many plays: of fewer pages more are lost to rounding."""


def drive(estimate: Estimate = TRUTH, slices: int = 128) -> play.PlayedProfile:
    return play.PlayedProfile.of(profile(SHEET, estimate, slices, {}, "made up"))


def row(pattern: str, parameters: str = "", used_gib: float = 894.0, size: int = 4096) -> WriteRow:
    return WriteRow("made-up", 960.0, used_gib, pattern, parameters, size, 4.0, None)


def test_the_shipped_rows_can_be_read() -> None:
    found = rows.read([MEASURED_WRITES, MEASURED_LATENCIES])
    assert len(rows.of_drive(found, "micron-7450-pro")) == 27 + 9
    for part in real_drives.DRIVES:
        of_drive = rows.of_drive(found, part.name)
        fitted = real_drives.fitted_to(of_drive)
        assert 8 < len(fitted) < 0.6 * len(of_drive)
        assert sum(isinstance(one, LatencyRow) for one in fitted) == 3


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("a,960,894,random,,4096,1,4", "pattern is `random`: it must be one of sequential, unif"),
        ("a,x,894,uniform,,4096,1,4", "capacity_gb is `x`: it must be a number"),
        ("a,960,0,uniform,,4096,1,4", "used_gib is `0`: it must be a number above 0"),
        ("a,960,894,zipf,s,4096,1,4", "parameters is `s`: it must be the exponent, such as 0.8"),
        ("a,960,894,zones,s1 g1,4096,1,4", "parameters is `s1 g1`: it must be pairs such as"),
        ("a,960,894,zns,zone_mib=8,4096,1,4", "parameters is `zone_mib=8`: it must be such as"),
    ],
)
def test_a_wrong_cell_is_named(tmp_path: Path, line: str, error: str) -> None:
    path = tmp_path / "writes.csv"
    path.write_text(WRITES + line + "\n")
    with pytest.raises(InputError) as raised:
        rows.read([path])
    assert str(raised.value).startswith(f"{path}:2: {error}")


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="neither the columns of steady writes"):
        rows.read([path])


def test_costs_of_the_write_path_are_found_again() -> None:
    relocated = np.array([2.0, 2.3, 2.8, 2.1])
    _, gap, per_page = path_costs(7.0 + 2.5 * relocated, 3.0 + 3.0 * relocated, relocated, 2.5)
    assert gap + per_page * 2.3 == pytest.approx(7.0 + 2.5 * 2.3, rel=0.02)
    assert gap == pytest.approx(7.0, rel=0.3)


def test_more_spare_space_and_less_skew_write_faster() -> None:
    of = {
        name: play.write(one, drive())["steady_mib_s"]
        for name, one in {
            "sequential": row("sequential", size=524_288),
            "whole": row("uniform"),
            "half": row("uniform", used_gib=447.0),
            "narrow": row("zns", "active_zones=1 zone_mib=1024", size=524_288),
            "wide": row("zns", "active_zones=1 zone_mib=16384", size=524_288),
        }.items()
    }
    assert of["sequential"] == pytest.approx(1500.0, rel=0.02)
    assert of["half"] > 1.5 * of["whole"]
    assert of["wide"] > 1.1 * of["narrow"]


def test_a_fit_finds_a_drive_that_is_simulated() -> None:
    asked = [
        row("sequential", size=524_288),
        row("uniform"),
        row("zones", "s0.95 f0.05 s0.05 f0.95"),
        row("zipf", "0.8"),
        row("zones", "s0.2 f0 s0.8 f1"),
    ]
    truth = drive(slices=SMALLER)
    measured = [
        WriteRow(**{**vars(one), "steady_mib_s": play.write(one, truth)["steady_mib_s"]})
        for one in asked
    ]
    told: list[str] = []
    made = Fit(SHEET, measured[:3], [], SMALLER, told.append)
    found = play.PlayedProfile.of(made.run())
    assert made.basis["sequential_mib_s"] == "measured: sequential writes"
    assert "read_us" not in made.basis
    for one, seen in zip(predict.many(measured[3:], found), measured[3:], strict=True):
        error = predict.relative(one.predicted["steady_mib_s"], seen.steady_mib_s)
        assert error is not None
        assert abs(error) < 0.12, one


def test_the_throughput_of_zones_is_that_of_half_of_the_time() -> None:
    played = play.write(row("zns", "active_zones=2 zone_mib=8192", size=131_072), drive())
    over_time = played["tables"]["over_time"]
    seconds = np.array(over_time["length_seconds"])
    speeds = np.array(over_time["written_bytes_per_second"]) / 2**20
    steady, half = played["steady_mib_s"], seconds.sum() / 2
    assert seconds[speeds < steady].sum() <= half <= seconds[speeds <= steady].sum()
    # The mean is another figure here.
    assert played["bytes_per_second"] / 2**20 != pytest.approx(steady, rel=0.02)


def test_writes_a_second_are_those_while_the_client_sends() -> None:
    # Reads hold writes up: what waits when they end goes on faster.
    slow = drive(replace(TRUTH, read_gap_us=60.0))
    at_limit, above = (
        play.latency(LatencyRow("made-up", rate), slow, SHORT)["writes_per_s"]
        for rate in (1e5, 4e5)
    )
    assert above == pytest.approx(at_limit, rel=0.03)


def test_reads_wait_for_suspension_where_dies_are_busy() -> None:
    idle, busy = (
        play.latency(LatencyRow("made-up", rate), drive(), play.QUICK) for rate in (5e3, 6e4)
    )
    assert busy["read_p99_us"] > idle["read_p50_us"] + TRUTH.suspend_us
    assert idle["writes_per_s"] == pytest.approx(5e3, rel=0.1)
    assert idle["write_p50_us"] < 12


def test_bursts_are_seen_in_how_long_writes_take_at_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit, "QUICK", SHORT)
    # The truth is among them, as it is among all.
    monkeypatch.setattr(fit, "BURST_STRIPES", (1.0, 4.0, 12.0))
    burst = replace(TRUTH, burst_stripes=12.0, write_slack_us=0.0, trickle_gap_us=40.0)
    asked = LatencyRow("made-up", 3e5)
    writes = [row("sequential", size=524_288), row("uniform")]
    found = {}
    for name, truth in (("level", TRUTH), ("burst", burst)):
        times = play.latency(asked, drive(truth), SHORT)
        measured = {key: times[key] for key in ("writes_per_s", "write_p50_us", "write_p99_us")}
        made = Fit(SHEET, writes, [LatencyRow("made-up", 3e5, **measured)], 128)
        made.estimate = TRUTH
        made.find_bursts()
        found[name] = made.estimate
    assert found["level"].trickle_gap_us == 0
    assert found["burst"].trickle_gap_us > 0
    again = play.latency(asked, drive(found["burst"]), SHORT)
    assert again["write_p99_us"] == pytest.approx(times["write_p99_us"], rel=0.3)


def test_fit_and_predict_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    table, out, answer = (tmp_path / name for name in ("w.csv", "p.toml", "a.json"))
    table.write_text(
        WRITES + "x,960,894,sequential,,524288,1500,1\nx,960,894,uniform,,4096,400,3\n"
    )
    cli("device", table, "--slices", "128", "--out", out)
    text = out.read_text()
    assert "# media.program_us: measured: sequential writes" in text
    assert "# media.read_us: assumed" in text
    cli("device", out, "--against", table, "--json", answer)
    found = json.loads(answer.read_text())
    errors = {one["row"]: one["error"] for one in found["figures"] if one["error"] is not None}
    assert abs(errors["sequential, 894 GiB"]) < 0.02
    assert abs(errors["uniform, 894 GiB"]) < 0.05


def test_jobs_of_fio_become_rows(tmp_path: Path) -> None:
    path = tmp_path / "fio.json"

    def job(group: int, name: str, **options: str) -> dict[str, object]:
        write = {"bw_bytes": 400 << 20, "io_bytes": 960_000_000_000}
        given = {"direct": "1", **options}
        return {"jobname": name, "groupid": group, "job options": given, "write": write}

    jobs = [
        job(0, "fill", rw="write", bs="512k"),
        job(1, "random", rw="randwrite", bs="4k"),
        job(2, "skewed", rw="randwrite", bs="4k", random_distribution="zipf:0.8"),
        job(3, "reads", rw="randread", bs="4k"),
    ]
    path.write_text(json.dumps({"jobs": jobs}))
    taken = fio.read([path], "x", 960.0)
    assert [one.pattern for one in taken.rows if isinstance(one, WriteRow)] == [
        "sequential",
        "uniform",
        "zipf",
    ]
    last = taken.rows[-1]
    assert isinstance(last, WriteRow)
    assert last.written_capacities == pytest.approx(3.0)
    assert last.steady_mib_s == 400.0
    assert taken.left_out == [f"{path}: job 4 (reads): rw=randread is no job of writes alone"]


def test_a_template_is_a_profile_whatever_is_estimated() -> None:
    for capacity in (240.0, 960.0, 3840.0, 15_360.0):
        sheet = DataSheet("made-up", capacity)
        for slices in (64, 512):
            text = profile(sheet, TRUTH, slices, {}, "made up")
            made = _core.profile_summary(text)
            whole = made["capacity_bytes"] * slices
            assert whole == pytest.approx(sheet.capacity_bytes, rel=1e-3)
