"""How well predicted changes are those that were measured: the bars that advice is held to.

A prediction and a measurement are ratios: a figure with a change over that without. What a ratio
gains is a share of the figure, above 0 if it is for the better.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from flashwright.advice.proving import Figure, Ratio

CLEAR = 0.05
"""A change that was measured to be smaller than this share is none to speak of."""
PROMISED = 0.2
"""A gain that is predicted above this share, and is none, is a false promise."""
NEAR, FAR = 0.15, 0.3
"""Errors of predictions, as shares of the measured ratio, that are counted."""
SURE = 1.5
"""Both ends of a measured interval lie within this factor of each other, or it says little."""
FIRST = 3
"""Changes of a case whose order is judged."""


@dataclass(frozen=True)
class Pair:
    """A change as it was predicted and measured."""

    case: str
    """Database, workload and drive: changes of one case are ordered by what they gain."""
    change: str
    figure: Figure
    predicted: float
    measured: Ratio

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return abs(self.predicted / self.measured.value - 1)

    @property
    def predicted_gain(self) -> float:
        """See `Figure.gain`."""
        return self.figure.gain(self.predicted)

    @property
    def measured_gain(self) -> float:
        """See `Figure.gain`."""
        return self.figure.gain(self.measured.value)

    @property
    def is_sure(self) -> bool:
        """Whether what was measured is known well enough to judge a prediction by."""
        low, high = self.measured.low, self.measured.high
        return low is not None and high is not None and high <= SURE * low

    @property
    def is_within(self) -> bool | None:
        """Whether the prediction lies in the measured interval; None if that is not known."""
        if self.measured.low is None or self.measured.high is None:
            return None
        return self.measured.low <= self.predicted <= self.measured.high


@dataclass(frozen=True)
class Judged:
    """The bars of some pairs. Shares are of as many as stand beside them; None of none."""

    pairs: int
    median_error: float | None
    near: float | None
    """Share with an error of `NEAR` or less."""
    far: float | None
    """Share with an error of `FAR` or less."""
    clear: int
    """Pairs that were measured to change by more than `CLEAR`, for the better or the worse."""
    sign_right: float | None
    """Share of those that were predicted to change the same way."""
    cases: int
    """Cases of two changes or more."""
    tau: float | None
    """Mean over those of Kendall's tau of the first `FIRST` changes, as they were predicted."""
    false_promises: int
    """Gains above `PROMISED` that were measured to be less than `CLEAR`."""

    def document(self) -> dict[str, float | int | None]:
        """Give it as JSON holds it."""
        return dict(vars(self))


def judge(pairs: Sequence[Pair]) -> Judged:
    """Find the bars of pairs, which are all of one figure or of several."""
    errors = [one.error for one in pairs]
    clear = [one for one in pairs if abs(one.measured_gain) > CLEAR]
    taus = [tau for tau in map(tau_of_first, _cases(pairs)) if tau is not None]
    return Judged(
        len(pairs),
        statistics.median(errors) if errors else None,
        _share([error <= NEAR for error in errors]),
        _share([error <= FAR for error in errors]),
        len(clear),
        _share([one.predicted_gain * one.measured_gain > 0 for one in clear]),
        len(taus),
        statistics.fmean(taus) if taus else None,
        sum(one.predicted_gain > PROMISED and one.measured_gain < CLEAR for one in pairs),
    )


def tau_of_first(pairs: Sequence[Pair]) -> float | None:
    """Give Kendall's tau between predicted and measured gains of a case's first changes.

    First are those that were predicted to gain most; None if there are fewer than two.
    """
    first = sorted(pairs, key=lambda one: -one.predicted_gain)[:FIRST]
    if len(first) < 2:
        return None
    return kendall_tau([(one.predicted_gain, one.measured_gain) for one in first])


def kendall_tau(points: Sequence[tuple[float, float]]) -> float:
    """Give Kendall's tau-a of two points or more, from -1 to 1.

    Pairs in the same order less those in the other, over all of them; ties are neither (Kendall,
    "A New Measure of Rank Correlation", Biometrika 30, 1938).
    """
    signs = [_sign(a[0] - b[0]) * _sign(a[1] - b[1]) for a, b in itertools.combinations(points, 2)]
    return sum(signs) / len(signs)


def _cases(pairs: Sequence[Pair]) -> list[list[Pair]]:
    found: dict[tuple[str, str], list[Pair]] = {}
    for one in pairs:
        found.setdefault((one.case, one.figure.name), []).append(one)
    return list(found.values())


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _share(which: Sequence[bool]) -> float | None:
    return sum(which) / len(which) if which else None
