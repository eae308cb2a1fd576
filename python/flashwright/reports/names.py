"""How policies are called in prose.

One that is not listed goes by the name that it has on the command line.
"""

from __future__ import annotations

_PROPER = {
    "container_marking": "ContainerMarking",
    "cost_benefit": "Cost-Benefit",
    "d_choices": "d-choices",
    "dac": "DAC",
    "envy_hybrid": "eNVy hybrid",
    "greedy": "Greedy",
    "lfs_cost_benefit": "LFS Cost-Benefit",
    "lru": "LRU",
    "multi_log": "MultiLog",
    "multi_log_optimal": "MultiLog-Optimal",
    "random": "Random",
    "separate": "Separate",
    "window_greedy": "Window-Greedy",
}


def proper(label: str) -> str:
    """Give the name under which a policy, or a placement + victim pair, was published.

    Parameters are kept.
    """
    parts = []
    for part in label.split(" + "):
        base, bracket, rest = part.partition("(")
        parts.append(_PROPER.get(base, base) + bracket + rest)
    return " + ".join(parts)
