"""Claims of SCHEDULER: Wang, PhD thesis, Tokyo 2010. Chapter 4 is here, the others are beside."""

from __future__ import annotations

from experiments.book.claims import Chapter, Claim, Kind, Rows, Topic
from experiments.book.readings import charts
from experiments.book.readings.charts import PROBER
from experiments.book.scheduler_database import TOPICS

DRIVE = "validate-drive"
SHEETS = "the data sheet and 4.3.1 are among the sources of the profile"
TABLE_2_3 = "table 2.3 is among the sources of the profile"
DRIVES = {"Mtron": 0, "Intel": 1, "OCZ": 2}
"""Place of a drive among three figures that follow each other."""


def _probed(number: str, what: str = "*") -> Rows:
    """Give rows of a figure of chapter 4."""
    return Rows(PROBER, f"scheduler-{number}", what)


def _point(what: str) -> Rows:
    return Rows(DRIVE, "equations", what)


def _drawn(number: str) -> tuple[tuple[str, str], ...]:
    return ((PROBER, f"scheduler-{number}"),)


def _of(first: int, drive: str) -> str:
    """Give the number of a drive's figure: the three of a kind follow each other."""
    return f"4.{first + DRIVES[drive]}"


def _disk(number: str, title: str, says: str) -> Topic:
    claim = Claim(
        "a",
        says,
        Kind.ORDER,
        _probed(number),
        differs="a desktop's disk of that time, of which nothing was fitted; the bars are ours",
    )
    return Topic(f"figure {number}", title, (claim,), _drawn(number))


SEQUENTIAL = (
    _disk("4.3", "Sequential access, hard disk", "SSDs have more throughput in most cases."),
    Topic(
        "figure 4.4",
        "Sequential access, Mtron",
        (
            Claim(
                "a",
                "Reads and writes saturate at the same bandwidth.",
                Kind.NUMBER,
                _probed("4.4"),
                basis=f"fitted: {SHEETS}",
            ),
        ),
        _drawn("4.4"),
    ),
    Topic(
        "figure 4.5",
        "Sequential access, Intel",
        (
            Claim(
                "a",
                "At 1 MB the bandwidths of the data sheet are confirmed.",
                Kind.NUMBER,
                _probed("4.5", "Intel: sequential *"),
                basis=f"derived: {TABLE_2_3}",
            ),
            Claim(
                "b",
                "Writes get slower beyond 32 KB.",
                Kind.SHAPE,
                _probed("4.5", "Intel: writes by size"),
            ),
            Claim(
                "c",
                "Reads and writes are much faster than the Mtron's.",
                Kind.ORDER,
                tuple(
                    charts.highest(
                        {"Mtron": "scheduler-4.4", "Intel": "scheduler-4.5"},
                        line,
                        "Intel much higher",
                        "Intel",
                        None,
                    )
                    for line in ("read", "write")
                ),
            ),
        ),
        _drawn("4.5"),
    ),
    Topic(
        "figure 4.6",
        "Sequential access, OCZ",
        (
            Claim(
                "a",
                "Both bandwidths are lower than those of the data sheet.",
                Kind.SHAPE,
                _probed("4.6"),
            ),
            Claim(
                "b",
                "Its writes are the slowest of the three.",
                Kind.ORDER,
                charts.highest(
                    {drive: f"scheduler-{_of(4, drive)}" for drive in DRIVES},
                    "write",
                    "OCZ the worst",
                    None,
                    "OCZ",
                ),
            ),
        ),
        _drawn("4.6"),
    ),
)


def _random(drive: str) -> Topic:
    """Figures 4.8 to 4.10."""
    number = _of(8, drive)
    worse = "clearly better than on a hard disk" if drive == "Intel" else "drastically degraded"
    claims = [
        Claim(
            "a",
            "Random reads are as fast as sequential ones.",
            Kind.SHAPE,
            charts.same_reads(drive, f"scheduler-{_of(4, drive)}", f"scheduler-{number}"),
        ),
        Claim(
            "b",
            f"Random writes are {worse}.",
            Kind.SHAPE,
            _probed(number, f"{drive}: random writes *"),
            basis="" if drive == "Intel" else f"fitted: {SHEETS}",
        ),
        Claim(
            "c",
            "Half reads and half writes are about as slow as writes alone.",
            Kind.SHAPE,
            _probed(number, f"{drive}: half reads *"),
        ),
    ]
    if drive == "Mtron":
        claims.append(
            Claim(
                "d",
                "The data sheet's 4 KB random requests a second (table 2.3).",
                Kind.NUMBER,
                _probed(number, "Mtron: 4 KB random *, single thread"),
                basis=f"fitted: {TABLE_2_3}",
            )
        )
    return Topic(
        f"figure {number}",
        f"Random access, one thread, {drive}",
        tuple(claims),
        _drawn(number),
    )


def _thirty(drive: str) -> Topic:
    """Figures 4.12 to 4.14."""
    number = _of(12, drive)
    gain = "do not gain clearly" if drive == "Mtron" else "gain clearly"
    claims = [
        Claim(
            "a",
            f"Reads {gain} by thirty threads.",
            Kind.SHAPE,
            _probed(number, f"{drive}: 4 KB random reads"),
            basis=f"fitted: {SHEETS}" if drive in ("Mtron", "OCZ") else "",
        ),
        Claim(
            "b",
            "Writes and mixes gain nothing significant by threads.",
            Kind.SHAPE,
            charts.writes_do_not_gain(drive, f"scheduler-{_of(8, drive)}", f"scheduler-{number}"),
        ),
    ]
    if drive == "Intel":
        claims.append(
            Claim(
                "c",
                "The data sheet's 4 KB random requests a second (table 2.3).",
                Kind.NUMBER,
                (
                    _probed(number, "Intel: 4 KB random *, thirty threads"),
                    Rows(DRIVE, "sustained", "random writes of 4 KB*"),
                ),
                differs="the profile is SSD-S of PARALLELISM, on a drive filled in order",
                beside=(_probed(number, "Intel: the same on a drive *"),),
            )
        )
    return Topic(
        f"figure {number}",
        f"Random access, thirty threads, {drive}",
        tuple(claims),
        _drawn(number),
    )


def _times(drive: str) -> Topic:
    """Figures 4.16 to 4.18."""
    number = _of(16, drive)
    cliffs = "two cliffs" if drive == "Mtron" else "several cliffs"
    claims = [
        Claim(
            "a",
            "Random reads have a single sharp cliff.",
            Kind.SHAPE,
            _probed(number, "*: cliffs of 4 KB random reads"),
        ),
        Claim(
            "b",
            f"Random writes have {cliffs}.",
            Kind.SHAPE,
            _probed(number, "*: cliffs of 4 KB random writes"),
        ),
    ]
    if drive == "Mtron":
        claims.append(
            Claim(
                "c",
                "They are at about 100 us and 10 ms.",
                Kind.SHAPE,
                _probed(number, "*: cliffs of 4 KB random writes are at"),
                basis="derived: eq. 4.4, to which the profile was fitted, fixes their mean",
            )
        )
    if drive == "OCZ":
        claims.append(
            Claim(
                "c",
                "Reads of the three drives take times that are close to each other.",
                Kind.SHAPE,
                charts.like_read_times({one: f"scheduler-{_of(16, one)}" for one in DRIVES}),
            )
        )
    return Topic(f"figure {number}", f"Response times, {drive}", tuple(claims), _drawn(number))


def _mix(first: int, access: str, drive: str) -> Topic:
    """Figures 4.20 to 4.22, and 4.26 to 4.28."""
    number = _of(first, drive)
    is_tub = access == "sequential" or drive != "Intel"
    says = "is better at either side" if is_tub else "is not better at either side"
    claims = [
        Claim(
            "a",
            f"The throughput of a {access} mix {says}.",
            Kind.SHAPE,
            _probed(number, f"{drive}: throughput of *"),
            basis="rests on `turnaround_us`, which was put in for it"
            if drive == "Mtron" and access == "sequential"
            else "",
        ),
    ]
    if access == "sequential":
        claims.append(
            Claim(
                "b",
                "It is worst at half reads and half writes.",
                Kind.SHAPE,
                _probed(number, f"{drive}: a sequential mix is worst"),
            )
        )
    return Topic(
        f"figure {number}",
        f"Throughput of a {access} mix, {drive}",
        tuple(claims),
        _drawn(number),
    )


def _mix_times(first: int, access: str, drive: str) -> Topic:
    """Figures 4.23 to 4.25, and 4.29 to 4.31."""
    number = _of(first, drive)
    claim = Claim(
        "a",
        "Reads get slower among writes, writes faster the more reads there are.",
        Kind.SHAPE,
        _probed(number),
    )
    return Topic(
        f"figure {number}",
        f"Response times of a {access} mix, {drive}",
        (claim,),
        _drawn(number),
    )


BELTS = Topic(
    "figure 4.19",
    "Each random write, Mtron",
    (
        Claim(
            "a",
            "Two belts: most writes below 100 us, the others at 10 to 30 ms.",
            Kind.SHAPE,
            _probed("4.19"),
            basis="derived: eq. 4.4, to which the profile was fitted, fixes "
            "their mean; the belts are those of a small buffer over merges",
        ),
    ),
    _drawn("4.19"),
)

EQUATIONS = Topic(
    "figure 4.32",
    "Equations 4.1 to 4.4, Mtron",
    (
        *tuple(
            Claim(
                letter,
                f"Eq. {number}: one line for {words}s.",
                Kind.NUMBER,
                (_probed("4.32", f"Mtron: {words}, one line: *"), _point(f"{words}, *")),
            )
            for letter, number, words in (
                ("a", "4.1", "sequential read"),
                ("b", "4.2", "random read"),
                ("c", "4.3", "sequential write"),
            )
        ),
        Claim(
            "d",
            "Eq. 4.4: random writes, in three pieces.",
            Kind.NUMBER,
            (_probed("4.32", "Mtron: random write, *"), _point("random write, *")),
        ),
        Claim(
            "e",
            "One line fits sequential reads, random reads and sequential writes well.",
            Kind.SHAPE,
            (
                _probed("4.32", "Mtron: sequential * by size"),
                _probed("4.32", "Mtron: random reads by size"),
            ),
            basis="fitted",
        ),
        Claim(
            "f",
            "Random writes are hard to fit.",
            Kind.SHAPE,
            (
                _probed("4.32", "Mtron: random writes by size"),
                _probed("4.32", "Mtron: pieces of random writes *"),
            ),
            basis="fitted",
        ),
    ),
    _drawn("4.32"),
)

CHAPTER_4 = (
    Topic("tables 2.1 to 2.3", "Flash and drives", remark="Set-up and data sheets; what figures of "
          "chapter 4 confirm of table 2.3 stands there."),
    Topic("figures 4.1 and 4.2", "Set-up", remark="Drawings of the measurement system."),
    *SEQUENTIAL,
    _disk("4.7", "Random access, hard disk", "SSDs have far more read throughput."),
    *map(_random, DRIVES),
    _disk("4.11", "Random access, thirty threads, hard disk", "Reads gain clearly by threads."),
    *map(_thirty, DRIVES),
    _disk("4.15", "Response times, hard disk", "No small variance as in SSDs."),
    *map(_times, DRIVES),
    BELTS,
    *(_mix(20, "sequential", drive) for drive in DRIVES),
    *(_mix_times(23, "sequential", drive) for drive in DRIVES),
    *(_mix(26, "random", drive) for drive in DRIVES),
    *(_mix_times(29, "random", drive) for drive in DRIVES),
    EQUATIONS,
)  # fmt: skip

CHAPTER = Chapter(
    "SCHEDULER",
    "Research on High Performance Database Management Systems with Solid State Disks",
    "Y. Wang, PhD thesis, University of Tokyo 2010",
    (*CHAPTER_4, *TOPICS),
)
