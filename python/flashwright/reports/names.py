"""Names of policies in prose.

One that is not listed goes by the name that it has on the command line.
"""

from __future__ import annotations

_PROPER = {
    "container_marking": "ContainerMarking",
    "cost_benefit": "Cost-Benefit",
    "d_choices": "d-choices",
    "dac": "DAC",
    "envy_hybrid": "eNVy hybrid",
    "fadac": "FADaC",
    "ffs": "FFS",
    "future_knowledge": "Offline placement",
    "greedy": "Greedy",
    "hazard": "Hazard",
    "lfs_cost_benefit": "LFS Cost-Benefit",
    "lru": "LRU",
    "mdc": "MDC",
    "midas": "MiDAS",
    "multi_log": "MultiLog",
    "multi_log_optimal": "MultiLog-Optimal",
    "multi_queue": "MultiQueue",
    "random": "Random",
    "separate": "Separate",
    "sepbit": "SepBIT",
    "sfs": "SFS",
    "timestamps": "Timestamps",
    "warcip": "WARCIP",
    "window_greedy": "Window-Greedy",
}
_WITH_PARAMETERS = {
    "cost_benefit(age=closed)": "Cost-Benefit (age since filled)",
}


def proper(label: str) -> str:
    """Give the name under which a policy, or a placement + victim pair, was published.

    Parameters are kept.
    """
    parts = []
    for part in label.split(" + "):
        base, bracket, rest = part.partition("(")
        parts.append(_WITH_PARAMETERS.get(part, _PROPER.get(base, base) + bracket + rest))
    return " + ".join(parts)
