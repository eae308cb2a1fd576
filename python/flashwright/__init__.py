"""Database writes on flash.

Traces, devices and recordings; models and simulation of write amplification, latency, lifetime.

import flashwright as fw

fw.advise("runs/tpcc", device="nvme-tlc")           # what to change, and what it gains
found = fw.compare("synth:zipf(s=0.99,pages=64Ki)", over_provisionings=[0.2])
found.to_polars()                                   # or to_pandas(), to_arrow(), tables, plots()
fw.simulate("my.blktrace.0", MyPlacement())         # a policy of your own: fw.Placement
fw.play("io:random", on=["nvme-tlc", "profile(nvme-qlc, state=aged)"], requests="20k")
fw.sweep("SWEEP.toml", jobs=8)                      # a job at many points, here or on Ray
fw.transactions("tpcc", on="nvme-tlc")              # what clients of a database see
fw.probe("/dev/sdb")                                # reads only, unless write=True
fw.play("my.blktrace.0", on="sd-card", stack=["scheduler(defer,coalesce)"])
fw.bench("tpcc(scale=2)", db="postgres(buffer=64Mi)", clients=[1, 8])
with fw.record("/var/lib/postgresql", "runs/mine"): ...
fw.waterfall("runs/tpcc", on="samsung-mcbqe32g")
fw.open_run("runs/mine")                            # what a command wrote
fw.create_volume("/dev/sdb", "log_volume")          # layers on a device, that hold data
fw.Volume("/dev/sdb").write(4096, b"any bytes", fua=True)

A trace is an Arrow stream: pyarrow.RecordBatchReader.from_stream(fw.open_trace("my.blktrace.0")).
"""

from typing import TYPE_CHECKING, Any

from flashwright import models
from flashwright._core import (
    NO_STREAM,
    Cancelled,
    FlashwrightError,
    InputError,
    InputWarning,
    Progress,
    RunError,
    Volume,
    __version__,
    convert_trace,
    create_volume,
    job_names,
    load_workload,
    open_trace,
    registry,
    trace_stats,
)

if TYPE_CHECKING:
    from flashwright.api.advising import advise
    from flashwright.api.benches import bench
    from flashwright.api.counting import compare, simulate
    from flashwright.api.playing import play, probe, profiles, transactions
    from flashwright.api.recordings import record, waterfall
    from flashwright.api.results import Result, Table, open_run
    from flashwright.api.sweeping import sweep
    from flashwright.placement import Placement, check_placement

_LATER = {
    "placement": ("Placement", "check_placement"),
    "api.advising": ("advise",),
    "api.benches": ("bench",),
    "api.counting": ("compare", "simulate"),
    "api.playing": ("play", "probe", "profiles", "transactions"),
    "api.recordings": ("record", "waterfall"),
    "api.results": ("Result", "Table", "open_run"),
    "api.sweeping": ("sweep",),
}
"""Names that are imported on first use, by their module: the command line needs none of them, and
shall start at once.
"""


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    module = next((module for module, names in _LATER.items() if name in names), None)
    if module is not None:
        return getattr(import_module(f"flashwright.{module}"), name)
    if name in job_names():
        return import_module("flashwright.api.of_jobs").function(name)
    raise AttributeError(f"module 'flashwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *job_names(commands=True)})


__all__ = [
    "NO_STREAM", "Cancelled", "FlashwrightError", "InputError", "InputWarning", "Placement",
    "Progress", "Result", "RunError", "Table", "Volume", "__version__", "advise", "bench",
    "check_placement", "compare", "convert_trace", "create_volume", "load_workload", "models",
    "open_run", "open_trace", "play", "probe", "profiles", "record", "registry", "simulate",
    "sweep", "trace_stats", "transactions", "waterfall",
]  # fmt: skip
