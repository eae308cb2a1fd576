"""Workloads of MQSim as commands of ours, one a scenario."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from flashwright._core import InputError
from flashwright.mqsim import reasons
from flashwright.mqsim.device import SECTOR, MqsimDrive
from flashwright.mqsim.document import Element, read
from flashwright.mqsim.keys import SYNTHETIC, TRACE, Values
from flashwright.mqsim.notes import Notes

WHAT = "a workload of MQSim"
KINDS = {"IO_Flow_Parameter_Set_Synthetic": SYNTHETIC, "IO_Flow_Parameter_Set_Trace_Based": TRACE}
PRIORITIES = {"URGENT": 3, "HIGH": 2, "MEDIUM": 1, "LOW": 0}
RESOURCES = ("Channel_IDs", "Chip_IDs", "Die_IDs", "Plane_IDs")


@dataclass
class Part:
    """A source, as it is played: a flow is one, or two where hot and cold are told apart."""

    source: str
    depth: int | None
    """None for an open loop."""
    region: tuple[int, int] | None = None
    """Region of a trace; a pattern names it itself."""
    priority: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    """Its other keys as the SOURCE of a command."""

    @property
    def pace(self) -> str:
        """Pace of its requests."""
        return "open" if self.depth is None else f"closed({self.depth})"

    def beside(self) -> str:
        """Give it as `--flow` takes it."""
        region = None if self.region is None else f"{self.region[0]}+{self.region[1]}"
        more = {"pace": self.pace, "region": region, "priority": self.priority}
        return _written("flow", self.source, more)

    def first(self) -> str:
        """Give it as the SOURCE of a command."""
        more = {**self.more, "priority": self.priority}
        return _written("part", self.source, more) if any(more.values()) else self.source


@dataclass
class Flow:
    """A flow of a scenario."""

    kind: str
    notes: Notes
    parts: list[Part] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    """Options of the command, if it is the first."""

    @property
    def values(self) -> Values:
        """Its keys."""
        return self.notes.values

    @property
    def is_synthetic(self) -> bool:
        """True if it is synthetic, and no trace."""
        return self.values.element.name == "IO_Flow_Parameter_Set_Synthetic"

    @property
    def stop_time(self) -> int:
        """Nanoseconds after which it sends no more; 0 if something else ends it."""
        return self.values.whole("Stop_Time") if self.is_synthetic else 0

    @property
    def reads(self) -> bool:
        """True if it may read."""
        return not self.is_synthetic or self.values.whole("Read_Percentage") > 0


@dataclass
class Scenario:
    """Flows that are played together, and the command for them."""

    number: int
    flows: list[Flow]
    command: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Tell it for JSON."""
        flows = [{"kind": flow.kind, **flow.notes.document()} for flow in self.flows]
        return {"command": self.command, "line": shlex.join(self.command), "flows": flows}


class Workload:
    """The scenarios of a file."""

    def __init__(self, path: Path) -> None:
        root = read(path, "MQSim_IO_Scenarios", WHAT)
        self.path = path
        self.scenarios = [
            Scenario(number, [self._flow(child) for child in element.children])
            for number, element in enumerate(root.named("IO_Scenario"), 1)
        ]
        others = [child for child in root.children if child.name != "IO_Scenario"]
        if others:
            raise self._error(others[0], "<IO_Scenario>")
        for scenario, element in zip(self.scenarios, root.children, strict=True):
            if not scenario.flows:
                raise self._error(element, "a scenario with a flow")
        if not self.scenarios:
            raise self._error(root, "one with an <IO_Scenario>")

    def _error(self, element: Element, right: str) -> InputError:
        return InputError(
            f"{self.path}, line {element.line}: <{element.name}> is nothing to play here; right "
            f"would be {right}"
        )

    def _flow(self, element: Element) -> Flow:
        if element.name not in KINDS:
            raise self._error(element, " or ".join(f"<{name}>" for name in KINDS))
        kind = element.name.removeprefix("IO_Flow_Parameter_Set_").lower()
        return Flow(kind, Notes(Values(self.path, element, KINDS[element.name])))

    @property
    def caching(self) -> list[str]:
        """The caching modes of all flows."""
        flows = (flow for scenario in self.scenarios for flow in scenario.flows)
        return [flow.values.text("Device_Level_Data_Caching_Mode") for flow in flows]

    def translate(self, device: MqsimDrive, capacity: int, profile: str) -> None:
        """Make the commands for a drive of so many bytes, whose profile has this path.

        Raises InputError if a flow is one that MQSim cannot play, either.
        """
        for scenario in self.scenarios:
            Translation(scenario, device, capacity).make(profile)


class Translation:
    """One scenario on one drive."""

    def __init__(self, scenario: Scenario, device: MqsimDrive, capacity: int) -> None:
        self.scenario, self.flows, self.device = scenario, scenario.flows, device
        self.capacity = capacity
        self.is_by_class = device.heeds_priorities and (
            len({flow.values.text("Priority_Class") for flow in self.flows}) > 1
        )

    def make(self, profile: str) -> None:
        """Make the command."""
        shares = self._shares()
        start = 0.0
        for flow, share in zip(self.flows, shares, strict=True):
            region = (self._whole(start), self._whole(share))
            start += share
            self._common(flow)
            if flow.is_synthetic:
                self._synthetic(flow, *region)
            else:
                self._trace(flow, *region)
            if self.is_by_class:
                for part in flow.parts:
                    part.priority = PRIORITIES[flow.values.text("Priority_Class")]
            flow.notes.leave_unknown()
        self.scenario.command = self._command(profile)

    def _whole(self, share: float) -> int:
        """Give a share of the drive in bytes, whole pages."""
        page = self.device.page_bytes
        return int(self.capacity // page * share + 1e-6) * page

    def _shares(self) -> list[float]:
        """Give the share of the addresses that each flow has in MQSim.

        Each plane is divided among the flows that may use it.
        """
        planes = [set(product(*self._resources(flow))) for flow in self.flows]
        users = Counter(plane for of_flow in planes for plane in of_flow)
        total = len(users)
        return [sum(1 / users[plane] for plane in of_flow) / total for of_flow in planes]

    def _resources(self, flow: Flow) -> list[Sequence[int]]:
        found: list[Sequence[int]] = []
        for key, number in zip(RESOURCES, self.device.shape, strict=True):
            ids = flow.values.numbers(key) if self.device.is_nvme else ()
            if ids and ids[-1] >= number:
                raise flow.values.wrong(
                    key, flow.values.said(key), f"numbers from 0 to {number - 1}: the drive's"
                )
            found.append(ids or range(number))
        return found

    def _common(self, flow: Flow) -> None:
        notes, values = flow.notes, flow.values
        for key, number in zip(RESOURCES, self.device.shape, strict=True):
            ids = values.numbers(key)
            if ids and len(ids) < number:
                why = reasons.RESOURCES if self.device.is_nvme else "MQSim has it for NVMe alone"
                notes.leave(key, why)
            else:
                notes.tell(key, "always so: all of them")
        if self.is_by_class:
            notes.tell("Priority_Class", "priority", reasons.PRIORITIES)
        elif self.device.heeds_priorities:
            notes.tell("Priority_Class", "always so: all flows have the same")
        else:
            notes.leave("Priority_Class", reasons.NO_PRIORITIES)
        notes.tell(
            "Device_Level_Data_Caching_Mode",
            "write_buffer.bytes, read_cache.bytes of the profile",
            reasons.CACHE_MODES if len(self.flows) > 1 else "",
        )
        preconditions = self.device.device.values.flag("Enabled_Preconditioning")
        if preconditions and values.whole("Initial_Occupancy_Percentage") == 100:
            notes.tell("Initial_Occupancy_Percentage", "state=aged")
        else:
            why = reasons.OCCUPANCY if preconditions else "the drive is not preconditioned"
            notes.leave("Initial_Occupancy_Percentage", why)

    def _synthetic(self, flow: Flow, offset: int, length: int) -> None:
        notes, values = flow.notes, flow.values
        length = length * values.whole("Working_Set_Percentage") // 100 // SECTOR * SECTOR
        size = values.whole("Average_Request_Size") * SECTOR
        if size > length:
            raise values.wrong(
                "Average_Request_Size",
                values.said("Average_Request_Size"),
                f"at most {length // SECTOR} sectors: the flow has so many",
            )
        notes.tell("Working_Set_Percentage", "range")
        words = {"size": size, "align": self._alignment(notes), "offset": offset, "range": length}
        notes.tell("Average_Request_Size", "size")
        if values.text("Request_Size_Distribution") == "FIXED":
            notes.tell("Request_Size_Distribution", "always so")
            notes.leave("Variance_Request_Size", "the size is fixed: MQSim does not look at it")
        else:
            notes.leave("Request_Size_Distribution", "here all requests have the mean size")
            notes.leave("Variance_Request_Size", "here all requests have the mean size")
        notes.tell("Read_Percentage", "reads")
        notes.leave("Seed", reasons.SEEDS)
        reads = values.whole("Read_Percentage") / 100
        self._parts(flow, {**words, "reads": f"{reads:g}"})

    def _alignment(self, notes: Notes) -> int:
        values = notes.values
        if not values.flag("Generated_Aligned_Addresses"):
            notes.tell("Generated_Aligned_Addresses", f"align={SECTOR}")
            notes.leave("Address_Alignment_Unit", "addresses are not aligned")
            return SECTOR
        notes.tell("Generated_Aligned_Addresses", "align")
        notes.tell("Address_Alignment_Unit", "align")
        return values.whole("Address_Alignment_Unit") * SECTOR

    def _parts(self, flow: Flow, words: dict[str, Any]) -> None:
        """Make the patterns of a flow: two if hot and cold addresses are told apart."""
        notes, values = flow.notes, flow.values
        self._pace(flow)
        kind, hot = values.text("Address_Distribution"), values.whole("Percentage_of_Hot_Region")
        if kind != "RANDOM_HOTCOLD":
            pattern = "sequential" if kind == "STREAMING" else "random"
            remark = reasons.STREAMING if kind == "STREAMING" else ""
            notes.tell("Address_Distribution", f"io:{pattern}", remark)
            notes.leave("Percentage_of_Hot_Region", f"it is of RANDOM_HOTCOLD, and this is {kind}")
            flow.parts = [self._part(flow, pattern, words, 1.0)]
            return
        if not 1 <= hot <= 99:
            raise values.wrong("Percentage_of_Hot_Region", str(hot), "a whole number from 1 to 99")
        notes.tell("Address_Distribution", "two flows of io:random", reasons.HOT_AND_COLD)
        notes.tell("Percentage_of_Hot_Region", "range of each", reasons.HOT_AND_COLD)
        warm = words["range"] * hot // 100 // SECTOR * SECTOR
        regions = (
            (words["offset"], warm, 1 - hot / 100),
            (words["offset"] + warm, words["range"] - warm, hot / 100),
        )
        flow.parts = [
            self._part(flow, "random", {**words, "offset": start, "range": length}, share)
            for start, length, share in regions
        ]

    def _part(self, flow: Flow, pattern: str, words: dict[str, Any], share: float) -> Part:
        """Make one pattern of a flow, which sends a share of its requests."""
        values = flow.values
        if words["range"] < words["size"]:
            raise values.wrong(
                "Working_Set_Percentage",
                values.said("Working_Set_Percentage"),
                f"more: {words['range']} bytes hold no request of {words['size']}",
            )
        depth: int | None = None
        if values.text("Synthetic_Generator_Type") == "QUEUE_DEPTH":
            depth = max(round(values.whole("Average_No_of_Reqs_in_Queue") * share), 1)
        else:
            words = {**words, "pause_us": f"{self._interval_us(values) / share:g}"}
        if not values.whole("Stop_Time"):
            requests = values.whole("Total_Requests_To_Generate")
            words = {**words, "requests": max(round(requests * share), 1)}
        said = ",".join(f"{key}={value}" for key, value in words.items())
        return Part(f"io:{pattern}({said})", depth)

    def _interval_us(self, values: Values) -> float:
        """Give the mean time between two requests, in MQSim's whole numbers."""
        size = values.whole("Average_Request_Size")
        a_second = values.whole("Bandwidth") // SECTOR // size
        if not a_second:
            raise values.wrong(
                "Bandwidth",
                values.said("Bandwidth"),
                f"at least {size * SECTOR}, one request a second",
            )
        return 1_000_000_000 // a_second / 1000

    def _pace(self, flow: Flow) -> None:
        """Tell when requests are sent, and when the flow ends."""
        notes, values = flow.notes, flow.values
        if values.text("Synthetic_Generator_Type") == "QUEUE_DEPTH":
            notes.tell("Synthetic_Generator_Type", "a closed loop")
            notes.tell("Average_No_of_Reqs_in_Queue", "depth")
            notes.leave("Bandwidth", "it is of BANDWIDTH, and this is QUEUE_DEPTH")
        else:
            notes.tell("Synthetic_Generator_Type", "an open loop", reasons.INTERVALS)
            notes.tell("Bandwidth", "pause_us", reasons.INTERVALS)
            notes.leave(
                "Average_No_of_Reqs_in_Queue", "it is of QUEUE_DEPTH, and this is BANDWIDTH"
            )
        if not values.whole("Stop_Time"):
            if not values.whole("Total_Requests_To_Generate"):
                raise values.wrong(
                    "Total_Requests_To_Generate",
                    "0, as is Stop_Time",
                    "one of them above 0: MQSim would send nothing",
                )
            notes.tell("Total_Requests_To_Generate", "requests")
            notes.tell("Stop_Time", "none")
            return
        notes.leave("Total_Requests_To_Generate", "Stop_Time says when the flow ends")
        if flow is self.flows[0]:
            notes.tell("Stop_Time", "--for", reasons.ENDS if len(self.flows) > 1 else "")
            flow.more = ["--for", f"{values.whole('Stop_Time') / 1e9:.12g}"]
        elif values.whole("Stop_Time") == self.flows[0].stop_time:
            notes.tell("Stop_Time", "--for")
        else:
            notes.leave("Stop_Time", reasons.ENDS)

    def _trace(self, flow: Flow, offset: int, length: int) -> None:
        notes, values = flow.notes, flow.values
        if not values.is_given("File_Path"):
            raise values.wrong("File_Path", "not there", "the path of a trace of MQSim")
        given = Path(values.text("File_Path"))
        beside = values.path.parent / given
        path = beside if beside.is_file() and not given.is_file() else given
        is_first = flow is self.flows[0]
        is_whole = len(self.flows) == 1
        missing = "" if path.is_file() else "; there is no such file here"
        remark = reasons.TRACE_PLACES if not is_whole else ""
        notes.tell(
            "File_Path", "SOURCE" if is_first else "--flow", f"{remark}{missing}".strip("; ")
        )
        unit = values.text("Time_Unit")
        notes.tell("Time_Unit", "always nanoseconds", "" if unit == "NANOSECOND" else reasons.UNITS)
        region = None if is_first else (offset, length)
        flow.parts = [Part(str(path), None, region, more={"format": "mqsim", "fit": "fold"})]
        self._share_of_trace(flow, path, is_first=is_first, is_whole=is_whole)

    def _share_of_trace(self, flow: Flow, path: Path, *, is_first: bool, is_whole: bool) -> None:
        notes, values = flow.notes, flow.values
        rounds, percent = values.whole("Relay_Count"), values.whole("Percentage_To_Be_Executed")
        if rounds > 1 and is_first:
            notes.tell("Relay_Count", "repeat")
            flow.parts[0].more["repeat"] = rounds
        elif rounds > 1:
            notes.leave("Relay_Count", "only SOURCE can be played again")
        else:
            notes.tell("Relay_Count", "always so")
        if percent == 100:
            notes.tell("Percentage_To_Be_Executed", "always so")
        elif rounds > 1:
            notes.leave("Percentage_To_Be_Executed", "MQSim does not look at it if it plays again")
        elif is_whole and path.is_file():
            notes.tell("Percentage_To_Be_Executed", "--requests")
            flow.more = ["--requests", str(max(_lines(path) * percent // 100, 1))]
        else:
            notes.leave("Percentage_To_Be_Executed", reasons.PERCENT)

    def _command(self, profile: str) -> list[str]:
        first, *rest = [part for flow in self.flows for part in flow.parts]
        values = self.device.device.values
        if values.flag("Enabled_Preconditioning"):
            state = "aged"
        else:
            state = "loaded" if any(flow.reads for flow in self.flows) else "fresh"
        return [
            *("flashwright", "play", first.first(), "--on", f"profile({profile},state={state})"),
            *("--pace", first.pace, "--seed", values.said("Seed")),
            *self.flows[0].more,
            *(word for part in rest for word in ("--flow", part.beside())),
        ]


def _written(name: str, first: str, more: Mapping[str, Any]) -> str:
    said = [f"{key}={value}" for key, value in more.items() if value]
    return f"{name}({','.join([first, *said])})"


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
