"""A question from its beginning to its answer, as a run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flashwright._core import Cancelled, Progress
from flashwright.advice import document
from flashwright.advice.actions import ALL
from flashwright.advice.answer import WITHIN, Advising, Answer
from flashwright.advice.building import Question, case_of
from flashwright.advice.case import Case
from flashwright.advice.engine import Engine
from flashwright.progress import StoppedError, follow
from flashwright.runs import RUNS, Job, Run
from flashwright.slices.cut import Stopper
from flashwright.sources import check_source, describe, name_of

COMMAND = "advise"
KEPT = RUNS / "advice"
"""Folder of figures that were simulated: no question simulates them again."""


class _Both:
    """Stops a reading and the simulation after it."""

    def __init__(self, stopper: Stopper, progress: Progress) -> None:
        self._stopper, self._progress = stopper, progress

    def state(self) -> tuple[int, int]:
        """Give how far the simulation is."""
        return self._progress.state()

    def preparation(self) -> tuple[int, int]:
        """Give what is prepared of it."""
        return self._progress.preparation()

    def cancel(self) -> None:
        """Stop at the next clean point."""
        self._stopper.cancel()
        self._progress.cancel()


@dataclass(frozen=True)
class Asked:
    """A question, and how it is answered."""

    question: Question
    within: float = WITHIN
    """Seconds after which no further simulation is begun."""
    jobs: int | None = None
    """Simulations at a time; None is one a core."""
    kept: Path | None = KEPT


def ask(asked: Asked, heard: Callable[[Answer], None] = lambda _: None) -> tuple[Run, Answer]:
    """Give the answer to a question, and the same as a run.

    `heard` is called with how things stand as soon as that is known.

    Raises InputError; StoppedError after Ctrl-C, if nothing was simulated by then.
    """
    question = asked.question
    engine = Engine(asked.kept, seed=question.seed)
    try:
        with tempfile.TemporaryDirectory(prefix="flashwright-advice-") as folder:
            stopper, progress = Stopper(), Progress()
            case: Case = follow(
                f"Reading {name_of(check_source(question.source))}, and simulating the drive",
                "",
                _Both(stopper, progress),
                lambda: case_of(question, engine, Path(folder), stopper, progress),
            )
            heard(Answer(case, (), (), (), None, (), (), ()))
            threads = asked.jobs or os.cpu_count() or 1
            advising = Advising(case, engine, ALL, asked.within, threads)
            answer = _followed(advising)
            return _run(question, answer), answer
    finally:
        engine.close()


def _followed(advising: Advising) -> Answer:
    try:
        looks = "Looking through the database's log" if advising.case.what_ifs else None
        return follow("Simulating changes", "changes", advising, advising.run, preparing=looks)
    except StoppedError as stop:
        if stop.result is None:
            raise
        found: Answer = stop.result
        return found
    except Cancelled:
        raise KeyboardInterrupt from None


def _run(question: Question, answer: Answer) -> Run:
    source = check_source(question.source)
    result = {
        "source": question.source,
        "question": {
            "device": question.device,
            "capacity_bytes": question.capacity_bytes,
            "fill": question.fill,
            "writes_per_day": question.writes_per_day,
            "goal": question.goal,
            "risk": question.risk,
        },
        **document.document(answer),
    }
    identity = [question, answer.case.load.content_hash]
    job = Job(COMMAND, identity, [describe(source)], question.seed)
    return job.run(result, {"simulated": document.table(answer)} if answer.weighed else {})
