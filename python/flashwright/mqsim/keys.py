"""Every key that MQSim reads, what it may be, and what MQSim takes where it is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import InputError
from flashwright.mqsim.document import Element

Value = bool | int | float | str | tuple[int, ...]
ORDERS = ("C", "W", "D", "P")


@dataclass(frozen=True)
class Key:
    """Type and range of a key."""

    default: Value
    """Value that MQSim takes where the key is left out; of a flow, where MQSim's value is
    undefined, the usual one.
    """
    least: float = 0
    most: float = 2**63
    choices: tuple[str, ...] = ()

    def right(self) -> str:
        """Say what would be right."""
        if self.choices:
            return " or ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, tuple):
            return "whole numbers from 0 on with commas between, such as 0,1,2,3"
        if self.default == "" and isinstance(self.default, str):
            return "the path of a file"
        kind = "a number" if isinstance(self.default, float) else "a whole number"
        if self.most < 2**63:
            return f"{kind} from {self.least:g} to {self.most:g}"
        return f"{kind} of at least {self.least:g}"

    def value(self, text: str) -> Value:
        """Read a value. Raises ValueError if it is wrong."""
        if self.choices:
            if text.upper() not in self.choices:
                raise ValueError(text)
            return text.upper()
        if isinstance(self.default, bool):
            return {"true": True, "false": False}[text.lower()]
        if isinstance(self.default, tuple):
            return tuple(sorted({_whole(part) for part in text.split(",")}))
        if isinstance(self.default, str):
            if not text:
                raise ValueError(text)
            return text
        number = float(text) if isinstance(self.default, float) else _whole(text)
        if not self.least <= number <= self.most:
            raise ValueError(text)
        return number


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _choice(default: str, *others: str) -> Key:
    return Key(default, choices=(default, *others))


HOST = {
    "PCIe_Lane_Bandwidth": Key(0.4, 1e-3, 1e3),
    "PCIe_Lane_Count": Key(4, 1, 64),
    "SATA_Processing_Delay": Key(0),
    "Enable_ResponseTime_Logging": Key(default=False),
    "ResponseTime_Logging_Period_Length": Key(400_000),
}
_PLANE_ORDERS = tuple(
    a + b + c + d
    for a in ORDERS
    for b in ORDERS
    for c in ORDERS
    for d in ORDERS
    if len({a, b, c, d}) == len(ORDERS)
)
DEVICE = {
    "Seed": Key(123),
    "Enabled_Preconditioning": Key(default=True),
    "Memory_Type": _choice("FLASH"),
    "HostInterface_Type": _choice("NVME", "SATA"),
    "IO_Queue_Depth": Key(1024, 1, 65_535),
    "Queue_Fetch_Size": Key(512, 1, 65_535),
    "Caching_Mechanism": _choice("ADVANCED", "SIMPLE"),
    "Data_Cache_Sharing_Mode": _choice("SHARED", "EQUAL_PARTITIONING"),
    "Data_Cache_Capacity": Key(512 << 20),
    "Data_Cache_DRAM_Row_Size": Key(8192, 1),
    "Data_Cache_DRAM_Data_Rate": Key(800, 1),
    "Data_Cache_DRAM_Data_Busrt_Size": Key(4, 1),
    "Data_Cache_DRAM_tRCD": Key(13),
    "Data_Cache_DRAM_tCL": Key(13),
    "Data_Cache_DRAM_tRP": Key(13),
    # MQSim knows HYBRID by its name, and has nothing behind it: every function of it is empty.
    "Address_Mapping": _choice("PAGE_LEVEL"),
    "Ideal_Mapping_Table": Key(default=False),
    "CMT_Capacity": Key(2 << 20, 1),
    "CMT_Sharing_Mode": _choice("SHARED", "EQUAL_PARTITIONING"),
    "Plane_Allocation_Scheme": Key("CWDP", choices=_PLANE_ORDERS),
    # FLIN is in its list of names, and commented out where a drive is made.
    "Transaction_Scheduling_Policy": _choice("OUT_OF_ORDER", "PRIORITY_OUT_OF_ORDER"),
    "Overprovisioning_Ratio": Key(0.07, 0.001, 0.95),
    "GC_Exec_Threshold": Key(0.05, 0, 1),
    "GC_Block_Selection_Policy": Key(
        "RGA", choices=("GREEDY", "RGA", "RANDOM", "RANDOM_P", "RANDOM_PP", "FIFO")
    ),
    "Use_Copyback_for_GC": Key(default=False),
    "Preemptible_GC_Enabled": Key(default=True),
    "GC_Hard_Threshold": Key(0.005, 0, 1),
    "Dynamic_Wearleveling_Enabled": Key(default=True),
    "Static_Wearleveling_Enabled": Key(default=True),
    "Static_Wearleveling_Threshold": Key(100),
    "Prefered_suspend_erase_time_for_read": Key(700_000),
    "Preferred_suspend_erase_time_for_write": Key(700_000),
    "Preferred_suspend_write_time_for_read": Key(100_000),
    "Flash_Channel_Count": Key(8, 1, 64),
    "Flash_Channel_Width": Key(1, 1, 8),
    "Channel_Transfer_Rate": Key(300, 1, 1_000_000),
    "Chip_No_Per_Channel": Key(4, 1, 16),
    "Flash_Comm_Protocol": _choice("NVDDR2"),
}
_NANOSECONDS = 10**12
FLASH = {
    "Flash_Technology": _choice("MLC", "SLC", "TLC"),
    "CMD_Suspension_Support": _choice("ERASE", "NONE", "PROGRAM", "PROGRAM_ERASE"),
    **{f"Page_Read_Latency_{bit}": Key(75_000, 1, _NANOSECONDS) for bit in ("LSB", "CSB", "MSB")},
    **{
        f"Page_Program_Latency_{bit}": Key(750_000, 1, _NANOSECONDS)
        for bit in ("LSB", "CSB", "MSB")
    },
    "Block_Erase_Latency": Key(3_800_000, 1, _NANOSECONDS),
    "Block_PE_Cycles_Limit": Key(10_000, 0, 2**32 - 1),
    "Suspend_Erase_Time": Key(700_000, 0, _NANOSECONDS),
    "Suspend_Program_Time": Key(100_000, 0, _NANOSECONDS),
    "Die_No_Per_Chip": Key(2, 1, 16),
    "Plane_No_Per_Die": Key(2, 1, 8),
    "Block_No_Per_Plane": Key(2048, 4, 65_536),
    "Page_No_Per_Block": Key(256, 2, 4096),
    "Page_Capacity": Key(8192, 512, 65_536),
    "Page_Metadat_Capacity": Key(1872),
}
_FLOW = {
    "Priority_Class": Key("HIGH", choices=("URGENT", "HIGH", "MEDIUM", "LOW")),
    "Device_Level_Data_Caching_Mode": Key(
        "WRITE_CACHE", choices=("WRITE_CACHE", "READ_CACHE", "WRITE_READ_CACHE", "TURNED_OFF")
    ),
    "Channel_IDs": Key(()),
    "Chip_IDs": Key(()),
    "Die_IDs": Key(()),
    "Plane_IDs": Key(()),
    "Initial_Occupancy_Percentage": Key(100, 0, 100),
}
SYNTHETIC = {
    **_FLOW,
    "Working_Set_Percentage": Key(100, 1, 100),
    "Synthetic_Generator_Type": _choice("QUEUE_DEPTH", "BANDWIDTH"),
    "Read_Percentage": Key(100, 0, 100),
    "Address_Distribution": _choice("RANDOM_UNIFORM", "STREAMING", "RANDOM_HOTCOLD"),
    "Percentage_of_Hot_Region": Key(0, 0, 100),
    "Generated_Aligned_Addresses": Key(default=True),
    "Address_Alignment_Unit": Key(16, 1, 2**31),
    "Request_Size_Distribution": _choice("FIXED", "NORMAL"),
    "Average_Request_Size": Key(8, 1, 2**22),
    "Variance_Request_Size": Key(0),
    "Seed": Key(1),
    "Average_No_of_Reqs_in_Queue": Key(2, 1, 65_535),
    "Bandwidth": Key(0, 0, 2**32 - 1),
    "Stop_Time": Key(0),
    "Total_Requests_To_Generate": Key(0),
}
TRACE = {
    **_FLOW,
    "File_Path": Key(""),
    "Percentage_To_Be_Executed": Key(100, 1, 100),
    "Relay_Count": Key(1, 1, 1_000_000),
    "Time_Unit": _choice("NANOSECOND", "PICOSECOND", "MICROSECOND"),
}
SPELLINGS = {
    "Preferred_suspend_erase_time_for_read": "Prefered_suspend_erase_time_for_read",
    "GC_Exect_Threshold": "GC_Exec_Threshold",
    "Data_Cache_DRAM_Data_Burst_Size": "Data_Cache_DRAM_Data_Busrt_Size",
}
"""Spellings of MQSim's README and of its example that its program passes over."""


@dataclass(frozen=True)
class Unknown:
    """An element that MQSim has no use for."""

    name: str
    value: str
    line: int


class Values:
    """The keys of one element of a file, each of which MQSim reads."""

    def __init__(
        self, path: Path, element: Element, known: Mapping[str, Key], groups: Iterable[str] = ()
    ) -> None:
        self.path, self.element, self._known = path, element, known
        self.lines: dict[str, int] = {}
        self._spelled: dict[str, str] = {}
        self.unknown: list[Unknown] = []
        self._values: dict[str, Value] = {}
        for child in element.children:
            if child.name in groups:
                continue
            name = SPELLINGS.get(child.name, child.name)
            if name not in known:
                self.unknown.append(Unknown(child.name, child.text, child.line))
                continue
            if name in self.lines:
                raise InputError(
                    f"{path}, line {child.line}: {child.name} was given in line "
                    f"{self.lines[name]} already; right would be one of them"
                )
            self.lines[name] = child.line
            self._spelled[name] = child.name
            try:
                self._values[name] = known[name].value(child.text)
            except (ValueError, KeyError):
                raise self.wrong(name, f"`{child.text}`", known[name].right()) from None

    def wrong(self, name: str, value: str, right: str) -> InputError:
        """Give the error of a key that is wrong."""
        line = self.lines.get(name, self.element.line)
        return InputError(
            f"{self.path}, line {line}: {self.spelled(name)} is {value}; right would be {right}"
        )

    def spelled(self, name: str) -> str:
        """Give the key as the file spells it."""
        return self._spelled.get(name, name)

    def is_given(self, name: str) -> bool:
        """Tell whether the file has the key."""
        return name in self.lines

    def _of(self, name: str) -> Value:
        return self._values.get(name, self._known[name].default)

    def whole(self, name: str) -> int:
        """Give a whole number."""
        return int(self._of(name))  # type: ignore[arg-type]

    def number(self, name: str) -> float:
        """Give a number."""
        return float(self._of(name))  # type: ignore[arg-type]

    def flag(self, name: str) -> bool:
        """Give a yes or no."""
        return bool(self._of(name))

    def text(self, name: str) -> str:
        """Give a word or a path."""
        return str(self._of(name))

    def numbers(self, name: str) -> tuple[int, ...]:
        """Give the numbers of a list."""
        found = self._of(name)
        return found if isinstance(found, tuple) else ()

    def said(self, name: str) -> str:
        """Give the value as people read it."""
        value = self._of(name)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        return f"{value:g}" if isinstance(value, float) else str(value)
