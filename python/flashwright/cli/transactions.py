"""`flashwright transactions`: plays transactions in a closed loop on a device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from flashwright.cli.lists import ANY_DEVICE, Named
from flashwright.cli.options import Count, Duration, Size, option, takes
from flashwright.cli.output import Output
from flashwright.cli.target_options import DEVICE_HELP, TargetOptions
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright.transactions.plan import Plan


@dataclass(frozen=True)
class ClientOptions:
    """Options of playing transactions."""

    clients: int = option(
        "Clients, each with one transaction at a time.", type=click.IntRange(1, 65_536), default=10
    )
    pool_pages: int = option(
        "Pages of the buffer pool.", "--pool", type=Count(), default="1024", metavar="N"
    )
    buffer: str = option(
        "How the pool chooses victims: `flashwright list buffer`.",
        type=Named("buffer"),
        default="lru",
        metavar="NAME",
    )
    locks: str | None = option(
        "What a transaction locks until it ends.  [default: row, or page if the trace has no rows]",
        type=click.Choice(["row", "page", "none"]),
    )
    lock_rule: str = option(
        "What becomes of a conflict: `flashwright list lock_rule`.",
        default="detect",
        metavar="NAME",
    )
    cpu_us: float = option(
        "Microseconds of the processor for each page access.",
        "--cpu",
        type=Duration(1e-6),
        default=0.0,
        metavar="US",
    )
    no_log: bool = option("Commit without a log.")
    log_bytes: int = option(
        "Bytes of the log's region behind the database. A checkpoint comes when half of it is "
        "used.",
        "--log",
        type=Size(),
        default="64Mi",
    )
    log_each: bool = option("Write each commit by itself, instead of all that wait together.")
    log_unflushed: bool = option("Do not flush after a write of the log.")
    writer_pages: int = option(
        "Let a background writer write up to N dirty pages each --writer-interval; 0 for none.",
        type=Count(),
        default=0,
    )
    writer_ms: float = option(
        "Milliseconds between the rounds of the background writer.",
        "--writer-interval",
        type=Duration(1e-3, least_open=True),
        default=200.0,
        metavar="MS",
    )
    blocked_us: float = option(
        "Count requests that take longer as blocked.",
        "--blocked",
        type=Duration(1e-6),
        default=800.0,
        metavar="US",
    )
    transactions: int | None = option(
        "Measure N transactions.  [default: 100k, if no time is given]", type=Count()
    )
    seconds: float | None = option(
        "Measure for so long, by the device's clock: 90, 30min, 3h.",
        type=Duration(least_open=True),
        metavar="S",
    )
    warm_up: int | None = option("Play N transactions before.", type=Count())
    warm_up_seconds: float | None = option("Play for so long before.", type=Duration(), metavar="S")
    no_load: bool = option(
        "Leave the device as it is: otherwise the database is written once, in order, before "
        "anything else."
    )
    repeat: bool = option("Begin a trace again at its end.")
    stack: str = option(
        "Put layers between the transactions and the device, from the top to the bottom with | "
        "between them, such as 'replicas(page=8Ki)'; `flashwright list layer` has them.",
        default="direct",
        metavar="STACK",
    )
    facts: str | None = option(
        "What layers know of the device: the run folder of a probe; measured on a second simulated "
        "drive of the same profile, once; or nothing.  [default: none]",
        metavar="DIR|measure|none",
    )

    def plan(self, seed: int) -> Plan:
        """Give the plan that they ask for."""
        from flashwright.transactions.plan import Plan

        if not self.pool_pages:
            raise click.UsageError("--pool 0: a pool has at least one page")
        if self.transactions == 0:
            raise click.UsageError("--transactions 0: nothing would be played; write 1 or more")
        return Plan(
            clients=self.clients,
            pool_pages=self.pool_pages,
            buffer=self.buffer,
            locks=self.locks,
            lock_rule=self.lock_rule,
            cpu_us=self.cpu_us,
            log_bytes=0 if self.no_log else self.log_bytes,
            log_grouped=not self.log_each,
            log_flushed=not self.log_unflushed,
            writer_ms=self.writer_ms,
            writer_pages=self.writer_pages,
            blocked_us=self.blocked_us,
            warm_up_transactions=self.warm_up,
            warm_up_seconds=self.warm_up_seconds,
            transactions=self.transactions,
            seconds=self.seconds,
            seed=seed,
            loaded=not self.no_load,
            stack=self.stack,
        )


@click.command(short_help="What a device does to transactions: throughput, response, restarts.")
@click.argument("source", type=Named("load", or_file=True))
@click.option("--on", "device", type=ANY_DEVICE, metavar="DEVICE", required=True, help=DEVICE_HELP)
@takes(ClientOptions, "clients")
@takes(TargetOptions, "on")
@takes(Output, "output")
def transactions(
    source: str, *, device: str, clients: ClientOptions, on: TargetOptions, output: Output
) -> None:
    """Play transactions of SOURCE on a device, each client one after the other without a pause, and
    measure what the clients see.

    SOURCE is a benchmark by its specification, `tpcc`, `tpcb` or `tatp`, whose database can have
    any size (`flashwright list load`), or a trace of page accesses. Each access locks its row or
    page, needs its page in the buffer pool, and a dirty victim is written before; a commit waits
    for the log. DEVICE is a simulated drive, a block device, a file, or `memory(bytes=4Gi)`; a
    block device or file needs --write. The database lies at the start of the region, the log behind
    it.

    \b
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
    """  # noqa: D205
    from flashwright import _core
    from flashwright.jobs.play import tables
    from flashwright.layering.known import NOTHING, facts_for
    from flashwright.reports import transactions as words
    from flashwright.transactions.plan import DIRECT, find
    from flashwright.transactions.play import play, title

    on.check(device)
    plan = clients.plan(on.seed)
    has_layers = plan.stack != DIRECT
    if has_layers:
        # Before a database is planned, or a trace read.
        _core.check_stack(plan.stack)
    elif clients.facts is not None:
        raise click.UsageError("--facts: it is of --stack")
    found = find(source, repeated=clients.repeat)
    target = on.target(device)
    known = facts_for(target, clients.facts or NOTHING, needed=has_layers)
    run, ended = play(source, found, target, replace(plan, seed=on.seed), known)
    if not output.is_only_json:
        print_table([("", "left"), ("", "right")], words.figures(run.result), title(run.result))
        print_table(words.KIND_HEADINGS, words.kind_rows(run.result), "Response times")
        if "replication" in run.result:
            rows = tables.copies_rows(run.result["replication"])
            print_table(tables.COPIES_HEADINGS, rows, tables.COPIES)
        if "layers" in run.result:
            print_table(words.LAYER_HEADINGS, words.layer_rows(run.result), "What layers did")
        for line in words.remarks(run.result):
            say(line)
    output.finish(run)
    if ended is not None:
        raise ended
