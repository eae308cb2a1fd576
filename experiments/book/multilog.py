"""Claims of MULTILOG: Stoica & Ailamaki, VLDB 2013."""

from __future__ import annotations

from experiments.book.claims import Chapter, Claim, Kind, Rows, Topic
from experiments.book.readings import multilog as read
from experiments.book.readings.multilog import MODELS, PLACEMENT


def _rows(part: str, what: str) -> Rows:
    return Rows(PLACEMENT, part, what)


def _model(part: str, what: str) -> Rows:
    """Give rows of a figure of the models: simulated points stand beside them there."""
    return Rows(MODELS, f"multilog-{part}", what)


def _charts(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple((MODELS, name) for name in names)


SMALLER = "2^20 pages (4 GiB), not 100 GB; the paper says that size has no influence"
OWN_TRACE = "the trace is ours, of PostgreSQL; the paper's is of Shore-MT and was not published"
MODELLED = (
    Topic(
        "tables 1 to 3",
        "NAND flash, and notation",
        remark="Set-up and notation: nothing is concluded from them.",
    ),
    Topic(
        "figure 1a",
        "p_gc under uniform updates",
        (
            Claim(
                "a",
                "Eq. 3 and eq. 4 differ from simulation by virtually nothing.",
                Kind.SHAPE,
                (_model("1a", "p_gc of LRU by eq. 3*"), _model("1a", "TotalError*")),
            ),
            Claim(
                "b",
                "The same for the longer simulations of the placement study.",
                Kind.SHAPE,
                _rows("uniform", "*: lru: p_gc vs eq. 3"),
                differs=SMALLER,
            ),
            Claim(
                "c",
                "p_gc falls slightly faster than exponentially as spare space grows.",
                Kind.SHAPE,
                read.model("multilog-1a", "uniform", read.faster_than_exponential),
            ),
        ),
        _charts("multilog-1a"),
    ),
    Topic(
        "figure 1b",
        "Cleaning cost under uniform updates",
        (
            Claim(
                "a",
                "The cleaning cost rises faster than exponentially with occupancy (2.2).",
                Kind.SHAPE,
                read.model("multilog-1b", "uniform", read.convex),
            ),
        ),
        _charts("multilog-1b"),
    ),
    Topic(
        "figure 1c",
        "Window-Greedy against LRU",
        (
            Claim(
                "a",
                "Window-Greedy lowers p_gc by at most a few percent of LRU's.",
                Kind.SHAPE,
                (
                    _model("1c", "the same, *"),
                    _rows("uniform", "*: greedy: p_gc vs eq. 3"),
                ),
                differs="read as a share of p_gc, which the paper leaves open",
                beside=(_model("1c", "decrease of p_gc, *"), _model("1c", "p_gc of Window*")),
            ),
            Claim(
                "b",
                "Greedy is the best victim policy for uniform updates, LRU the bound above.",
                Kind.ORDER,
                _rows("uniform", "*: greedy: p_gc vs lru"),
                differs=SMALLER,
            ),
            Claim(
                "c",
                "The limit of Bux and Iliadis for Greedy is eq. 3.",
                Kind.SHAPE,
                _model("1c", "p_gc of Greedy in the limit *"),
                differs="a mean-field model of ours in place of theirs",
            ),
        ),
        _charts("multilog-1c"),
    ),
    Topic(
        "4.2.1",
        "Two sets mixed in one log: model and simulation",
        (
            Claim(
                "a",
                "p_avg of eq. 6-9, solved, differs from simulation by virtually nothing.",
                Kind.SHAPE,
                (
                    _model("2a", "p_avg by eq. 6 *"),
                    _rows("random", "*: lru: p_gc vs eq. 6-9, solved"),
                ),
                differs=SMALLER,
            ),
            Claim(
                "b",
                "The closed form is slightly below the simulation, within a few percent.",
                Kind.SHAPE,
                _model("2a", "* by the closed form"),
            ),
        ),
    ),
    Topic(
        "figure 2a",
        "p_avg of two sets mixed in one log",
        (
            Claim(
                "a",
                "p_avg is least where both sets are updated alike, and grows to both sides.",
                Kind.SHAPE,
                read.model(
                    "multilog-2a",
                    "random_placement",
                    read.least_where_alike("p_avg_random", "multilog-2a"),
                ),
            ),
            Claim(
                "b",
                "Pages whose frequency differs by a factor of two may share a log: p_avg "
                "stays close to the minimum.",
                Kind.SHAPE,
                (_model("2a", "p_avg at f_r *"), _model("2a", "cleaning cost, likewise")),
            ),
        ),
        _charts("multilog-2a"),
    ),
    Topic(
        "figure 2b",
        "Cleaning cost of two sets mixed in one log",
        (
            Claim(
                "a",
                "GC is least in the same interval.",
                Kind.SHAPE,
                read.model(
                    "multilog-2b",
                    "random_placement",
                    read.least_where_alike("cleaning_cost_random", "multilog-2b"),
                ),
            ),
            Claim(
                "b",
                "Its region of least penalty is slightly wider than that of p_avg.",
                Kind.SHAPE,
                read.model("multilog-2b", "random_placement", read.wider),
            ),
        ),
        _charts("multilog-2b"),
    ),
    Topic(
        "figure 2c",
        "Cost of mixing over the least possible",
        (
            Claim(
                "a",
                "The relative increase is least in the same interval.",
                Kind.SHAPE,
                read.model(
                    "multilog-2c",
                    "random_placement",
                    read.least_where_alike("cleaning_cost_random_over_separated", "multilog-2c"),
                ),
            ),
        ),
        _charts("multilog-2c"),
    ),
    Topic(
        "figure 3a",
        "Best division of spare space",
        (
            Claim(
                "a",
                "The best division follows the sizes of the sets; the frequency ratio has a "
                "smaller influence.",
                Kind.SHAPE,
                _model("3a", "*"),
            ),
            Claim(
                "b",
                "A polynomial fits the best division for a constant frequency ratio.",
                Kind.SHAPE,
                _model("4.2.2", "*"),
            ),
        ),
        _charts("multilog-3a", "multilog-4.2.2"),
    ),
    Topic(
        "figure 3b",
        "Cleaning cost with the best division",
        (
            Claim(
                "a",
                "GC is greatest where both sets are updated alike.",
                Kind.SHAPE,
                _model("3b", "where the cleaning cost *"),
            ),
            Claim(
                "b",
                "GC is mirrored at equal frequencies.",
                Kind.SHAPE,
                _model("3b", "cleaning cost when *"),
            ),
            Claim(
                "c",
                "GC varies by an order of magnitude.",
                Kind.SHAPE,
                _model("3b", "cleaning cost over s_1 *"),
            ),
            Claim(
                "d",
                "GC is least where a small part of the pages has much of the updates.",
                Kind.SHAPE,
                _model("3b", "where it is the least"),
            ),
        ),
        _charts("multilog-3b"),
    ),
    Topic(
        "figure 3c",
        "What separating saves",
        (
            Claim(
                "a",
                "The benefit is symmetric.",
                Kind.SHAPE,
                read.model(
                    "multilog-3c",
                    "best_division",
                    read.mirrored("cleaning_cost_random_over_separated", "multilog-3c"),
                ),
            ),
            Claim(
                "b",
                "The benefit is highest under heavy skew.",
                Kind.SHAPE,
                read.model("multilog-3c", "best_division", read.benefit_of_skew),
            ),
            Claim(
                "c",
                "Mixed, GC grows with the logarithm of f_r; separated, it falls so.",
                Kind.SHAPE,
                _model("3c", "costs as f_r grows *"),
            ),
        ),
        _charts("multilog-3c"),
    ),
    Topic(
        "4.3.1",
        "k sets mixed in one log",
        (
            Claim(
                "a",
                "The p_gc of k sets are powers of each other, by their frequencies.",
                Kind.SHAPE,
                _rows("random", "*: p_gc of the set updated *"),
                differs=SMALLER,
            ),
        ),
    ),
    Topic(
        "4.3.3",
        "Algorithm 1: the least cleaning cost of a load",
        (
            Claim(
                "a",
                "The minimum is found within a margin of error: a placement that knows all "
                "frequencies reaches it.",
                Kind.SHAPE,
                _rows("bound", "*: multi_log_optimal: write_amplification vs bound"),
                differs=SMALLER,
            ),
        ),
    ),
)

SIMULATED = (
    Topic("figure 4", "MultiLog's logs", remark="A drawing of the algorithm."),
    Topic(
        "5.3",
        "Cleaning policy",
        (
            Claim(
                "a",
                "Greedy gains little over LRU where pages are placed by frequency.",
                Kind.SHAPE,
                read.placement("tpcc", read.greedy_within),
                differs=OWN_TRACE,
            ),
        ),
    ),
    Topic(
        "figure 5a",
        "Uniform updates",
        (
            Claim(
                "a",
                "MultiLog follows Greedy closely.",
                Kind.SHAPE,
                _rows("multi_log_uniform", "*: multi_log: *"),
                differs=SMALLER,
            ),
            Claim(
                "b",
                "MultiLog is significantly below the other placements.",
                Kind.ORDER,
                _rows("skew_aware_uniform", "*"),
                differs=SMALLER,
            ),
            Claim(
                "c",
                "The cleaning cost of LRU is virtually that of Greedy.",
                Kind.SHAPE,
                read.placement("multi_log_uniform", read.lru_like_greedy),
                differs=SMALLER,
            ),
        ),
        remark="Curves of the paper are images: what is said of them in words is judged.",
    ),
    Topic(
        "figure 5b",
        "Zipf, skew 1",
        (
            Claim(
                "a",
                "MultiLog has the lowest cost of all.",
                Kind.ORDER,
                _rows("skewed", "Zipf 1, *"),
                differs=SMALLER,
            ),
            Claim(
                "b",
                "All skew-aware placements cost less than under uniform updates.",
                Kind.ORDER,
                read.LESS_THAN_UNIFORM,
                differs=SMALLER,
            ),
            Claim(
                "c",
                "ContainerMarking and eNVy rise sharply where spare space is low.",
                Kind.SHAPE,
                read.placement("skewed", read.rise),
                differs=SMALLER,
            ),
            Claim(
                "d",
                "There the Cost-Based policy is lower than both.",
                Kind.ORDER,
                read.placement("skewed", read.cost_based_first),
                differs=SMALLER,
            ),
            Claim(
                "e",
                "LRU and Greedy have the worst behaviour.",
                Kind.ORDER,
                read.placement("skewed", read.worst_two),
                differs=f"{SMALLER}; `cost_benefit` without separation, which the paper does not "
                "have, is left out",
            ),
            Claim(
                "f",
                "eNVy cannot be run at every low over-provisioning (6.1).",
                Kind.SHAPE,
                read.placement("skewed", read.envy_runs),
                differs=SMALLER,
            ),
        ),
    ),
    Topic(
        "figure 5c",
        "TPC-E",
        (
            Claim(
                "a",
                "MultiLog significantly outperforms the other placements.",
                Kind.ORDER,
                (_rows("skewed", "TPC-E, *"), _rows("paper_size", "TPC-E*multi_log: * vs *")),
                differs="rows of `paper_size` have the paper's number of pages, the others 2^20",
            ),
            Claim(
                "b",
                "MultiLog costs more than under Zipf.",
                Kind.ORDER,
                _rows("paper_size", "TPC-E*: multi_log: cleaning_cost vs *Zipf 1*"),
                beside=(read.beside_zipf(("multi_log",), "increases", is_more=True),),
            ),
            Claim(
                "c",
                "eNVy and ContainerMarking cost about as much as under Zipf, or less.",
                Kind.ORDER,
                (
                    _rows("paper_size", "TPC-E*: envy_hybrid: cleaning_cost vs *"),
                    _rows("paper_size", "TPC-E*: container_marking: cleaning_cost vs *"),
                ),
                differs="ContainerMarking has the paper's number of pages, eNVy 2^20",
                beside=(read.beside_zipf((read.ENVY, read.CM), "similar or lower", is_more=False),),
            ),
        ),
    ),
    Topic(
        "figure 6",
        "Skew of the traces",
        (
            Claim(
                "a",
                "In TATP about a tenth of the pages sees most updates.",
                Kind.NUMBER,
                _rows("tatp", "*share of updates*"),
                differs=OWN_TRACE,
            ),
            Claim(
                "b",
                "Updates within that tenth are relatively uniform and constant over time.",
                Kind.SHAPE,
                (
                    _rows("tatp", "*its hottest tenth that the hotter half*"),
                    _rows("tatp", "*first half's hottest tenth*"),
                ),
                differs=f"{OWN_TRACE}; held against TPC-C, as the paper gives no bar",
            ),
            Claim(
                "c",
                "TATP is more skewed than TPC-C.",
                Kind.ORDER,
                read.of_traces(read.more_skewed),
                differs=f"{OWN_TRACE}; of TPC-C the pages that were written count",
            ),
        ),
    ),
    Topic(
        "figure 7a",
        "TPC-C trace",
        (
            Claim(
                "a",
                "MultiLog lowers the cost of ContainerMarking by about a third on average.",
                Kind.NUMBER,
                _rows("tpcc", "*: multi_log: cleaning_cost vs container_marking"),
                differs=OWN_TRACE,
            ),
            Claim(
                "b",
                "The shifting hot set is hardest for eNVy; ContainerMarking does much better.",
                Kind.ORDER,
                read.placement("tpcc", read.envy_suffers),
                differs=OWN_TRACE,
            ),
            Claim(
                "c",
                "MultiLog's gain is greatest at an over-provisioning of 0.1 to 0.5.",
                Kind.SHAPE,
                read.placement("tpcc", read.greatest_where_practical),
                differs=OWN_TRACE,
            ),
            Claim(
                "d",
                "MultiLog is a fifth to three quarters below the others at every "
                "over-provisioning.",
                Kind.NUMBER,
                _rows("tpcc", "*: multi_log: cleaning_cost vs *"),
                differs=f"{OWN_TRACE}; the others are eNVy and ContainerMarking",
            ),
        ),
    ),
    Topic(
        "figure 7b",
        "TATP trace",
        (
            Claim(
                "a",
                "MultiLog does better than on TPC-C.",
                Kind.ORDER,
                read.of_traces(read.better_than_on_tpcc),
                differs=OWN_TRACE,
            ),
            Claim(
                "b",
                "The other placements do as well as on TPC-C, or worse.",
                Kind.ORDER,
                read.of_traces(read.others_no_better),
                differs=f"{OWN_TRACE}; the others are eNVy and ContainerMarking",
            ),
            Claim(
                "c",
                "MultiLog is a fifth to three quarters below the others at every "
                "over-provisioning.",
                Kind.NUMBER,
                _rows("tatp", "*: multi_log: cleaning_cost vs *"),
                differs=OWN_TRACE,
            ),
        ),
    ),
)

CHAPTER = Chapter(
    "MULTILOG",
    "Improving Flash Write Performance by Using Update Frequency",
    "R. Stoica, A. Ailamaki, VLDB 2013",
    (*MODELLED, *SIMULATED),
)
