"""Configurations and workloads of MQSim, written by hand: a drive of 96 MiB."""

from __future__ import annotations

from pathlib import Path

from flashwright.mqsim import keys

HOST = {
    "PCIe_Lane_Bandwidth": "1.0",
    "PCIe_Lane_Count": "4",
    "SATA_Processing_Delay": "30000",
}
DEVICE = {
    "Seed": "7",
    "Enabled_Preconditioning": "true",
    "Memory_Type": "FLASH",
    "HostInterface_Type": "NVME",
    "IO_Queue_Depth": "1024",
    "Queue_Fetch_Size": "64",
    "Caching_Mechanism": "ADVANCED",
    "Data_Cache_Capacity": "1048576",
    "Address_Mapping": "PAGE_LEVEL",
    "Ideal_Mapping_Table": "true",
    "Plane_Allocation_Scheme": "CWDP",
    "Transaction_Scheduling_Policy": "PRIORITY_OUT_OF_ORDER",
    "Overprovisioning_Ratio": "0.25",
    "GC_Exec_Threshold": "0.05",
    "GC_Block_Selection_Policy": "RGA",
    "Flash_Channel_Count": "2",
    "Flash_Channel_Width": "1",
    "Channel_Transfer_Rate": "333",
    "Chip_No_Per_Channel": "2",
}
FLASH = {
    "Flash_Technology": "MLC",
    "CMD_Suspension_Support": "NONE",
    "Page_Read_Latency_LSB": "50000",
    "Page_Read_Latency_CSB": "60000",
    "Page_Read_Latency_MSB": "70000",
    "Page_Program_Latency_LSB": "400000",
    "Page_Program_Latency_CSB": "600000",
    "Page_Program_Latency_MSB": "800000",
    "Block_Erase_Latency": "3800000",
    "Block_PE_Cycles_Limit": "10000",
    "Die_No_Per_Chip": "1",
    "Plane_No_Per_Die": "2",
    "Block_No_Per_Plane": "64",
    "Page_No_Per_Block": "64",
    "Page_Capacity": "4096",
}
SYNTHETIC = {
    "Priority_Class": "HIGH",
    "Device_Level_Data_Caching_Mode": "WRITE_CACHE",
    "Channel_IDs": "0,1",
    "Initial_Occupancy_Percentage": "75",
    "Working_Set_Percentage": "50",
    "Synthetic_Generator_Type": "QUEUE_DEPTH",
    "Read_Percentage": "30",
    "Address_Distribution": "RANDOM_UNIFORM",
    "Generated_Aligned_Addresses": "true",
    "Address_Alignment_Unit": "8",
    "Average_Request_Size": "16",
    "Average_No_of_Reqs_in_Queue": "8",
    "Total_Requests_To_Generate": "500",
}
TRACE = {"File_Path": "short.trace", "Relay_Count": "1", "Time_Unit": "NANOSECOND"}
LEFT_OUT = "left out"
CAPACITY = 24576 * 4096
"""Of the drive above: 32768 pages, of which a quarter is spare."""


def lines(name: str, values: dict[str, str], more: str = "") -> str:
    """Write an element with its keys, a line each."""
    body = "\n".join(f"<{key}>{value}</{key}>" for key, value in values.items())
    return f"<{name}>\n{body}\n{more}</{name}>\n"


def config(folder: Path, name: str = "drive one.xml", **changes: str) -> Path:
    """Write a configuration with these changes: a key is set where it is known, or left out."""
    parts = []
    for known, values in ((keys.HOST, HOST), (keys.DEVICE, DEVICE), (keys.FLASH, FLASH)):
        own = {key: value for key, value in changes.items() if key in known}
        parts.append({key: one for key, one in {**values, **own}.items() if one != LEFT_OUT})
    flash = lines("Flash_Parameter_Set", parts[2])
    text = lines("Host_Parameter_Set", parts[0]) + lines("Device_Parameter_Set", parts[1], flash)
    path = folder / name
    path.write_text(f'<?xml version="1.0" encoding="us-ascii"?>\n{wrapped(text)}')
    return path


def wrapped(text: str) -> str:
    """Put the outermost element of a configuration around a text."""
    return f"<Execution_Parameter_Set>\n{text}</Execution_Parameter_Set>\n"


def workload(folder: Path, *flows: dict[str, str]) -> Path:
    """Write a workload of one scenario."""
    parts = []
    for flow in flows:
        kind = "Trace_Based" if "File_Path" in flow else "Synthetic"
        parts.append(lines(f"IO_Flow_Parameter_Set_{kind}", flow))
    path = folder / "load.xml"
    scenario = f"<IO_Scenario>\n{''.join(parts)}</IO_Scenario>\n"
    path.write_text(f"<MQSim_IO_Scenarios>\n{scenario}</MQSim_IO_Scenarios>\n")
    return path


def trace(folder: Path, requests: int) -> None:
    """Write the trace that `TRACE` names."""
    rows = [f"{number * 50_000} 0 {number * 8} 8 {number % 2}" for number in range(requests)]
    (folder / "short.trace").write_text("\n".join(rows) + "\n")
