"""Claims of REPLICATION: He, Yu & Zhou, TPDS 2015."""

from __future__ import annotations

from experiments.book.claims import Chapter, Claim, Kind, NotTested, Rows, Topic
from experiments.book.readings import replication as read
from experiments.book.readings.replication import ARRAYS, COPIES, FILLED, OTHERS, REPLICAS
from experiments.drives.replicated import OCZ, X25E

DRIVE = "validate-drive"
SIMULATED = (
    f"of the drive's states, that of their simulator's extension judges: {FILLED}; what cleaning "
    "and locks do is not said in the paper (`docs/results/transactions.md`)"
)
LAYERED = (
    "the layer `replicas` over simulated drives of the paper's five models, scaled; their Mtron is "
    "a sister model"
)
APPENDIX = "the paper's supplementary file, which is not at hand"


def _ratio(letter: str, says: str, key: str, published: float) -> Claim:
    """Give a claim on a figure of the sustained drive beside the restored one."""
    return Claim(
        letter,
        says,
        Kind.NUMBER,
        read.ratio_rows(key, published),
        differs=SIMULATED,
        beside=tuple(read.ratio_rows(key, published, state) for state in OTHERS),
    )


def _copied(
    letter: str, says: str, kind: Kind, key: str, published: float, over: str = FILLED
) -> Claim:
    """Give a claim on a figure with copies beside the same drive without them, or restored."""
    return Claim(
        letter,
        says,
        kind,
        read.ratio_rows(key, published, COPIES, None if over == read.RESTORED else over),
        differs=SIMULATED,
    )


FIGURES_4_TO_6 = (
    Topic("figures 1 to 3", "The replication manager", remark="Drawings of the design."),
    Topic(
        "tables 1 and 2",
        "Notation and set-up",
        remark="Set-up: it is in the profile `replication-table-2`.",
    ),
    Topic(
        "figure 4",
        "Throughput and response of transactions",
        (
            _ratio("a", "Fragmentation lowers TPC-C's throughput.", "throughput", -71.0),
            _ratio("b", "Fragmentation raises its mean response.", "response", 100.0),
            Claim(
                "c", "All three benchmarks lose alike.", Kind.SHAPE, read.ALIKE, differs=SIMULATED
            ),
            _copied(
                "d", "Replication raises the throughput again.", Kind.NUMBER, "throughput", 176.0
            ),
            _copied(
                "e", "Replication lowers the mean response again.", Kind.NUMBER, "response", -59.0
            ),
            _copied(
                "f",
                "With replication the throughput is not far below the restored one.",
                Kind.NUMBER,
                "throughput",
                -26.0,
                read.RESTORED,
            ),
            _copied(
                "g",
                "With replication the response is not far above the restored one.",
                Kind.NUMBER,
                "response",
                25.0,
                read.RESTORED,
            ),
            _copied("h", "Replication helps: more throughput.", Kind.SIGN, "throughput", 176.0),
            _copied("i", "Replication helps: a shorter response.", Kind.SIGN, "response", -59.0),
        ),
        remark="With ten clients that never think, throughput times response is the number of "
        "clients (Little): the published changes contradict each other unless what is called "
        "response leaves something out. Nor do they multiply up: -71 % and +176 % make -20 %, and "
        "-26 % is printed.",
    ),
    Topic(
        "figure 5",
        "Busy chips",
        (
            Claim(
                "a",
                "Without replication chips are seldom busy with requests.",
                Kind.NUMBER,
                read.share_rows("busy", 14.0, FILLED),
                differs=SIMULATED,
            ),
            Claim(
                "b",
                "With replication they are busy for longer.",
                Kind.NUMBER,
                read.share_rows("busy", 33.0, COPIES),
                differs=f"{SIMULATED}; work for copies counts as internal here",
            ),
            Claim(
                "c",
                "Replication raises the busy share.",
                Kind.SIGN,
                read.BUSIER,
                differs=f"{SIMULATED}; work for copies counts as internal here",
            ),
        ),
    ),
    Topic(
        "figure 6",
        "Restarted transactions",
        (
            _ratio("a", "Fragmentation raises the number of restarts.", "restarts", 200.0),
            _copied("b", "Replication lowers it again.", Kind.NUMBER, "restarts", -50.0),
        ),
    ),
    Topic(
        "5.2",
        "Aging of the simulated drive",
        (
            Claim(
                "a",
                "Requests of a fragmented drive: throughput and response as of transactions.",
                Kind.NUMBER,
                Rows(DRIVE, "aging"),
                differs="of requests of a trace, not of transactions",
            ),
        ),
    ),
)

REAL_DRIVES = (
    Topic(
        "figure 7",
        "Response on real drives",
        (
            Claim(
                "a",
                "The mean response falls, on all drives and benchmarks.",
                Kind.NUMBER,
                read.response_rows("mean", -22.0, -14.0),
                differs=LAYERED,
            ),
            Claim(
                "b",
                "Replication shortens the mean response.",
                Kind.SIGN,
                read.response_rows("mean", -22.0, -14.0, sign=True),
                differs=LAYERED,
            ),
            Claim("c", "TPC-C on the Mtron gains most.", Kind.ORDER, read.LARGEST, differs=LAYERED),
            Claim(
                "d",
                "The worst 1 % of TPC-C gain.",
                Kind.NUMBER,
                read.response_rows("worst_percent_mean", -39.0, -20.0, only="TPC-C"),
                differs=LAYERED,
            ),
            Claim(
                "e",
                "The worst 1 % gain more than the mean.",
                Kind.ORDER,
                read.WORST,
                differs=LAYERED,
            ),
            Claim(
                "f", "Throughput improves similarly.", Kind.SIGN, read.THROUGHPUT, differs=LAYERED
            ),
        ),
        ((REPLICAS, "replication-7"),),
    ),
    Topic(
        "table 3",
        "I/Os of a call, Mtron",
        (
            Claim(
                "a",
                "Most RReads take one I/O.",
                Kind.NUMBER,
                read.table_3("rread", (80.2, 18.5, 1.3)),
                differs=LAYERED,
            ),
            Claim(
                "b",
                "About half of the RWrites take one I/O.",
                Kind.NUMBER,
                read.table_3("rwrite", (54.2, 39.9, 5.9)),
                differs=LAYERED,
            ),
        ),
    ),
    Topic(
        "5.3",
        "Costs of replication",
        (
            Claim(
                "a",
                "Extra accesses interfere little with normal ones on every chip.",
                Kind.NUMBER,
                read.INTERFERENCE,
                differs="on the simulated drive of figure 4, "
                "sustained by its own load; theirs is of real drives",
            ),
            Claim(
                "b",
                "Most groups have two replicas.",
                Kind.NUMBER,
                read.GROUPS,
                differs="on the simulated drive of figure 4; theirs is of the Mtron",
            ),
            Claim(
                "c",
                "The estimate of extra writes is close to the measured ones.",
                Kind.NUMBER,
                read.ESTIMATE,
                differs="on the simulated drive of figure 4",
            ),
            Claim(
                "d",
                "The manager takes little memory.",
                Kind.NUMBER,
                read.MEMORY,
                differs=f"{LAYERED}; counted on a smaller drive, and taken times its size",
            ),
        ),
    ),
    Topic(
        "table 4",
        "Extra writes",
        (
            *tuple(
                Claim(
                    letter,
                    f"{name}, {policy.upper()}: pages written more, by benchmark.",
                    Kind.NUMBER,
                    read.table_4(drive.profile, policy),
                    differs=LAYERED,
                )
                for letter, name, drive, policy in (
                    ("a", "X25-E", X25E, "lru"),
                    ("b", "X25-E", X25E, "pblru"),
                    ("c", "OCZ", OCZ, "lru"),
                    ("d", "OCZ", OCZ, "pblru"),
                )
            ),
            Claim(
                "e", "PBLRU always writes less than LRU.", Kind.ORDER, read.FEWER, differs=LAYERED
            ),
            Claim(
                "f",
                "Nearly all extra writes are caused by writes.",
                Kind.NUMBER,
                read.BY_WRITES,
                differs=LAYERED,
            ),
        ),
    ),
    Topic(
        "4.2.1",
        "Blocked accesses",
        (
            Claim(
                "a",
                "Reads are blocked less than writes.",
                Kind.ORDER,
                read.BLOCKED,
                differs=f"{LAYERED}; of accesses, where the paper has pages",
            ),
            Claim(
                "b",
                "The chance that a page's access is blocked is low.",
                Kind.NUMBER,
                read.OFTEN_BLOCKED,
                differs=LAYERED,
            ),
        ),
    ),
    Topic(
        "5.1",
        "Epochs of the idle thresholds",
        (
            Claim(
                "a",
                "Performance is stable for epochs of half a minute to five minutes.",
                Kind.SHAPE,
                read.EPOCHS,
                differs="on the simulated drive of figure 4, with 3 ms of the processor an access",
            ),
            Claim(
                "b",
                "The share of the recency region is a tuning parameter.",
                Kind.SHAPE,
                read.RECENCY,
                differs="on the simulated drive of figure 4; the bar is ours",
            ),
        ),
    ),
    Topic(
        "table 5",
        "CFLRU/E and replication, TPC-C on the OCZ",
        tuple(
            Claim(
                letter,
                f"{says}: throughput, response and writes beside neither.",
                Kind.NUMBER,
                read.table_5(name),
                differs=LAYERED,
            )
            for letter, says, name in (
                ("a", "Replication", "replication"),
                ("b", "CFLRU/E", "CFLRU/E"),
                ("c", "Both together", "CFLRU/E, replication"),
            )
        )
        + tuple(
            Claim(
                letter,
                f"{says}: each changes in the published direction.",
                Kind.SIGN,
                read.table_5_signs(name),
                differs=LAYERED,
            )
            for letter, says, name in (
                ("d", "Replication", "replication"),
                ("e", "CFLRU/E", "CFLRU/E"),
                ("f", "Both together", "CFLRU/E, replication"),
            )
        )
        + (
            Claim(
                "g",
                "Both together are best, then replication.",
                Kind.ORDER,
                read.TOGETHER,
                differs=LAYERED,
            ),
        ),
    ),
    Topic(
        "5.4",
        "Differential RAID",
        (
            Claim(
                "a",
                "Differential RAID is generally inferior to replication.",
                Kind.ORDER,
                read.INFERIOR,
                differs=f"four simulated drives; the set-up is in {APPENDIX}",
            ),
            Claim(
                "b",
                "Both together are often better.",
                Kind.ORDER,
                read.COMBINED,
                differs=f"four simulated drives; the set-up is in {APPENDIX}",
            ),
        ),
        ((ARRAYS, "diff-raid-transactions"),),
    ),
    Topic(
        "appendices A to D",
        "Motivation, more parameters",
        (
            Claim(
                "a",
                "Chips and reserve change the cost of fragmentation.",
                Kind.SHAPE,
                NotTested(
                    f"{APPENDIX}; our sweeps are the parts replication-chips and replication-spare"
                ),
            ),
        ),
    ),
)

CHAPTER = Chapter(
    "REPLICATION",
    "Improving Update-Intensive Workloads on Flash Disks through Multi-Chip Parallelism",
    "B. He, J. X. Yu, A. C. Zhou, TPDS 2015",
    (*FIGURES_4_TO_6, *REAL_DRIVES),
)
