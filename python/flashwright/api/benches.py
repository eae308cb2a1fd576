"""Benchmarks on real databases."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flashwright import written
from flashwright._core import RunError
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.benches.document import run_of
from flashwright.benches.options import BenchOptions
from flashwright.benches.plan import Benches, check_record
from flashwright.benches.progress import follow_benches
from flashwright.benches.session import BenchesSession
from flashwright.benches.session import keep as keep_recording

Words = str | Sequence[str]


@public
def bench(
    workload: Words,
    *,
    db: Words = "sqlite",
    on: Words | os.PathLike[str] = (),
    clients: int | Sequence[int] = (),
    duration: float | str | None = None,
    layers: bool = False,
    repeat: int = 1,
    transactions: int | str | None = None,
    warm_up: float | str | None = None,
    window: float | str = 1.0,
    preset: str | None = None,
    seed: int = 1,
    keep: bool = False,
    destroy_data: Words = (),
    record: str | os.PathLike[str] | None = None,
    device: str | None = None,
    life: str | None = None,
    no_calls: bool = False,
    no_log: bool = False,
    trace_buffer: int | str = 64 << 20,
    keep_raw: bool = False,
    log_transactions: bool = False,
    progress: bool = True,
) -> Result:
    """Run benchmarks on real databases, and lay them side by side if there are several.

    All is as for `flashwright bench`: `bench("tpcc(scale=2)", db="postgres(buffer=1Gi)")`. Of
    `workload`, `db`, `on` and `clients` several may be given; each combination is run `repeat`
    times, for `duration` seconds. What is recorded (`layers`, `record`) needs root.

    The rows of the result are the runs with their figures; the table windows has transactions and
    response times over time.

    Raises InputError; RunError if a run failed, or a database is not consistent at its end;
    KeyboardInterrupt after Ctrl-C.
    """
    given = {name: value for name, value in locals().items() if name != "progress"}
    asked = Benches.of(written.build(BenchOptions, given))
    check_record(asked, None)
    outcome = follow_benches(BenchesSession(asked))
    if outcome.recording is not None and asked.options.record is not None:
        keep_recording(outcome.recording, asked.options.record, keep_raw=asked.options.keep_raw)
    for error in (outcome.error, outcome.recording_error):
        if error is not None:
            raise error
    if outcome.violations:
        raise RunError(f"the database is not consistent: {outcome.violations[0]}")
    return Result(run_of(asked, asked.job(), outcome))
