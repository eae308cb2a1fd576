"""Counters of a drive's life: from the JSON of nvme-cli and smartctl, and from /sys.

Nothing is guessed: a counter whose unit is not known is left out, and `not_known` says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

DATA_UNIT_BYTES = 512_000
"""A data unit of NVMe: a thousand times 512 bytes, rounded up."""
_LBA_BYTES = 512
_MIB, _GIB = 1 << 20, 1 << 30
_UNITS = {"32MIB": 32 * _MIB, "16MIB": 16 * _MIB, "MIB": _MIB, "GIB": _GIB, "1GIB": _GIB}
_HOST = re.compile(r"(?:Host|Lifetime|Total)_Writes_(\w+)")
_MEDIA = re.compile(r"(?:Total_)?(?:NAND|Flash)_(?:Writes|Prog_Ct)_(\w+)")
_LIFE_LEFT = ("Media_Wearout_Indicator", "SSD_Life_Left", "Percent_Lifetime_Remain")
"""Attributes whose normalised value is the per cent of life that is left."""
_LBAS = {
    241: re.compile(r"Samsung based SSDs|Seagate .*"),
    246: re.compile(r".*(?:Micron|Crucial).*"),
}
"""Families of smartctl's database whose `Total_LBAs_Written` counts 512 bytes, by attribute. Others
of that name count 32 MiB (Intel for Dell, Toshiba HK4R).
"""
_HOST_PAGES, _OTHER_PAGES = 247, 248
_MOST_COMPRESSION = 100
_FAILED_BITS = 0b11
"""Bits of smartctl's exit status: wrong use, or the device could not be opened."""


@dataclass
class Counters:
    """Counters of one drive since it was made; None for those that are not known."""

    host_written_bytes: int | None = None
    host_read_bytes: int | None = None
    media_written_bytes: int | None = None
    """Programmed into the flash, with the drive's own copies."""
    percentage_used: int | None = None
    """Per cent of the rated endurance that is used; may go above 100."""
    power_on_hours: int | None = None
    busy_minutes: int | None = None
    available_spare_percent: int | None = None
    host_written_step_bytes: int | None = None
    """Step of the drive's counter, in bytes: less cannot be seen."""
    media_written_step_bytes: int | None = None
    life_used_percent_ranges: list[list[int]] | None = None
    """Life used of eMMC, for each kind of its flash: from and to, in per cent, in steps of 10."""
    reserve: str | None = None
    """State of the spare blocks of eMMC: `normal`, `warning` (80 % of them are used) or `urgent`.
    """
    model: str | None = None
    not_known: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Give what is known, for the result."""
        return {name: value for name, value in asdict(self).items() if value not in (None, [])}


def number(value: object) -> int | None:
    """Read a counter, which programs write as a number or as its digits; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if value >= 0 and value == int(value) else None
    text = str(value).replace(",", "") if isinstance(value, str) else ""
    return int(text) if text.isascii() and text.isdecimal() else None


def of_nvme_cli(log: Mapping[str, Any], ocp: Mapping[str, Any] | None = None) -> Counters:
    """Read `nvme smart-log -o json`, and `nvme ocp smart-add-log -o json` if there is one.

    Raises ValueError if the first is no such log.
    """
    found = _of_data_units(log, "percent_used", "avail_spare")
    if found is None:
        raise ValueError("it has no data_units_written")
    # In spite of its name it counts bytes (OCP Datacenter NVMe SSD Specification, SMART-1).
    media = _of_halves(ocp or {})
    if media:
        if media >= (found.host_written_bytes or 0) / _MOST_COMPRESSION:
            found.media_written_bytes, found.media_written_step_bytes = media, 1
        else:
            found.not_known.append(
                "bytes written to the media: the OCP log has less than a hundredth of what the "
                "host has written, so that it counts something else"
            )
    return found


def _of_halves(ocp: Mapping[str, Any]) -> int | None:
    for key in ("Physical media units written", "physical_media_units_written"):
        value = ocp.get(key)
        if isinstance(value, Mapping):
            high, low = number(value.get("hi")), number(value.get("lo"))
            return None if high is None or low is None else (high << 64) + low
    return None


def _of_data_units(log: Mapping[str, Any], used: str, spare: str) -> Counters | None:
    written, read = number(log.get("data_units_written")), number(log.get("data_units_read"))
    if written is None:
        return None
    return Counters(
        host_written_bytes=written * DATA_UNIT_BYTES,
        host_read_bytes=None if read is None else read * DATA_UNIT_BYTES,
        percentage_used=number(log.get(used)),
        power_on_hours=number(log.get("power_on_hours")),
        busy_minutes=number(log.get("controller_busy_time")),
        available_spare_percent=number(log.get(spare)),
        host_written_step_bytes=DATA_UNIT_BYTES,
    )


def of_smartctl(document: Mapping[str, Any]) -> Counters:
    """Read `smartctl -j -a -l devstat` of a drive of NVMe, ATA or SCSI.

    Raises ValueError, with smartctl's own words, if it has read nothing.
    """
    about = _mapping(document.get("smartctl"))
    status = number(about.get("exit_status")) or 0
    said = [str(one.get("string", "")) for one in _rows(about.get("messages"))]
    found = _of_data_units(
        _mapping(document.get("nvme_smart_health_information_log")),
        "percentage_used",
        "available_spare",
    )
    if found is None and "ata_smart_attributes" in document:
        found = _of_ata(document)
    if found is None and "scsi_error_counter_log" in document:
        found = _of_scsi(document)
    if found is None:
        if status & _FAILED_BITS or said:
            raise ValueError("; ".join(said) or f"exit {status}")
        raise ValueError("this drive has no counters that smartctl shows")
    hours = number(_mapping(document.get("power_on_time")).get("hours"))
    found.power_on_hours = hours if found.power_on_hours is None else found.power_on_hours
    used = number(_mapping(document.get("endurance_used")).get("current_percent"))
    found.percentage_used = used if found.percentage_used is None else found.percentage_used
    model = document.get("model_name") or document.get("scsi_model_name")
    found.model = str(model) if model else None
    return found


def _of_ata(document: Mapping[str, Any]) -> Counters:
    found = Counters()
    attributes = list(_rows(_mapping(document.get("ata_smart_attributes")).get("table")))
    is_known = document.get("in_smartctl_database") is True
    sector = number(document.get("logical_block_size")) or _LBA_BYTES
    statistics = {
        str(one.get("name")): number(one.get("value"))
        for page in _rows(_mapping(document.get("ata_device_statistics")).get("pages"))
        for one in _rows(page.get("table"))
        if _mapping(one.get("flags")).get("valid") is True
    }
    # The log that is of the standard goes before what each vendor counts as it likes.
    written = statistics.get("Logical Sectors Written")
    if written is not None:
        found.host_written_bytes, found.host_written_step_bytes = written * sector, sector
        read = statistics.get("Logical Sectors Read")
        found.host_read_bytes = None if read is None else read * sector
    found.percentage_used = statistics.get("Percentage Used Endurance Indicator")
    if is_known:
        _add_vendors(found, attributes, str(document.get("model_family", "")), sector)
    if found.host_written_bytes is None:
        found.not_known.append(_why_not_known(attributes, is_known=is_known))
    return found


def _why_not_known(attributes: list[Mapping[str, Any]], *, is_known: bool) -> str:
    names = [str(one.get("name")) for one in attributes if "Writ" in str(one.get("name"))]
    if names and is_known:
        why = f"the unit of {', '.join(dict.fromkeys(names))} of this family is not known"
    elif names:
        why = "the drive is not in smartctl's database, which has the units of its attributes"
    else:
        why = "the drive shows no counter of it"
    return f"bytes that the host has written: {why}"


def _add_vendors(
    found: Counters, attributes: list[Mapping[str, Any]], family: str, sector: int
) -> None:
    raw = {number(one.get("id")): number(_mapping(one.get("raw")).get("value")) or 0
           for one in attributes}  # fmt: skip
    for one in attributes:
        name, count = str(one.get("name")), number(_mapping(one.get("raw")).get("value"))
        if count is None:
            continue
        host, media = _HOST.fullmatch(name), _MEDIA.fullmatch(name)
        unit = _UNITS.get(host[1].upper()) if host else None
        lbas = _LBAS.get(number(one.get("id")) or 0)
        if name == "Total_LBAs_Written" and lbas and lbas.fullmatch(family) and sector == 512:
            unit = _LBA_BYTES
        if unit and found.host_written_bytes is None:
            found.host_written_bytes, found.host_written_step_bytes = count * unit, unit
        unit = _UNITS.get(media[1].upper()) if media else None
        if unit and found.media_written_bytes is None:
            found.media_written_bytes, found.media_written_step_bytes = count * unit, unit
        left = number(one.get("value"))
        if name in _LIFE_LEFT and found.percentage_used is None and left and left <= 100:
            found.percentage_used = 100 - left
    pages, others = raw.get(_HOST_PAGES), raw.get(_OTHER_PAGES)
    is_micron = _LBAS[246].fullmatch(family) is not None
    if is_micron and pages and others is not None and found.host_written_bytes:
        # The maker's own formula (Micron TN-FD-23): both are pages of flash, of a size that is not
        # said.
        found.media_written_bytes = round(found.host_written_bytes * (pages + others) / pages)
        found.media_written_step_bytes = found.host_written_step_bytes


def _of_scsi(document: Mapping[str, Any]) -> Counters:
    found = Counters()
    log = _mapping(document.get("scsi_error_counter_log"))
    for name, way in (("host_written_bytes", "write"), ("host_read_bytes", "read")):
        gigabytes = _mapping(log.get(way)).get("gigabytes_processed")
        try:
            value = float(str(gigabytes))
        except ValueError:
            continue
        if value >= 0:
            setattr(found, name, round(value * 1e9))
            found.host_written_step_bytes = 10**6
    found.percentage_used = number(document.get("scsi_percentage_used_endurance_indicator"))
    if found.host_written_bytes is None:
        found.not_known.append("bytes that the host has written: the drive shows no counter of it")
    return found


_RESERVES = {1: "normal", 2: "warning", 3: "urgent"}
_MOST_LIFE = 10


def of_mmc(life_time: str, pre_eol_info: str, model: str = "") -> Counters | None:
    """Read `life_time` and `pre_eol_info` of /sys/block/mmcblk*/device; None if they say nothing.

    An eMMC shows its life in tenths; cards of SD have no such files.
    """
    ranges = []
    for word in life_time.split():
        tenth = int(word, 16)
        if 1 <= tenth <= _MOST_LIFE:
            ranges.append([(tenth - 1) * 10, tenth * 10])
        elif tenth == _MOST_LIFE + 1:
            ranges.append([100, 100])
    reserve = _RESERVES.get(int(pre_eol_info or "0", 16))
    if not ranges and reserve is None:
        return None
    return Counters(
        life_used_percent_ranges=ranges or None,
        reserve=reserve,
        model=model or None,
        not_known=["bytes that the host has written: eMMC has no counter of it"],
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (one for one in value if isinstance(one, Mapping))
