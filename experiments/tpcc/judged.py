"""What SCHEDULER says of its figures 5.5 to 5.12 and 7.2, beside what was measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from experiments.advice.judged import kendall_tau
from experiments.figures import scheduler
from experiments.registry import Outcome
from experiments.tpcc import cells
from experiments.tpcc.cells import CLEANING, DISK, IN_PLACE, INTEL, LOG, MTRON, OCZ, SSDS, Cell
from flashwright._text import significant

LIKE = 0.2
"""Our bar for rates that are nearly the same, as a share."""
HARDLY = 1.1
"""Our bar for what hardly differs: the ratio between both."""
FOLLOWS = 0.8
"""Our bar for an order that is followed: Kendall's tau."""
_YEAR_SECONDS = 365.25 * 86400
_INTEL_BYTES = 2e15
"""Random writes that Intel's drive of 64 GB takes (table 5.3)."""
_BLOCK = 64 << 10
AGAINST_SEQUENTIAL = "log: writes to the drive against sequential ones of 64 KiB"
FORM = {IN_PLACE: "in place", LOG: "log"}
SHORT = {DISK: "hard disk", MTRON: "Mtron", INTEL: "Intel", OCZ: "OCZ"}


@dataclass(frozen=True)
class Found:
    """What was measured, by cell."""

    of: Callable[[Cell], Mapping[str, Any]]

    def rate(self, cell: Cell) -> float:
        """Give transactions a second."""
        return float(self.of(cell)["transactions_per_second"])

    def io(self, cell: Cell, where: str, what: str) -> float:
        """Give a rate of I/O: `where` is logical or physical."""
        return float(self.of(cell)[where][what])

    def gain(self, cell: Cell) -> float:
        """Give transactions a second in a log over those in place."""
        in_place, log = cells.both(cell)
        return self.rate(log) / self.rate(in_place)


def _said(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {significant(value, 3)}" for name, value in values.items())


def _row(part: str, what: str, published: str, ours: str, agrees: bool) -> Outcome:
    number = part.removeprefix("scheduler-").removesuffix("-server")
    return Outcome(part, what, number.replace("-", " "), published, ours, agrees=agrees)


def by_drive(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.5."""
    rates = {one: found.rate(one) for one in cells.by_drive()}
    words = {f"{SHORT[one.drive]} {FORM[one.stack]}": rate for one, rate in rates.items()}
    disk = max(rate for one, rate in rates.items() if one.drive == DISK)
    least = min(rate for one, rate in rates.items() if one.drive != DISK)
    yield _row(
        part, "transactions/s", "more on SSDs than on the hard disk", _said(words), least > disk
    )
    gains = {drive: found.gain(Cell(drive)) for drive in SSDS}
    words = {SHORT[drive]: gain for drive, gain in gains.items()}
    mtron = {SHORT[MTRON]: words.pop(SHORT[MTRON])}
    yield _row(
        part, "Mtron: log over in place", "more in the log", _said(mtron), gains[MTRON] > HARDLY
    )
    others = max(gains[INTEL], gains[OCZ])
    yield _row(
        part,
        "Intel, OCZ: log over in place",
        "no clear advantage of the log",
        _said(words),
        others <= HARDLY,
    )


def by_layer(part: str, found: Found) -> Iterator[Outcome]:
    """Figures 5.6 and 5.7."""
    all_cells = list(cells.by_drive())

    def asked(one: Cell, where: str, *ops: str) -> float:
        return sum(found.io(one, where, f"{op}_bytes") for op in ops)

    tau = kendall_tau(
        [(found.rate(one), asked(one, "logical", "read", "write")) for one in all_cells]
    )
    yield _row(
        part,
        "order of transactions/s and of logical bytes/s",
        "transactions follow the logical throughput",
        f"Kendall's tau {tau:.2f} of {len(all_cells)}",
        tau >= FOLLOWS,
    )
    reads = [asked(one, "logical", "read") / asked(one, "logical", "write") for one in all_cells]
    yield _row(
        part,
        "logical: reads over writes, bytes",
        "more reads",
        _range(reads),
        min(reads) > 1,
    )
    writes = [asked(one, "physical", "write") / asked(one, "physical", "read") for one in all_cells]
    yield _row(
        part, "physical: writes over reads, bytes", "more writes", _range(writes), min(writes) > 1
    )
    for stack, what, published, holds in (
        (IN_PLACE, "in place", "nearly the same", lambda one: abs(one - 1) <= LIKE),
        (LOG, "in a log", "more than the database asks for", lambda one: one > 1),
    ):
        ratios = [
            asked(one, "physical", "write") / asked(one, "logical", "write")
            for one in all_cells
            if one.stack == stack
        ]
        yield _row(
            part,
            f"{what}: physical over logical writes, bytes",
            published,
            _range(ratios),
            all(map(holds, ratios)),
        )


def _range(values: Sequence[float]) -> str:
    return f"{significant(min(values), 3)} to {significant(max(values), 3)}"


def by_size(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.8."""

    def size(one: Cell) -> float:
        return found.io(one, "physical", "write_bytes") / found.io(one, "physical", "writes")

    sizes = {drive: tuple(map(size, cells.both(Cell(drive)))) for drive in (DISK, *SSDS)}
    words = ", ".join(
        f"{SHORT[drive]} {log / 1024:.1f} KiB and {in_place / 1024:.1f}"
        for drive, (in_place, log) in sizes.items()
    )
    yield _row(
        part,
        "mean write to the drive: log and in place",
        "larger in the log",
        words,
        all(log > in_place for in_place, log in sizes.values()),
    )


def by_cleaning(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.9. Ours cleans when it runs out of room, so spare space says how often."""
    shares = {
        drive: [found.rate(Cell(drive, stack)) / found.rate(Cell(drive, LOG)) for stack in CLEANING]
        for drive in (MTRON, INTEL)
    }
    words = "; ".join(
        f"{SHORT[drive]} " + ", ".join(f"{share:.2f}" for share in own)
        for drive, own in shares.items()
    )
    falls = all(before > after for own in shares.values() for before, after in pairwise(own))
    yield _row(
        part,
        "transactions/s with a log that never cleans, and with one of 28 % and 10 % spare space",
        "the more often, the fewer",
        words,
        falls,
    )
    yield _row(
        part,
        "what is left of it with 10 %",
        "less on the Mtron than on the Intel",
        f"{shares[MTRON][-1]:.2f} and {shares[INTEL][-1]:.2f}",
        shares[MTRON][-1] < shares[INTEL][-1],
    )


def by_buffer(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.10."""
    of = {buffer: Cell(MTRON, buffer=buffer) for buffer in cells.BUFFERS}
    for stack in cells.FORMS:
        rates = {buffer: found.rate(cells.both(one)[stack == LOG]) for buffer, one in of.items()}
        grows = all(after > before for before, after in pairwise(rates.values()))
        yield _row(
            part, f"{FORM[stack]}: transactions/s by buffer", "more with more", _said(rates), grows
        )
    gains = {buffer: found.gain(one) for buffer, one in of.items()}
    first, *_, last = gains.values()
    yield _row(part, "log over in place", "less with more buffer", _said(gains), last < first)


def by_mix(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.11."""
    of = {mix: Cell(MTRON, mix=mix) for mix in cells.MIXES}
    for stack in cells.FORMS:
        rates = {mix: found.rate(cells.both(one)[stack == LOG]) for mix, one in of.items()}
        reading, *others = rates.values()
        yield _row(
            part,
            f"{FORM[stack]}: transactions/s by mix",
            "most if read-intensive",
            _said(rates),
            reading > max(others),
        )
    gains = {mix: found.gain(one) for mix, one in of.items()}
    reading, _, writing = gains.values()
    yield _row(
        part, "log over in place", "more if write-intensive", _said(gains), writing > reading
    )


def by_scheduler(part: str, found: Found) -> Iterator[Outcome]:
    """Figure 5.12."""
    rates = {one.scheduler: found.rate(one) for one in cells.by_scheduler()}
    yield _row(
        part,
        "transactions/s by the kernel's scheduler",
        "hardly matters",
        _said(rates),
        max(rates.values()) <= HARDLY * min(rates.values()),
    )


def of_life(part: str, found: Found) -> Iterator[Outcome]:
    """Table 5.4, beside its commercial database: the written amount over the rate, as there."""
    for one, published in zip(cells.of_life(), (5.47, 2.32), strict=True):
        rate = found.io(one, "physical", "write_bytes")
        years = _INTEL_BYTES / rate / _YEAR_SECONDS
        what = f"{FORM[one.stack]}: 2 PB at the rate of the run, day and night"
        yield Outcome(part, what, "table 5.4", published, years, "years", tolerance=LIKE)


def with_large_buffer(part: str, found: Found) -> Iterator[Outcome]:
    """Figures 7.2 and 7.3."""
    in_place, log = cells.with_large_buffer()
    rate = found.io(log, "physical", "write_bytes") / 1e6
    most = scheduler.at(MTRON, "sequential", 1, "write", _BLOCK)
    rates = {FORM[one.stack]: found.rate(one) for one in (in_place, log)}
    yield _row(
        part,
        AGAINST_SEQUENTIAL,
        "far below",
        f"{rate:.1f} MB/s against {most:.0f}; transactions/s: {_said(rates)}",
        rate < most / 2,
    )
