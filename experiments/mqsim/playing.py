"""Runs MQSim on a configuration and a trace of our own, and reads what it reports.

MQSim logs a mean response time for each stretch of a stated length. With a length of a nanosecond
each completion is a stretch of its own, so that the log holds every request: when it was done, and
how long it took, in whole microseconds.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flashwright._core import InputError, RunError
from flashwright.mqsim import keys

SECTOR = 512
READ, WRITE = 1, 0
LONGEST_S = 600
"""A run that takes longer has gone wrong."""

I64 = npt.NDArray[np.int64]

HOST = {"PCIe_Lane_Count": "4", "Enable_ResponseTime_Logging": "true"}
HOST |= {"ResponseTime_Logging_Period_Length": "1", "SATA_Processing_Delay": "400000"}
DEVICE = {
    "Seed": "321",
    "Enabled_Preconditioning": "false",
    "Memory_Type": "FLASH",
    "HostInterface_Type": "NVME",
    "Caching_Mechanism": "ADVANCED",
    "Data_Cache_Sharing_Mode": "SHARED",
    "Address_Mapping": "PAGE_LEVEL",
    "Ideal_Mapping_Table": "true",
    "Plane_Allocation_Scheme": "CWDP",
    "Transaction_Scheduling_Policy": "OUT_OF_ORDER",
    "GC_Exec_Threshold": "0.05",
    "GC_Block_Selection_Policy": "RGA",
    "Use_Copyback_for_GC": "false",
    "Preemptible_GC_Enabled": "false",
    "GC_Hard_Threshold": "0.005",
    "Flash_Channel_Width": "1",
    "Flash_Comm_Protocol": "NVDDR2",
}
FLASH = {"Flash_Technology": "SLC", "CMD_Suspension_Support": "NONE"}
FLASH |= {"Block_PE_Cycles_Limit": "1000000", "Page_Metadat_Capacity": "448"}
FLOW = {"Priority_Class": "HIGH", "Time_Unit": "NANOSECOND", "Relay_Count": "1"}
FLOW |= {"Percentage_To_Be_Executed": "100"}


@dataclass(frozen=True)
class Trace:
    """Requests of one run, in the order in which they are sent."""

    time_ns: I64
    """Time at which each is sent; ascending."""
    page: I64
    """First page."""
    pages: int
    """Pages of a request."""
    kind: I64 | int = WRITE
    """READ or WRITE, of each or of all."""

    def write(self, path: Path, page_bytes: int) -> None:
        """Write it as MQSim reads it: time, device, sector, sectors, kind."""
        sectors = page_bytes // SECTOR
        columns = np.empty((len(self.page), 5), np.int64)
        columns[:, 0], columns[:, 1] = self.time_ns, 0
        columns[:, 2], columns[:, 3] = self.page * sectors, self.pages * sectors
        columns[:, 4] = self.kind
        np.savetxt(path, columns, fmt="%d")


@dataclass(frozen=True)
class Record:
    """Results of one run of MQSim, in the order of completions."""

    done_us: I64
    took_us: I64
    """Response time since the trace sent a request: a queue in the host is part of it."""
    requests: int
    flash_operations: int
    """Pages read and programmed, and erase blocks erased, whoever asked for it."""


def _element(name: str, values: Mapping[str, Any], more: str = "") -> str:
    body = "".join(f"<{key}>{value}</{key}>\n" for key, value in values.items())
    return f"<{name}>\n{body}{more}</{name}>\n"


def configuration(path: Path, changes: Mapping[str, Any]) -> None:
    """Write a configuration: what stands above, and these keys.

    Raises InputError for a key that MQSim does not have.
    """
    unknown = set(changes) - {*keys.HOST, *keys.DEVICE, *keys.FLASH}
    if unknown:
        raise InputError(f"MQSim has no key `{min(unknown)}`")

    def part(known: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
        return {**usual, **{key: one for key, one in changes.items() if key in known}}

    flash = _element("Flash_Parameter_Set", part(keys.FLASH, FLASH))
    host = _element("Host_Parameter_Set", part(keys.HOST, HOST))
    device = _element("Device_Parameter_Set", part(keys.DEVICE, DEVICE), flash)
    text = f"<Execution_Parameter_Set>\n{host}{device}</Execution_Parameter_Set>\n"
    path.write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n{text}', encoding="ascii")


def _all_of(changes: Mapping[str, Any], key: str) -> str:
    return ",".join(str(number) for number in range(int(changes[key])))


def scenario(path: Path, flow: Mapping[str, Any], kind: str) -> None:
    """Write a workload of one flow; `kind` is Trace_Based or Synthetic."""
    text = _element(f"IO_Flow_Parameter_Set_{kind}", flow)
    text = _element("MQSim_IO_Scenarios", {}, _element("IO_Scenario", {}, text))
    path.write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n{text}', encoding="ascii")


def places(changes: Mapping[str, Any]) -> dict[str, str]:
    """Give the keys of a flow that has all of a drive to itself."""
    return {
        "Channel_IDs": _all_of(changes, "Flash_Channel_Count"),
        "Chip_IDs": _all_of(changes, "Chip_No_Per_Channel"),
        "Die_IDs": _all_of(changes, "Die_No_Per_Chip"),
        "Plane_IDs": _all_of(changes, "Plane_No_Per_Die"),
    }


def run(program: Path, folder: Path) -> str:
    """Run MQSim on `drive.xml` and `load.xml` in a folder; gives its result, as XML.

    Raises RunError if it fails: what it printed last.
    """
    command = [str(program), "-i", "drive.xml", "-w", "load.xml"]
    try:
        # It waits for a key when it is done.
        done = subprocess.run(
            command,
            cwd=folder,
            input="\n",
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{program}: MQSim cannot be run to its end: {error}") from error
    told = folder / "load_scenario_1.xml"
    if done.returncode or not told.exists():
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:]
        raise RunError(f"{program}: MQSim ended with {done.returncode}: {''.join(last)}")
    return told.read_text(encoding="utf-8", errors="replace")


def total(told: str, names: str) -> int:
    """Add up the attributes or elements of MQSim's result whose names match."""
    return sum(int(number) for number in re.findall(rf"\b(?:{names})[=>\"]+(\d+)", told))


OPERATIONS = r"Issued_Flash_(?:Multiplane_|Interleaved_)?\w*_?(?:Read|Program|Erase)_CMD\w*"


def prepare(folder: Path, changes: Mapping[str, Any], trace: Trace) -> None:
    """Write a trace and an empty drive of these keys, without a write cache, for `run`.

    It begins empty because MQSim's preconditioning ends with an error for traces: it looks at the
    kind of the load before it has found it out.

    Raises InputError for a key that MQSim does not have.
    """
    trace.write(folder / "load.trace", int(changes["Page_Capacity"]))
    configuration(folder / "drive.xml", changes)
    flow = {
        **FLOW,
        **places(changes),
        "Device_Level_Data_Caching_Mode": "TURNED_OFF",
        "Initial_Occupancy_Percentage": 0,
        "File_Path": "load.trace",
    }
    scenario(folder / "load.xml", flow, "Trace_Based")


def play(program: Path, changes: Mapping[str, Any], trace: Trace) -> Record:
    """Play a trace on a drive as `prepare` makes it. Raises RunError, InputError."""
    with tempfile.TemporaryDirectory(prefix="flashwright-mqsim-") as name:
        folder = Path(name)
        prepare(folder, changes, trace)
        told = run(program, folder)
        logs = list(folder.glob("*.log"))
        if len(logs) != 1:
            raise RunError(f"{program}: MQSim wrote {len(logs)} logs of response times, not 1")
        lines = np.loadtxt(logs[0], np.int64, skiprows=1, ndmin=2)
    return Record(lines[:, 0], lines[:, 2], total(told, "Request_Count"), total(told, OPERATIONS))
