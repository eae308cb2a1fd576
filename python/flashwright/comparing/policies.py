"""Pairs of placement and victim policy that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError, placement_is_oracle, registry
from flashwright.comparing import python_policies

if TYPE_CHECKING:
    from flashwright.placement import Placement

NO_PLACEMENT = "none"
OFFLINE = "future_knowledge"
"""The placement that no drive can have, for what is attainable: it is no entry of a comparison."""
USUAL_VICTIMS = ("greedy", "cost_benefit(age=closed)")
"""Victim policies that each placement policy runs with, besides that of its authors: another one is
often better than theirs.
"""


@dataclass(frozen=True)
class Policy:
    """A placement policy with its victim policy."""

    placement: str
    victim: str
    python: Placement | None = None
    """The placement, if it is one in Python: `placement` is what it is called."""

    @property
    def label(self) -> str:
        """A name for plots and tables: the one of the two that distinguishes policies."""
        if self.placement == NO_PLACEMENT:
            return self.victim
        own = own_victim(self.python or self.placement)
        return self.placement if self.victim == own else f"{self.placement} + {self.victim}"

    @property
    def oracle(self) -> bool:
        """True if it knows what no drive can: update frequencies, or the future."""
        return self.python is None and placement_is_oracle(self.placement)

    def identity(self) -> list[str | None]:
        """Give what decides on the numbers, as far as it is known of a policy in Python."""
        more = [] if self.python is None else [self.python.content]
        return [self.placement, self.victim, *more]


def _base(name: str) -> str:
    return name.partition("(")[0].strip()


def resolved(placement: str | Placement) -> str | Placement:
    """Give a placement policy by its name, or one in Python: `FILE.py:CLASS` names one, too.

    Raises InputError if there is no such file or class.
    """
    if isinstance(placement, str) and python_policies.is_file(placement):
        return python_policies.load(placement)
    return placement


def own_victim(placement: str | Placement) -> str:
    """Give the victim policy that the authors of a placement policy use.

    Raises InputError for an unknown policy.
    """
    return str(_placement(placement)["victim"]) if isinstance(placement, str) else placement.victim


def _placement(placement: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = registry()["placement"]
    for entry in entries:
        if _base(placement) in (entry["name"], *entry["aliases"]):
            return entry
    known = ", ".join(entry["name"] for entry in entries)
    if python_policies.is_file(placement):
        raise InputError(
            f"{placement}: a policy in Python is for `compare`; known on a drive are: {known}"
        )
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
    placements: Sequence[str | Placement] | None,
    victims: Sequence[str] | None,
    *,
    only_own: bool = False,
) -> list[Policy]:
    """Pair placement with victim policies.

    Without `victims` a placement policy runs with the one that its authors use, with Greedy, and
    with Cost-Benefit by the age of the erase block; with `only_own` only with its authors'. `none`,
    which is nothing but its victim policy, runs with each of them. `None` stands for all.

    Placements may be policies in Python, too, or `FILE.py:CLASS`.

    Raises InputError for an unknown policy, or if two are called the same.
    """
    all_placements = [
        entry["name"] for entry in registry()["placement"] if entry["name"] != OFFLINE
    ]
    all_victims = [entry["name"] for entry in registry()["victim"]]
    pairs: list[Policy] = []
    chosen = [resolved(one) for one in (all_placements if placements is None else placements)]
    for placement in chosen:
        own = own_victim(placement)
        if victims is not None:
            partners = [victim if victim == own else check_victim(victim) for victim in victims]
        elif placements is None and placement == NO_PLACEMENT:
            partners = [*all_victims, *USUAL_VICTIMS]
        elif only_own:
            partners = [own]
        else:
            partners = [own, *USUAL_VICTIMS]
        name, python = (
            (placement, None) if isinstance(placement, str) else (placement.name, placement)
        )
        pairs.extend(Policy(name, victim, python) for victim in partners)
    _check_names(chosen, all_placements)
    return list(dict.fromkeys(pairs))


def _check_names(chosen: Sequence[str | Placement], known: Sequence[str]) -> None:
    taken = {*known, OFFLINE}
    for one in {id(one): one for one in chosen if not isinstance(one, str)}.values():
        if one.name in taken:
            raise InputError(
                f"{one.name}: two placement policies are called so; give the one in Python another "
                "`name`"
            )
        taken.add(one.name)
