"""TPC-C (specification revision 5.11): schema, load, five transactions and a driver, on any database with a backend.

It is the load, not the benchmark: no screens, no think times unless asked for, and no claim to a published result.
Clause numbers in this package are the specification's.
"""

from .backends import BACKENDS, backend_config
from .consistency import Violation, violations
from .driver import RunConfig, RunResult, run, run_client
from .loader import load
from .mix import MIXES, Kind, Mix, mix
from .scale import Scale

__all__ = [
    "BACKENDS",
    "MIXES",
    "Kind",
    "Mix",
    "RunConfig",
    "RunResult",
    "Scale",
    "Violation",
    "backend_config",
    "load",
    "mix",
    "run",
    "run_client",
    "violations",
]
