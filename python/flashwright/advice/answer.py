"""The answer: every action's findings, its candidates simulated, put in the order of their gain."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from operator import or_

from flashwright._core import Cancelled, FlashwrightError, Progress
from flashwright.advice.action import Action, Candidate, Lost, NotKnown, Told, Useless
from flashwright.advice.case import Case
from flashwright.advice.engine import Engine
from flashwright.advice.gain import Gain, beside, costs_too_much, gain_of, gain_said, is_worth
from flashwright.advice.setup import Figures, Setup
from flashwright.pool import Pool

ABOVE_THE_FOLD = 5
MORE = 0.01
"""Gain that a change has to add to others for it to be taken with them."""
GRACE_SECONDS = 10.0
"""Seconds that a simulation may go on after the time is over."""
WITHIN = 60.0
"""Seconds after which no further candidate is begun, if nothing else is said."""


@dataclass(frozen=True)
class Weighed:
    """A candidate, with what it does."""

    candidate: Candidate
    setup: Setup
    figures: Figures
    gain: Gain


@dataclass(frozen=True)
class Answer:
    """All that is said to a question."""

    case: Case
    changes: Sequence[Weighed]
    """Worth while, allowed by the risk, in order of gain; the best of each action."""
    others: Sequence[Weighed]
    """Other drives and the like, which replace the rest, in order of gain."""
    risky: Sequence[Weighed]
    """Worth while, and cost more durability than is allowed."""
    combination: Weighed | None
    """All changes together; None of fewer than two, or where they do not go together."""
    useless: Sequence[Useless]
    not_known: Sequence[NotKnown]
    told: Sequence[Told]
    weighed: Sequence[Weighed] = ()
    """All that was simulated."""
    out_of_time: Sequence[str] = ()
    """Candidates that the time did not suffice for, by name."""
    seconds: float = 0.0
    is_complete: bool = True
    """False if it was stopped before its end."""


class _Waiting:
    """Candidates that nobody has taken yet, by number."""

    def __init__(self, candidates: Sequence[Candidate], prepared: Future[float]) -> None:
        self._prepared = prepared
        self._lock = threading.Lock()
        numbers = range(len(candidates))
        self._of_log = deque(at for at in numbers if candidates[at].settings)
        self._others = deque(at for at in numbers if not candidates[at].settings)

    def take(self) -> int:
        """Give the next: one that needs the log as soon as it was looked through."""
        with self._lock:
            of_log = self._of_log and (self._prepared.done() or not self._others)
            return (self._of_log if of_log else self._others).popleft()


@dataclass
class Advising:
    """Finds the answer for a case. A Tracker: it can be followed and stopped."""

    case: Case
    engine: Engine
    actions: Sequence[Action]
    within: float = WITHIN
    """Seconds after which no further candidate is begun."""
    threads: int = 2
    _done: int = 0
    _total: int = 0
    _pool: Pool[tuple[int, Weighed | None]] | None = None
    _preparing: Progress = field(default_factory=Progress)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _out_of_time: list[str] = field(default_factory=list)
    _failed: list[NotKnown] = field(default_factory=list)

    def state(self) -> tuple[int, int]:
        """Give the candidates that are done, and how many there are."""
        return self._done, self._total

    def preparation(self) -> tuple[int, int]:
        """Give how much of the database's log was looked through, and how much there is."""
        return self._preparing.state()

    def cancel(self) -> None:
        """Stop, and keep what is finished."""
        self._stopped.set()
        self._preparing.cancel()
        if self._pool is not None:
            self._pool.cancel()

    def run(self) -> Answer:
        """Give the answer.

        Raises Cancelled if it was stopped before the first candidate was weighed.
        """
        began = time.monotonic()
        if self.case.what_ifs is not None:
            # Whether it can be told what other settings do decides on what is advised at all.
            self.case.what_ifs.prepare([{}], self._preparing)
        candidates, useless, not_known, told = _sorted(self.actions, self.case)
        self._total = len(candidates) + 1
        weighed = self._weigh_all(candidates)
        if self._stopped.is_set() and not weighed:
            raise Cancelled("stopped")
        changes, others, risky, small = _ranked(self.case, weighed)
        combination = None if self._stopped.is_set() else self._together(changes)
        return Answer(
            self.case,
            changes,
            others,
            risky,
            combination,
            [*useless, *small],
            [*not_known, *self._failed],
            told,
            weighed,
            self._out_of_time,
            time.monotonic() - began,
            not self._stopped.is_set(),
        )

    def _weigh_all(self, candidates: Sequence[Candidate]) -> list[Weighed]:
        """Weigh all: those that need the database's log after it was looked through.

        Raises Cancelled if it was stopped before that.
        """
        with ThreadPoolExecutor(1) as reader:
            now = dict(self.case.base.settings)
            wanted = [{**now, **one.settings} for one in candidates if one.settings]
            prepared = reader.submit(self._prepare, wanted)
            waiting = _Waiting(candidates, prepared)

            def weigh(progress: Progress) -> tuple[int, Weighed | None]:
                at = waiting.take()
                return at, self._weigh(candidates[at], prepared, progress)

            self._pool = Pool([weigh] * len(candidates), [None] * len(candidates), self.threads)
            if self._stopped.is_set():
                self._pool.cancel()
            found = dict(one.result for one in self._pool.run() if one.result is not None)
            if not found:
                prepared.result()
        return [one for _, one in sorted(found.items()) if one is not None]

    def _prepare(self, wanted: Sequence[Mapping[str, str]]) -> float:
        """Look through the database's log once for all settings; give when no more is begun.

        One of which nothing can be told says so when it is weighed.
        """
        what_ifs = self.case.what_ifs
        if what_ifs is not None and what_ifs.refused is None:
            try:
                what_ifs.prepare(wanted, self._preparing)
            except Cancelled:
                raise
            except FlashwrightError:
                pass
        return time.monotonic() + self.within

    def _weigh(
        self, candidate: Candidate, prepared: Future[float], progress: Progress
    ) -> Weighed | None:
        end = time.monotonic() + self.within
        try:
            if candidate.settings or prepared.done():
                end = prepared.result()
            setup = candidate.changed(self.case.base)
            if time.monotonic() > end and not self.engine.knows(setup):
                self._out_of_time.append(candidate.name)
                return None
            # What would go on for long is left: the answer is due.
            late = threading.Timer(
                max(0.0, end + GRACE_SECONDS - time.monotonic()), progress.cancel
            )
            late.start()
            try:
                found = self.engine.figures(setup, progress)
                before = self._before(setup, progress)
            finally:
                late.cancel()
        except Cancelled:
            if self._stopped.is_set():
                raise
            self._out_of_time.append(candidate.name)
            return None
        except FlashwrightError as error:
            # One that cannot be simulated shall not cost the others their answer.
            how = "it may be measured on a real one"
            self._failed.append(NotKnown(candidate.action, candidate.what, str(error), how))
            return None
        finally:
            self._done += 1
        return Weighed(candidate, setup, found, gain_of(self.case, found, before))

    def _before(self, setup: Setup, progress: Progress | None = None) -> Figures:
        """Give what a setup is held against: how things stand, by the same road."""
        if not setup.settings or self.case.what_ifs is None:
            return self.case.figures
        load = self.case.what_ifs.as_recorded
        return self.engine.figures(self.case.base.changed(load=load), progress)

    def _together(self, changes: Sequence[Weighed]) -> Weighed | None:
        """Simulate changes as one, as far as each gains on top of those before it.

        Gains do not add up: two that share flushes, or that both shorten the log, gain once.
        """
        taken = list(changes[:1])
        best: Weighed | None = None
        # Mostly each is taken.
        added = [dict(one.candidate.settings) for one in changes]
        together = accumulate(added, or_, initial=dict(self.case.base.settings))
        try:
            self._prepare([one for one in list(together)[2:] if one])
        except Cancelled:
            return None
        for one in changes[1:]:
            if self._stopped.is_set():
                return None
            tried = self._as_one([*taken, one])
            if tried is None or costs_too_much(tried.gain, self.case.goal):
                continue
            before = (best or changes[0]).gain.of(self.case.goal).value
            if tried.gain.of(self.case.goal).value > before + MORE:
                taken.append(one)
                best = tried
        return best

    def _as_one(self, weighed: Sequence[Weighed]) -> Weighed | None:
        taken = [one.candidate for one in weighed]
        try:
            setup = self.case.base
            for one in taken:
                setup = one.changed(setup)
            found = self.engine.figures(setup)
            before = self._before(setup)
        except FlashwrightError:
            # They do not go together.
            return None
        worst = max((one.loss for one in taken), key=lambda loss: loss.level)
        together = Candidate(
            action="combination",
            name=" + ".join(one.name for one in taken),
            what=" and ".join(_small(one.what) for one in taken),
            changed=lambda _: setup,
            cost="the cost of each",
            loss=worst,
            do=tuple(line for one in taken for line in one.do),
            undo=tuple(line for one in reversed(taken) for line in one.undo),
            why="They were simulated as a whole: gains do not add up.",
        )
        return Weighed(together, setup, found, gain_of(self.case, found, before))


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


def _sorted(
    actions: Iterable[Action], case: Case
) -> tuple[list[Candidate], list[Useless], list[NotKnown], list[Told]]:
    """Give the findings of all actions by kind."""
    found = [finding for action in actions for finding in action.findings(case)]
    return (
        [one for one in found if isinstance(one, Candidate)],
        [one for one in found if isinstance(one, Useless)],
        [one for one in found if isinstance(one, NotKnown)],
        [one for one in found if isinstance(one, Told)],
    )


def _ranked(
    case: Case, weighed: Sequence[Weighed]
) -> tuple[list[Weighed], list[Weighed], list[Weighed], list[Useless]]:
    """Give changes, other drives, risky ones, and what does not gain, each in order of gain."""
    goal = case.goal

    def gain(one: Weighed) -> float:
        value = one.gain.of(goal).value
        return value if value == value else float("-inf")  # noqa: PLR0124  (NaN is not itself)

    changes: list[Weighed] = []
    others: list[Weighed] = []
    risky: list[Weighed] = []
    small: list[Useless] = []
    seen: set[tuple[str, Lost]] = set()
    for one in sorted(weighed, key=gain, reverse=True):
        candidate = one.candidate
        if not candidate.combines:
            others.append(one)
            continue
        key = (candidate.action, candidate.loss.level)
        if key in seen:
            continue
        seen.add(key)
        if not is_worth(one.gain.of(goal)):
            small.append(Useless(candidate.action, candidate.what, _too_small(one, goal)))
        elif costs_too_much(one.gain, goal):
            small.append(Useless(candidate.action, candidate.what, _too_dear(one, goal)))
        elif candidate.loss.level > case.risk:
            risky.append(one)
        else:
            changes.append(one)
    # What an action gains without a risk is not listed again among the risky.
    helped = {one.candidate.action for one in changes}
    small = [one for one in small if one.action not in helped]
    return changes, others, risky, small


def _too_dear(one: Weighed, goal: str) -> str:
    return f"{gain_said(one.gain, goal)}, but {beside(one.gain, goal)}"


def _too_small(one: Weighed, goal: str) -> str:
    return f"{gain_said(one.gain, goal)}. {one.candidate.why}"
