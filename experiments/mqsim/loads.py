"""Loads on MQSim and on the profile that is made of its configuration: a table of docs/mqsim.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.mqsim.options import MQSIM, program_of
from experiments.mqsim.playing import configuration, places, run, scenario
from experiments.tables import Found, Options, TablePart, table_set
from flashwright import _core
from flashwright._core import InputError
from flashwright.mqsim.importing import Import

# A key that is left out may have another default here than in MQSim, so all are given.
DRIVE = {
    "PCIe_Lane_Bandwidth": "1.0",
    "SATA_Processing_Delay": "30000",
    "Enable_ResponseTime_Logging": "false",
    "Seed": "7",
    "IO_Queue_Depth": "1024",
    "Queue_Fetch_Size": "64",
    "Data_Cache_Capacity": "1048576",
    "Transaction_Scheduling_Policy": "PRIORITY_OUT_OF_ORDER",
    "Overprovisioning_Ratio": "0.25",
    "Preemptible_GC_Enabled": "true",
    "Flash_Channel_Count": "4",
    "Chip_No_Per_Channel": "2",
    "Channel_Transfer_Rate": "333",
    "Flash_Technology": "MLC",
    **{f"Page_Read_Latency_{page}": "75000" for page in ("LSB", "CSB", "MSB")},
    **{f"Page_Program_Latency_{page}": "750000" for page in ("LSB", "CSB", "MSB")},
    "Block_Erase_Latency": "3800000",
    "Block_PE_Cycles_Limit": "10000",
    "Die_No_Per_Chip": "1",
    "Plane_No_Per_Die": "2",
    "Block_No_Per_Plane": "256",
    "Page_No_Per_Block": "128",
    "Page_Capacity": "8192",
    "Page_Metadat_Capacity": "1872",
}
FLOW = {
    "Priority_Class": "HIGH",
    "Device_Level_Data_Caching_Mode": "TURNED_OFF",
    **places(DRIVE),
    "Initial_Occupancy_Percentage": "75",
    "Working_Set_Percentage": "80",
    "Synthetic_Generator_Type": "QUEUE_DEPTH",
    "Read_Percentage": "100",
    "Address_Distribution": "RANDOM_UNIFORM",
    "Percentage_of_Hot_Region": "0",
    "Generated_Aligned_Addresses": "true",
    "Address_Alignment_Unit": "16",
    "Request_Size_Distribution": "FIXED",
    "Average_Request_Size": "16",
    "Variance_Request_Size": "0",
    "Seed": "12",
    "Average_No_of_Reqs_in_Queue": "8",
    "Bandwidth": "0",
    "Stop_Time": "0",
    "Total_Requests_To_Generate": "20000",
}
DEPTH, READS, KIND = "Average_No_of_Reqs_in_Queue", "Read_Percentage", "Address_Distribution"
LOADS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    *((f"random reads, depth {depth}", {DEPTH: depth}, {}) for depth in ("1", "4", "16", "64")),
    *(
        (f"random writes, depth {depth}", {DEPTH: depth, READS: "0"}, {})
        for depth in ("1", "16", "64")
    ),
    ("70 % reads, depth 16", {DEPTH: "16", READS: "70"}, {}),
    (
        "random writes with a cache of 1 MiB, depth 64",
        {DEPTH: "64", READS: "0", "Device_Level_Data_Caching_Mode": "WRITE_CACHE"},
        {},
    ),
    ("sequential writes, depth 16", {DEPTH: "16", READS: "0", KIND: "STREAMING"}, {}),
    ("sequential reads, depth 16", {DEPTH: "16", KIND: "STREAMING"}, {}),
    (
        "sequential reads of 128 KiB, depth 4",
        {DEPTH: "4", KIND: "STREAMING", "Average_Request_Size": "256"},
        {},
    ),
    (
        "random reads at 200 MB/s",
        {"Synthetic_Generator_Type": "BANDWIDTH", "Bandwidth": "200000000"},
        {},
    ),
    ("SATA, random reads, depth 16", {DEPTH: "16"}, {"HostInterface_Type": "SATA"}),
]
"""Name of each load, keys of its flow, and keys of its drive."""


def prepare(folder: Path, flow: dict[str, str], changes: dict[str, str]) -> tuple[Path, Path]:
    """Write the drive and the load for MQSim; gives both files."""
    drive, load = folder / "drive.xml", folder / "load.xml"
    configuration(drive, {**DRIVE, **changes})
    scenario(load, {**FLOW, **flow}, "Synthetic")
    return drive, load


def of_mqsim(program: Path, folder: Path) -> float:
    """Give the mean time of a request in microseconds, as MQSim says it: whole ones."""
    return float(re.findall(r"<End_to_End_Request_Delay>(\d+)", run(program, folder))[0])


def of_ours(drive: Path, load: Path, *changes: str) -> float:
    """Give the mean time of a request in microseconds on the profile that is made of it."""
    made = Import(drive, load, drive.with_suffix(".toml"))
    made.out.write_text(_core.check_profile(made.toml, str(made.out), changes), encoding="utf-8")
    if made.workload is None:
        raise InputError(f"{load}: no workload of MQSim")
    command = [sys.executable, "-m", *made.workload.scenarios[0].command, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["runs"][0]["latency_ns"]["all"]["mean"]) / 1e3


def _times(options: Options) -> Found:
    program = program_of(options, "mqsim-loads")
    rows, documents = [], []
    for said, flow, changes in LOADS:
        with tempfile.TemporaryDirectory(prefix="flashwright-mqsim-") as name:
            files = prepare(Path(name), flow, changes)
            figures = [
                of_mqsim(program, Path(name)),
                *(of_ours(*files, *sets) for sets in ((), ("media.multi_plane=false",))),
            ]
        rows.append([said, *(f"{figure:.4g}" for figure in figures)])
        named = zip(("mqsim_us", "ours_us", "ours_single_plane_us"), figures, strict=True)
        documents.append({"load": said, **dict(named)})
    return rows, documents


SET = table_set(
    "mqsim-loads",
    "loads on MQSim, and on the profile made of its configuration",
    "MQSim, built; minutes",
    (
        TablePart(
            "mqsim-times",
            "",
            "mean time of a request in µs",
            ("load", "MQSim", "here", "and without `media.multi_plane`"),
            _times,
            "20,000 requests of 8 KiB, on a drive of 16 planes: 75 µs a read, 750 µs a program, "
            "the whole map in memory, no cache, not preconditioned.",
        ),
    ),
    (MQSIM,),
)
