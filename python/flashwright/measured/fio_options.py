"""Options of a job of fio's, and those of them that a row can stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ALIASES = {
    "readwrite": "rw",
    "blocksize": "bs",
    "blocksize_range": "bsrange",
    "blockalign": "ba",
    "blocksize_unaligned": "bs_unaligned",
    "fileoffset": "offset",
    "io_limit": "io_size",
    "nr_files": "nrfiles",
    "wait_for_previous": "stonewall",
    "data_placement": "dataplacement",
}
SYNCHRONOUS = ("sync", "psync", "vsync", "pvsync", "pvsync2")
"""Engines that have one request under way, whatever `iodepth` is."""
ASYNCHRONOUS = ("libaio", "io_uring", "posixaio", "windowsaio", "solarisaio")
PAST_THE_KERNEL = ("io_uring_cmd", "sg", "xnvme", "libblkio", "spdk", "spdk_nvme", "libzbc")
"""Engines that give a drive its own commands: no page cache, whatever `direct` is."""
MEMORY = re.compile(r"/dev/(null|zero|shm/.*|ram\d+|nullb\d+|zram\d+)$")
MOST = 1e9
"""Limit of numbers, above any job, depth, share or count."""
OFF = ("", "0", "none", "off", "false", "no")
FLUSHES = "it waits for flushes, and rows are of writes without them"
PAUSES = "its rate is limited, so that it does not show what the drive can do"
READS_BACK = "it reads back what it writes"
NOT_A_ROW = {
    "fsync": FLUSHES,
    "fdatasync": FLUSHES,
    "sync_file_range": FLUSHES,
    "sync": FLUSHES,
    "writefua": FLUSHES,
    "thinktime": PAUSES,
    "thinkcycles": PAUSES,
    "flow": PAUSES,
    "latency_target": "its depth is changed while it runs",
    "verify": READS_BACK,
    "trim_percentage": "it trims, too",
    "read_iolog": "it plays a trace",
    "bs_unaligned": "its requests have any size",
    "zonemode": "its writes move through zones, which no row is",
    "zonesize": "its writes move through zones, which no row is",
    "fdp": "it gives data placement handles, which no row has",
    "dataplacement": "it gives data placement handles, which no row has",
}
"""Options with which a job is none of the runs that rows are of, unless they are off."""
POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class LeftOutError(Exception):
    """Reason why a job becomes no row."""


@dataclass(frozen=True)
class Region:
    """Space that a job writes to."""

    target: str
    """The device or the files; "" where none is named."""
    used: float
    """Size in bytes."""
    is_shared: bool = False
    """True if several jobs write to the same places."""


def merged(shared: Any, own: Any) -> dict[str, str]:
    """Give a job's options by their first names, those of its own before those of all jobs."""
    found: dict[str, str] = {}
    for given in (shared, own):
        for key, value in (given if isinstance(given, Mapping) else {}).items():
            name = ALIASES.get(str(key), str(key))
            # An option without a value has been switched on.
            text = "1" if value is None or value == "" else str(value).strip()
            if name == "buffered":
                name, text = "direct", "1" if text in OFF else "0"
            found[name] = text
    return found


def _for_writes(text: str, default: str) -> str:
    """Give the part that holds for writes of `reads,writes,trims`."""
    parts = text.split(",")
    return (parts[0] if len(parts) == 1 else parts[1]).strip() or default


@dataclass(frozen=True)
class Options:
    """The options of one job."""

    given: Mapping[str, str]
    deep: bool = False
    """True if several requests were under way: the default engine is then windowsaio, else psync.
    """

    def number(self, key: str, default: float) -> float:
        """Give a number without a unit."""
        try:
            value = float(self.given.get(key, default))
        except ValueError:
            value = math.nan
        if not 0 <= value < MOST:
            raise LeftOutError(f"{key}={self.given[key]} is no number from 0 on")
        return value

    def is_on(self, key: str) -> bool:
        """Tell whether an option is there and not off."""
        return self.given.get(key, "0").lower() not in OFF

    @property
    def jobs(self) -> int:
        """Number of equal jobs that run at the same time."""
        return max(1, int(self.number("numjobs", 1)))

    def bytes(self, text: str, what: str) -> float:
        """Give a size as fio has it: unless `kb_base=1000`, `4k` and `4kB` are 4096, `4KiB` 4000.

        Raises:
            LeftOutError: no size.
        """
        right = re.fullmatch(r"(\d+(?:\.\d+)?|0x[0-9a-f]+)([kmgtp]?)(i?)(b?)", text.strip().lower())
        if right is None:
            raise LeftOutError(f"{what}={text} is no size")
        value = float(int(right[1], 16)) if right[1].startswith("0x") else float(right[1])
        base = 1000 if self.given.get("kb_base") == "1000" else 1024
        if right[2] and right[3] and right[4]:
            base = 1000 if base == 1024 else 1024
        return value * float(base ** POWERS[right[2]])

    def check(self) -> None:
        """Find what makes a job something else than a run of writes at full speed.

        Raises:
            LeftOutError: which option that is.
        """
        for key, why in NOT_A_ROW.items():
            if self.is_on(key):
                raise LeftOutError(f"{key}={self.given[key]}: {why}")
        for key in ("rate", "rate_iops"):
            if _for_writes(self.given.get(key, "0"), "0") not in OFF:
                raise LeftOutError(f"{key}={self.given[key]}: {PAUSES}")
        for key in ("write_mode", "sg_write_mode"):
            if self.given.get(key, "write") != "write":
                raise LeftOutError(f"{key}={self.given[key]}: its commands are not writes")
        for name in self.files:
            if MEMORY.match(name):
                raise LeftOutError(f"filename={name} is memory, and no drive")
        self._check_engine()

    def _check_engine(self) -> None:
        engine = self.engine
        if engine in PAST_THE_KERNEL:
            return
        if engine not in (*SYNCHRONOUS, *ASYNCHRONOUS):
            raise LeftOutError(f"ioengine={engine} is none that is known to write to a drive")
        if not self.is_on("direct"):
            said = f"direct={self.given['direct']}" if "direct" in self.given else "no direct=1"
            raise LeftOutError(f"{said}: what was measured is the page cache, and not the drive")

    @property
    def files(self) -> list[str]:
        """Files that `filename` names; a colon within a name has a backslash before it."""
        return [one for one in re.split(r"(?<!\\):", self.given.get("filename", "")) if one]

    @property
    def engine(self) -> str:
        """Name of the engine."""
        default = "windowsaio" if self.deep else "psync"
        return self.given.get("ioengine", default).removeprefix("external:").rpartition("/")[2]

    @property
    def depth(self) -> int:
        """Requests that one job has under way at most."""
        return 1 if self.engine in SYNCHRONOUS else max(1, int(self.number("iodepth", 1)))

    def is_random(self) -> bool:
        """Tell whether writes, and nothing else, go to random places, or one after the other.

        Raises:
            LeftOutError: a job that is neither.
        """
        given = self.given.get("rw", "read")
        how, colon, _ = given.partition(":")
        if how in ("rw", "readwrite", "randrw") and self._writes_percent() == 100:
            how = "randwrite" if how == "randrw" else "write"
        if how not in ("write", "randwrite"):
            raise LeftOutError(f"rw={given} is no job of writes alone")
        if colon:
            raise LeftOutError(f"rw={given}: its writes are neither in sequence nor at random")
        random = how == "randwrite"
        share = _for_writes(self.given.get("percentage_random", ""), "") or "100"
        if random and "percentage_random" in self.given and share != "100":
            raise LeftOutError(f"percentage_random={share}: neither in sequence nor at random")
        return random

    def _writes_percent(self) -> float:
        percent = 50.0
        for key in self.given:
            if key == "rwmixwrite":
                percent = self.number(key, 50)
            elif key == "rwmixread":
                percent = 100 - self.number(key, 50)
        return percent

    def pattern(self, region: Region) -> tuple[str, str]:
        """Give pattern and parameters of a row.

        fio reaches each place once before any again, unless it was asked not to keep a map. Each
        of several jobs has a map of its own: to the same places they write nearly as without.

        Raises:
            LeftOutError: what no row is of.
        """
        if not self.is_random():
            return "sequential", ""
        given = self.given.get("random_distribution", "random")
        name, _, parameters = _for_writes(given, "random").partition(":")
        if name == "random":
            mapless = region.is_shared or self.is_on("norandommap") or self.is_on("ba")
            return "uniform", "" if mapless else "each_once"
        exponent = parameters.split(":")[0].split("/")[0]
        if name != "zipf" or not re.fullmatch(r"\d*\.?\d+", exponent):
            raise LeftOutError(f"random_distribution={given} is no pattern of rows")
        return "zipf", exponent

    def request_bytes(self) -> int:
        """Give the size of all writes.

        Raises:
            LeftOutError: several sizes, or places that are no multiples of the size.
        """
        if "bssplit" in self.given:
            parts = _for_writes(self.given["bssplit"], "4k").split(":")
            sizes = {self.bytes(part.split("/")[0], "bssplit") for part in parts}
            what = f"bssplit={self.given['bssplit']}"
        elif "bsrange" in self.given:
            ends = re.split("[-:]", _for_writes(self.given["bsrange"], "4k"))
            sizes = {self.bytes(end, "bsrange") for end in ends}
            what = f"bsrange={self.given['bsrange']}"
        else:
            what = f"bs={self.given.get('bs', '4k')}"
            sizes = {self.bytes(self._bs(), "bs")}
        if len(sizes) > 1:
            raise LeftOutError(f"{what}: its requests have several sizes")
        size = int(sizes.pop())
        if size <= 0:
            raise LeftOutError(f"{what} is no size")
        align = _for_writes(self.given.get("ba", "0"), "0")
        if self.is_random() and self.is_on("ba") and self.bytes(align, "ba") % size:
            raise LeftOutError(f"ba={align}: its requests begin within others")
        return size

    def _bs(self) -> str:
        given = self.given.get("bs", "4k")
        if not self.is_on("bs_is_seq_rand"):
            return _for_writes(given, "4k")
        parts = [*given.split(","), ""]
        return parts[1 if self.is_random() and parts[1] else 0].strip() or "4k"

    def region(self, name: str, capacity: float, jobs: int) -> Region:
        """Give what a number of equal jobs of a name write to, on a drive of a capacity in bytes.

        Raises:
            LeftOutError: what that is, is not known.
        """
        names = self.files
        devices = [one for one in names if one.startswith(("/dev/", "\\\\.\\"))]
        if len(devices) > 1:
            raise LeftOutError(
                f"filename={self.given['filename']}: it writes to several devices at once"
            )
        whole = bool(devices) or not names
        target = self.given.get("filename", "")
        offset = self._share("offset", capacity, whole) or 0.0
        used = self._share("size", capacity, whole)
        if used is None and "filesize" in self.given:
            each = re.split("[-:]", self.given["filesize"])[-1]
            used = self.bytes(each, "filesize") * max(self.number("nrfiles", 1), len(names))
        if used is None:
            if not whole:
                raise LeftOutError(
                    f"no size: how long {names[0]} is, and so what is used, is not known"
                )
            return Region(target, capacity - offset, jobs > 1)
        apart = not names or self.is_on("offset_increment")
        target = target or f"{self.given.get('directory', '.')}/{name}"
        return Region(target, used * (jobs if apart else 1), jobs > 1 and not apart)

    def _share(self, key: str, capacity: float, whole: bool) -> float | None:
        """Give a size in bytes, or of a share of the drive; None for none."""
        text = self.given.get(key, "0")
        if text in OFF:
            return None
        if not text.endswith("%"):
            return self.bytes(text, key)
        if not whole:
            raise LeftOutError(f"{key}={text} is of a file, whose size is not known")
        if not re.fullmatch(r"\d+(\.\d+)?%", text):
            raise LeftOutError(f"{key}={text} is no share")
        return float(text[:-1]) / 100 * capacity
