"""A drive of MQSim as a profile of ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashwright import _core
from flashwright._core import InputError
from flashwright.mqsim import reasons
from flashwright.mqsim.document import Element, read
from flashwright.mqsim.keys import DEVICE, FLASH, HOST, Unknown, Values
from flashwright.mqsim.notes import Notes

WHAT = "a configuration of a drive by MQSim"
SECTOR = 512
MOST_NCQ = 32
PAYLOAD, PACKET = 128, 156
"""Bytes of a PCIe packet of MQSim: of its data, and with header, link layer and physical layer."""
LEAST_FREE_BLOCKS = 10
"""Cleanings that MQSim lets go on in a plane: with fewer erase blocks free it always cleans."""
CELL_BITS = {"SLC": ("LSB",), "MLC": ("LSB", "MSB"), "TLC": ("LSB", "CSB", "MSB")}
VICTIMS = {"GREEDY": "greedy", "RANDOM": "random", "RANDOM_P": "random", "RANDOM_PP": "random"}
COMMAND_US = 0.29


@dataclass
class Profile:
    """The lines of a profile, section by section."""

    sections: dict[str, list[str]] = field(default_factory=dict)
    fitted: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def put(self, key: str, value: Any, said: str, *, is_fitted: bool = False) -> None:
        """Set a key, and say where its value is from."""
        section, _, name = key.partition(".")
        self.sections.setdefault(section, []).append(f"{name} = {_toml(value)}  # {said}")
        self.values[key] = value
        if is_fitted:
            self.fitted.append(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


class MqsimDrive:
    """A drive that MQSim's configuration describes."""

    def __init__(self, path: Path) -> None:
        root = read(path, "Execution_Parameter_Set", WHAT)
        self.path = path
        device = _only(path, root, "Device_Parameter_Set")
        flash = _only(path, device, "Flash_Parameter_Set")
        host = root.named("Host_Parameter_Set") or [Element("Host_Parameter_Set", root.line)]
        self.host = Notes(Values(path, host[0], HOST))
        self.device = Notes(Values(path, device, DEVICE, ["Flash_Parameter_Set"]))
        self.flash = Notes(Values(path, flash, FLASH))
        sections = ("Host_Parameter_Set", "Device_Parameter_Set")
        self.device.values.unknown += [
            Unknown(child.name, child.text, child.line)
            for child in root.children
            if child.name not in sections
        ]

    @property
    def notes(self) -> tuple[Notes, ...]:
        """Translations of the keys, by the elements that they are in."""
        return (self.host, self.device, self.flash)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Channels, chips of one, dies of one, planes of one."""
        device, flash = self.device.values, self.flash.values
        return (
            device.whole("Flash_Channel_Count"),
            device.whole("Chip_No_Per_Channel"),
            flash.whole("Die_No_Per_Chip"),
            flash.whole("Plane_No_Per_Die"),
        )

    @property
    def plane_pages(self) -> int:
        """Pages of a plane."""
        flash = self.flash.values
        return flash.whole("Block_No_Per_Plane") * flash.whole("Page_No_Per_Block")

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
        return self.flash.values.whole("Page_Capacity")

    @property
    def is_nvme(self) -> bool:
        """True if its interface is NVMe, and not SATA."""
        return self.device.values.text("HostInterface_Type") == "NVME"

    @property
    def heeds_priorities(self) -> bool:
        """True if MQSim heeds the priorities of flows."""
        policy = self.device.values.text("Transaction_Scheduling_Policy")
        return self.is_nvme and policy == "PRIORITY_OUT_OF_ORDER"

    def profile(self, caching: Iterable[str]) -> str:
        """Make the profile. `caching` are the caching modes of the flows, if any are known.

        Raises InputError if the drive is one that cannot be simulated here.
        """
        made = Profile()
        self._sizes(made)
        self._times(made)
        self._suspension(made)
        self._interface(made)
        self._cache(made, sorted(set(caching)))
        self._mapping(made)
        self._cleaning(made)
        self._wear(made)
        self._no_counterpart()
        text = self._text(made)
        # With all keys it would have lost its comments: only the check is wanted.
        _core.check_profile(text, f"{self.path}: the profile made of it")
        return text

    def _sizes(self, made: Profile) -> None:
        for notes, key, ours in (
            (self.device, "Flash_Channel_Count", "media.channels"),
            (self.device, "Chip_No_Per_Channel", "media.packages_per_channel"),
            (self.flash, "Die_No_Per_Chip", "media.dies_per_package"),
            (self.flash, "Plane_No_Per_Die", "media.planes_per_die"),
            (self.flash, "Block_No_Per_Plane", "media.erase_blocks_per_plane"),
            (self.flash, "Page_No_Per_Block", "media.pages_per_erase_block"),
            (self.flash, "Page_Capacity", "media.page_bytes"),
        ):
            made.put(ours, notes.values.whole(key), key)
            notes.tell(key, ours)
        if self.page_bytes % SECTOR:
            raise self.flash.values.wrong(
                "Page_Capacity", str(self.page_bytes), f"a multiple of {SECTOR}, a sector"
            )

    def _times(self, made: Profile) -> None:
        flash, cells = self.flash.values, self.flash.values.text("Flash_Technology")
        self.flash.tell("Flash_Technology", "media.read_us, media.program_us: how many times")
        for ours, ours_us in (("Read", "media.read_us"), ("Program", "media.program_us")):
            keys = [f"Page_{ours}_Latency_{bit}" for bit in CELL_BITS[cells]]
            made.put(ours_us, [flash.whole(key) / 1000 for key in keys], ", ".join(keys))
            for bit in CELL_BITS["TLC"]:
                key = f"Page_{ours}_Latency_{bit}"
                if key in keys:
                    remark = reasons.TLC_PAGES if cells == "TLC" else ""
                    self.flash.tell(key, ours_us, remark)
                else:
                    self.flash.leave(key, f"{cells} has no such pages: MQSim does not look at it")
        made.put("media.erase_us", flash.whole("Block_Erase_Latency") / 1000, "Block_Erase_Latency")
        self.flash.tell("Block_Erase_Latency", "media.erase_us")
        self._channel(made)

    def _channel(self, made: Profile) -> None:
        device = self.device.values
        rate, width = device.whole("Channel_Transfer_Rate"), device.whole("Flash_Channel_Width")
        if width not in (1, 2, 4, 8):
            raise device.wrong("Flash_Channel_Width", str(width), "1, 2, 4 or 8 bytes")
        made.put("media.channel_mt_per_second", rate, "Channel_Transfer_Rate")
        made.put("media.channel_bits", width * 8, "Flash_Channel_Width, in bytes there")
        whole_ns = 1000 // rate
        remark = ""
        if whole_ns * rate != 1000:
            effect = f"{1000 / whole_ns:.4g} MT/s" if whole_ns else "no time at all"
            remark = f"MQSim rounds a transfer down to {whole_ns} ns: it has {effect}"
        self.device.tell("Channel_Transfer_Rate", "media.channel_mt_per_second", remark)
        self.device.tell("Flash_Channel_Width", "media.channel_bits")
        made.put("media.command_us", COMMAND_US, reasons.COMMAND, is_fitted=True)
        self.device.tell("Flash_Comm_Protocol", "media.command_us", reasons.COMMAND)
        made.put("media.multi_plane", value=True, said=reasons.MULTI_PLANE, is_fitted=True)
        made.put("media.copy_back", device.flag("Use_Copyback_for_GC"), "Use_Copyback_for_GC")
        self.device.tell("Use_Copyback_for_GC", "media.copy_back")
        made.put("media.order", "reads_first", "Transaction_Scheduling_Policy")
        is_by_class = device.text("Transaction_Scheduling_Policy") == "PRIORITY_OUT_OF_ORDER"
        remark = reasons.PRIORITIES if is_by_class else ""
        self.device.tell("Transaction_Scheduling_Policy", "media.order", remark)

    def _suspension(self, made: Profile) -> None:
        flash = self.flash.values
        support = flash.text("CMD_Suspension_Support")
        suspends = support in ("PROGRAM", "PROGRAM_ERASE")
        made.put("media.suspend", suspends, "CMD_Suspension_Support")
        self.flash.tell("CMD_Suspension_Support", "media.suspend", reasons.SUSPENSION[support])
        if suspends:
            made.put(
                "media.suspend_us",
                flash.whole("Suspend_Program_Time") / 1000,
                "Suspend_Program_Time",
            )
            self.flash.tell("Suspend_Program_Time", "media.suspend_us", reasons.SUSPEND_TIME)
        else:
            self.flash.leave("Suspend_Program_Time", "programs are not interrupted")
        self.flash.leave(
            "Suspend_Erase_Time",
            "media.suspend_us is one time for both, that of programs"
            if suspends
            else "erases are not interrupted",
        )
        for key in DEVICE:
            if "suspend" in key:
                self.device.leave(key, reasons.SUSPEND_PREFERENCE)

    def _interface(self, made: Profile) -> None:
        host, device = self.host.values, self.device.values
        made.put("interface.kind", "nvme" if self.is_nvme else "sata", "HostInterface_Type")
        self.device.tell("HostInterface_Type", "interface.kind")
        lanes, bandwidth = host.whole("PCIe_Lane_Count"), host.number("PCIe_Lane_Bandwidth")
        rate = round(lanes * bandwidth * 1000 * PAYLOAD / PACKET, 3)
        said = f"PCIe_Lane_Count x PCIe_Lane_Bandwidth, {PAYLOAD} bytes of each {PACKET} being data"
        made.put("interface.link_mb_per_second", rate, said)
        remark = "" if self.is_nvme else "MQSim sends SATA over its PCIe link, too"
        for key in ("PCIe_Lane_Bandwidth", "PCIe_Lane_Count"):
            self.host.tell(key, "interface.link_mb_per_second", remark)
        depth, fetched = device.whole("IO_Queue_Depth"), device.whole("Queue_Fetch_Size")
        if self.is_nvme:
            made.put(
                "interface.queue_depth", min(depth, fetched), "of IO_Queue_Depth, Queue_Fetch_Size"
            )
            for key in ("IO_Queue_Depth", "Queue_Fetch_Size"):
                self.device.tell(key, "interface.queue_depth", reasons.QUEUES)
            self.host.leave("SATA_Processing_Delay", "it is of SATA, and the interface is NVMe")
            return
        made.put("interface.queue_depth", min(depth, MOST_NCQ), "IO_Queue_Depth")
        lowered = f"lowered: NCQ has {MOST_NCQ}" if depth > MOST_NCQ else ""
        self.device.tell("IO_Queue_Depth", "interface.queue_depth", lowered)
        self.device.leave("Queue_Fetch_Size", "it is of NVMe, and the interface is SATA")
        delay_us = host.whole("SATA_Processing_Delay") / 1000
        made.put("interface.host_us", delay_us, "SATA_Processing_Delay, of a completion")
        for op in ("read", "write"):
            made.put(f"controller.{op}_command_us", delay_us, "SATA_Processing_Delay, of a request")
        self.host.tell(
            "SATA_Processing_Delay",
            "controller.read_command_us, controller.write_command_us, interface.host_us",
            reasons.SATA_DELAY,
        )

    def _cache(self, made: Profile, modes: list[str]) -> None:
        device, size = self.device.values, self.device.values.whole("Data_Cache_Capacity")
        writes = not modes or any("WRITE" in mode for mode in modes)
        reads = any("READ" in mode for mode in modes)
        parts = writes + reads
        share = size // parts // self.page_bytes * self.page_bytes if parts else 0
        said = "Data_Cache_Capacity" if parts < 2 else "half of Data_Cache_Capacity"
        made.put(
            "write_buffer.bytes", share if writes else 0, said if writes else "no flow uses it"
        )
        made.put("read_cache.bytes", share if reads else 0, said if reads else "no flow uses it")
        to = " and ".join(
            key
            for key, used in (("write_buffer.bytes", writes), ("read_cache.bytes", reads))
            if used
        )
        remark = reasons.BOTH_CACHES if parts == 2 else "" if modes else reasons.CACHE_UNKNOWN
        if to:
            self.device.tell("Data_Cache_Capacity", to, remark)
        else:
            self.device.leave("Data_Cache_Capacity", "all flows turn the cache off")
        made.put("write_buffer.flush", "eager", reasons.CACHING, is_fitted=True)
        made.put("write_buffer.flush_pages", 1, "MQSim writes each page back by itself")
        self.device.tell("Caching_Mechanism", "write_buffer.flush", reasons.CACHING)
        if device.text("Data_Cache_Sharing_Mode") == "SHARED":
            self.device.tell("Data_Cache_Sharing_Mode", "always so")
        else:
            self.device.leave("Data_Cache_Sharing_Mode", "all flows share the buffer and the cache")
        for key in DEVICE:
            if key.startswith("Data_Cache_DRAM"):
                self.device.leave(key, f"DRAM takes no time here; {self._dram_said()}")

    def _dram_said(self) -> str:
        """Say how long a page takes in MQSim's DRAM, by its own formula."""
        device, page = self.device.values, self.page_bytes
        row = device.whole("Data_Cache_DRAM_Row_Size")
        burst = device.whole("Data_Cache_DRAM_Data_Busrt_Size")
        latency = device.whole("Data_Cache_DRAM_tRCD") + device.whole("Data_Cache_DRAM_tCL")
        if page > row:
            return "a page takes some in MQSim, where it goes through the cache"
        transfer = page // burst // 2 * 1000 / device.whole("Data_Cache_DRAM_Data_Rate")
        us = (latency + transfer) / 1000
        return f"a page takes {us:.3g} us in MQSim, where it goes through the cache"

    def _mapping(self, made: Profile) -> None:
        device, order = self.device.values, self.device.values.text("Plane_Allocation_Scheme")
        self.device.tell("Address_Mapping", "ftl.scheme")
        if device.flag("Ideal_Mapping_Table"):
            scheme = "page_mapped(allocation=static)"
            for key in ("CMT_Capacity", "CMT_Sharing_Mode"):
                self.device.leave(key, "with Ideal_Mapping_Table the whole map is in DRAM")
        else:
            planes = math.prod(self.shape)
            pages, sectors = planes * self.plane_pages, self.page_bytes // SECTOR
            entry = math.ceil((2 * math.log2(pages) + sectors) / 8)
            entries = max(device.whole("CMT_Capacity") // entry, 1)
            scheme = f"dftl(allocation=static,cached_entries={entries})"
            remark = f"an entry has {entry} bytes in MQSim"
            self.device.tell("CMT_Capacity", "cached_entries of dftl", remark)
            if device.text("CMT_Sharing_Mode") == "SHARED":
                self.device.tell("CMT_Sharing_Mode", "always so")
            else:
                self.device.leave("CMT_Sharing_Mode", "all flows share the cached map")
        said = "Address_Mapping, Ideal_Mapping_Table, CMT_Capacity, Plane_Allocation_Scheme"
        made.put("ftl.scheme", scheme, said)
        self.device.tell("Ideal_Mapping_Table", "page_mapped or dftl")
        if order in ("CWDP", "CDWP"):
            self.device.tell("Plane_Allocation_Scheme", "allocation=static")
        else:
            self.device.leave("Plane_Allocation_Scheme", reasons.PLANE_ORDER)

    def _cleaning(self, made: Profile) -> None:
        device, blocks = self.device.values, self.flash.values.whole("Block_No_Per_Plane")
        ratio = device.number("Overprovisioning_Ratio")
        made.put(
            "ftl.over_provisioning", ratio / (1 - ratio), "r / (1 - r) of Overprovisioning_Ratio"
        )
        self.device.tell("Overprovisioning_Ratio", "ftl.over_provisioning", reasons.SPARE)
        policy = device.text("GC_Block_Selection_Policy")
        drawn = int(math.log2(blocks))
        victim = {**VICTIMS, "RGA": f"d_choices(d={drawn})", "FIFO": "lru"}[policy]
        made.put("ftl.victim", victim, "GC_Block_Selection_Policy")
        self.device.tell("GC_Block_Selection_Policy", "ftl.victim", reasons.VICTIMS[policy])
        asked = device.number("GC_Exec_Threshold")
        least = max(int(asked * blocks), LEAST_FREE_BLOCKS) / blocks
        # A full drive has the spare share free and no more: below that it may clean.
        start = least if least < ratio * 0.9 else round(ratio * 0.75, 6)
        remark = (
            f"MQSim cleans with less than {LEAST_FREE_BLOCKS} erase blocks of a plane free"
            if least > asked
            else ""
        )
        if start != least:
            remark = f"lowered: a full drive has {ratio:g} free, and would always clean"
        made.put("cleaning.start_below_free", start, "GC_Exec_Threshold")
        self.device.tell("GC_Exec_Threshold", "cleaning.start_below_free", remark)
        self.device.leave("Preemptible_GC_Enabled", reasons.PREEMPTION)
        self.device.leave("GC_Hard_Threshold", reasons.PREEMPTION)

    def _wear(self, made: Profile) -> None:
        limit = self.flash.values.whole("Block_PE_Cycles_Limit")
        made.put("media.endurance_cycles", limit, "Block_PE_Cycles_Limit")
        self.flash.tell("Block_PE_Cycles_Limit", "media.endurance_cycles", reasons.ENDURANCE)
        dynamic = self.device.values.flag("Dynamic_Wearleveling_Enabled")
        made.put("wear_levelling.dynamic", dynamic, "Dynamic_Wearleveling_Enabled")
        self.device.tell("Dynamic_Wearleveling_Enabled", "wear_levelling.dynamic", reasons.WEAR)
        if self.device.values.flag("Static_Wearleveling_Enabled"):
            self.device.leave("Static_Wearleveling_Enabled", reasons.STATIC_WEAR)
            self.device.leave("Static_Wearleveling_Threshold", reasons.STATIC_WEAR)
        else:
            self.device.tell("Static_Wearleveling_Enabled", "wear_levelling.static_rule = none")
            self.device.leave("Static_Wearleveling_Threshold", "static wear levelling is off")

    def _no_counterpart(self) -> None:
        self.device.tell("Memory_Type", "always so")
        self.flash.leave("Page_Metadat_Capacity", "nothing is kept beside data; nor by MQSim")
        self.host.tell("Enable_ResponseTime_Logging", "always so: the table over_time")
        self.host.leave("ResponseTime_Logging_Period_Length", reasons.PERIODS)
        self.device.tell("Seed", "--seed")
        self.device.tell("Enabled_Preconditioning", "state=", reasons.PRECONDITIONING)
        for notes in self.notes:
            notes.leave_unknown()

    def _text(self, made: Profile) -> str:
        lines = [
            f'name = "{_name(self.path)}"',
            f'summary = "a drive of MQSim, of {_plain(self.path.name)}"',
            f'sources = ["MQSim configuration {_plain(self.path.name)}"]',
            "# Without a key of MQSim's that says them.",
            f"fitted = {_toml(sorted(made.fitted))}",
            "",
            *self._comments(),
        ]
        for section, keys in made.sections.items():
            lines += ["", f"[{section}]", *keys]
        return "\n".join(lines) + "\n"

    def _comments(self) -> list[str]:
        """Give what the profile does not say, as its comments."""
        lines = ["# What MQSim's configuration says, and this profile does not:"]
        for notes in self.notes:
            lines += [f"# {one.key} = {_plain(one.value)}: {one.reason}" for one in notes.untold]
        lines.append("# What means something else here:")
        for notes in self.notes:
            lines += [f"# {one.key}: {one.remark}" for one in notes.told if one.remark]
        return lines


def _only(path: Path, element: Element, name: str) -> Element:
    """Give the one element of a name. Raises InputError if there are none or several."""
    found = element.named(name)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            f"{path}, line {element.line}: <{element.name}> has no <{name}>; right would be {WHAT}"
        )
    raise InputError(
        f"{path}, line {found[1].line}: <{name}> was given in line {found[0].line} already; right "
        "would be one of them"
    )


def _name(path: Path) -> str:
    words = re.findall(r"[a-z0-9]+", path.stem.lower())
    return "-".join(words) or "mqsim"


def _plain(text: str) -> str:
    """Give a text without what would end a line or a string of TOML."""
    return re.sub(r"[^ -!#-\[\]-~]", "?", text)
