"""Placement policies within modern drives, as transactions see them."""

from __future__ import annotations

from typing import Any

from experiments.drives import placements as runs
from experiments.pages import change
from experiments.tables import Found, Options, TablePart, table_set
from flashwright._text import percent, short_time, significant


def _transactions(_: Options) -> Found:
    rows, documents = [], []
    for name in runs.DRIVES:
        alone = runs.play(name, runs.POLICIES[0])
        for policy in runs.POLICIES:
            found = runs.play(name, policy)
            spare = percent(runs.over_provisioning(name))
            rows.append([name, spare, policy, *_cells(found, alone)])
            kept = (
                *("transactions_per_second", "response_ns", "io_ns", "die_share", "flash"),
                "steady",
            )
            documents.append(
                {"drive": name, "placement": policy, **{key: found[key] for key in kept}}
            )
    return rows, documents


def _cells(found: dict[str, Any], alone: dict[str, Any]) -> list[str]:
    rate = found["transactions_per_second"]
    return [
        f"{runs.programmed(found):.2f}",
        significant(rate, 3),
        change(rate / alone["transactions_per_second"]),
        short_time(found["response_ns"]["mean"]),
        short_time(found["response_ns"]["p99"]),
        short_time(found["io_ns"]["read"]["p99"]),
        short_time(found["io_ns"]["write_back"]["p99"]),
        percent(found["die_share"]["cleaning"]),
        {True: "yes", False: "no", None: "too short"}[found["steady"]],
    ]


PIECES = (
    TablePart(
        "placement-drives-tpcc",
        "",
        "TPC-C on modern drives, by placement policy",
        (
            "drive",
            "spare space",
            "placement",
            "programmed a byte",
            "transactions/s",
            "to none",
            "response",
            "its 99 %",
            "read 99 %",
            "write-back 99 %",
            "dies: cleaning",
            "steady",
        ),
        _transactions,
        f"`{runs.DATABASE}`, 32 clients without a pause, a pool of {runs.FULL.pool_pages:,} "
        f"pages, a log that is flushed at each commit; the drive filled, {runs.FULL.warm_up:,} "
        f"transactions before, {runs.FULL.measured:,} measured. Programmed: bytes of flash pages "
        "for each byte that was written back; the log's pages are in it.",
    ),
)


SET = table_set(
    "placement-drives",
    "placement policies within modern drives, as transactions see them",
    "half an hour",
    PIECES,
)
