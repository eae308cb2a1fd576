"""Which pairs of placement and victim policy are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashwright._core import InputError, registry

NO_PLACEMENT = "none"
OFFLINE = "future_knowledge"
"""The placement that no drive can have, for what is attainable: it is no entry of a comparison."""
USUAL_VICTIMS = ("greedy", "cost_benefit(age=closed)")
"""What each placement policy runs with, beside the victim policy of its authors: a placement is
often better with another one than theirs.
"""


@dataclass(frozen=True)
class Policy:
    """A placement policy with its victim policy."""

    placement: str
    victim: str

    @property
    def label(self) -> str:
        """A name for plots and tables: the one of the two that distinguishes policies."""
        if self.placement == NO_PLACEMENT:
            return self.victim
        own = own_victim(self.placement)
        return self.placement if self.victim == own else f"{self.placement} + {self.victim}"

    @property
    def oracle(self) -> bool:
        """Whether it knows what no drive can: update frequencies, or the future."""
        return bool(_placement(self.placement)["oracle"])


def _base(name: str) -> str:
    return name.partition("(")[0].partition("?")[0].strip()


def own_victim(placement: str) -> str:
    """Give the victim policy that the authors of a placement policy use.

    Raises InputError for an unknown policy.
    """
    return str(_placement(placement)["victim"])


def _placement(placement: str) -> dict[str, Any]:
    entries = registry()["placement"]
    for entry in entries:
        if _base(placement) in (entry["name"], *entry["aliases"]):
            return entry
    known = ", ".join(entry["name"] for entry in entries)
    raise InputError(f"unknown placement policy `{_base(placement)}`; known are: {known}")


def check_victim(victim: str) -> str:
    """Give the name back if there is such a victim policy.

    Raises InputError for an unknown policy.
    """
    entries = registry()["victim"]
    if not any(_base(victim) in (entry["name"], *entry["aliases"]) for entry in entries):
        known = ", ".join(entry["name"] for entry in entries)
        raise InputError(f"unknown victim policy `{_base(victim)}`; known are: {known}")
    return victim


def choose(
    placements: Sequence[str] | None, victims: Sequence[str] | None, *, only_own: bool = False
) -> list[Policy]:
    """Pair placement with victim policies.

    Without `victims` a placement policy runs with the one that its authors use, with Greedy, and
    with Cost-Benefit by the age of the erase block; with `only_own` only with its authors'. `none`,
    which is nothing but its victim policy, runs with each of them. `None` stands for all.

    Raises InputError for an unknown policy.
    """
    all_placements = [
        entry["name"] for entry in registry()["placement"] if entry["name"] != OFFLINE
    ]
    all_victims = [entry["name"] for entry in registry()["victim"]]
    pairs: list[Policy] = []
    for placement in placements if placements is not None else all_placements:
        own = own_victim(placement)
        if victims is not None:
            partners = [check_victim(victim) for victim in victims]
        elif placements is None and placement == NO_PLACEMENT:
            partners = [*all_victims, *USUAL_VICTIMS]
        elif only_own:
            partners = [own]
        else:
            partners = [own, *USUAL_VICTIMS]
        pairs.extend(Policy(placement, victim) for victim in partners)
    return list(dict.fromkeys(pairs))
