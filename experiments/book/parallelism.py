"""Claims of PARALLELISM: Chen, Lee & Zhang, HPCA 2011."""

from __future__ import annotations

from experiments.book.claims import Chapter, Claim, Kind, Rows, Topic
from experiments.book.readings import charts
from experiments.book.readings.charts import PROBER

DRIVE = "validate-drive"
SET_UP = "SSD-S and SSD-M are simulated drives, `intel-x25e` and `intel-x25m`"
BUILT_IN = "built into the profile; the prober finds it from outside"
PLAYED = (
    "played in virtual time at scale factor 1, where the paper has a server and 5; the disk is the "
    "curves that the prober measures of it"
)

MEASURED = (
    "PostgreSQL 15 over the emulated drive; the processor is this machine's, so that a scan alone "
    "keeps the drive busy. Beside it: the same played in virtual time at scale factor 1"
)


def _found(part: str, what: str = "*") -> Rows:
    """Give rows of a figure by the prober."""
    return Rows(PROBER, f"parallelism-{part}", what)


def _measured(figure: int, what: str) -> Rows:
    """Give rows of queries on a server."""
    return Rows("figures-queries", f"parallelism-{figure}", what)


def _played(figure: int, what: str) -> Rows:
    """Give rows of queries that were played in virtual time."""
    return Rows("figures-queries", f"parallelism-{figure}-played", what)


def _point(what: str) -> Rows:
    """Give a row of the validation of the drive: it tells what the profile was fitted to."""
    return Rows(DRIVE, "parallelism", what)


def _charts(*parts: str) -> tuple[tuple[str, str], ...]:
    return tuple((PROBER, f"parallelism-{part}") for part in parts)


INSIDE = (
    Topic("figure 1", "An SSD", remark="A drawing of the architecture."),
    Topic("table 1", "Data of SSD-S and SSD-M", remark="Set-up: it went into the profiles."),
    Topic(
        "figure 2",
        "Chunk size",
        (
            Claim(
                "a",
                "Latency over offset tells the chunk size: that of a flash page.",
                Kind.NUMBER,
                _found("2"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
        ),
        _charts("2"),
    ),
    Topic(
        "figure 3",
        "Interleaving degree",
        (
            Claim(
                "a",
                "Bandwidth over stride tells the number of domains.",
                Kind.NUMBER,
                _found("3", "domains of SSD-S"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
            Claim(
                "b",
                "Two readers in one domain reach less than two in two domains.",
                Kind.NUMBER,
                (_found("3", "2 jobs, *"), _point("2 readers in *")),
            ),
            Claim(
                "c",
                "With four jobs it tells the sub-domains, too.",
                Kind.NUMBER,
                _found("3", "sub-domains of SSD-S"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
        ),
        _charts("3"),
    ),
    Topic(
        "figure 4",
        "Mapping policy",
        (
            Claim(
                "a",
                "The order of writes decides the layout, and nothing else does.",
                Kind.SHAPE,
                _found("4-ii"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
            Claim(
                "b",
                "Reads between the writes do not change the layout.",
                Kind.SHAPE,
                _found("4-mixed"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
        ),
        _charts("4-i", "4-ii", "4-mixed"),
    ),
    Topic(
        "4.1",
        "The other drive",
        (
            Claim(
                "a",
                "SSD-M behaves similarly.",
                Kind.SHAPE,
                _found("3-ssd-m"),
            ),
        ),
    ),
)

BANDWIDTH = (
    Topic(
        "figure 5",
        "Bandwidth by jobs",
        (
            Claim(
                "a",
                "32 jobs multiply the bandwidth of small random reads.",
                Kind.NUMBER,
                (_found("5-b", "4 KB random reads, 32 jobs over 1"), _point("the same, 32 *")),
            ),
            Claim(
                "b",
                "Large requests gain less from jobs than small ones.",
                Kind.ORDER,
                charts.small_gain_most("parallelism-5-b", "4 KiB", "256 KiB"),
            ),
            Claim(
                "c",
                "16 KB random reads of one job are slow.",
                Kind.NUMBER,
                (
                    _found("5-b", "16 KB random reads, 1 job"),
                    _point("16 KB random reads, 1 job"),
                ),
            ),
            Claim(
                "d",
                "64 KB sequential reads of one job are fast.",
                Kind.NUMBER,
                (_found("5-a", "64 KB *"), _point("64 KB sequential reads, 1 job")),
            ),
            Claim(
                "e",
                "With 32 jobs the same 16 KB random reads are as fast as these.",
                Kind.NUMBER,
                (
                    _found("5-b", "16 KB random reads, 32 jobs"),
                    _point("16 KB random reads, 32 jobs"),
                ),
            ),
            Claim(
                "f",
                "Returns diminish beyond as many jobs as there are channels.",
                Kind.NUMBER,
                (_found("5-b", "returns *"), _point("returns diminish *")),
                differs="the paper gives a range of jobs: its middle stands in the rows",
            ),
            Claim(
                "g",
                "Writes of the MLC drive reach their peak at a low depth, and it is low.",
                Kind.NUMBER,
                _found("5-f", "SSD-M: highest *"),
                basis="fitted: the packages were chosen by it (profile `intel-x25m`)",
            ),
            Claim(
                "h",
                "Writes of the SLC drive have a much higher peak.",
                Kind.NUMBER,
                (_found("5-c", "SSD-S: highest *"), _point("highest write bandwidth *")),
            ),
            Claim(
                "i",
                "Random writes are like sequential ones on both drives.",
                Kind.SHAPE,
                _found("5-[cf]", "SSD-?: random writes"),
                basis="follows from a page mapping in write order, which is built in",
            ),
            Claim(
                "j",
                "4 KB writes of 32 jobs reach this bandwidth.",
                Kind.NUMBER,
                (_found("5-c", "4 KB writes, 32 jobs"), _point("4 KB writes, 32 jobs")),
            ),
            Claim(
                "k",
                "They outperform reads.",
                Kind.NUMBER,
                (_found("5-c", "4 KB, 32 jobs: writes over reads"), _point("4 KB, 32 jobs: *")),
            ),
            Claim(
                "l",
                "4 KB random reads of 32 jobs reach this bandwidth.",
                Kind.NUMBER,
                (
                    _found("5-b", "4 KB random reads, 32 jobs"),
                    _point("4 KB random reads, 32 jobs"),
                ),
            ),
            Claim(
                "m",
                "Small sequential reads have a slight dip at few jobs on both drives.",
                Kind.SHAPE,
                _found("5-[ad]", "SSD-?: 4 KB sequential reads by jobs"),
            ),
            Claim(
                "n",
                "Reads of the MLC and the SLC drive differ less than their writes.",
                Kind.ORDER,
                charts.reads_differ_less(
                    ("parallelism-5-b", "parallelism-5-e"),
                    ("parallelism-5-c", "parallelism-5-f"),
                    "4 KiB",
                ),
            ),
        ),
        _charts("5-*"),
    ),
    Topic(
        "table 2",
        "Readers beside writers",
        (
            *tuple(
                Claim(letter, says, Kind.NUMBER, (_found("table-2", row), _point(point)))
                for letter, says, row, point in (
                    (
                        "a",
                        "Sequential reads alone.",
                        "sequential read alone",
                        "sequential reads alone",
                    ),
                    ("b", "Random reads alone.", "random read alone", "4 KB random reads, 1 job"),
                    (
                        "c",
                        "Sequential writes alone.",
                        "sequential write alone",
                        "sequential writes *",
                    ),
                    ("d", "Random writes alone.", "random write alone", "random writes alone"),
                    (
                        "e",
                        "Sequential reads beside sequential writes: more than either alone.",
                        "sequential read and sequential write",
                        "sequential reads + sequential writes",
                    ),
                    (
                        "f",
                        "Sequential reads beside random writes: the same.",
                        "sequential read and random write",
                        "sequential reads + random writes",
                    ),
                    (
                        "g",
                        "Random reads beside sequential writes: far less than writes alone.",
                        "random read and sequential write",
                        "random reads + sequential writes",
                    ),
                    (
                        "h",
                        "Random reads beside random writes: the same.",
                        "random read and random write",
                        "random reads + random writes",
                    ),
                )
            ),
            Claim(
                "i",
                "Writes beside random reads fall by a factor of more than four.",
                Kind.NUMBER,
                _point("of these the writes"),
            ),
            Claim("j", "The reads fall a little.", Kind.NUMBER, _point("of these the reads")),
            Claim(
                "k",
                "Sequential reads beside writes reach more than either alone, less than the sum.",
                Kind.ORDER,
                charts.between("parallelism-table-2"),
                basis="derived from fitted points",
            ),
        ),
        _charts("table-2"),
        remark="What the pairs rest on: a writer alone on `write_hold_us`, a reader beside a "
        "writer on `drain_us` and `turnaround_us`, delays that were put into the profile for them.",
    ),
    Topic(
        "figure 6",
        "Parallel sequential readers",
        (
            Claim(
                "a",
                "One stream of 4 KB reads.",
                Kind.NUMBER,
                (_found("6", "one sequential *"), _point("one sequential stream *")),
            ),
            Claim(
                "b",
                "Two streams are slower than one.",
                Kind.NUMBER,
                (_found("6", "two s*"), _point("two sequential streams *"), _point("two streams*")),
            ),
            Claim(
                "c",
                "Nearly all curves have a dip at two streams.",
                Kind.SHAPE,
                _found("6", "dip at two streams"),
                differs="spaces of 976 MiB, not 1024 MB: 32 of those do not fit into 32 GB",
            ),
            Claim(
                "d",
                "Larger requests alleviate the loss.",
                Kind.ORDER,
                charts.less_with_size("parallelism-6", "4 KiB", "256 KiB"),
            ),
            Claim(
                "e",
                "More streams quickly compensate for the loss.",
                Kind.SHAPE,
                charts.compensates("parallelism-6", "4 KiB"),
            ),
        ),
        _charts("6"),
    ),
    Topic(
        "figure 7",
        "An ill-mapped layout",
        (
            Claim(
                "a",
                "32 readers in one domain wait this long.",
                Kind.NUMBER,
                (_found("7", "32 jobs in one domain"), _point("32 jobs in one domain")),
            ),
            Claim(
                "b",
                "Over ten domains they wait this long.",
                Kind.NUMBER,
                (_found("7", "32 jobs over ten *"), _point("32 jobs over ten domains")),
            ),
            Claim(
                "c",
                "The ratio of both.",
                Kind.NUMBER,
                (_found("7", "one domain over ten"), _point("one domain over ten")),
            ),
            Claim(
                "d",
                "At a low depth one domain is comparable to ten.",
                Kind.SHAPE,
                _found("7", "one domain against ten *"),
            ),
            Claim(
                "e",
                "An ill-mapped layout impairs read-ahead, too.",
                Kind.SIGN,
                _found("7-read-ahead"),
                differs="sequential reads by 1, 2 and 4 readers; the paper shows none",
            ),
        ),
        _charts("7"),
    ),
)

DATABASE = (
    Topic(
        "figure 8",
        "Queries in parallel parts",
        (
            Claim(
                "a",
                "Index joins gain most from sub-queries.",
                Kind.NUMBER,
                _measured(8, "index joins: the greatest*"),
                differs=MEASURED,
                beside=(_played(8, "index joins: the greatest*"),),
            ),
            Claim(
                "b",
                "Hash joins gain less.",
                Kind.NUMBER,
                _measured(8, "hash joins: the greatest*"),
                differs=MEASURED,
                beside=(_played(8, "hash joins: the greatest*"),),
            ),
            Claim(
                "c",
                "The scan Q0 gains least.",
                Kind.NUMBER,
                _measured(8, "Q0, *"),
                differs=MEASURED,
                beside=(_played(8, "Q0, *"),),
            ),
            Claim(
                "d",
                "On a hard disk index joins gain nothing.",
                Kind.NUMBER,
                _played(8, "index joins on a hard disk*"),
                differs=PLAYED,
            ),
        ),
    ),
    Topic(
        "figure 9",
        "Index join against hash join",
        (
            Claim(
                "a",
                "Without sub-queries the index join of Q2.2 is slower than the hash join.",
                Kind.NUMBER,
                _measured(9, "Q2.2, one*"),
                differs=MEASURED,
                beside=(_played(9, "Q2.2, one*"),),
            ),
            Claim(
                "b",
                "With sub-queries it is faster.",
                Kind.NUMBER,
                _measured(9, "Q2.2, 16*"),
                differs=MEASURED,
                beside=(_played(9, "Q2.2, 16*"),),
            ),
            Claim(
                "c",
                "The same turn happens for the variation of Q1.2.",
                Kind.ORDER,
                _measured(9, "* sub-quer*"),
                differs=MEASURED,
                beside=(_played(9, "* sub-quer*"),),
            ),
        ),
    ),
    Topic(
        "7",
        "Implications",
        (
            Claim(
                "a",
                "Jobs far beyond the number of channels do no obvious harm.",
                Kind.SHAPE,
                charts.no_harm([f"parallelism-5-{letter}" for letter in "bcef"], "4 KiB"),
            ),
            Claim(
                "b",
                "Writers chosen at random, and not in turn, avoid a layout within one domain.",
                Kind.SHAPE,
                _found("7-writers", "reads of one of ten writers"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
            Claim(
                "c",
                "A set of data within one domain has a bandwidth that is capped.",
                Kind.SHAPE,
                _found("7-writers", "data within one domain"),
                basis=BUILT_IN,
                differs=SET_UP,
            ),
        ),
        _charts("7-writers"),
    ),
)

CHAPTER = Chapter(
    "PARALLELISM",
    "Essential Roles of Exploiting Internal Parallelism of Flash Memory based Solid State Drives",
    "F. Chen, R. Lee, X. Zhang, HPCA 2011",
    (*INSIDE, *BANDWIDTH, *DATABASE),
)
