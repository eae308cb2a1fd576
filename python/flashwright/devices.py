"""Simulated drives: profiles with their overrides, loads, and one run of a load on a drive."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from flashwright import _core, beyond, slice_words, steady
from flashwright._core import InputError
from flashwright._text import percent, span
from flashwright.lifetime import SECONDS_IN_DAY, Life, Lifetime, Recorded, Wear, lifetime_of
from flashwright.runs import sha256_of_file
from flashwright.sources import (
    PATTERN,
    STANDARD_INPUT,
    SYNTHETIC,
    Reading,
    check_source,
    counted_bytes_per_day,
    file_name,
    on_disk,
)

if TYPE_CHECKING:
    from flashwright._core import Progress, Requests
    from flashwright.flows import Flow

ENDLESS_REQUESTS = 1_000_000
"""What is played of a source without end if no limit is given."""
PAGE_MAPPED = ("page_mapped", "superblock_mapped", "dftl")
"""Schemes with placement and victim policies, which write erase blocks to their end."""


@dataclass(frozen=True)
class Device:
    """A drive as it is run: a profile with its overrides."""

    given: str
    """The name of a built-in profile, or the path of a file."""
    overrides: tuple[str, ...]
    toml: str
    """The profile with its overrides, and every key that had been left out."""
    slice: Mapping[str, Any] | None = field(default=None, compare=False)
    """What part it is of which disk, if it has the size of one; see `flashwright.slices`."""

    @staticmethod
    def load(given: str, overrides: Sequence[str] = ()) -> Device:
        """Load a built-in profile by its name, or a file by its path.

        Keys of it are overridden by `key=value`.

        Raises InputError if there is no such profile, or something in it is wrong.
        """
        text, place = profile_text(given)
        keys = [override.partition("=")[0].strip() for override in overrides]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"{key}: it is set twice; set each key of {place} once")
        device = Device(given, tuple(overrides), _core.check_profile(text, place, list(overrides)))
        device._check_policies()
        return device

    def _check_policies(self) -> None:
        """Raise InputError if a policy was asked for that the mapping has no use for.

        It would change nothing.
        """
        scheme = self.profile["ftl"]["scheme"].partition("(")[0]
        if scheme in PAGE_MAPPED:
            return
        for key in ("ftl.placement", "ftl.victim"):
            if any(text.partition("=")[0].strip() == key for text in self.overrides):
                raise InputError(
                    f"{key}: {self.name} maps with `{scheme}`, which has no such policy; leave it "
                    "out, or take a drive with --set ftl.scheme=page_mapped"
                )

    @cached_property
    def profile(self) -> dict[str, Any]:
        """The profile as nested values."""
        return tomllib.loads(self.toml)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What the profile comes to: capacity, dies and so on."""
        return dict(_core.profile_summary(self.toml))

    @property
    def name(self) -> str:
        """What the profile calls itself."""
        return str(self.profile["name"])

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the host can address."""
        return int(self.summary["capacity_bytes"])

    @property
    def over_provisioning(self) -> float:
        """(physical - logical) / logical."""
        return float(self.profile["ftl"]["over_provisioning"])

    @property
    def profile_hash(self) -> str:
        """SHA-256 of the profile that is run."""
        return hashlib.sha256(self.toml.encode()).hexdigest()

    def document(self) -> dict[str, Any]:
        """Tell the drive for a result."""
        ftl = self.profile["ftl"]
        return {
            "name": self.name,
            "summary": self.profile["summary"],
            "profile": self.given,
            "profile_hash": self.profile_hash,
            "overrides": list(self.overrides),
            **{key: value for key, value in self.summary.items() if key not in ("name", "summary")},
            # Only what the profile names; empty leaves it to the placement.
            "victim": ftl["victim"] or None,
            "limits": self.limits(),
            **({} if self.slice is None else {"slice": dict(self.slice)}),
        }

    @property
    def slices(self) -> int:
        """Of how many slices of a disk it is one."""
        return 1 if self.slice is None else int(self.slice["slices"])

    def limits(self) -> dict[str, float]:
        """Give what each part of the drive could do by itself.

        Bytes a second, and requests of one page a second. Closed forms of the profile's times; what
        works together is slower. A die works on all its planes at once where the profile has
        multi-plane commands.
        """
        media, controller = self.profile["media"], self.profile["controller"]
        page = media["page_bytes"]
        at_once = self.summary["dies"] * (media["planes_per_die"] if media["multi_plane"] else 1)
        transfer_us = media["command_us"] + page / (
            media["channel_mt_per_second"] * media["channel_bits"] / 8
        )
        found = {
            "link_bytes_per_second": self.profile["interface"]["link_mb_per_second"] * 1e6,
            "channels_bytes_per_second": media["channels"] * page / transfer_us * 1e6,
            "die_reads_bytes_per_second": at_once * page / fmean(media["read_us"]) * 1e6,
            "die_programs_bytes_per_second": at_once * page / fmean(media["program_us"]) * 1e6,
        }
        for op in ("read", "write"):
            request_us = controller[f"{op}_command_us"] + controller["page_us"]
            if request_us:
                found[f"controller_{op}s_per_second"] = 1e6 / request_us
        return found


def profile_text(given: str) -> tuple[str, str]:
    """Give the text of a profile, and what to call the place that it is from.

    Raises InputError if there is none.
    """
    names = [profile["name"] for profile in _core.profiles()]
    if given in names:
        return _core.profile_toml(given), f"profile `{given}`"
    path = Path(given)
    if not path.is_file():
        raise InputError(
            f"{given}: no such profile or file; built in are: {', '.join(names)}; or give the path "
            "of a TOML file"
        )
    try:
        return path.read_text(encoding="utf-8"), given
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{given}: cannot read the profile: {error}") from error


def listing() -> dict[str, list[dict[str, Any]]]:
    """Everything that a simulated drive can be made of or asked to do.

    As `registry()` has it for other things.
    """
    profiles = []
    for entry in _core.profiles():
        sources = tomllib.loads(_core.profile_toml(entry["name"]))["sources"]
        profiles.append(
            {
                **entry,
                "aliases": [],
                "source": "",
                "sources": sources,
                "usage": entry["name"],
                "params": [],
            }
        )
    return {
        "profile": profiles,
        "array": _core.arrays(),
        "scheme": _core.schemes(),
        "pattern": _core.patterns(),
    }


@dataclass(frozen=True)
class Load:
    """How a drive is loaded, and from which state on."""

    pace: str = "closed"
    """`closed`: so many outstanding; `open`: at the times of the trace."""
    depth: int = 32
    think_time_us: float = 0.0
    state: str = "filled"
    overwrites: float | None = None
    most_requests: int | None = None
    most_seconds: float | None = None
    warm_up_requests: int = 0
    untimed: float = 0
    """Requests that are played in no time first: so many (an int), or a share of all."""
    seed: int = 1
    fold: bool = False
    choices: str = ""
    """Options of the command that say where addresses go that the drive does not have."""
    priority: int = 0
    beside: tuple[Flow, ...] = ()
    handle: int | None = None
    """Placement handle of the source's writes; that of each request if None."""

    def pace_document(self) -> dict[str, Any]:
        """Tell the pace for a result."""
        if self.pace == "open":
            return {"kind": "open_loop"}
        kind = "one_by_one" if self.depth == 1 else "closed_loop"
        return {"kind": kind, "depth": self.depth, "think_time_us": self.think_time_us}

    def state_document(self) -> dict[str, Any]:
        """Tell the state at the start for a result."""
        aged = {"overwrites": self.overwrites} if self.state == "aged" else {}
        return {"kind": self.state, **aged}

    def limits_document(self) -> dict[str, Any]:
        """Tell the limits for a result."""
        return {
            "most_requests": self.most_requests,
            "most_seconds": self.most_seconds,
            "warm_up_requests": self.warm_up_requests,
            **({"untimed": self.untimed} if self.untimed else {}),
        }

    def untimed_requests(self, requests: Requests) -> int:
        """Give how many requests of a source are played in no time.

        Raises InputError for a share of a source without end, or if nothing is left.
        """
        count, most = self.untimed, requests.requests
        if isinstance(count, float):
            if most is None:
                raise InputError(
                    f"--untimed {count:.6g}: {requests.name} has no end to take a share of; write "
                    "a number of requests, such as 1M"
                )
            count = int(count * most)
        if most is not None and count >= most > 0:
            raise InputError(
                f"--untimed {count}: nothing is left to play of the {most} requests of "
                f"{requests.name}"
            )
        return int(count)


def check_load_source(source: str) -> str:
    """Give the source for a drive that a name means; see `sources.check_source`.

    Raises InputError if it names a file that is not there.
    """
    if source.startswith(PATTERN):
        return source
    if source in (pattern["name"] for pattern in _core.patterns()) and not Path(source).exists():
        raise InputError(f"{source}: no such file; the pattern of that name is `{PATTERN}{source}`")
    return check_source(source)


def summary(name: str, requests: Requests) -> dict[str, Any]:
    """Give what is known of a source for the result."""
    return {
        "name": name,
        "requests": requests.requests,
        "counts": requests.counts,
        "footprint_bytes": requests.footprint_bytes,
        "duration_ns": requests.duration_ns,
        "repeat": requests.repeat,
        **requests.reading,
    }


def is_file(source: str) -> bool:
    """Tell whether a source is a trace file."""
    return not source.startswith((PATTERN, SYNTHETIC)) and source != STANDARD_INPUT


def name_of(source: str) -> str:
    """Give what a source is called in results."""
    return file_name(Path(source)) if is_file(source) else source


def describe(source: str, requests: Requests | None = None) -> dict[str, Any]:
    """Tell an input for the provenance: its SHA-256 if it is a file, the hash of its requests."""
    return {
        "source": source,
        "sha256": sha256_of_file(on_disk(Path(source))) if is_file(source) else None,
        "content_hash": None if requests is None else requests.content_hash,
    }


def load_requests(
    source: str, load: Load, reading: Reading, progress: Progress | None = None
) -> Requests:
    """Read a source into requests for any drive."""
    return _core.load_requests(
        source,
        format=reading.format,
        skip_bad=reading.skip_bad,
        seed=load.seed,
        page_size=reading.page_size,
        repeat=reading.repeat,
        fold=load.fold,
        progress=progress,
    )


def check_load(device: Device, requests: Requests, load: Load) -> None:
    """Raise InputError if the requests cannot be sent to the drive in this way."""
    if not load.fold:
        # What a trace touches is moved together before.
        needed = requests.footprint_bytes or 0
        beyond.check(requests.name, needed, device.name, device.capacity_bytes, load.choices)
    untimed = load.untimed_requests(requests)
    if untimed and load.handle is not None:
        raise InputError(
            f"--handle {load.handle}: with --untimed requests go by handles of their own; give "
            "`handle=` of a pattern, or a trace with the column"
        )
    left = None if requests.requests is None else requests.requests - untimed
    limits = [limit for limit in (load.most_requests, left) if limit is not None]
    if not limits and load.most_seconds is None:
        limits = [ENDLESS_REQUESTS]
    if limits and load.warm_up_requests >= min(limits) > 0:
        raise InputError(
            f"--warm-up {load.warm_up_requests}: nothing is left to measure of the {min(limits)} "
            f"requests of {requests.name}"
        )
    if load.pace == "open" and not requests.has_times:
        raise InputError(
            f"--open-loop: {requests.name} has no times; take --depth N or --one-by-one, or give a "
            "pattern `pause_us`"
        )


def run(
    device: Device,
    requests: Requests,
    load: Load,
    *,
    beside: Sequence[dict[str, Any]] = (),
    timeline_spans: int = 0,
    audit: bool = False,
    requests_to: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Play requests on a drive; gives the figures with `tables` and `timeline`.

    `beside` are further flows, as `flows.load` gives them. Each request is written to the Parquet
    file `requests_to`, if one is named.
    """
    most = load.most_requests
    if most is None and load.most_seconds is None and requests.requests is None:
        most = ENDLESS_REQUESTS
    check_load(device, requests, load)
    outcome: dict[str, Any] = _core.simulate_drive(
        device.toml,
        [
            {
                "requests": requests,
                "pace": load.pace,
                "depth": load.depth,
                "think_us": load.think_time_us,
                "priority": load.priority,
                "handle": load.handle,
            },
            *beside,
        ],
        state=load.state,
        overwrites=2.0 if load.overwrites is None else load.overwrites,
        seed=load.seed,
        most_requests=most,
        most_seconds=load.most_seconds,
        untimed_requests=load.untimed_requests(requests),
        warm_up_requests=load.warm_up_requests,
        timeline_spans=timeline_spans,
        audit=audit,
        requests_to=requests_to,
        progress=progress,
    )
    judged = steady.of_drive(device.profile, device.summary, outcome, load.warm_up_requests)
    footprint = requests.footprint_bytes
    pages = device.summary["logical_pages"]
    played = steady.Played(
        requests.requests,
        requests.repeat,
        load.untimed_requests(requests),
        load.most_requests,
        load.most_seconds,
        pages if footprint is None else min(pages, -(-footprint // device.summary["page_bytes"])),
    )
    return {
        **outcome,
        "steady": {key: figure["steady"] for key, figure in judged.items()},
        "judged": judged,
        "steady_with": steady.remedy(device.summary, outcome, judged, played),
    }


def lifetime_of_drive(
    device: Device,
    source: str,
    requests: Requests,
    endurance: float | None,
    asked: float | str | None,
) -> Lifetime:
    """Resolve what the life of a drive under a source is computed from.

    Of a drive that is simulated as a slice its whole capacity counts. `asked`: how much is written
    a day, as `Wear.writes_per_day`.

    Raises InputError if the recorded rate is asked for and there are no times.
    """
    counts, nanoseconds = requests.counts, requests.duration_ns
    recorded = None
    if counts is not None and nanoseconds:
        # Of a slice's trace the time is divided, too.
        seconds = nanoseconds / 1e9 * device.slices
        written = counts["written_bytes"] * device.slices
        recorded = Recorded(seconds, written * SECONDS_IN_DAY / seconds)
    media = device.profile["media"]
    slices = media.get("slices", 1) if device.slice is None else device.slices
    return lifetime_of(
        requests.name,
        Wear(writes_per_day=asked),
        endurance or media["endurance_cycles"] or None,
        device.capacity_bytes * slices,
        recorded,
        counted_bytes_per_day(source),
    )


def life_of(device: Device, outcome: Mapping[str, Any], lifetime: Lifetime) -> Life:
    """Give the life in years, or why there is none."""
    if not outcome["host_page_writes"]:
        return Life(None, "nothing was written")
    return lifetime.life(
        outcome["write_amplification"],
        device.over_provisioning,
        erases=outcome["erases"],
        steady=outcome["steady"]["write_amplification"],
    )


def caveats(result: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know before trusting the figures of a run."""
    said = []
    state = result["state"]["kind"]
    if result.get("worn_out"):
        said.append(f"The drive wore out, which ended the run: {result['worn_out']}.")
    if state == "fresh":
        said.append(
            "The drive was fresh at the start: reads of pages that were never written need no "
            "flash, and nothing is cleaned until the spare space is used up. --state aged shows "
            "the drive after long use."
        )
    elif result["host_page_writes"] and not result["erases"] and "zones" not in result:
        longer = "A longer run shows" if state == "aged" else "A longer run, or --state aged, shows"
        said.append(
            f"No erase block was cleaned: what was written fits into the spare space. {longer} the "
            "drive after long use."
        )
    if result.get("streams_left_out"):
        said.append(
            f"The placement policy has {result['streams_left_out']} streams fewer than it would: "
            "each needs an open erase block on every plane, and the spare space does not hold more."
        )
    said += slice_words.lines(result["device"].get("slice"))
    said += [line for line in (_imbalance(result), _lateness(result)) if line is not None]
    said += _unsteadiness(result)
    return said


def _unsteadiness(result: Mapping[str, Any]) -> list[str]:
    """Say which figures are not steady, and why, and with which options they would be."""
    remedy = f" Steady with {result['steady_with']}, or more." if result.get("steady_with") else ""
    by_reason: dict[str, list[str]] = {}
    for key, name in steady.FIGURES.items():
        judged = result["judged"][key]
        if judged["steady"] is False:
            by_reason.setdefault(judged["unsteady"], []).append(name)
    if not by_reason and all(value is None for value in result["steady"].values()):
        return [f"The run is too short to say whether it is steady.{remedy}"]
    return [
        f"Not steady: {' and '.join(names)}, as {reason}. The figures may change with the length "
        f"of the run.{remedy}"
        for reason, names in by_reason.items()
    ]


def _imbalance(result: Mapping[str, Any]) -> str | None:
    """Say if a page-mapped drive erased much less, or more, than it programmed.

    That cannot go on, however level the figures are.
    """
    device = result["device"]
    if not result["erases"] or device["scheme"].partition("(")[0] not in PAGE_MAPPED:
        return None
    causes = ("host_page_writes", "relocated_pages", "wear_moved_pages", "mapping_page_writes")
    later = ("parity_page_writes", "replica_page_writes")
    programmed = sum(result[cause] for cause in causes)
    programmed += sum(result.get(cause, 0) for cause in later)
    share = 1 - result["erases"] * device["pages_per_erase_block"] / programmed
    if abs(share) <= MOST_IMBALANCE:
        return None
    if share > 0:
        return (
            f"Not in balance: {percent(share, 2)} of what was programmed went to erase blocks that "
            "were free at the start, and not to cleaned ones. A longer run has to clean more: its "
            "write amplification is higher."
        )
    return (
        f"Not in balance: {percent(-share, 2)} more was erased than programmed, as cleaning made a "
        "reserve. A longer run cleans less: its write amplification is lower."
    )


def _lateness(result: Mapping[str, Any]) -> str | None:
    """Say if the drive fell behind the times of a trace.

    Then latencies tell the length of the run, and little of the drive.
    """
    if (
        result.get("pace", {}).get("kind") != "open_loop"
        or result["requests"] < LEAST_REQUESTS_TO_BE_LATE
    ):
        return None
    mean_seconds = result["latency_ns"]["all"]["mean"] / 1e9
    if mean_seconds < MOST_LATENESS * result["simulated_seconds"]:
        return None
    return (
        "The drive did not keep up with the times of the trace: a request takes "
        f"{span(mean_seconds)} on average in a run of {span(result['simulated_seconds'])}, and the "
        "longer the run, the longer. --depth N shows what the drive can do."
    )


MOST_IMBALANCE = 0.1
MOST_LATENESS = 0.05
"""Mean latency as a share of the run: as much of all requests is then outstanding, on average."""
LEAST_REQUESTS_TO_BE_LATE = 1000


def identity(device: Device, requests: Requests, load: Load) -> list[Any]:
    """Give what decides on the numbers of a run."""
    asked = asdict(load)
    for one in (asked, *asked["beside"]):
        # Runs without handles keep the names that they had before there were any.
        if one["handle"] is None:
            del one["handle"]
    return [device.toml, requests.content_hash, requests.repeat, asked]
