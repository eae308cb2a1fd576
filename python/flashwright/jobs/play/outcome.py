"""Written by `make jobs` from crates/jobs: change it there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class About:
    """Name, kind and limits of a device, as it reports them."""

    capacity_bytes: int
    """Bytes that can be addressed."""
    kind: str
    """`simulated`, `block_device`, `file` or `memory`."""
    model: str
    """Its model."""
    name: str
    """Its name."""
    queue_depth: int
    """Most requests outstanding at once."""
    sector_bytes: int
    """Bytes of a sector."""


@dataclass(frozen=True, kw_only=True)
class Below:
    """Requests of one operation that the device below layers was sent."""

    bytes: int
    """Their bytes."""
    latency_ns: int
    """Sum of their latencies."""
    requests: int
    """Requests."""


@dataclass(frozen=True, kw_only=True)
class Delayed:
    """Delays of requests by one cause. Times are in nanoseconds."""

    delayed: int
    """Requests that were delayed by it."""
    max: int
    """The longest."""
    mean: float
    """Mean over all requests."""
    p50: int
    """Median over the delayed requests."""
    p99: int
    """99th percentile over the delayed requests."""
    p999: int
    """99.9th percentile over the delayed requests."""
    p9999: int | None
    """99.99th percentile over the delayed requests; none of too few."""
    share_of_latency: float
    """Share of the sum of all latencies; over all causes these add up to 1."""
    share_of_requests: float
    """The same as a share of all."""


@dataclass(frozen=True, kw_only=True)
class EnduranceGroup:
    """The log of the endurance group at the end."""

    available_spare_percent: float
    """Spare erase blocks that are still good, in percent of those of the new drive."""
    data_read_bytes: int
    """Bytes read by the host."""
    data_written_bytes: int
    """Bytes written by the host."""
    media_written_bytes: int
    """Bytes programmed, for whatever cause."""
    percentage_used: float | None
    """Mean erases of an erase block, in percent of those that it stands; none if the profile
    does not give them.
    """


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Energy, in joules."""

    erase: float
    """Erases."""
    idle: float
    """Everything else, over the whole time."""
    mean_watts: float
    """Mean power, in watts."""
    program: float
    """Page programs."""
    read: float
    """Page reads."""
    total: float
    """The sum."""
    transfer: float
    """Bytes on the channels."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """Requests that failed in the same way."""

    first: str
    """Message of the first of them."""
    op: str
    """Their operation."""
    reason: str
    """Reason of the failure."""
    requests: int
    """Number of requests."""


@dataclass(frozen=True, kw_only=True)
class Fdp:
    """Statistics of placement handles, as NVMe FDP has them."""

    events: dict[str, int]
    """Events by name."""
    handles: tuple[Handle, ...]
    """By handle."""
    host_bytes_with_metadata_written: int
    """Bytes of the host's writes."""
    media_bytes_erased: int
    """Bytes erased."""
    media_bytes_with_metadata_written: int
    """Bytes of user data programmed."""
    reclaim_unit_bytes: int
    """Bytes of a reclaim unit."""
    relocated: Handle | None
    """Statistics of relocated data, where it has handles of its own."""


@dataclass(frozen=True, kw_only=True)
class Flash:
    """Operations of flash."""

    erases: int
    """Erase blocks erased."""
    page_bytes: int
    """Bytes of a page."""
    page_programs: int
    """Pages programmed."""
    page_reads: int
    """Pages read."""


@dataclass(frozen=True, kw_only=True)
class FlowRun:
    """Results of a flow."""

    bytes_per_second: float
    """Bytes read and written a second."""
    folded: bool
    """True if addresses were folded onto the device."""
    handle: int | None
    """Placement handle of its writes, if it has one of its own."""
    iops: float
    """Requests a second."""
    latency_ns: dict[str, Latency] | None
    """Latencies by operation and over all, where several flows are played on a simulated
    drive.
    """
    mean_latency_ns: float
    """Mean time of a request."""
    offset: int
    """First byte of its addresses."""
    priority: int
    """Its priority."""
    read_bytes: int
    """Bytes read."""
    requests: int
    """Requests measured."""
    seconds: float
    """Time from the start to the completion of its last request."""
    source: str
    """Its source."""
    written_bytes: int
    """Bytes written."""


@dataclass(frozen=True, kw_only=True)
class Handle:
    """Statistics of one placement handle."""

    available_pages: int
    """Free pages in its open reclaim unit."""
    host_page_writes: int
    """Pages that the host wrote."""
    reclaim_units: int
    """Reclaim units that it has."""
    relocated_pages: int
    """Its pages that were relocated."""
    valid_pages: int
    """Valid pages in these reclaim units."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Data found when a stack was opened again."""

    ending: str
    """Ending of the run: `drained` or `killed`."""
    newest: int
    """Sectors, of these, that held the data written last."""
    recovery_seconds: float
    """Time of the recovery."""
    sectors: int
    """Sectors that were checked."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Distribution of times, in nanoseconds. Percentiles are upper ends of classes, at most 0.1
    % too large; mean and maximum of latencies are exact.
    """

    count: int
    """Requests."""
    max: int
    """The longest."""
    mean: float
    """Mean."""
    p50: int
    """Median."""
    p99: int
    """99th percentile."""
    p999: int
    """99.9th percentile."""
    p9999: int | None
    """99.99th percentile; none of too few requests."""


@dataclass(frozen=True, kw_only=True)
class LayerCounters:
    """The counters of a layer."""

    counters: dict[str, int]
    """Its counters by name."""
    layer: str
    """The layer."""


@dataclass(frozen=True, kw_only=True)
class Layered:
    """Work of layers, and of the device below them."""

    below: dict[str, Below]
    """Requests that the device below was sent, by operation."""
    busy_changes_ns: int
    """Time in which the device had other requests outstanding."""
    busy_reads_ns: int
    """Time in which the device had reads outstanding; reads that overlap count once."""
    capacity_bytes: int
    """Bytes that the layers offer."""
    computing_seconds: float
    """Processor time of this machine in the layers."""
    counters: tuple[LayerCounters, ...]
    """The counters of each layer, from the top down."""
    drain_seconds: float
    """Time after the last request until all was written back."""
    flash: Flash | None
    """Operations of its flash; none if they are not known."""
    kept: Kept | None
    """Data found when the stack was opened again."""


@dataclass(frozen=True, kw_only=True)
class Replication:
    """Statistics of page copies."""

    counts: dict[str, int]
    """Counters by name."""
    extra_writes: float | None
    """Pages of copies for each page that the host wrote."""
    extra_writes_by_writes: float | None
    """Share of the copies that came of writes."""
    groups_by_size: tuple[int, ...]
    """Number of pages stored in 2, 3, ... places at the end."""
    interference: tuple[float, ...]
    """Share of the time in which a die worked on copies while a request waited for it, by
    die.
    """
    predicted_copies: float
    """Expected number of copies, from the probability that each page is blocked."""
    reads_by_ios: tuple[float | None, ...]
    """Shares of reads of one, two and more I/Os."""
    sizes: dict[str, int]
    """Sizes of tables and of the space for copies."""
    writes_by_ios: tuple[float | None, ...]
    """Shares of writes of one, two and more I/Os."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Results of one device, under one stack, at one pace."""

    about: About
    """Name, kind and limits of the device, as it reports them."""
    bytes_per_second: float
    """Bytes read and written a second."""
    device: str
    """Short name of the device, unlike that of any other."""
    ended: str | None
    """Reason for an end before that of the source: `stopped`, `failed`, `worn_out`."""
    error: str | None
    """Error that ended the run, or the part that wore out."""
    flows: tuple[FlowRun, ...]
    """Results of each flow, that of the source first."""
    iops: float
    """Requests a second."""
    latency_ns: dict[str, Latency]
    """Time of a request from sending to completion, by operation and over all."""
    layers: Layered | None
    """Work of layers, and of the device below them."""
    pace: str
    """Pace at which requests were sent."""
    read_bytes: int
    """Bytes read."""
    requests: int
    """Requests measured."""
    seconds: float
    """Measured time, on the clock of the device."""
    sent: SentRequests | None
    """Requests on their way to the device: lateness, changes, failures; none of a simulated
    drive that was played directly.
    """
    simulated: Simulated | None
    """Figures from inside a simulated drive, if one was played directly."""
    stack: str | None
    """Layers above the device; none if it was played directly."""
    written_bytes: int
    """Bytes written."""


@dataclass(frozen=True, kw_only=True)
class SentRequests:
    """Requests on their way to a device: lateness, changes, failures."""

    failures: tuple[Failed, ...]
    """Requests that failed."""
    fitted: dict[str, int]
    """Requests that were changed so that the device takes them, by the change."""
    held_ns: Latency | None
    """Part of the lateness in which the device took no more requests, at an open pace."""
    lateness_ns: Latency | None
    """Lateness of requests when they were sent, at a pace with times."""
    most_outstanding: int
    """Most requests outstanding at once."""
    response_ns: dict[str, Latency] | None
    """Time of a request from when it was due to completion, by operation, at a pace with
    times.
    """
    sent: int
    """Requests sent."""
    starved: int
    """Number of times that the next request was not read from the trace in time."""
    starved_seconds: float
    """Time that was spent waiting for such requests."""


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Figures from inside a simulated drive."""

    channel_share: float
    """Share of the time that channels were busy."""
    counters: dict[str, int]
    """Counters of the flash translation layer and the drive."""
    delays: dict[str, dict[str, Delayed]]
    """Delays of requests: by operation, then by cause."""
    die_share: dict[str, float]
    """Shares of the dies' time, by cause."""
    endurance_group: EnduranceGroup
    """The log of the endurance group."""
    energy: Energy | None
    """Energy that was used, if the profile gives energies."""
    erases_max: int
    """Most erases of an erase block."""
    erases_mean: float
    """Mean erases of an erase block at the end."""
    erases_min: int
    """Fewest erases of an erase block."""
    erases_stddev: float
    """Standard deviation of the erases of an erase block."""
    event_hash: str
    """Hash over all flash operations with their times."""
    fdp: Fdp | None
    """Statistics of placement handles, if it has some."""
    flash_operations: dict[str, dict[str, int]]
    """Operations of the flash: by operation, then by cause."""
    prepare_seconds: float
    """Time of this machine before the first request."""
    replication: Replication | None
    """Statistics of page copies, if it makes some."""
    streams_left_out: int
    """Streams of the placement policy that there was no room for."""
    table_bytes_per_page: float
    """Bytes of the tables of the flash translation layer for each physical page."""
    wall_seconds: float
    """Time of this machine for the run."""
    write_amplification: float
    """Pages programmed for each page that the host wrote."""
    zones: dict[str, int] | None
    """Counters of the zones, if it has some."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """Outcome of a play: a run for each device, under each stack, at each pace."""

    content_hash: str
    """Identity of the source: hashes of its files, or its parameters and seed."""
    runs: tuple[Run, ...]
    """Results of each device, under each stack, at each pace."""
