"""Configurations and workloads of MQSim: every key is told, what comes of them runs."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flashwright.mqsim import keys
from flashwright.mqsim.importing import Import
from mqsim_files import (
    CAPACITY,
    LEFT_OUT,
    SYNTHETIC,
    TRACE,
    config,
    lines,
    trace,
    workload,
    wrapped,
)
from support import ROOT, Cli


def profile_of(folder: Path, *flows: dict[str, str], **changes: str) -> dict[str, Any]:
    """Give the profile of a configuration, as its keys."""
    load = workload(folder, *flows) if flows else None
    return tomllib.loads(Import(config(folder, **changes), load, folder / "x.toml").toml)


def command_of(folder: Path, *flows: dict[str, str], **changes: str) -> list[str]:
    """Give the command that plays these flows."""
    made = Import(config(folder, **changes), workload(folder, *flows), folder / "x.toml")
    assert made.workload is not None
    return made.workload.scenarios[0].command


def test_a_drive_is_what_its_configuration_says(tmp_path: Path) -> None:
    found = profile_of(tmp_path)
    media = found["media"]
    assert found["name"] == "drive-one"
    assert [media[key] for key in ("channels", "packages_per_channel", "dies_per_package")] == [
        *(2, 2, 1)
    ]
    assert media["read_us"] == [50, 70]
    assert media["program_us"] == [400, 800]
    assert media["erase_us"] == 3800
    assert (media["channel_mt_per_second"], media["channel_bits"]) == (333, 8)
    assert media["endurance_cycles"] == 10_000
    assert not media["suspend"]
    assert found["interface"]["queue_depth"] == 64
    assert found["interface"]["link_mb_per_second"] == pytest.approx(4000 * 128 / 156, abs=1e-3)
    assert found["ftl"] == {
        "scheme": "page_mapped(allocation=static)",
        "victim": "d_choices(d=6)",
        "over_provisioning": pytest.approx(1 / 3),
    }
    # With fewer than ten erase blocks free MQSim cleans whatever the threshold.
    assert found["cleaning"]["start_below_free"] == 10 / 64
    assert found["write_buffer"]["bytes"] == 1 << 20


@pytest.mark.parametrize(
    ("changes", "section", "expected"),
    [
        ({"Flash_Technology": "SLC"}, "media", {"read_us": [50], "program_us": [400]}),
        ({"Flash_Technology": "TLC"}, "media", {"read_us": [50, 60, 70]}),
        ({"CMD_Suspension_Support": "ERASE"}, "media", {"suspend": False}),
        (
            {"CMD_Suspension_Support": "program_erase", "Suspend_Program_Time": "20000"},
            "media",
            {"suspend": True, "suspend_us": 20},
        ),
        ({"Use_Copyback_for_GC": "TRUE"}, "media", {"copy_back": True}),
        ({"Flash_Channel_Width": "2"}, "media", {"channel_bits": 16}),
        (
            {"HostInterface_Type": "SATA"},
            "interface",
            {"kind": "sata", "queue_depth": 32, "host_us": 30},
        ),
        ({"HostInterface_Type": "SATA"}, "controller", {"write_command_us": 30}),
        ({"GC_Block_Selection_Policy": "GREEDY"}, "ftl", {"victim": "greedy"}),
        ({"GC_Block_Selection_Policy": "FIFO"}, "ftl", {"victim": "lru"}),
        (
            {"Ideal_Mapping_Table": "false", "CMT_Capacity": "4096"},
            "ftl",
            # 2 x log2(32768) bits and 8 sectors: 5 bytes an entry.
            {"scheme": "dftl(allocation=static,cached_entries=819)"},
        ),
        ({"GC_Exec_Threshold": "0.2"}, "cleaning", {"start_below_free": 12 / 64}),
        ({"GC_Exec_Threshold": "0.9"}, "cleaning", {"start_below_free": 0.1875}),
        ({"Dynamic_Wearleveling_Enabled": "false"}, "wear_levelling", {"dynamic": False}),
    ],
)
def test_what_a_key_changes(
    tmp_path: Path, changes: dict[str, str], section: str, expected: dict[str, Any]
) -> None:
    found = profile_of(tmp_path, **changes)[section]
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        (["WRITE_CACHE", "TURNED_OFF"], (1 << 20, 0)),
        (["READ_CACHE"], (0, 1 << 20)),
        (["WRITE_CACHE", "READ_CACHE"], (1 << 19, 1 << 19)),
        (["TURNED_OFF"], (0, 0)),
    ],
)
def test_the_cache_is_what_flows_use_it_for(
    tmp_path: Path, modes: list[str], expected: tuple[int, int]
) -> None:
    flows = [{**SYNTHETIC, "Device_Level_Data_Caching_Mode": mode} for mode in modes]
    found = profile_of(tmp_path, *flows)
    assert (found["write_buffer"]["bytes"], found["read_cache"]["bytes"]) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"Flash_Technology": "SLC", "CMD_Suspension_Support": "PROGRAM_ERASE"},
        {"Flash_Technology": "TLC", "HostInterface_Type": "SATA"},
        {"Ideal_Mapping_Table": "false", "CMT_Sharing_Mode": "EQUAL_PARTITIONING"},
        {"Static_Wearleveling_Enabled": "false", "Plane_Allocation_Scheme": "PWDC"},
        {"Enabled_Preconditioning": "false", "Data_Cache_Sharing_Mode": "EQUAL_PARTITIONING"},
    ],
)
@pytest.mark.parametrize(
    "flow",
    [
        SYNTHETIC,
        {**SYNTHETIC, "Synthetic_Generator_Type": "BANDWIDTH", "Bandwidth": "10000000"},
        {
            **SYNTHETIC,
            "Address_Distribution": "RANDOM_HOTCOLD",
            "Percentage_of_Hot_Region": "20",
            "Request_Size_Distribution": "NORMAL",
            "Generated_Aligned_Addresses": "false",
        },
        {**SYNTHETIC, "Address_Distribution": "STREAMING", "Stop_Time": "1000000"},
        TRACE,
        {**TRACE, "Relay_Count": "3", "Percentage_To_Be_Executed": "50"},
    ],
    ids=lambda flow: "trace" if "File_Path" in flow else "synthetic",
)
def test_every_key_is_told_once(
    tmp_path: Path, changes: dict[str, str], flow: dict[str, str]
) -> None:
    made = Import(
        config(tmp_path, **changes), workload(tmp_path, flow, SYNTHETIC), tmp_path / "x.toml"
    )
    assert made.workload is not None
    flows = made.workload.scenarios[0].flows
    known: list[dict[str, keys.Key]] = [keys.HOST, keys.DEVICE, keys.FLASH]
    known += [keys.TRACE if "File_Path" in flow else keys.SYNTHETIC, keys.SYNTHETIC]
    for notes, of_it in zip(
        [*made.device.notes, *(one.notes for one in flows)], known, strict=True
    ):
        seen = [one.key for one in notes.told] + [one.key for one in notes.untold]
        assert sorted(seen) == sorted(of_it)
        assert all(one.reason for one in notes.untold)
        assert all(one.to for one in notes.told)
    for notes in made.device.notes:
        for one in notes.untold:
            assert f"# {one.key} = {one.value}: {one.reason}" in made.toml


def test_what_is_unknown_or_spelled_otherwise_is_told(tmp_path: Path) -> None:
    path = config(tmp_path)
    text = path.read_text().replace("<Seed>", "<Warp_Drive>9</Warp_Drive>\n<Seed>")
    text = text.replace("GC_Exec_Threshold", "GC_Exect_Threshold")
    path.write_text(text)
    notes = Import(path, None, tmp_path / "x.toml").device.device
    [unknown] = [one for one in notes.untold if one.key == "Warp_Drive"]
    assert unknown.value == "9"
    assert unknown.line == 9
    assert "MQSim has no such key" in unknown.reason
    [spelled] = [one for one in notes.told if one.key == "GC_Exect_Threshold"]
    assert "it reads GC_Exec_Threshold" in spelled.remark


def test_what_is_left_out_is_as_in_mqsim(tmp_path: Path) -> None:
    made = Import(config(tmp_path, Block_Erase_Latency=LEFT_OUT), None, tmp_path / "x.toml")
    assert tomllib.loads(made.toml)["media"]["erase_us"] == 3800
    [told] = [one for one in made.device.flash.told if one.key == "Block_Erase_Latency"]
    assert (told.value, told.line) == ("3800000", None)


RANDOM = "io:random(size=8192,align=4096"


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (
            {},
            f"{RANDOM},offset=0,range={CAPACITY // 2},reads=0.3,requests=500) --pace closed(8) "
            "--seed 7",
        ),
        (
            {"Stop_Time": "20000000", "Read_Percentage": "100"},
            f"{RANDOM},offset=0,range={CAPACITY // 2},reads=1) --pace closed(8) --seed 7 "
            "--for 0.02",
        ),
        (
            # 10,000,000 // 512 // 16 = 1220 requests a second.
            {"Synthetic_Generator_Type": "BANDWIDTH", "Bandwidth": "10000000"},
            f"{RANDOM},offset=0,range={CAPACITY // 2},reads=0.3,pause_us=819.672,requests=500) "
            "--pace open --seed 7",
        ),
        (
            {"Address_Distribution": "STREAMING", "Generated_Aligned_Addresses": "false"},
            f"io:sequential(size=8192,align=512,offset=0,range={CAPACITY // 2},reads=0.3,"
            "requests=500) --pace closed(8) --seed 7",
        ),
        (
            {"Address_Distribution": "RANDOM_HOTCOLD", "Percentage_of_Hot_Region": "25"},
            f"{RANDOM},offset=0,range={CAPACITY // 8},reads=0.3,requests=375) --pace closed(6) "
            f"--seed 7 --flow flow({RANDOM},offset={CAPACITY // 8},"
            f"range={CAPACITY // 8 * 3},reads=0.3,requests=125),pace=closed(2))",
        ),
    ],
)
def test_a_flow_is_a_command(tmp_path: Path, flow: dict[str, str], expected: str) -> None:
    found = command_of(tmp_path, {**SYNTHETIC, **flow})
    assert found[:2] == ["flashwright", "play"]
    assert found[3:5] == ["--on", f"profile({tmp_path / 'x.toml'},state=aged)"]
    assert " ".join([found[2], *found[5:]]) == expected


def test_flows_have_the_parts_of_the_drive_that_mqsim_gives_them(tmp_path: Path) -> None:
    # One has a channel for itself and half of the other, the second the other half.
    whole = {**SYNTHETIC, "Working_Set_Percentage": "100"}
    found = command_of(tmp_path, whole, {**whole, "Channel_IDs": "1", "Priority_Class": "LOW"})
    assert f"range={CAPACITY // 4 * 3}" in found[2]
    assert found[2].endswith(",priority=2)")
    [beside] = [found[at + 1] for at, word in enumerate(found) if word == "--flow"]
    assert f"offset={CAPACITY // 4 * 3},range={CAPACITY // 4}" in beside
    # The lowest priority is that of a flow without one.
    assert beside.endswith(",pace=closed(8))")


def test_priorities_are_for_a_scheduler_that_looks_at_them(tmp_path: Path) -> None:
    flows = (SYNTHETIC, {**SYNTHETIC, "Priority_Class": "URGENT"})
    assert "priority" in " ".join(command_of(tmp_path, *flows))
    for changes in (
        {"Transaction_Scheduling_Policy": "OUT_OF_ORDER"},
        {"HostInterface_Type": "SATA"},
    ):
        assert "priority" not in " ".join(command_of(tmp_path, *flows, **changes))


def test_the_state_is_that_of_preconditioning(tmp_path: Path) -> None:
    for flow, state in ((SYNTHETIC, "loaded"), ({**SYNTHETIC, "Read_Percentage": "0"}, "fresh")):
        found = command_of(tmp_path, flow, Enabled_Preconditioning="false")
        assert found[found.index("--on") + 1].endswith(f",state={state})")


def test_a_trace_is_played_at_its_times(
    tmp_path: Path, cli: Cli, cli_json: Callable[..., Any]
) -> None:
    trace(tmp_path, 200)
    config(tmp_path)
    workload(tmp_path, {**TRACE, "Percentage_To_Be_Executed": "25"})
    words = ["device", "drive one.xml", "load.xml"]
    made = cli_json(*words, "--out", "my.toml")
    [scenario] = made["scenarios"]
    assert scenario["command"][2].endswith(",format=mqsim,fit=fold)")
    assert scenario["command"][-2:] == ["--requests", "50"]
    [run] = cli_json(*scenario["command"][1:])["runs"]
    assert (run["requests"], run["pace"]) == (50, "open")


def test_what_is_printed_can_be_run(cli: Cli, cli_json: Callable[..., Any], tmp_path: Path) -> None:
    trace(tmp_path, 300)
    config(tmp_path)
    second = {**TRACE, "Priority_Class": "URGENT"}
    workload(tmp_path, SYNTHETIC, second, {**SYNTHETIC, "Read_Percentage": "0"})
    words = ["device", "drive one.xml", "load.xml"]
    shown = cli(*words, "--out", "my drive.toml").stdout
    command = shown.partition("Scenario 1:\n")[2].partition("\n\n")[0].replace("\\\n", "")
    for heading in ("Translated", "Translated, with a difference", "Not translated"):
        assert f"\n{heading}\n" in shown
    [run] = cli_json(*shlex.split(command)[1:])["runs"]
    assert [flow["priority"] for flow in run["flows"]] == [2, 3, 2]
    assert all(flow["requests"] for flow in run["flows"])
    assert run["flows"][1]["offset"] == CAPACITY // 3 // 4096 * 4096


def test_a_read_takes_the_times_of_the_configuration(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path
) -> None:
    config(tmp_path, Flash_Technology="SLC")
    cli("device", "drive one.xml", "--out", "my.toml")
    load = "io:random(reads=1,requests=100)"
    [run] = cli_json("play", load, "--on", "my.toml", "--pace", "1")["runs"]
    # Sensing, 4096 bytes on the channel, and on the link.
    expected = 50_000 + 4096 / 0.333 + 4096 / (4 * 128 / 156)
    assert run["latency_ns"]["read"]["mean"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    "changes",
    [
        {"Ideal_Mapping_Table": "false", "CMT_Capacity": "2000"},
        {"HostInterface_Type": "SATA", "Flash_Technology": "TLC"},
        {"GC_Block_Selection_Policy": "RANDOM_PP", "Use_Copyback_for_GC": "true"},
        {"CMD_Suspension_Support": "PROGRAM_ERASE", "GC_Exec_Threshold": "0.5"},
    ],
)
def test_drives_of_every_kind_run_when_aged(
    cli: Cli, cli_json: Callable[..., Any], tmp_path: Path, changes: dict[str, str]
) -> None:
    config(tmp_path, **changes)
    cli("device", "drive one.xml", "--out", "my.toml")
    load = "io:random(reads=0.5,requests=20k)"
    [run] = cli_json("play", load, "--on", "profile(my.toml,state=aged)", "--audit")["runs"]
    assert run["requests"] == 20_000
    assert run["simulated"]["counters"]["erases"] > 0
    assert 1 < run["simulated"]["write_amplification"] < 10


def test_json_is_pure_and_has_its_keys(cli: Cli, tmp_path: Path) -> None:
    config(tmp_path)
    done = cli("device", "drive one.xml", "--out", "x.toml", "--json", "-")
    found = json.loads(done.stdout)
    assert set(found) == {"profile", "name", "capacity_bytes", "keys", "scenarios"}
    assert found["capacity_bytes"] == CAPACITY
    assert set(found["keys"]) == {
        *("Host_Parameter_Set", "Device_Parameter_Set", "Flash_Parameter_Set"),
    }
    for notes in found["keys"].values():
        assert set(notes) == {"translated", "not_translated"}


BAD_CONFIGS = [
    ({"Flash_Channel_Count": "many"}, "line 24: Flash_Channel_Count is `many`"),
    ({"Flash_Channel_Count": "200"}, "right would be a whole number from 1 to 64"),
    ({"Flash_Channel_Width": "3"}, "Flash_Channel_Width is 3; right would be 1, 2, 4 or 8"),
    ({"Enabled_Preconditioning": "maybe"}, "right would be true or false"),
    ({"Overprovisioning_Ratio": "nan"}, "right would be a number from 0.001 to 0.95"),
    ({"Address_Mapping": "HYBRID"}, "Address_Mapping is `HYBRID`; right would be PAGE_LEVEL"),
    ({"Transaction_Scheduling_Policy": "FLIN"}, "OUT_OF_ORDER or PRIORITY_OUT_OF_ORDER"),
    ({"Page_Capacity": "5000"}, "Page_Capacity is 5000; right would be a multiple of 512"),
    ({"Flash_Technology": "QLC"}, "right would be MLC or SLC or TLC"),
    ({"Data_Cache_Capacity": "-1"}, "Data_Cache_Capacity is `-1`"),
]


@pytest.mark.parametrize(("changes", "said"), BAD_CONFIGS, ids=[said for _, said in BAD_CONFIGS])
def test_a_bad_configuration_is_one_line(
    cli: Cli, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    config(tmp_path, name="bad.xml", **changes)
    _refused(cli, said, "bad.xml")
    assert not (tmp_path / "x.toml").exists()


BAD_FLOWS = [
    ({"Address_Distribution": "MIXED_STREAMING_RANDOM"}, "RANDOM_UNIFORM or STREAMING"),
    ({"Channel_IDs": "0,5"}, "Channel_IDs is 0,5; right would be numbers from 0 to 1"),
    ({"Channel_IDs": "all"}, "whole numbers from 0 on with commas between"),
    ({"Total_Requests_To_Generate": "0"}, "one of them above 0: MQSim would send nothing"),
    ({"Average_Request_Size": "1000000"}, "right would be at most"),
    (
        {"Address_Distribution": "RANDOM_HOTCOLD", "Percentage_of_Hot_Region": "0"},
        "a whole number from 1 to 99",
    ),
    ({"Synthetic_Generator_Type": "BANDWIDTH", "Bandwidth": "100"}, "one request a second"),
]


@pytest.mark.parametrize(("changes", "said"), BAD_FLOWS, ids=[said for _, said in BAD_FLOWS])
def test_a_bad_flow_is_one_line(
    cli: Cli, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    config(tmp_path)
    workload(tmp_path, {**SYNTHETIC, **changes})
    message = _refused(cli, said, "drive one.xml", "load.xml")
    assert "load.xml, line " in message


BAD_FILES = [
    ("", "line 1: no XML (no element found)"),
    ("<Execution_Parameter_Set>\n<Seed>1</Sed>", "line 2: no XML (mismatched tag)"),
    ("<MQSim_IO_Scenarios/>", "<MQSim_IO_Scenarios> is not a configuration of a drive"),
    (wrapped(""), "<Execution_Parameter_Set> has no <Device_Parameter_Set>"),
    (wrapped(lines("Device_Parameter_Set", {})), "has no <Flash_Parameter_Set>"),
    (
        wrapped(lines("Device_Parameter_Set", {}, "<Seed>1</Seed>\n<Seed>2</Seed>\n")),
        "has no <Flash_Parameter_Set>",
    ),
    (
        wrapped(
            lines(
                "Device_Parameter_Set",
                {},
                "<Seed>1</Seed>\n<Seed>2</Seed>\n<Flash_Parameter_Set></Flash_Parameter_Set>",
            )
        ),
        "line 5: Seed was given in line 4 already",
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD_FILES, ids=[said for _, said in BAD_FILES])
def test_a_file_that_is_something_else_is_one_line(
    cli: Cli, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "bad.xml").write_text(text)
    _refused(cli, said, "bad.xml")


def test_files_that_cannot_be_read_or_written(cli: Cli, tmp_path: Path) -> None:
    path = config(tmp_path, name="a.xml")
    (tmp_path / "bytes.xml").write_bytes(b"\x00\xff\xfe" * 50)
    _refused(cli, "No such file", "none.xml")
    _refused(cli, "no XML", "bytes.xml")
    before = path.read_text()
    done = cli("device", "a.xml", "--out", "a.xml", code=2)
    assert "is not a drive's profile that flashwright wrote" in done.stderr
    assert path.read_text() == before
    assert "--out: say where" in cli("device", "a.xml", code=2).stderr


def test_docs_have_every_key() -> None:
    page = (ROOT / "docs" / "mqsim.md").read_text(encoding="utf-8")
    drive, _, flow = page.partition("### Keys of a flow")
    for known, part in (
        ({**keys.HOST, **keys.DEVICE, **keys.FLASH}, drive),
        ({**keys.SYNTHETIC, **keys.TRACE}, drive + flow),
    ):
        assert [key for key in known if f"`{key}`" not in part] == []


def test_the_profile_of_a_name_is_told_as_before(cli: Cli) -> None:
    assert "limit of the channels" in cli("device", "a16").stdout
    assert "ssdconfig.xml" in cli("device", "--help").stdout


def _refused(cli: Cli, said: str, *words: str) -> str:
    done = cli("device", *words, "--out", "x.toml", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("flashwright: error: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    return done.stderr
