"""Core of Flashwright, in Rust. Long work takes a `Progress`, and releases the GIL."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt

from flashwright.placement import Placement

_Array: TypeAlias = npt.NDArray[np.float64]
_Floats: TypeAlias = npt.NDArray[np.floating[Any]] | Sequence[float]
_Path: TypeAlias = str | PathLike[str]

__version__: str
__revision__: str | None

class FlashwrightError(Exception):
    """Anything that Flashwright reports as wrong."""

class InputError(FlashwrightError):
    """Wrong use or wrong input: the command line exits with 2."""

class RunError(FlashwrightError):
    """A run that failed although its input was right: the command line exits with 1."""

class ImpossibleError(RunError):
    """An experiment that this device, region or budget does not allow.

    The others of a set go on without it.
    """

class InputWarning(UserWarning):
    """An input that can be read, and is probably not what it was taken for."""

class Cancelled(FlashwrightError):  # noqa: N818
    """The work was asked to stop before its end."""

@final
class Progress:
    """Progress of long work, and the way to stop it.

    Pass one to a function that takes `progress`, and ask it from another thread.
    """

    def __init__(self) -> None: ...
    def state(self) -> tuple[int, int]:
        """Done so far and the total, in whatever unit the work counts.

        A total of 0 means that it is not known.
        """
    def preparation(self) -> tuple[int, int]:
        """Prepared so far and the total, before the first unit is done.

        A total of 0 means that there is nothing to prepare.
        """
    def cancel(self) -> None:
        """Ask the work to stop at its next clean point: it then raises `Cancelled`."""
    def check(self) -> None:
        """Raise Cancelled if the work was asked to stop: for work in Python, at a clean point."""
    def say(self, what: str) -> None:
        """Say in words what is being done, for work that has no number of it."""
    def said(self) -> str:
        """Give what was said last; empty before."""

def transaction_variants() -> dict[str, list[dict[str, Any]]]:
    """List what transactions can be named by: `benchmarks`, `buffers` and `lock_rules`."""

def parse_bytes(text: str) -> int | None:
    """Read a size in bytes: `4096`, `4k`, `4KiB` are the same, `4kB` is 4,000."""

def parse_count(text: str) -> int | None:
    """Read a count: `1M` is 1,000,000, `1Mi` 1,048,576."""

def parse_duration(text: str, unit: float = 1.0) -> float | None:
    """Read a duration in seconds: `90`, `1.5min`, `200us`; a plain number is of `unit` seconds."""

def registry() -> dict[str, list[dict[str, Any]]]:
    """Every variant that can be named.

    A kind -> a list of dicts with name, aliases, summary, source, usage and params. A placement
    also has victim (the victim policy of its authors) and oracle (whether it knows the update
    frequencies of all pages), a trace format endings (of file names) and writable.
    """

def placement_is_oracle(spec: str) -> bool:
    """Tell if a placement policy with its parameters knows what no drive can.

    That is the update frequencies of all pages, or the future. False for a spec that is wrong.
    """

# Traces

@final
class Trace:
    """An open trace: an Arrow stream of time_ns, op, offset, length, stream, latency_ns."""

    @property
    def format(self) -> str:
        """Name of the format, as given or as told by content."""
    @property
    def skipped(self) -> int:
        """Malformed records passed over so far, by the stream that read last."""
    @property
    def reading(self) -> dict[str, Any]:
        """Remarks of the reader besides the requests.

        `skipped` (malformed records), `left_out` (records by reason), `lost_events`, `warnings`
        (sentences).
        """
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The trace from its start as an Arrow C stream."""

def open_trace(path: _Path, format: str | None = None, skip_bad: int = 0) -> Trace:
    """Open a trace file (plain, .gz, .zst or .xz; `-` is standard input)."""

def convert_trace(
    src: _Path,
    dst: _Path,
    from_format: str | None = None,
    to_format: str | None = None,
    skip_bad: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read the trace `src` and write it to `dst`.

    Its ending tells the format if `to_format` does not.
    """

NOT_WANTED_FILE: int
"""The file of a sighting of what is no file of interest."""

_U32: TypeAlias = npt.NDArray[np.uint32]
_U64: TypeAlias = npt.NDArray[np.uint64]

def decode_calls(
    paths: Sequence[_Path],
    header_page: str,
    formats: Sequence[str],
    threads: Sequence[tuple[int, int]],
    sightings: tuple[_U64, _U64, _U32, _U32, _U32],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read the pages of `trace_pipe_raw`, a file for each processor.

    The calls on files as columns, and counts.
    """

def decode_fields(
    paths: Sequence[_Path],
    header_page: str,
    wanted: Sequence[tuple[str, Sequence[str]]],
    progress: Progress | None = None,
) -> tuple[list[list[Any]], dict[str, int]]:
    """Read numbers of any events in the pages of `trace_pipe_raw`, a file for each processor.

    `wanted`: formats of events with names of fields. Gives for each a list of columns: time_ns,
    thread, the fields; then counts.
    """

def write_blk_stream(
    paths: Sequence[_Path],
    header_page: str,
    event: int,
    output: _Path,
    progress: Progress | None = None,
) -> dict[str, int]:
    """Make the stream of the `blk` tracer of its raw pages, ordered by time. Gives counts."""

def write_synthetic(
    spec: str,
    dst: _Path,
    to_format: str | None = None,
    page_size: int = 4096,
    seed: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write a synthetic workload to the trace file `dst`.

    Gives name, logical_pages, requests, to_format.
    """

def trace_stats(
    path: _Path,
    format: str | None = None,
    page_size: int = 4096,
    skip_bad: int = 0,
    progress: Progress | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Give statistics of a trace file or synthetic workload, in one pass and bounded memory.

    Figures by name, and `tables`.
    """

# The simulator

@final
class Workload:
    """Page writes over dense logical pages, that can be played any number of times."""

    @property
    def name(self) -> str:
        """Its name for people."""
    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
    @property
    def repeat(self) -> int:
        """Number of times that it is played."""
    def repeated(self, repeat: int) -> Workload:
        """Give the same, played so many times over; what is in memory is shared."""
    @property
    def logical_pages(self) -> int:
        """Pages that the host addresses."""
    @property
    def page_writes(self) -> int:
        """Page writes of all passes."""
    @property
    def one_in(self) -> int:
        """One page in so many is followed: 1 for all."""
    @property
    def whole_pages(self) -> int:
        """Pages of the whole trace; of a sample an estimate, with a standard error of 0.8 %."""
    @property
    def whole_page_writes(self) -> int:
        """Page writes of all passes over the whole trace."""
    @property
    def page_trims(self) -> int:
        """Trims of pages that held data, of all passes."""
    @property
    def format(self) -> str | None:
        """The trace format that was read; None for a synthetic workload."""
    @property
    def reading(self) -> dict[str, Any]:
        """Remarks of the reader besides the requests.

        `skipped` (malformed records), `left_out` (records by reason), `lost_events`, `warnings`
        (sentences).
        """
    @property
    def content_hash(self) -> str:
        """Identity of the workload, which no other has.

        The files' hashes, or the spec with all its parameters and the seed.
        """
    @property
    def duration_ns(self) -> int | None:
        """Time that one pass took to record, in nanoseconds; None if it has no times."""
    def held_fractions(self) -> _Array:
        """Fraction of the host writes, 0 to 1, during which each logical page holds data.

        The device starts filled.
        """
    def update_weights(self) -> _Array:
        """Give the update frequency of each logical page, in any unit."""

def load_workload(
    source: str,
    page_size: int = 4096,
    format: str | None = None,
    skip_bad: int = 0,
    seed: int = 1,
    repeat: int = 1,
    memory_limit_bytes: int = ...,
    sample: int = 1,
    progress: Progress | None = None,
) -> Workload:
    """Read a trace file, or make the synthetic workload of `synth:...`.

    `sample` takes one page of a trace in so many, fewer where that leaves less than 32 Ki of them.
    """

NO_STREAM: int
"""Stands for the stream and the erase block of a page that holds no data."""

@final
class FlashState:
    """View of the device for a placement policy in Python, at the time of the call.

    Arrays are copies.
    """

    @property
    def clock(self) -> int:
        """Host page writes so far."""
    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
    @property
    def pages_per_erase_block(self) -> int:
        """Pages that are erased together."""
    @property
    def logical_pages(self) -> int:
        """Pages that the host addresses."""
    @property
    def erase_blocks(self) -> int:
        """Erase blocks, spare ones included."""
    def valid_pages(self) -> _U32:
        """Give, by erase block, the pages that hold the newest version of a logical page."""
    def streams(self) -> _U32:
        """Give, by erase block, the stream that it was opened for."""
    def opened_at(self) -> _U32:
        """Give, by erase block, the clock, modulo 2^32, when it was opened."""
    def stream_valid_pages(self) -> _U32:
        """Give, by stream, the valid pages in its erase blocks.

        Kept only where the policy is per_stream.
        """
    def stream_erase_blocks(self) -> _U32:
        """Give, by stream, the erase blocks, the open one included."""

def simulate(
    workload: Workload,
    placement: str | Placement | None = None,
    victim: str | None = None,
    over_provisioning: float = 0.2,
    pages_per_erase_block: int = 64,
    start: str = "filled",
    seed: int = 1,
    audit: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Play a workload through a flash translation layer that counts.

    The placement policy is a name, or an object that answers as `flashwright.Placement` does.
    """

def judge(counted: npt.NDArray[np.float64], over: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Give the ratio of what was counted in a run's stretches to what it is over, and its interval.

    figure, low, high, steady, unsteady, times (as long as the run has to be).
    """

# The simulated drive

def profiles() -> list[dict[str, str]]:
    """The device profiles that come with the program: name and summary."""

def profile_toml(name: str) -> str:
    """The TOML of a device profile that comes with the program, with its comments."""

def check_profile(toml: str, place: str = "the profile", overrides: Sequence[str] = ...) -> str:
    """Read the TOML of a device profile, and give it as TOML with all keys.

    Applies `key=value` overrides, and checks it.
    """

def profile_summary(toml: str) -> dict[str, Any]:
    """Give the figures that follow from the TOML of a device profile.

    capacity_bytes, logical_pages, channels, dies, planes, ...
    """

def patterns() -> list[dict[str, Any]]:
    """Every request pattern that `io:` may name, as dicts like those of `registry`."""

def schemes() -> list[dict[str, Any]]:
    """Every FTL scheme that a profile may name, as dicts like those of `registry`."""

def causes() -> list[tuple[str, str]]:
    """Every cause that the dies work for: its name in results, and what belongs to it."""

def delays() -> list[str]:
    """Names of what may delay a request, in the order of tables."""

@final
class ArrowTable:
    """A table, as an Arrow stream: `pyarrow.table`, polars and DuckDB take it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Source:
    """The requests of a job's source, read once.

    As long as somebody holds it, jobs on it do not read it again.
    """

    @property
    def name(self) -> str: ...
    @property
    def requests(self) -> int | None:
        """Requests of all passes; None if there is no end."""

    @property
    def totals(self) -> dict[str, int] | None:
        """Totals of one pass of a trace; None of a generated source.

        Requests by operation (read, write, trim, flush), requests, read_bytes, written_bytes,
        trimmed_bytes, end_bytes (one behind the last byte named), longest_bytes, unit_bytes (what
        all offsets and lengths are multiples of), duration_ns, volumes, empty (requests of no
        bytes, which are not played), clamped_times.
        """

    @property
    def footprint_bytes(self) -> int | None:
        """Bytes that a device needs to hold all addresses; None of a pattern."""

    @property
    def has_times(self) -> bool: ...
    @property
    def duration_ns(self) -> int | None: ...
    @property
    def writes(self) -> bool:
        """True if playing it changes what is on a device."""

    @property
    def format(self) -> str | None: ...
    @property
    def reading(self) -> dict[str, Any]:
        """Remarks of the reader besides the requests: skipped, left_out, lost_events, warnings."""

    def requests_table(self) -> ArrowTable:
        """Give all requests of a trace, at the addresses that they have as it is loaded.

        Raises RunError if it cannot be read any more.
        """

    @property
    def sources(self) -> list[dict[str, Any]]:
        """The files read: name and sha256 of each."""

    @property
    def content_hash(self) -> str: ...

@final
class SqliteLog:
    """Follow the log of a SQLite database: `look` gives the transactions since the last look.

    Raises InputError if the log is none, or one of the files cannot be read.
    """

    def __new__(cls, log: str, database: str) -> SqliteLog: ...
    @property
    def page_bytes(self) -> int:
        """Bytes of a page; 0 while the log has no header."""

    @property
    def nature(self) -> dict[str, bool]:
        """What is known of the database so far: skips_freed, auto_vacuum_full."""

    def reopen(self, log: str) -> None:
        """Go on with another file: a log that was deleted is made anew. Raises InputError."""

    def look(self) -> dict[str, Any]:
        """Give the commits since the last look.

        Arrays with a row a commit: log (0, 1, ... as it is restarted), first_frame, frames,
        pages_before, pages_after; with a row a page of them: page, free_for; beside these `doubt`
        (why some may have been missed, or None). Raises InputError.
        """

def job_names(commands: bool = False) -> list[str]:
    """Give the names of all jobs that are done in Rust; `commands`: of those that are commands."""

def job_schema(name: str) -> tuple[str, str, str]:
    """Give the JSON schemas of a job's settings and outcome, and the defaults in their order.

    Raises InputError.
    """

def job_settings(name: str, settings: bytes) -> str:
    """Give a job's settings with all defaults: equal work has equal text.

    Raises InputError with `option`.
    """

def read_setting(kind: str, text: str) -> str:
    """Read a device, source, pace or flow from text, as JSON. Raises InputError."""

def device_label(device: bytes) -> str:
    """Give the words that tell a device (JSON) from others. Raises InputError."""

def pace_text(pace: bytes) -> str:
    """Give the text of a pace (JSON) as results have it. Raises InputError."""

def offered_bytes(settings: bytes, stack: str, bytes: int, sector_bytes: int) -> int:
    """Give the bytes that a stack offers over a device of so many.

    Raises InputError with `option`.
    """

def load_source(
    settings: bytes, flow: int | None = None, progress: Progress | None = None
) -> Source:
    """Read the source of a job, or of a flow beside it, from 0, as its first device gets it.

    Progress counts bytes of the trace. Raises InputError with `option`, Cancelled.
    """

def run_job(
    name: str, settings: bytes, progress: Progress | None = None
) -> tuple[bytes, list[tuple[str, ArrowTable]], list[tuple[str, str]]]:
    """Do a job: settings and outcome are JSON; tables and texts by name.

    Raises InputError with `option`, RunError, Cancelled.
    """

def arrays() -> list[dict[str, Any]]:
    """Every kind of array, as dicts like those of `registry`."""

def simulate_array(
    profile: str,
    requests: Source,
    *,
    drives: int = 2,
    array: str = "mirrored",
    reads: str = "home",
    hedge_after: float = 0.95,
    missing: int | None = None,
    depth: int | None = None,
    state: str = "filled",
    overwrites: float = 2.0,
    seed: int = 1,
    most_requests: int = 1_000_000,
    warm_up_requests: int = 0,
    audit: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Play requests, at their own times or depth of them at once, on several simulated drives.

    In a mirrored array a read goes to the drive of its address ("home"), to another if that one
    would let it wait for its own work ("fail_fast"), or to another, too, after the share
    hedge_after of reads lately ("hedged"). Other arrays have stripes, and with parity a drive may
    be missing.
    """

def simulate_array_lives(
    profile: str,
    array: str,
    *,
    drives: int,
    erase_limit: float,
    replacements: int,
    full_stripes: float = 0.0,
    seed: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Live through replacements of drives that reach the erase limit, and tell the ages of all.

    The array is one with parity; the oldest drive takes the place of the one that is replaced.
    """

# Block devices, and experiments on them

@final
class Device:
    """An open block device, for one user at a time."""

    @property
    def info(self) -> dict[str, Any]:
        """Description of the device.

        Keys: name, model, kind, capacity_bytes, sector_bytes, queue_depth, most_bytes,
        is_read_only, has_trim, is_virtual.
        """
    def now_ns(self) -> int:
        """Nanoseconds on the device's clock since it was opened."""

def create_file(path: _Path, size_bytes: int, progress: Progress | None = None) -> None:
    """Make a file of so many bytes to be probed.

    All are written with data that cannot be compressed.
    """

def open_device(
    spec: str,
    *,
    access: str = "read_only",
    polled: bool = False,
    queue_depth: int = 256,
    most_bytes: int = 1 << 20,
    region_offset: int = 0,
    region_bytes: int | None = None,
    data: bool = False,
    progress: Progress | None = None,
) -> Device:
    """Open a block device, NVMe namespace or file by its path, or `memory(bytes=1Gi,sector=512)`.

    To "read_only", to "write", or to "destroy_data". Only the region may be written: data is looked
    for there, and progress counts its bytes.
    """

def simulated_device(
    profile: str,
    *,
    name: str | None = None,
    state: str = "filled",
    overwrites: float = 2.0,
    seed: int = 1,
    data: bool = False,
    array: str | None = None,
    drives: int = 1,
    missing: int | None = None,
    progress: Progress | None = None,
) -> Device:
    """Make a simulated drive of the TOML of a device profile.

    In the state "fresh", "filled" or "aged". With an array, a spec of `arrays`, so many drives are
    one device, of which one may be missing.
    """

def experiments() -> list[dict[str, Any]]:
    """Every experiment in the order of a set.

    Dicts like those of `registry`, with group, writes, is_quick, weight and after.
    """

def experiment(spec: str) -> dict[str, Any]:
    """Give the entry of an experiment by its spec, as `experiments` has it, with `spec`.

    `spec` names the experiment with all its parameters.
    """

def probe(
    device: Device,
    experiment: str,
    *,
    region_offset: int = 0,
    region_bytes: int | None = None,
    seed: int = 1,
    budget_seconds: float = 10.0,
    may_write: bool = False,
    findings: str = "[]",
    progress: Progress | None = None,
) -> str:
    """Run one experiment on a device, given a JSON list of what earlier ones found.

    Gives its finding as JSON.
    """

def fit_profile(
    findings: str,
    *,
    name: str,
    capacity_bytes: int,
    model: str = "",
    seed: int = 1,
    effort: int = 400,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Find a profile that behaves as a device did, from a JSON list of findings.

    toml, notes, evaluations, cells.
    """

def read_bytes_per_second(
    device: Device,
    *,
    region_offset: int = 0,
    region_bytes: int | None = None,
    seconds: float = 0.5,
    progress: Progress | None = None,
) -> float:
    """Read a region in order for so many seconds of the device's time, 8 requests of 1 MiB at once.

    Gives bytes a second.
    """

def request_seconds(
    device: Device,
    *,
    size_bytes: int,
    is_random: bool,
    is_write: bool = False,
    region_offset: int = 0,
    region_bytes: int | None = None,
    seconds: float = 0.5,
    seed: int = 1,
    progress: Progress | None = None,
) -> float:
    """Measure how long one request takes, in the mean of a few sent one by one, in seconds."""

# Layers

def check_stack(stack: str) -> list[str]:
    """The layers of a stack, from the top to the bottom.

    Raises InputError if one is unknown, or has no such parameter.
    """

def settled_stack(stack: str, *, facts: Mapping[str, Any] | None = None) -> str:
    """The text of a stack with the forms that its layers get by what is known of the device.

    Raises InputError if a parameter is wrong.
    """

def create_volume(
    device: str,
    stack: str,
    *,
    facts: dict[str, Any] | None = None,
    seed: int = 1,
    destroy: bool = False,
    staging: str | None = None,
    destroy_staging: bool = False,
) -> dict[str, Any]:
    """Make a volume with this stack of layers on a device, and close it again.

    With `staging` the area of a layer lies on that device. Its header, and `capacity_bytes`.
    """

def volume_about(device: str, *, staging: str | None = None) -> dict[str, Any]:
    """Tell what volume is on a device, which is only read: its header, `device_bytes`, `notes`.

    `staging` is what was found of its staging device: `device`, `device_bytes`, `data_bytes` and
    `problem`, or None if it has none. `memory` is the most that it takes, in bytes: `layers`, a
    list of (name, tables, held, opening) or None with the reason in `problem`, `device_bytes`,
    `request_bytes` and `most_bytes`.
    """

def check_volume_memory(device: str, memory: int, *, staging: str | None = None) -> None:
    """Check that the volume on a device can be opened with `memory` bytes of memory.

    Raises InputError, in one line, if it may need more.
    """

def restage_volume(
    device: str, staging: str, *, lose: bool = False, destroy: bool = False
) -> dict[str, Any]:
    """Lay out a volume's area on another device, in place of the one that it has.

    That may lie on its own device, or on a third. `lose` allows what is on a staging device alone
    to be lost, if the volume was not closed. Its header.
    """

def unstage_volume(
    device: str, *, staging: str | None = None, lose: bool = False
) -> dict[str, Any]:
    """Take a volume's staging device away: all of it lies on its own device then.

    `lose` allows what is on the staging device alone to be lost, if that cannot be opened. Its
    header, and `staging`: the `device`, and why it has its headers still, `problem`.
    """

def renew_volume(device: str, *, staging: str | None = None) -> dict[str, Any]:
    """Give a volume that was closed another UUID, as a copy of one needs it.

    Its staging device gets it, too. Its header, and `before`, the UUID that it had.
    """

def destroy_volume(device: str) -> dict[str, Any]:
    """Overwrite both headers of the volume on a device."""

def check_volume(
    device: str, *, staging: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Open the volume in memory and read all of it; nothing is written to the device.

    `about`, `recovery_sectors`, `read_bytes`, `bad_bytes`, and `bad`: (first byte, bytes, reason).
    """

def salvage_volume(
    device: str,
    image: _Path,
    *,
    staging: str | None = None,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Copy what is left of the volume on a device to a new file; nothing is written to the device.

    `about`, `image_bytes`, `bad_bytes`, `is_rebuilt`, `notes`, and `bad`: (first byte, bytes,
    reason).
    """

def resize_volume(
    device: str,
    size: int | None = None,
    *,
    destroy: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Give the volume on a device another size, or all that the device has.

    Its header, `before_bytes` and `capacity_bytes`. `destroy` allows what lies beyond the new end
    to be lost.
    """

def allocate_file(path: _Path, bytes: int) -> None:
    """Make a file of this size, a multiple of 4096, with room for all of it."""

def device_needed(device: str) -> str | None:
    """Give why a device or a file is needed, by the headers on it and on the device it belongs to.

    None if nothing that is durable names it. Where that cannot be found out, it is needed.
    """

def check_free(device: str) -> None:
    """Raise InputError if a device is in use, or an emulated drive cannot be made."""

def emulated_parts(device: str) -> tuple[str, str | None] | None:
    """Give what an emulated drive is made of: its profile, and the file of its data or None.

    None if this names something else.
    """

def check_ublk() -> None:
    """Say whether the kernel has ublk. Raises InputError, which says what is missing."""

def remove_left_ublk(number: int, server: int) -> bool:
    """Take away the device of ublk by this number that a server left which is gone."""

@final
class Volume:
    """A volume that is open, at work on a thread of its own. Any thread may use it."""

    def __new__(
        cls,
        device: str,
        *,
        queue_depth: int = 128,
        bare: bool = False,
        staging: str | None = None,
        memory: int | None = None,
        scrub_every_s: int = 0,
    ) -> Volume:
        """Open the volume on a device; it is recovered if it was not closed.

        With `bare` the device is taken as it is, without header or layers: an emulated drive.
        `staging` says where its staging device is, if that is not where it was last. `memory` is
        the most that the volume may take in memory, in bytes: it is not opened if it may need more.
        `scrub_every_s` seconds after a scrub the next begins by itself; 0 for only when it is
        asked.
        """
    def about(self) -> dict[str, Any]:
        """Give its header, `capacity_bytes`, `notes` and `memory`."""
    def read(self, offset: int, length: int) -> bytes:
        """Read any bytes."""
    def write(self, offset: int, data: bytes, *, fua: bool = False, lifetime: str = "none") -> None:
        """Write any bytes; with `fua` they are durable when it returns.

        `lifetime` is how long they are expected to live: none (nobody says), short, medium, long,
        extreme.
        """
    def zero(self, offset: int, length: int) -> None:
        """Write zeros."""
    def trim(self, offset: int, length: int) -> None:
        """Tell that bytes are not needed any more."""
    def flush(self) -> None:
        """Make durable all that was written before."""
    def metrics(self) -> str:
        """Give what it has done since it was opened, as Prometheus reads it."""
    def broken(self) -> str | None:
        """Tell what happened first that makes it of no use."""
    def keep_metrics(self, path: _Path, every_s: float) -> None:
        """Keep a file of metrics until the volume is closed."""
    def scrub(self, *, begin: bool = True) -> str:
        """Begin to read all that has checksums, and tell how far that is, as JSON."""
    def keep_control(self, path: _Path) -> None:
        """Answer on a Unix socket, for its owner alone, until the volume is closed."""
    def mount(self, directory: _Path) -> None:
        """Show the volume as a file in an empty directory (FUSE), until it is closed."""
    def attach_ublk(self, *, read_only: bool = False) -> str:
        """Make a block device of the volume (ublk), until it is closed, and give its path."""
    def close(self) -> None:
        """Take file and block device away, write back what is held, and mark the volume clean."""

# The models of MULTILOG. Those of one number take a float and give a float, or take an array and
# give one of the same shape.

@overload
def cleaning_cost(p_gc: float) -> float: ...
@overload
def cleaning_cost(p_gc: _Floats) -> _Array:
    """Cleaning cost p / (1 - p) of a p_gc from 0 to 1 (MULTILOG eq. 1)."""

@overload
def write_amplification(p_gc: float) -> float: ...
@overload
def write_amplification(p_gc: _Floats) -> _Array:
    """Write amplification 1 / (1 - p) of a p_gc from 0 to 1 (MULTILOG eq. 1)."""

@overload
def p_gc_lru(over_provisioning: float) -> float: ...
@overload
def p_gc_lru(over_provisioning: _Floats) -> _Array:
    """p_gc of uniform updates cleaned by LRU (MULTILOG eq. 3)."""

@overload
def p_gc_approx(over_provisioning: float) -> float: ...
@overload
def p_gc_approx(over_provisioning: _Floats) -> _Array:
    """The closed approximation of `p_gc_lru` (MULTILOG eq. 4)."""

@overload
def cleaning_cost_lru(over_provisioning: float) -> float: ...
@overload
def cleaning_cost_lru(over_provisioning: _Floats) -> _Array:
    """Cleaning cost of `p_gc_lru`; infinite at 0."""

@overload
def p_gc_greedy(over_provisioning: float, pages_per_erase_block: int) -> float: ...
@overload
def p_gc_greedy(over_provisioning: _Floats, pages_per_erase_block: int) -> _Array:
    """p_gc of Greedy on uniform updates (mean field)."""

@overload
def p_gc_d_choices(over_provisioning: float, pages_per_erase_block: int, choices: int) -> float: ...
@overload
def p_gc_d_choices(over_provisioning: _Floats, pages_per_erase_block: int, choices: int) -> _Array:
    """p_gc of the best of `choices` erase blocks drawn at random.

    On uniform updates (mean field).
    """

@overload
def p_gc_window_greedy(
    over_provisioning: float, pages_per_erase_block: int, window: float
) -> float: ...
@overload
def p_gc_window_greedy(
    over_provisioning: _Floats, pages_per_erase_block: int, window: float
) -> _Array:
    """p_gc of Window-Greedy on uniform updates.

    `window` is the share of all erase blocks that it sees (mean field).
    """

@overload
def cleaning_cost_derivative(
    z: float, update_share: float, size: float, *, approximate: bool = False
) -> float: ...
@overload
def cleaning_cost_derivative(
    z: _Floats, update_share: float, size: float, *, approximate: bool = False
) -> _Array:
    """Derivative of the cleaning cost by one log's space (a term of MULTILOG eq. 11)."""

def valid_pages_pdf(pages_per_erase_block: int, p_valid: float) -> _Array:
    """Distribution of the valid pages of an erase block (MULTILOG eq. 5)."""

def markov_pdf(pdf: _Floats, logical_pages: int, updates: int) -> _Array:
    """The distribution after `updates` steps of MULTILOG's Markov chain."""

@final
class WindowBenefit:
    """Benefit over LRU of one choice from a cleaning window of B erase blocks."""

    @property
    def lru_valid_pages(self) -> float: ...
    @property
    def least_valid_pages(self) -> float: ...
    @property
    def benefit(self) -> float: ...
    @property
    def benefit_as_printed(self) -> float: ...

def window_benefit(
    over_provisioning: float, pages_per_erase_block: int, logical_pages: int, window: int
) -> WindowBenefit:
    """The benefit of a window of `window` erase blocks over LRU (MULTILOG 4.1)."""

@final
class RandomPlacement:
    """Update sets mixed in one log."""

    @property
    def p_gc(self) -> _Array: ...
    @property
    def p_avg(self) -> float: ...
    @property
    def cleaning_cost(self) -> float: ...
    @property
    def write_amplification(self) -> float: ...

def kmodal_random(
    sizes: _Floats, shares: _Floats, over_provisioning: float, *, approximate: bool = False
) -> RandomPlacement:
    """Sets of pages of different update frequency mixed in one log cleaned by LRU.

    MULTILOG eq. 6-9.
    """

@final
class Division:
    """Spare space divided between logs that each hold one update set."""

    @property
    def betas(self) -> _Array: ...
    @property
    def p_gc(self) -> _Array: ...
    @property
    def cleaning_cost(self) -> float: ...
    @property
    def write_amplification(self) -> float: ...

def kmodal_separated(sizes: _Floats, shares: _Floats, over_provisioning: float) -> Division:
    """Sets of pages each in its own log, spare space divided as well as can be.

    MULTILOG eq. 10-13.
    """

@final
class Bound:
    """The least cleaning cost of a workload, and how space is divided to reach it.

    `float(bound)` is the cleaning cost.
    """

    @property
    def over_provisioning(self) -> float: ...
    @property
    def binning(self) -> str: ...
    @property
    def cleaning_cost(self) -> float: ...
    @property
    def write_amplification(self) -> float: ...
    @property
    def p_gc_overall(self) -> float: ...
    @property
    def pages(self) -> npt.NDArray[np.uint64]: ...
    @property
    def lowest(self) -> _Array: ...
    @property
    def highest(self) -> _Array: ...
    @property
    def sizes(self) -> _Array: ...
    @property
    def shares(self) -> _Array: ...
    @property
    def betas(self) -> _Array: ...
    @property
    def p_gc(self) -> _Array: ...
    def __float__(self) -> float: ...

_Weights: TypeAlias = _Floats | npt.NDArray[np.uint32]

@overload
def cleaning_cost_bound(
    weights: _Weights, over_provisioning: float, binning: str | float | None = None
) -> Bound: ...
@overload
def cleaning_cost_bound(
    weights: _Weights, over_provisioning: _Floats, binning: str | float | None = None
) -> list[Bound]:
    """The least cleaning cost of any placement by update frequency (MULTILOG Algorithm 1)."""

def cleaning_cost_bound_of_held(
    weights: _Array, held: _Array, over_provisionings: Sequence[float]
) -> list[float]:
    """The least cleaning cost of pages that hold data only part of the time.

    As where a workload trims.
    """

@final
class PolynomialFit:
    """A fit of MULTILOG's polynomial for the best beta of two sets (4.2.2)."""

    @property
    def frequency_ratio(self) -> float: ...
    @property
    def coefficients(self) -> list[float]: ...
    @property
    def rmse(self) -> float: ...
    @property
    def max_error(self) -> float: ...
    @property
    def max_cost_loss(self) -> float: ...

def polynomial_fit(
    frequency_ratio: float = 2.0, least: float = 0.01, most: float = 1.0
) -> PolynomialFit:
    """Fit the polynomial by least squares.

    Over sizes 0.01 ... 0.99 and over-provisioning `least` ... `most`.
    """

@overload
def beta_polynomial(
    size: float, over_provisioning: float, coefficients: Sequence[float]
) -> float: ...
@overload
def beta_polynomial(
    size: float, over_provisioning: _Floats, coefficients: Sequence[float]
) -> _Array:
    """Beta of the first of two sets by the polynomial with these coefficients."""

def lifetime_years(
    endurance_cycles: float,
    physical_capacity_bytes: float,
    write_amplification: float,
    host_bytes_per_day: float,
    wear_spread: float = 1.0,
) -> float:
    """Years until the most worn erase block reaches its endurance."""

def ageing_rates(parity: _Floats, *, full_stripes: float = 0.0) -> list[float]:
    """Page writes of each drive for each of the host's, by its share of the parity."""

def next_ages(ages: _Floats, rates: _Floats) -> list[float]:
    """Ages at the next replacement of a drive, from those at the last one."""

def converged_ages(rates: _Floats) -> list[float]:
    """Ages to which `next_ages` converges."""

def raw_bit_error_rate(points: Sequence[tuple[float, float]], age: float) -> float:
    """Raw bit error rate at an age, between points of (age, rate)."""

def codeword_failure(rate: float, bits: int, corrected: int) -> float:
    """Chance that a codeword has more errors than its code corrects."""

def loss_on_failure(failures: _Floats, codewords: float) -> list[float]:
    """Chance that data is lost when each drive of an array fails."""
