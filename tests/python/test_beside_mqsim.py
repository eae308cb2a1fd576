"""Inputs for MQSim and the counting simulator from real drives; MQSim itself is not needed."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.mqsim import playing
from experiments.validations import other_simulators as beside
from flashwright import _core
from flashwright._core import InputError, RunError
from flashwright.measured.rows import WriteRow
from flashwright.measured.template import DataSheet, Estimate, profile

ROW = WriteRow("d", 960, 894, "uniform", "", 4096, 3.0, 350.0)
ZONES = replace(ROW, pattern="zns", parameters="active_zones=2 zone_mib=8192", request_bytes=524288)


@pytest.fixture(scope="module")
def drive() -> dict[str, Any]:
    """A drive of 64 planes, fitted to nothing."""
    sheet = DataSheet.of("d", {"capacity_gb": "960"})
    return tomllib.loads(profile(sheet, Estimate(1400.0), 64, {}, ""))


def test_mqsim_gets_the_drive_with_as_many_bytes_a_second(drive: dict[str, Any]) -> None:
    part = beside.geometry(drive, beside.Setting(0.2))
    assert part.share == 8 / 64
    keys = part.keys()
    physical = 8 * keys["Block_No_Per_Plane"] * keys["Page_No_Per_Block"]
    assert part.logical == int(physical * (1 - keys["Overprovisioning_Ratio"]) + 1e-6)
    whole_mib_s = 4096 / 2**20 / part.page_ns * 1e9 / part.share
    assert whole_mib_s == pytest.approx(1400, rel=1e-3)
    assert keys["Queue_Fetch_Size"] == 512 / 8


def test_an_erase_costs_mqsim_as_much_a_page_as_the_drive(drive: dict[str, Any]) -> None:
    part, media = beside.geometry(drive, beside.Setting(0.2)), drive["media"]
    whole = media["erase_us"] * 1e3 / (media["pages_per_erase_block"] * media["slices"])
    assert part.keys()["Block_Erase_Latency"] / part.pages == pytest.approx(whole, rel=1e-3)


def test_mqsim_writes_until_it_cleans_if_little_is_used(drive: dict[str, Any]) -> None:
    part = beside.geometry(drive, beside.Setting(0.2))
    first, _, filled = beside.stream(replace(ROW, used_gib=300), part)
    assert filled + (len(first) - filled) * 2 // 3 > part.physical


def test_nothing_is_predicted_above_what_the_flash_programs(drive: dict[str, Any]) -> None:
    fitted = beside.Fitted("x", beside.Setting(0.2), {ROW: 1e6}, {True: 1.0, False: 1.0}, 0.0)
    assert fitted.predicted(ROW, drive) == pytest.approx(1400, rel=0.01)


def test_streams_are_those_of_the_rows(drive: dict[str, Any]) -> None:
    part = beside.geometry(drive, beside.Setting(0.2))
    first, pages, filled = beside.stream(ROW, part)
    assert (pages, filled) == (1, part.logical)
    assert first[:filled].tolist() == list(range(filled))
    assert len(first) == filled + int(beside.OVERWRITES * filled)
    cold = replace(ROW, pattern="zones", parameters="s0.8 f0 s0.2 f1")
    first, _, filled = beside.stream(cold, part)
    assert len(np.unique(first[filled:])) == pytest.approx(0.2 * filled, rel=0.01)
    first, pages, filled = beside.stream(ZONES, part)
    assert (pages, filled) == (16, 0)
    # Of the first zone, whole and in order: every other request.
    zone = round(8 / 894 * part.logical / pages)
    assert np.diff(first[: 2 * zone : 2]).tolist() == [pages] * (zone - 1)
    assert first.max() + pages <= part.logical


def test_counting_knows_that_spare_space_and_unused_pages_help(drive: dict[str, Any]) -> None:
    narrow, wide = (beside.of_counting(ROW, drive, beside.Setting(spare)) for spare in (0.16, 0.3))
    assert narrow < wide < 1400
    assert beside.of_counting(replace(ROW, used_gib=450), drive, beside.Setting(0.16)) > 2 * narrow


def test_factors_are_of_each_kind(drive: dict[str, Any]) -> None:
    other = replace(ROW, pattern="zipf", parameters="0.8", steady_mib_s=100.0)
    raw = {ROW: 35.0, other: 40.0, ZONES: 700.0}
    factors = beside.factors_of(raw, [ROW, other, ZONES])
    assert factors[True] == pytest.approx((10 * 2.5) ** 0.5)
    assert factors[False] == pytest.approx(0.5)
    fitted = beside.Fitted("x", beside.Setting(0.2), {ZONES: 1e6}, {True: 1.0, False: 1.0}, 0.0)
    # A gap of 1,000 us between two requests to a zone, beside 82.9 us for one.
    slow = {**drive, "interface": {**drive["interface"], "zone_gap_us": 1000}}
    assert fitted.predicted(ZONES, slow) == pytest.approx(0.5 / 1082.9e-6, rel=0.01)


def test_a_key_that_mqsim_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no key `Nope`"):
        playing.configuration(tmp_path / "x.xml", {"Nope": 1})


def test_what_mqsim_says_last_is_told(tmp_path: Path) -> None:
    program = tmp_path / "MQSim"
    program.write_text("#!/bin/sh\necho ERROR:no luck\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(RunError, match="ended with 3: ERROR:no luck"):
        playing.run(program, tmp_path)


def test_operations_of_all_kinds_are_counted() -> None:
    told = 'Issued_Flash_Read_CMD="3" Issued_Flash_Multiplane_Program_CMD="4" Other="9"'
    assert playing.total(told + ' Issued_Flash_Erase_CMD="5"', playing.OPERATIONS) == 12


def test_the_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace = playing.Trace(np.arange(3), np.array([0, 8, 4]), 2)
    trace.write(tmp_path / "x.trace", 4096)
    found = _core.load_workload(str(tmp_path / "x.trace"), format="mqsim")
    assert found.page_writes == 6
