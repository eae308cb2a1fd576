"""Claims of STABLEBUFFER: Li, Xu, Choi & Hu, CIKM 2010.

The paper's algorithm is the layer with the paper's rules of patterns (rows `... paper rules`): they
judge. The layer's own rules stand beside.
"""

from __future__ import annotations

from experiments.book.claims import Chapter, Claim, Kind, NotTested, Reading, Rows, Topic, ours
from experiments.book.claims import Documents as Numbers
from experiments.book.readings import charts
from experiments.registry import Outcome

LAYERS, DRIVE = "figures-layers", "validate-drive"
TRACE = (
    "a trace of ours of TPC-C on PostgreSQL 18, page n of 8 KiB taken for page n of 4 KiB; the "
    "paper's was not published"
)
PROFILES = "the stick and the card are typical of their kind: no inside of the paper's is known"
PROCESSORS = (
    "theirs is of their simulator on a processor of 2007, ours of the layer alone on this machine: "
    "the only numbers here that depend on the machine"
)
RULES = " paper rules"
DEVICES = {"SSD": "ssd", "USB stick": "usb-stick", "SD card": "sd-card"}
"""Name in rows, and in names of parts."""


def _rows(figure: str, device: str, what: str, rules: str = RULES) -> Rows:
    part = f"stablebuffer-{figure}-{DEVICES[device]}{rules.replace(' ', '-')}"
    # The figures 7 have throughput and response in parts of their own.
    return Rows(LAYERS, f"{part}-throughput" if figure == "7" else part, device + rules + what)


def _charts(figure: str) -> tuple[tuple[str, str], ...]:
    return ((LAYERS, f"stablebuffer-{figure}-*"),)


def _both(
    letter: str,
    says: str,
    kind: Kind,
    figure: str,
    device: str,
    *what: str,
) -> Claim:
    """Give a claim that the paper's rules judge, with our rules beside."""
    judges, beside = (
        tuple(_rows(figure, device, one, rules) for one in what) for rules in (RULES, "")
    )
    differs = TRACE if device == "SSD" else f"{TRACE}; {PROFILES}"
    return Claim(letter, says, kind, judges, differs=differs, beside=beside)


def _times_by_estimate(found: Numbers) -> list[Outcome]:
    """Give the gain of a write through the buffer, worked out as in 2.1 from table 1."""
    rows = {row["what"]: row for row in found["patterns"]["rows"]}
    values = []
    for key in ("published", "ours"):
        focused, sequential, random = (
            rows[f"mtron-sata7035: {name}"][key]
            for name in ("focused in 8 MB", "sequential", "random")
        )
        # A read is taken for a sequential write, and both writes for focused ones.
        values.append(random / (2 * focused + sequential))
    said, here = values
    what = "Mtron: a random write over one through the buffer"
    return [ours("patterns", what, "2.1", said, here, "times", basis="fitted")]


TABLE_1 = Topic(
    "table 1",
    "Response times of four write patterns, 32 KB",
    (
        *tuple(
            Claim(letter, says, Kind.NUMBER, Rows(DRIVE, "patterns", f"{profile}: *"))
            for letter, says, profile in (
                ("a", "Mtron: focused and partitioned writes are efficient.", "mtron-sata7035"),
                ("b", "Samsung: focused and partitioned writes are efficient.", "samsung-mcbqe32g"),
            )
        ),
        Claim(
            "c",
            "A write through the buffer costs several times less than a random one (2.1).",
            Kind.NUMBER,
            Reading(DRIVE, ("patterns",), _times_by_estimate),
        ),
    ),
    remark="The table is that of uFLIP, which the paper builds on.",
)

FIGURE_3 = Topic(
    "figure 3",
    "A segment of the trace",
    (
        Claim(
            "a",
            "Writes look random over a short time and are clustered over a long one.",
            Kind.SHAPE,
            Rows(LAYERS, "stablebuffer-3-trace"),
            differs="our trace of TPC-C; the bars are ours",
        ),
    ),
)

THRESHOLDS = Topic(
    "3.2",
    "Thresholds for flushing",
    (
        Claim(
            "a",
            "The benchmark gives the Mtron the thresholds of its three patterns.",
            Kind.NUMBER,
            Rows(LAYERS, "stablebuffer-3.2-ssd"),
            differs="a simulated Mtron: what it does not have of the paper's is on the page",
            beside=(Rows(LAYERS, "stablebuffer-3.2-ssd-32-kib-batches"),),
        ),
    ),
)


def _figure_4() -> tuple[Claim, ...]:
    claims: list[Claim] = []
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for device in DEVICES:
        more = [
            (f"{device}: every method beats direct writes.", Kind.ORDER, "4a", ": every method *"),
            (
                f"{device}: ondemand+passive has most throughput, incremental+proactive least.",
                Kind.ORDER,
                "4a",
                ": methods by throughput",
            ),
            (
                f"{device}: throughput over direct, least gain.",
                Kind.NUMBER,
                "4a",
                ": throughput of incremental+proactive,*",
            ),
            (
                f"{device}: throughput over direct, greatest gain.",
                Kind.NUMBER,
                "4a",
                ": throughput of ondemand+passive,*",
            ),
            (f"{device}: mean response over direct.", Kind.NUMBER, "4b", ": response of *"),
            (f"{device}: the mean response gets shorter.", Kind.SIGN, "4b", ": response of *"),
        ]
        claims += [
            _both(next(letters), says, kind, figure, device, what)
            for says, kind, figure, what in more
        ]
    claims += [
        _both(
            next(letters),
            f"{device}: {says}.",
            Kind.ORDER,
            "4b",
            device,
            ": methods by mean response",
        )
        for device, says in (
            ("SSD", "incremental+proactive answers fastest, ondemand+passive slowest"),
            ("USB stick", "incremental+passive answers fastest, incremental+proactive slowest"),
            ("SD card", "incremental+passive answers fastest, incremental+proactive slowest"),
        )
    ]
    claims.append(
        Claim(
            next(letters),
            "SSD: mean response over direct, at writes that come by themselves.",
            Kind.NUMBER,
            Rows(LAYERS, "stablebuffer-4b-ssd-paced"),
            differs=f"{TRACE}; paced: where one by one the published throughput and response "
            "contradict each other",
        )
    )
    claims += [
        Claim(
            next(letters),
            f"{device}: the two passive methods are very close to each other.",
            Kind.SHAPE,
            charts.close(
                f"stablebuffer-4a-{DEVICES[device]}-paper-rules",
                "ondemand+passive",
                "incremental+passive",
                "4.2.1",
            ),
            differs=f"{TRACE}; {PROFILES}",
        )
        for device in ("USB stick", "SD card")
    ]
    claims.append(
        Claim(
            next(letters),
            "incremental+passive has the best balance of throughput and response.",
            Kind.ORDER,
            NotTested("a measure of balance: the paper gives none"),
        )
    )
    return tuple(claims)


FIGURE_4 = Topic(
    "figure 4",
    "Throughput and response of the methods",
    _figure_4(),
    _charts("4?"),
    remark="Abstract and conclusion sum these up: throughput and response improve 1.5 to 12 times.",
)

FIGURE_5 = Topic(
    "figure 5",
    "Two threads against one, focused writes",
    tuple(
        claim
        for letter, other, device, says in (
            ("a", "b", "SSD", "two threads are almost twice as fast"),
            ("c", "d", "USB stick", "two threads are about as fast as one"),
            ("e", "f", "SD card", "two threads are much slower"),
        )
        for claim in (
            Claim(
                letter,
                f"{device}: {says}.",
                Kind.SHAPE,
                _rows("5", device, ": two threads *", ""),
                basis="" if device == "SSD" else "built into the profile, by its log blocks",
            ),
            Claim(
                other,
                f"{device}: focused writes within the buffer are efficient, random ones are not.",
                Kind.SHAPE,
                _rows("5", device, ": focused writes *", ""),
                basis="fitted" if device == "SSD" else "built into the profile, by its log blocks",
            ),
        )
    ),
    _charts("5"),
)

FIGURE_6 = Topic(
    "figure 6",
    "Share of the processor",
    (
        *tuple(
            Claim(
                letter,
                f"{device}: share of processor time of the two passive methods.",
                Kind.NUMBER,
                _rows("6", device, ": share *", ""),
                differs=PROCESSORS,
            )
            for letter, device in zip("abc", DEVICES, strict=True)
        ),
        Claim(
            "d",
            "The incremental method takes more of the processor than the on-demand one.",
            Kind.ORDER,
            tuple(
                charts.one_answers_faster(
                    f"stablebuffer-6-{device}", "ondemand+passive", "incremental+passive", "4.2.1"
                )
                for device in DEVICES.values()
            ),
            differs=PROCESSORS,
        ),
    ),
    _charts("6"),
)


BY_SIZE = (": ondemand+passive by size *", ": incremental+passive by size *")


def _figure_7() -> tuple[Claim, ...]:
    claims: list[Claim] = []
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for device in DEVICES:
        for says, what in (
            ("the passive methods are worse at both ends of the sizes", BY_SIZE),
            ("a buffer that is too small finds short patterns", (": instances of *",)),
            ("writes to a buffer that is too large are not focused", (": writes to the *",)),
        ):
            claims.append(
                _both(next(letters), f"{device}: {says}.", Kind.SHAPE, "7", device, *what)
            )
    claims.append(
        _both(
            next(letters),
            "SSD: with four times the size the proactive method uses about a quarter of the slots.",
            Kind.NUMBER,
            "7",
            "SSD",
            ": slots in use *",
        )
    )
    claims.append(
        Claim(
            next(letters),
            "SSD: the proactive method stays stable beyond the default size.",
            Kind.SHAPE,
            charts.stable_beyond(
                "stablebuffer-7-ssd-paper-rules-throughput",
                "incremental+proactive",
                float(4 << 20),
                "4.2.2",
            ),
            differs=TRACE,
        )
    )
    return tuple(claims)


FIGURE_7 = Topic(
    "figure 7", "Throughput and response by the size of the buffer", _figure_7(), _charts("7")
)

CHAPTER = Chapter(
    "STABLEBUFFER",
    "StableBuffer: Optimizing Write Performance for DBMS Applications on Flash Devices",
    "Y. Li, J. Xu, B. Choi, H. Hu, CIKM 2010",
    (
        TABLE_1,
        Topic("figures 1 and 2", "Architecture", remark="Drawings of the design."),
        THRESHOLDS,
        FIGURE_3,
        FIGURE_4,
        FIGURE_5,
        FIGURE_6,
        FIGURE_7,
    ),
)
