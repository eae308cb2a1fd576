"""`flashwright transactions`: plays transactions in a closed loop on a device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashwright.cli.of_jobs import command_of, json_option, out_option
from flashwright.cli.output import Output

EXAMPLES = """\
Examples:
  flashwright transactions tpcc --on 'profile(replication-table-2, state=fresh)'
      a database of 2.4 GB that was just loaded, on a drive without anything else
  flashwright transactions tpcc --on 'profile(replication-table-2, state=aged)' \\
      --warm-up 100k
      the same on a drive that was overwritten at random
  flashwright transactions 'tpcb(bytes=1G)' --on nvme-tlc --clients 64 --buffer clock
  flashwright transactions tatp --on intel-x25e --seconds 10min --no-log
  flashwright transactions accesses.parquet --on sd-card --locks page
  flashwright transactions 'tpcc(bytes=1G)' --on intel-x25e --stack 'replicas(page=8Ki)'
"""


def do(asked: Mapping[str, Any], *, json_path: str | None, out: Path | None) -> None:
    """Play, print what clients saw, and write the run folder."""
    from flashwright.jobs.transactions import run, words

    output = Output(json_path, out)
    found, ended = run.play(run.plan(asked))
    if not output.is_only_json:
        words.show(found.result)
    output.finish(found)
    if ended is not None:
        raise ended


transactions = command_of(
    "transactions",
    do,
    short_help="What a device does to transactions: throughput, response, restarts.",
    examples=EXAMPLES,
    more=[json_option(), out_option("transactions")],
)
