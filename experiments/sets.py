"""All sets: what `python -m experiments list` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.advice import matrix
from experiments.figures import (
    arrays,
    layers,
    multilog,
    placement,
    placement_drives,
    prober,
    read_tails,
    replicas,
    transactions,
    volumes,
)
from experiments.mqsim import loads, speed
from experiments.registry import Set
from experiments.ssb import figures as queries
from experiments.tpcc import study as tpcc
from experiments.validations import (
    beside_mqsim,
    drive,
    real_drives,
    recording,
    replay,
    volume_speed,
    wal_what_if,
)
from experiments.validations.placement import study
from experiments.validations.sqlite_what_if import study as sqlite_what_if

SEED = 1
"""Of all sets."""
SETS: Sequence[Set[Any]] = (
    study.SET,
    placement.SET,
    placement_drives.SET,
    drive.SET,
    real_drives.SET,
    beside_mqsim.SET,
    loads.SET,
    speed.SET,
    multilog.SET,
    prober.SET,
    layers.SET,
    transactions.SET,
    replicas.SET,
    read_tails.SET,
    arrays.SET,
    volumes.SET,
    queries.SET,
    tpcc.SET,
    replay.SET,
    recording.SET,
    sqlite_what_if.SET,
    volume_speed.SET,
    matrix.SET,
    wal_what_if.SET,
)
"""All sets, in the order of the list."""
