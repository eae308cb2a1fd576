"""Database writes on flash.

Traces, models and simulation of write amplification, lifetime and placement.

import flashwright

trace = flashwright.open_trace("my.blktrace.0")                  # an Arrow stream, nothing copied
table = pyarrow.RecordBatchReader.from_stream(trace).read_all()
workload = flashwright.load_workload("synth:zipf?s=0.99&pages=1Mi")
result = flashwright.simulate(workload, "multi_log", over_provisioning=0.2)
least = flashwright.models.cleaning_cost_bound(workload.update_weights(), 0.2)
"""

from flashwright import models
from flashwright._core import (
    Cancelled,
    FlashwrightError,
    InputError,
    Progress,
    RunError,
    __version__,
    convert_trace,
    load_workload,
    open_trace,
    registry,
    simulate,
    trace_stats,
)

__all__ = [
    "Cancelled",
    "FlashwrightError",
    "InputError",
    "Progress",
    "RunError",
    "__version__",
    "convert_trace",
    "load_workload",
    "models",
    "open_trace",
    "registry",
    "simulate",
    "trace_stats",
]
