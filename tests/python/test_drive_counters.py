"""A drive's own counters: documents of many drives, what is left out, and what is never guessed.

The documents have the fields that count, with the values of real drives: those of
prometheus-community/smartctl_exporter (testdata, by the names given here), smartmontools' issues
and nvme-cli's sources.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flashwright.recording import disks, drive_counters, smart
from flashwright.recording.device import BlockDevice
from flashwright.recording.drive_counters import Answer, Reader, daily_bytes, delta, read

MIB, GIB = 1 << 20, 1 << 30
NVME = BlockDevice("nvme0n1", "259:9999")
SATA = BlockDevice("sda", "8:9999")
SMART_LOG = {
    "critical_warning": 0,
    "temperature": 311,
    "avail_spare": 100,
    "percent_used": 3,
    "data_units_read": 228744653,
    "data_units_written": 464403132,
    "controller_busy_time": 13,
    "power_on_hours": 27567,
}
"""Of an Intel P3700 (netdata/netdata issue 8594)."""


def attribute(number: int, name: str, raw: int, value: int = 100) -> dict[str, Any]:
    return {"id": number, "name": name, "value": value, "raw": {"value": raw, "string": str(raw)}}


def ata(family: str | None, hours: int, *attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    known = {} if family is None else {"model_family": family}
    return {
        "smartctl": {"exit_status": 0},
        "device": {"protocol": "ATA"},
        "in_smartctl_database": family is not None,
        **known,
        "model_name": "X",
        "logical_block_size": 512,
        "power_on_time": {"hours": hours},
        "ata_smart_attributes": {"table": list(attributes)},
        **more,
    }


def statistic(name: str, value: int, *, is_valid: bool = True) -> dict[str, Any]:
    return {"name": name, "value": value, "flags": {"valid": is_valid}}


MICRON = ata(
    "Micron 5100 Pro / 52x0 / 5300 SSDs", 14643,
    attribute(202, "Percent_Lifetime_Remain", 0),
    attribute(246, "Total_LBAs_Written", 400_292_112_400),
    attribute(247, "Host_Program_Page_Count", 12_774_640_139),
    attribute(248, "Bckgnd_Program_Page_Cnt", 578_699_417),
)  # fmt: skip
INTEL = ata(
    "Intel 730 and DC S35x0/3610/3700 Series SSDs", 67329,
    attribute(233, "Media_Wearout_Indicator", 0, 76),
    attribute(241, "Host_Writes_32MiB", 62_594_010),
    attribute(243, "NAND_Writes_32MiB", 138_721_860),
)  # fmt: skip
PHISON = ata(
    "Phison Driven SSDs", 54450,
    attribute(231, "SSD_Life_Left", 74, 74),
    attribute(233, "Flash_Writes_GiB", 840_007),
    attribute(241, "Lifetime_Writes_GiB", 391_741),
)  # fmt: skip
SAMSUNG = ata("Samsung based SSDs", 4717, attribute(241, "Total_LBAs_Written", 63_180_483_059))
DELL = ata(
    "Dell Certified Intel S3520 Series SSDs", 21213,
    attribute(233, "Total_LBAs_Written", 129_493),
    attribute(241, "Total_LBAs_Written", 129_493),
)  # fmt: skip
TOSHIBA = ata("Toshiba HK4R Series SSD", 9000, attribute(241, "Total_LBAs_Written", 500_000))
UNLISTED = ata(None, 10786, attribute(241, "Total_LBAs_Written", 1_304_884_573))
STATISTICS = ata(
    None, 7061, attribute(241, "Total_LBAs_Written", 25_000),
    ata_device_statistics={"pages": [
        {"number": 1, "table": [statistic("Logical Sectors Written", 1_643_103_945)]},
        {"number": 7, "table": [statistic("Percentage Used Endurance Indicator", 1)]},
    ]},
)  # fmt: skip
NOT_VALID = ata(
    "Samsung based SSDs", 100, attribute(241, "Total_LBAs_Written", 1000),
    ata_device_statistics={"pages": [
        {"number": 1, "table": [statistic("Logical Sectors Written", 0, is_valid=False)]},
    ]},
)  # fmt: skip
SAS = {
    "smartctl": {"exit_status": 0},
    "device": {"protocol": "SCSI"},
    "scsi_model_name": "KPM6XRUG3T84",
    "scsi_percentage_used_endurance_indicator": 3,
    "scsi_error_counter_log": {
        "write": {"gigabytes_processed": "127551.260"},
        "read": {"gigabytes_processed": "9.5"},
    },
    "power_on_time": {"hours": 22364, "minutes": 52},
}


@pytest.mark.parametrize(
    ("document", "host", "media", "used"),
    [
        (MICRON, 400_292_112_400 * 512, 1.0453, 0),
        (INTEL, 62_594_010 * 32 * MIB, 2.2162, 24),
        (PHISON, 391_741 * GIB, 2.1443, 26),
        (SAMSUNG, 63_180_483_059 * 512, None, None),
        (STATISTICS, 1_643_103_945 * 512, None, 1),
        (NOT_VALID, 1000 * 512, None, None),
        (SAS, 127_551_260_000_000, None, 3),
    ],
    ids=["Micron", "Intel", "Phison", "Samsung", "statistics", "not-valid", "SAS"],
)
def test_a_unit_that_is_known_gives_bytes(
    document: dict[str, Any], host: int, media: float | None, used: int | None
) -> None:
    found = smart.of_smartctl(document)
    assert found.host_written_bytes == host
    assert found.percentage_used == used
    assert found.not_known == []
    if media is None:
        assert found.media_written_bytes is None
    else:
        assert found.media_written_bytes is not None
        assert found.media_written_bytes / host == pytest.approx(media, rel=1e-3)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (DELL, "the unit of Total_LBAs_Written of this family is not known"),
        (TOSHIBA, "the unit of Total_LBAs_Written of this family is not known"),
        (UNLISTED, "not in smartctl's database"),
        (ata("Toshiba X300", 47234), "shows no counter of it"),
        (ata("Samsung based SSDs", 9, attribute(241, "Total_LBAs_Written", 9),
             logical_block_size=4096), "is not known"),
    ],
    ids=["Dell", "Toshiba", "unlisted", "none", "4Kn"],
)  # fmt: skip
def test_a_unit_that_is_not_known_gives_none(document: dict[str, Any], said: str) -> None:
    """66 MB in 21,213 hours, as LBAs of 512 bytes, are 4 TiB: Intel counts 32 MiB."""
    found = smart.of_smartctl(document)
    assert found.host_written_bytes is None
    assert found.power_on_hours == document["power_on_time"]["hours"]
    assert said in found.not_known[0]


@pytest.mark.parametrize("write", [int, str, float, lambda value: f"{value:,}"])
def test_counters_of_128_bits_in_every_way_that_nvme_cli_writes_them(write: Any) -> None:
    log = {**SMART_LOG, "data_units_written": write(464403132), "power_on_hours": write(27567)}
    found = smart.of_nvme_cli(log)
    assert found.host_written_bytes == 464403132 * 512_000
    assert found.power_on_hours == 27567
    assert found.percentage_used == 3


@pytest.mark.parametrize("key", ["Physical media units written", "physical_media_units_written"])
def test_the_log_of_ocp_has_bytes_in_two_halves(key: str) -> None:
    log = {key: {"hi": 1, "lo": 5}}
    assert smart.of_nvme_cli(SMART_LOG, log).media_written_bytes == (1 << 64) + 5
    # A drive that is none of OCP's may answer with anything.
    wrong = smart.of_nvme_cli(SMART_LOG, {key: {"hi": 0, "lo": 77}})
    assert wrong.media_written_bytes is None
    assert "counts something else" in wrong.not_known[0]
    assert smart.of_nvme_cli(SMART_LOG, {key: {"hi": 0, "lo": 0}}).media_written_bytes is None


def test_a_days_volume_is_that_of_the_drives_life() -> None:
    after = {"host_written_bytes": 1_969_459 * 512_000, "power_on_hours": 3149}
    daily = daily_bytes({"before": None, "after": after})
    assert daily == pytest.approx(1_969_459 * 512_000 / (3149 / 24))
    assert daily_bytes({"before": after, "after": None}) == daily
    assert daily_bytes({"before": {}, "after": {}}) is None
    assert daily_bytes({"drives": []}) is None
    assert daily_bytes({"after": {**after, "power_on_hours": 23}}) is None


def test_hours_that_cannot_be_true_give_no_days_volume() -> None:
    """HUSMR7632BHP301: busy for 19,743 hours, and 482 with power: 72 TB a day would be false."""
    after = smart.of_smartctl(
        {
            "nvme_smart_health_information_log": {
                "data_units_written": 2_824_080_560,
                "power_on_hours": 482,
                "controller_busy_time": 1_184_621,
                "percentage_used": 5,
            }
        }
    ).document()
    assert after["host_written_bytes"] == 2_824_080_560 * 512_000
    assert daily_bytes({"after": after}) is None


def test_emmc_has_tenths_of_its_life(tmp_path: Path) -> None:
    found = smart.of_mmc("0x01 0x03\n", "0x02\n", "DG4016")
    assert found is not None
    assert found.life_used_percent_ranges == [[0, 10], [20, 30]]
    assert (found.reserve, found.host_written_bytes) == ("warning", None)
    over = smart.of_mmc("0x0b 0x00", "0x03")
    assert over is not None
    assert over.life_used_percent_ranges == [[100, 100]]
    assert smart.of_mmc("0x00 0x00", "0x00") is None
    assert smart.of_mmc("", "") is None


class Programs:
    """Answers as programs would, one answer after the other for each name."""

    def __init__(self, **answers: Sequence[Answer | None]) -> None:
        self.answers = {name: list(given) for name, given in answers.items()}
        self.asked: list[list[str]] = []

    def __call__(self, command: Sequence[str]) -> Answer | None:
        self.asked.append(list(command))
        name = "ocp" if "ocp" in command else command[0]
        given = self.answers.get(name, [None])
        return given.pop(0) if len(given) > 1 else given[0]


def said(document: Any, code: int = 0) -> Answer:
    return Answer(code, json.dumps(document))


def test_before_and_after_of_a_drive_of_nvme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: True)
    later = {**SMART_LOG, "data_units_written": str(464403132 + 7)}
    media = [{"Physical media units written": {"hi": 0, "lo": 3 * 10**14 + n}} for n in (0, 900)]
    programs = Programs(nvme=[said(SMART_LOG), said(later)], ocp=[said(one) for one in media])
    reader = Reader([NVME], programs)
    reader.begin()
    found = reader.end()
    assert found["source"] == "nvme smart-log, nvme ocp smart-add-log"
    assert delta(found, "host_written_bytes") == 7 * 512_000
    assert delta(found, "media_written_bytes") == 900
    assert found["after"]["host_written_step_bytes"] == 512_000
    assert found["not_known"] == []
    assert [one["drive"] for one in found["drives"]] == ["nvme0n1"]
    assert programs.asked[0] == ["nvme", "smart-log", "/dev/nvme0n1", "-o", "json"]


def test_smartctl_is_asked_where_nvme_cli_is_missing_or_fails() -> None:
    log = {"nvme_smart_health_information_log": {"data_units_written": 1969459,
                                                 "power_on_hours": 3149}}  # fmt: skip
    for nvme in (None, Answer(1, "", "NVMe status: INVALID_OPCODE\nmore")):
        programs = Programs(nvme=[nvme], smartctl=[said(log, 4)])
        found = read(NVME, programs, is_openable=True)
        assert found.counters is not None
        assert found.counters.host_written_bytes == 1969459 * 512_000
        assert found.source == "smartctl"


@pytest.mark.parametrize(
    ("disk", "programs", "is_openable", "why"),
    [
        (SATA, Programs(), True, "smartctl is not installed (Debian: apt-get install smartmon"),
        (NVME, Programs(), True, "nvme is not installed (Debian: apt-get install nvme-cli); smar"),
        (SATA, Programs(), False, "to read those of /dev/sda needs root (sudo)"),
        (BlockDevice("vda", "254:0"), Programs(), True, "a virtual disk, which has none"),
        (BlockDevice("mmcblk9", "179:99"), Programs(), True, "a card, which has none"),
        (
            SATA,
            Programs(smartctl=[said({"smartctl": {"exit_status": 1, "messages": [
                {"string": "/dev/sda: Unable to detect device type", "severity": "error"}]}}, 1)]),
            True,
            "smartctl /dev/sda: /dev/sda: Unable to detect device type",
        ),
        (SATA, Programs(smartctl=[Answer(1, "no\x1b[0m json")]), True, "no\\x1b[0m json"),
        (SATA, Programs(smartctl=[Answer(0, "[1, 2]")]), True, "smartctl /dev/sda: [1, 2]"),
        (SATA, Programs(smartctl=[Answer(-1, "", "no answer within 20 s")]), True, "no answer"),
        (SATA, Programs(smartctl=[said({"smartctl": {}})]), True, "no counters that smartctl"),
        (SATA, Programs(smartctl=[Answer(0, "[" * 100_000)]), True, "smartctl /dev/sda: [[["),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_line(
    disk: BlockDevice, programs: Programs, is_openable: bool, why: str
) -> None:
    found = read(disk, programs, is_openable=is_openable)
    assert found.counters is None
    assert found.why is not None
    assert why in found.why
    assert found.why.isprintable()


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", "", [], {}, "1e9", "٣"])
def test_a_field_that_is_no_counter_is_none(value: Any) -> None:
    assert smart.number(value) is None
    document = {"nvme_smart_health_information_log": {"data_units_written": value}}
    with pytest.raises(ValueError, match="no counters"):
        smart.of_smartctl(document)


def test_a_counter_below_what_this_machine_has_sent_is_of_another_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = disks.Traffic(written_bytes=10**12)
    monkeypatch.setattr(disks, "traffic", lambda: {SATA.number: sent})
    found = read(SATA, Programs(smartctl=[said(NOT_VALID)]), is_openable=True)
    assert found.counters is not None
    assert found.counters.host_written_bytes is None
    assert "the unit is another" in found.counters.not_known[0]


def test_programs_are_found_in_folders_of_the_system_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may put something on root's PATH, or into its environment, runs nothing."""
    planted = tmp_path / "smartctl"
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SECRET_TOKEN", "secret")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drive_counters, "FOLDERS", ("/usr/bin", "/bin"))
    answer = drive_counters.ask_program(["smartctl"])
    assert answer is None or "planted" not in answer.out
    environment = drive_counters.ask_program(["env"])
    assert environment is not None
    assert "SECRET" not in environment.out
    assert str(tmp_path) not in environment.out
    assert drive_counters.ask_program(["no-such-program"]) is None
