"""Differential RAID beside none, replication and RAID 5, on arrays of simulated drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.drives import arrays as runs
from experiments.pages import change
from experiments.tables import Found, Options, TablePart, table_set
from flashwright import models
from flashwright._text import percent, short_time, significant


def _transactions(_: Options) -> Found:
    rows, documents = [], []
    for setting in runs.SETTINGS:
        alone = runs.play(runs.ARRAYS[0], setting)
        for array in runs.ARRAYS:
            found = runs.play(array, setting)
            rows.append([setting.name, array.name, *_cells(found, alone)])
            kept = ("transactions_per_second", "response_ns", "io_ns", "die_share", "flash")
            named = {name: found[name] for name in kept}
            documents.append({"setting": setting.name, "array": array.kind, **named})
    return rows, documents


def _cells(found: dict[str, Any], alone: dict[str, Any]) -> list[str]:
    response, before = found["response_ns"], alone["response_ns"]
    times = [
        short_time(found["io_ns"][kind][key])
        for kind in ("read", "write_back")
        for key in ("mean", "p99")
    ]
    shares = [percent(found["die_share"][cause]) for cause in ("host", "cleaning", "idle")]
    rate = found["transactions_per_second"] / alone["transactions_per_second"]
    return [
        significant(found["transactions_per_second"], 3),
        change(rate),
        short_time(response["mean"]),
        change(response["mean"] / before["mean"]),
        change(response["worst_percent_mean"] / before["worst_percent_mean"]),
        *times,
        *shares,
        significant(found["flash"]["page_programs"] / max(found["committed"], 1), 3),
    ]


def _list(numbers: Sequence[float]) -> str:
    return " / ".join(f"{number:.3f}" for number in numbers)


def _ages(_: Options) -> Found:
    rows, documents = [], []
    for share in runs.SHARES:
        found, rates = runs.lives(share), runs.rates(share)
        amplified = found["write_amplification"]
        worn = [rate * each for rate, each in zip(rates, amplified, strict=True)]
        last = found["replacements"][-1]
        converged, with_cleaning = models.converged_ages(rates), models.converged_ages(worn)
        moved = sum(one["moved_pages"] for one in found["replacements"])
        rows.append(
            [
                f"{share:g} %",
                _list(rates),
                _list(found["rates"]),
                _list(amplified),
                _list(converged),
                _list(with_cleaning),
                _list(last["ages"]),
                percent(moved / last["host_pages"]),
            ]
        )
        documents.append(
            {"share": share, "rates": rates, "converged": with_cleaning, "lives": found}
        )
    return rows, documents


def _losses(_: Options) -> Found:
    rows, documents = [], []
    for share in runs.SHARES:
        ages = [one["ages"] for one in runs.lives(share)["replacements"][-runs.LAST :]]
        losses = [runs.loss(one)[0] for one in ages]
        any_fails = [sum(runs.loss(one)) / len(one) for one in ages]
        worst = max(range(len(ages)), key=lambda number: losses[number])
        mean, of_any = (sum(each) / len(each) for each in (losses, any_fails))
        cells = [_list(ages[worst]), *map(_chance, (losses[worst], mean, of_any))]
        rows.append([f"{share:g} %", *cells])
        documents.append({"share": share, "ages": ages, "oldest": losses, "any": any_fails})
    return rows, documents


def _chance(share: float) -> str:
    return f"{share:.2g}"


PIECES = (
    TablePart(
        "diff-raid-transactions",
        "REPLICATION",
        "TPC-C on four drives: none, replication, RAID 5 and Differential RAID",
        (
            "state",
            "array",
            "transactions/s",
            "throughput",
            "response",
            "its change",
            "worst 1 %",
            "read mean",
            "read 99 %",
            "write-back mean",
            "write-back 99 %",
            "dies: host",
            "dies: cleaning",
            "dies: idle",
            "programs, each",
        ),
        _transactions,
        "Beside the same four drives striped without parity. The number is the percent of the "
        "parity that the oldest drive has. Programs: flash pages for each transaction, those of "
        "cleaning, copies and parity among them.",
    ),
    TablePart(
        "diff-raid-ages",
        "DIFF-RAID",
        "ages of four drives when one is replaced, the oldest first",
        (
            "parity on the oldest",
            "rates",
            "rates found",
            "write amplification",
            "ages, closed form",
            "with write amplification",
            "ages found",
            "pages moved",
        ),
        _ages,
        f"After {runs.REPLACEMENTS} replacements, at {runs.ERASE_LIMIT:g} erases of the mean erase "
        "block, random pages written. Rates: pages that a drive is given for each page of the "
        "host's. Ages are shares of the erase limit. Pages moved as parity does, beside the "
        "host's: at real limits of thousands of erases that share is as much smaller.",
    ),
    TablePart(
        "diff-raid-loss",
        "DIFF-RAID",
        "chance of a loss when a drive fails, at the time of a replacement",
        (
            "parity on the oldest",
            "ages at the worst of them",
            "the oldest fails then",
            "the oldest fails, mean",
            "any of them fails, mean",
        ),
        _losses,
        f"Of the ages found at the last {runs.LAST} replacements. The error rates, the code and "
        "the size of the drives are assumed: raw bit error rates of 1e-7 when new and 1e-5 at the "
        "limit, exponential between, four bits of 512 bytes corrected, 80 GB. The order says "
        "something, the numbers follow from these.",
    ),
)


SET = table_set(
    "figures-arrays",
    "Differential RAID beside RAID 5, replication and none on arrays of simulated drives",
    "minutes",
    PIECES,
)
