"""Claims of SCHEDULER, chapters 5 to 8: TPC-C on SSDs, and the scheduler."""

from __future__ import annotations

from experiments.book.claims import Claim, Kind, NotTested, Rows, Topic
from experiments.book.readings import charts
from experiments.book.readings.charts import LAYERS

TPCC = "figures-tpcc"
SYSTEM = (
    "PostgreSQL in place of a commercial database and MySQL, on emulated drives; this kernel has "
    "no nilfs2: a log-structured volume below ext2, which does not clean, stands for it"
)
TRACES = (
    "the traces are ours, of PostgreSQL on a faster device, all times a sixth of the paper's "
    "(`experiments/data/README.md`); the paper's were not published"
)
MERGED = f"{TRACES}; only overlaps are merged, and `join=no` was chosen after results were seen"
LOG = "a log-structured volume that defers nothing, below a raw device, stands for nilfs2"


def _layer(number: str, what: str = "*") -> Rows:
    return Rows(LAYERS, f"scheduler-{number}", what)


def _drawn(*numbers: str) -> tuple[tuple[str, str], ...]:
    return tuple((LAYERS, f"scheduler-{number}") for number in numbers)


def _tpcc(number: str, what: str) -> Rows:
    return Rows(TPCC, f"scheduler-{number}-server", what)


def _run(place: str, number: str, title: str, *claims: tuple[str, str, str | NotTested]) -> Topic:
    """Give a topic that TPC-C is run for: letter, sentence, and pattern of the rows of each."""
    return Topic(
        place,
        title,
        tuple(
            Claim(
                letter,
                says,
                Kind.ORDER,
                _tpcc(number, by) if isinstance(by, str) else by,
                differs=SYSTEM if isinstance(by, str) else "",
            )
            for letter, says, by in claims
        ),
        ((TPCC, f"scheduler-{number}-server"),),
    )


_BY_A_CLOCK = NotTested(
    "nilfs2, whose cleaner runs by a clock: it is not in this kernel, and our log cleans when it "
    "runs out of room"
)

CHAPTER_5 = (
    Topic("figures 5.1 to 5.4", "TPC-C and the system", remark="Drawings of the set-up."),
    Topic("tables 5.1 and 5.2", "Transactions and databases", remark="Set-up."),
    _run(
        "figure 5.5",
        "5.5",
        "Transactions by drive, file system and database",
        ("a", "SSDs have more transactions than the hard disk.", "transactions/s"),
        ("b", "On the Mtron nilfs2 has more than ext2 with the commercial database.", "Mtron: *"),
        ("c", "On Intel's and OCZ's drives nilfs2 has no clear advantage.", "Intel, OCZ: *"),
    ),
    _run(
        "figures 5.6 and 5.7",
        "5.6-5.7",
        "Logical and physical I/O",
        ("a", "Transactions follow the logical throughput.", "order of *"),
        (
            "b",
            "Logical reads are more than writes; physical writes are more than reads.",
            "*al: *s over *s, bytes",
        ),
        ("c", "On ext2 logical and physical writes are nearly the same.", "in place: *"),
        ("d", "nilfs2 writes more than the database asks for.", "in a log: *"),
    ),
    _run(
        "figure 5.8",
        "5.8",
        "Average sizes",
        ("a", "Writes of nilfs2 are larger than ext2's.", "mean write *"),
    ),
    _run(
        "figure 5.9",
        "5.9",
        "Cleaning in nilfs2",
        ("a", "The more often nilfs2 cleans, the fewer transactions.", "transactions/s with *"),
        ("b", "Cleaning every 10 s costs a little (0.77 to 10.44 %).", _BY_A_CLOCK),
        ("c", "Cleaning every second costs much (17.51 to 38.83 %).", _BY_A_CLOCK),
        ("d", "The Mtron is more sensitive than the Intel.", "what is left *"),
    ),
    _run(
        "figure 5.10",
        "5.10",
        "Buffer of the database",
        ("a", "More buffer means more transactions.", "*: transactions/s by buffer"),
        ("b", "The advantage of nilfs2 falls with it.", "log over in place"),
    ),
    _run(
        "figure 5.11",
        "5.11",
        "Mixes of transactions",
        ("a", "Read-intensive mixes have more transactions.", "*: transactions/s by mix"),
        ("b", "nilfs2 gains more with write-intensive mixes.", "log over in place"),
    ),
    _run(
        "figure 5.12",
        "5.12",
        "Schedulers of the kernel",
        ("a", "The kernel's I/O scheduler hardly matters.", "transactions/s by *"),
    ),
    Topic("table 5.3", "Reliability", remark="Data sheets: nothing is concluded from them alone."),
    Topic(
        "table 5.4",
        "Life of the Intel drive",
        (
            Claim(
                "a",
                "At the measured rates the drive lasts for a few years.",
                Kind.NUMBER,
                _tpcc("table-5.4", "*"),
                differs=SYSTEM,
            ),
        ),
    ),
)

STATIC = (
    Topic("figures 6.1 to 6.8", "The scheduler", remark="Drawings of the design."),
    Topic("tables 7.1 and 7.2", "Set-up and combinations", remark="Set-up."),
    Topic("figure 7.1", "The scheduler under TPC-C", remark="A drawing of the set-up."),
    _run(
        "figures 7.2 and 7.3",
        "7.2-7.3",
        "Transactions and throughput of raw device, ext2 and nilfs2",
        ("a", "nilfs2's throughput is far below sequential writes of the drive.", "log: *"),
    ),
    Topic(
        "figure 7.4",
        "I/O time of the traces",
        (
            Claim(
                "a",
                "Writes are the main part of the time.",
                Kind.SHAPE,
                charts.writes_dominate("scheduler-7.4"),
                differs=TRACES,
            ),
            Claim(
                "b",
                "A log-structured file system takes a fifth of the write time (7.3.3).",
                Kind.NUMBER,
                _layer("7.4", "*against in-place"),
                differs=f"{TRACES}; {LOG}",
            ),
            Claim(
                "d",
                "It gains less than deferring and converting: its writes are among reads (7.3.3).",
                Kind.SHAPE,
                _layer("7.4", "*against deferring and converting"),
                differs=f"{TRACES}; {LOG}",
            ),
            Claim(
                "c",
                "The sum of all times is close to the time of the trace: the system is I/O bound.",
                Kind.NUMBER,
                NotTested(
                    "a trace that was recorded on the drive itself: ours is of a faster device, so "
                    "its time says nothing of the Mtron"
                ),
                published="very close to 600 s",
            ),
        ),
        _drawn("7.4"),
    ),
    Topic(
        "figure 7.5",
        "Sum of the response times",
        (
            Claim(
                "a",
                "It is close to the time of the trace at every interval.",
                Kind.SHAPE,
                _layer("7.5"),
                differs=TRACES,
            ),
        ),
        _drawn("7.5"),
    ),
    Topic(
        "figure 7.6",
        "Deferring",
        (
            Claim(
                "a",
                "Deferred random writes take longer than direct ones.",
                Kind.SHAPE,
                _layer("7.6"),
                differs=TRACES,
            ),
        ),
        _drawn("7.6"),
    ),
    Topic(
        "figure 7.7",
        "Deferring and coalescing",
        (
            Claim(
                "a",
                "Coalescing gains over deferring.",
                Kind.NUMBER,
                _layer("7.7", "coalescing over *"),
                differs=MERGED,
            ),
            Claim(
                "b",
                "The longer the interval, the more it gains.",
                Kind.SHAPE,
                _layer("7.7", "coalescing by *"),
                differs=MERGED,
            ),
        ),
        _drawn("7.7"),
    ),
    *(
        Topic(
            f"figure 7.{number}",
            title,
            (Claim("a", says, Kind.NUMBER, _layer(f"7.{number}", "*over*"), differs=MERGED),),
            _drawn(f"7.{number}"),
        )
        for number, title, says in (
            (8, "Deferring and converting", "Converting gains by far most."),
            (9, "Deferring, coalescing and converting", "Coalescing gains over that."),
            (10, "Deferring, converting and aligning", "Aligning gains over converting."),
            (11, "All four", "Coalescing gains over aligning."),
        )
    ),
    Topic(
        "figure 7.12",
        "Total improvement",
        (
            Claim(
                "a",
                "All four together gain over direct writes.",
                Kind.NUMBER,
                _layer("7.12", "all four over direct: *"),
                differs=MERGED,
            ),
        ),
        _drawn("7.12"),
    ),
    Topic(
        "figure 7.13",
        "Reads when writes are deferred",
        (
            Claim(
                "a",
                "Reads get faster by this.",
                Kind.NUMBER,
                _layer("7.13"),
                differs=TRACES,
            ),
            Claim("b", "Reads get faster.", Kind.SIGN, _layer("7.13"), differs=TRACES),
        ),
        _drawn("7.13"),
    ),
    Topic(
        "7.3.2",
        "Findings",
        (
            Claim(
                "a",
                "Converting alone, as a log-structured file system does, is not best.",
                Kind.SIGN,
                (_layer("7.9"), _layer("7.10"), _layer("7.11")),
                differs=MERGED,
            ),
        ),
    ),
)


def _online(first: int, *, waits: bool) -> tuple[Topic, ...]:
    """Figures 7.14 to 7.17 without I/O waiting, or 7.18 to 7.21 with it."""
    words = "with I/O waiting" if waits else "without I/O waiting"
    limit, limit_zoomed, buffer, buffer_zoomed = (f"7.{first + step}" for step in range(4))
    similar = " The same with waiting." if waits else ""
    return (
        Topic(
            f"figure {limit}",
            f"Limits of the checkpoint's flush, {words}",
            (
                Claim(
                    "a",
                    f"Without converting, the time grows with the limit.{similar}",
                    Kind.SHAPE,
                    _layer(limit),
                    differs=TRACES,
                ),
            ),
            _drawn(limit),
        ),
        Topic(
            f"figure {limit_zoomed}",
            f"The same, converting, {words}",
            (
                Claim(
                    "a",
                    f"Performance is not very sensitive to the limit.{similar}",
                    Kind.SHAPE,
                    _layer(limit_zoomed),
                    differs=TRACES,
                ),
            ),
            _drawn(limit_zoomed),
        ),
        Topic(
            f"figure {buffer}",
            f"Limits of the buffer, {words}",
            (
                Claim(
                    "a",
                    f"Without converting, the time grows with the limit.{similar}",
                    Kind.SHAPE,
                    _layer(buffer),
                    differs=f"{TRACES}; the paper's limits are in the images alone",
                ),
            ),
            _drawn(buffer),
        ),
        Topic(
            f"figure {buffer_zoomed}",
            f"The same, converting, {words}",
            (
                Claim(
                    "a",
                    f"All four take slightly less time with more buffer.{similar}",
                    Kind.SHAPE,
                    _layer(buffer_zoomed, "all four *"),
                    differs=TRACES,
                ),
                Claim(
                    "b",
                    f"Small resources do: the buffer hardly matters when converting.{similar}",
                    Kind.SHAPE,
                    _layer(buffer_zoomed, "converting *"),
                    differs=TRACES,
                ),
                Claim(
                    "c",
                    f"Coalescing gains little even with a large buffer.{similar}",
                    Kind.SHAPE,
                    charts.hardly_coalesces(f"scheduler-{buffer_zoomed}"),
                    differs=MERGED,
                ),
            ),
            _drawn(buffer_zoomed),
        ),
    )


ONLINE = (
    *_online(14, waits=False),
    *_online(18, waits=True),
    Topic(
        "8.1",
        "Conclusions",
        (
            Claim(
                "a",
                "All four together almost reach the optimal performance.",
                Kind.NUMBER,
                NotTested("the optimal performance: the paper gives no number of it"),
                published="almost",
            ),
        ),
    ),
    Topic("figure 8.1", "Where the scheduler may lie", remark="A drawing of options."),
)
TOPICS = (*CHAPTER_5, *STATIC, *ONLINE)
