"""One probe of one device.

The experiments of a plan one after the other, each kept as soon as it ends.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashwright import _core
from flashwright._core import Cancelled, ImpossibleError, InputError, Progress, RunError
from flashwright.probing.store import Finding, Store, complete, is_enough

if TYPE_CHECKING:
    from flashwright.probing.plan import ProbePlan, Step
    from flashwright.probing.targets import Region


@dataclass
class ProbeOutcome:
    """Outcome of a plan, whether or not it came to its end."""

    findings: dict[str, Finding] = field(default_factory=dict)
    """Findings by the experiment with all its parameters; those of earlier runs in the folder too.
    """
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """Experiments that were not possible, each with the reason."""
    missing: list[str] = field(default_factory=list)
    """Experiments that were not reached."""
    reused: list[str] = field(default_factory=list)
    """Experiments that had been done before."""
    error: str | None = None
    """Error of the device that ended the run, or of a parameter."""
    is_wrong_use: bool = False
    """Ended by a parameter that does not fit the device."""
    is_stopped: bool = False
    """Ended by Ctrl-C."""

    @property
    def is_complete(self) -> bool:
        """True if every experiment of the plan was done, or found to be impossible."""
        return self.error is None and not self.is_stopped and not self.missing


class Session:
    """Runs a plan; reports how far it is, in milliseconds of the device's time.

    Stops at once when it is cancelled.
    """

    def __init__(
        self,
        device: _core.Device,
        region: Region,
        plan: ProbePlan,
        *,
        seed: int,
        may_write: bool,
        store: Store | None,
        again: bool = False,
    ) -> None:
        self._device, self._region, self._plan, self._seed = device, region, plan, seed
        self._may_write, self._store = may_write, store
        self.outcome = ProbeOutcome(findings={} if store is None else store.read())
        self.outcome.left_out += plan.left_out
        known = self.outcome.findings
        steps = [
            step
            for step in plan.steps
            if again or step.spec not in known or not is_enough(known[step.spec], step)
        ]
        self.outcome.reused = [step.label for step in plan.steps if step not in steps]
        self._steps = steps
        self._done_seconds = 0.0
        self._number = 0
        self._progress = Progress()
        self._is_cancelled = threading.Event()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The experiments that are to be done."""
        return tuple(self._steps)

    def state(self) -> tuple[int, int]:
        """Give the device time that is done, and that of all, in milliseconds."""
        now, budget = self._progress.state()
        total = sum(step.budget_seconds for step in self._steps)
        return int(1e3 * self._done_seconds + min(now, budget) / 1e6), int(1e3 * total)

    def label(self) -> str:
        """Say which experiment it is at, and how much of the device's time is done."""
        done, total = self.state()
        name = self._steps[min(self._number, len(self._steps) - 1)].label
        return (
            f"{name} ({self._number + 1} of {len(self._steps)}), {done / 1e3:.0f} of "
            f"{total / 1e3:.0f} s of device time"
        )

    def cancel(self) -> None:
        """Stop the experiment that runs, and start no more."""
        self._is_cancelled.set()
        self._progress.cancel()

    def run(self) -> ProbeOutcome:
        """Do what is to be done, and give what came of it."""
        outcome = self.outcome
        done = 0
        for step in self._steps:
            # In this order, so that a cancel between the two is not lost.
            self._number, self._progress = done, Progress()
            if self._is_cancelled.is_set():
                outcome.is_stopped = True
                break
            if not self._one(step):
                break
            done += 1
            self._done_seconds += step.budget_seconds
        outcome.missing = [step.label for step in self._steps[done:]]
        return outcome

    def _one(self, step: Step) -> bool:
        """Do one experiment; tell whether the others may follow."""
        outcome = self.outcome
        # Its earlier findings shall not guide it now.
        known = {
            spec: finding
            for spec, finding in in_order(outcome.findings).items()
            if spec != step.spec
        }
        try:
            text = _core.probe(
                self._device,
                step.spec,
                region_offset=self._region.offset,
                region_bytes=self._region.length,
                seed=self._seed,
                budget_seconds=step.budget_seconds,
                may_write=self._may_write and step.writes,
                findings=json.dumps(list(known.values())),
                progress=self._progress,
            )
        except Cancelled:
            outcome.is_stopped = True
            return False
        except ImpossibleError as error:
            outcome.left_out.append((step.label, _reason(str(error), step.name)))
            outcome.findings.pop(step.spec, None)
            return True
        except (InputError, RunError) as error:
            # Parameters were checked before as far as they do not depend on the device: one may
            # still not fit this device.
            outcome.error, outcome.is_wrong_use = str(error), isinstance(error, InputError)
            return False
        outcome.findings[step.spec] = (
            complete(step, text) if self._store is None else self._store.keep(step, text)
        )
        return True


def in_order(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """Put findings in the order of the registry.

    Those of experiments that are not known any more come last.
    """
    rank = {entry["name"]: number for number, entry in enumerate(_core.variants("experiment"))}
    return dict(
        sorted(
            findings.items(),
            key=lambda item: (rank.get(item[0].partition("(")[0], len(rank)), item[0]),
        )
    )


def _reason(error: str, name: str) -> str:
    return error.removeprefix(f"experiment `{name}`: ")
