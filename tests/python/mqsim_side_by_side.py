"""Plays loads on MQSim and on the profile made of its configuration: the table of docs/mqsim.md.

python tests/python/mqsim_side_by_side.py PATH/TO/MQSim
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from flashwright.mqsim.importing import Import
from mqsim_files import SYNTHETIC, config, workload

DRIVE = {
    "Enabled_Preconditioning": "false",
    "Flash_Channel_Count": "4",
    "Block_No_Per_Plane": "256",
    "Page_No_Per_Block": "128",
    "Page_Capacity": "8192",
    "Page_Read_Latency_LSB": "75000",
    "Page_Read_Latency_MSB": "75000",
    "Page_Program_Latency_LSB": "750000",
    "Page_Program_Latency_MSB": "750000",
}
# MQSim has no value of its own for a key of a flow that is left out.
FLOW = {
    **SYNTHETIC,
    "Device_Level_Data_Caching_Mode": "TURNED_OFF",
    "Channel_IDs": "0,1,2,3",
    "Chip_IDs": "0,1",
    "Die_IDs": "0",
    "Plane_IDs": "0,1",
    "Working_Set_Percentage": "80",
    "Read_Percentage": "100",
    "Percentage_of_Hot_Region": "0",
    "Address_Alignment_Unit": "16",
    "Request_Size_Distribution": "FIXED",
    "Average_Request_Size": "16",
    "Variance_Request_Size": "0",
    "Seed": "12",
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


def of_mqsim(program: Path, drive: Path, load: Path) -> float:
    """Give the mean time of a request in microseconds, as MQSim tells it: whole ones."""
    command = [str(program), "-i", str(drive), "-w", str(load)]
    subprocess.run(command, input="\n", capture_output=True, text=True, check=True)
    told = load.with_name(f"{load.stem}_scenario_1.xml").read_text()
    return float(re.findall(r"<End_to_End_Request_Delay>(\d+)", told)[0])


def of_ours(drive: Path, load: Path, *changes: str) -> float:
    """Give the mean time of a request in microseconds on the profile that is made of it."""
    made = Import(drive, load, drive.with_suffix(".toml"))
    made.write()
    assert made.workload is not None
    command = [sys.executable, "-m", *made.workload.scenarios[0].command, "--json", "-"]
    for change in changes:
        command += ["--set", change]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["latency_ns"]["all"]["mean"]) / 1e3


def main() -> None:
    """Write the table."""
    program = Path(sys.argv[1]).resolve()
    rows = ["| load | MQSim | here | and without `media.multi_plane` |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="flashwright-mqsim-") as name:
        folder = Path(name)
        for said, flow, changes in LOADS:
            drive = config(folder, "drive.xml", **DRIVE, **changes)
            load = workload(folder, {**FLOW, **flow})
            ours = [of_ours(drive, load, *sets) for sets in ((), ("media.multi_plane=false",))]
            figures = [f"{figure:.4g}" for figure in (of_mqsim(program, drive, load), *ours)]
            rows.append(f"| {' | '.join([said, *figures])} |")
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
