"""One probe, or two side by side.

The device opened, the experiments followed, the run folder, the tables for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright._text import size
from flashwright.cli.lists import Listed, Named
from flashwright.cli.options import duration, option
from flashwright.cli.output import Output
from flashwright.cli.target_options import TargetOptions
from flashwright.progress import StoppedError
from flashwright.terminal import print_table, say

if TYPE_CHECKING:
    from flashwright import _core
    from flashwright.probing.estimate import Estimate
    from flashwright.probing.plan import ProbePlan
    from flashwright.probing.session import ProbeOutcome, Session
    from flashwright.probing.store import Store
    from flashwright.probing.targets import Region, Target
    from flashwright.runs import Run

Ended = Exception | None
"""Error that ended a probe early, to be raised when all findings are written."""


@dataclass(frozen=True)
class ProbeOptions:
    """Options of a probe."""

    quick: bool = option(
        "The quick set: 2 minutes of a fast device's time, half an hour and more of a slow card's. "
        "How long is said before it begins.  [default]"
    )
    full: bool = option("All experiments: half an hour of a fast device, hours of a slow card.")
    only: tuple[str, ...] = option(
        "This experiment alone, of `flashwright list experiment`. a,b or again for each.",
        cls=Listed,
        type=Named("experiment"),
        metavar="NAME[(KEY=VALUE,...)]",
    )
    minutes: float | None = option(
        "Device time of all experiments together.  [default: of the set]",
        type=duration(60, is_open=True),
        metavar="M",
    )
    effort: int = option(
        "Search for a profile that behaves as the device does by simulating it N times at most; 0 "
        "for none. A profile that the run folder has of the same findings is kept.",
        "--fit",
        type=click.IntRange(0),
        default=240,
    )
    again: bool = option("Measure and fit anew what the run folder holds already.")


def is_run_folder(given: str) -> bool:
    """Tell whether a name is that of a run folder, and not of a device."""
    from flashwright.outputs import RESULT_FILE

    return (Path(given) / RESULT_FILE).is_file()


def other(given: str, on: TargetOptions) -> Run | Target:
    """Find what `--against` names: a probe that was made, or a device that is to be probed.

    Raises InputError if it is neither.
    """
    from flashwright.probing import result

    if is_run_folder(given):
        return result.read(Path(given))
    if Path(given).is_dir():
        raise InputError(
            f"--against {given}: a folder without a result.json; name a run folder of `probe`, or "
            "a device"
        )
    return on.target(given)


def probe(
    target: Target, asked: ProbeOptions, on: TargetOptions, output: Output
) -> tuple[Run, Path | None, Ended]:
    """Probe one device.

    Gives the run, its folder if it has one, and what ended it early, if something did.
    """
    from flashwright.probing import plan as plans
    from flashwright.probing import profile, result, safety
    from flashwright.probing.session import Session
    from flashwright.probing.store import Store
    from flashwright.progress import work
    from flashwright.runs import Job

    plan = plans.make(
        plans.FULL if asked.full else plans.QUICK,
        asked.only,
        asked.minutes,
        may_write=target.may_write,
    )
    device = work(*target.opening, target.open)
    about = target.document(device.info)
    region = target.region.on(device.info)
    content = None if target.drive is None else target.drive.profile_hash
    inputs = [{"source": target.given, "sha256": None, "content_hash": content}]
    job = Job(result.COMMAND, result.identity(about, region, on.seed), inputs, on.seed)
    folder = output.folder(job)
    store = None if folder is None else Store(folder)
    is_begun = folder is not None and job.is_begun(folder)
    may_write = target.may_write
    session = Session(
        device, region, plan, seed=on.seed, may_write=may_write, store=store, again=asked.again
    )

    def run_of(outcome: ProbeOutcome) -> Run:
        return result.make_run(about, region, plan, outcome, job=job, may_write=may_write)

    earlier = None
    if store is not None:
        earlier = profile.read(store.folder)
        if not is_begun:
            # From now on it is one, whatever happens. What is there already stays until all of this
            # run is known.
            session.outcome.missing = [step.label for step in session.steps]
            run_of(session.outcome).write(store.folder)
    _tell_before(target, device, region, session, store)
    expected = _expect(target, device, region, session, fits=asked.effort > 0)
    outcome, ended = _follow(session)
    run = run_of(outcome)
    run.result["estimate"] = (
        None
        if expected is None
        else {**expected.document(), "is_whole": not session.outcome.reused}
    )
    ended = _add_profile(run, outcome, about, asked, on.seed, earlier, ended)
    if ended is not None:
        ended = _kept(ended, outcome, plan, store)
    if target.is_real and may_write:
        written, share = run.result["written_bytes"], safety.share_of_life
        _tell(
            f"{target.given}: {size(written)} were written in all, "
            f"{share(written, about, target.endurance_tbw)}."
        )
    return run, folder, ended


def _expect(
    target: Target, device: _core.Device, region: Region, session: Session, *, fits: bool
) -> Estimate | None:
    """Say how long the experiments that are left will take. None if there is none."""
    from flashwright.probing import estimate

    if not session.steps:
        return None
    may_write = any(step.writes for step in session.steps)
    pace = estimate.pace_of(target, device, region, may_write=may_write)
    found = estimate.estimate(session.steps, pace)
    _tell(estimate.said(found, target, fits=fits))
    return found


def _add_profile(
    run: Run,
    outcome: ProbeOutcome,
    about: dict[str, Any],
    asked: ProbeOptions,
    seed: int,
    earlier: tuple[dict[str, Any], str] | None,
    ended: Ended,
) -> Ended:
    """Add a profile that behaves as the device did, or the reason why there is none.

    One that is there goes only for a new one. Nothing is fitted to a probe that was ended. Gives
    what ended it, or Ctrl-C that came meanwhile.
    """
    from flashwright.probing import profile
    from flashwright.progress import work
    from flashwright.runs import PROFILE_FILE

    findings, was_ended = outcome.findings, ended is not None
    is_due = asked.effort > 0 and not was_ended
    reason = profile.why_not(findings)
    if reason is None and is_due:
        is_there = earlier is not None and profile.is_enough(
            earlier[0], findings, seed, asked.effort
        )
        is_due = asked.again or not is_there
    if reason is None and is_due:
        try:
            said, toml = work(
                f"Fitting a profile to {about['name']}",
                "cells",
                lambda progress: profile.make(
                    findings, about, seed=seed, effort=asked.effort, progress=progress
                ),
            )
        except StoppedError as stop:
            ended, reason = stop, "its fitting was stopped; the same command does it"
        else:
            run.result["profile"] = said
            run.texts.update({} if toml is None else {PROFILE_FILE: toml})
            return None
    if earlier is not None:
        run.result["profile"] = profile.outdated(earlier[0], findings, seed)
        run.texts[PROFILE_FILE] = earlier[1]
    elif not was_ended:
        run.result["profile"] = {"why_not": reason or "--fit 0"}
    return ended


def _follow(session: Session) -> tuple[ProbeOutcome, Ended]:
    """Run what is to be run, with a bar of its progress."""
    from flashwright.progress import follow

    if not session.steps:
        return session.outcome, None
    try:
        outcome = follow(session.label, "", session, session.run)
    except StoppedError as stop:
        # The session itself ends cleanly, unless its last experiment ended at that moment.
        return session.outcome, stop
    if outcome.error is None:
        return outcome, None
    return outcome, InputError(outcome.error) if outcome.is_wrong_use else RunError(outcome.error)


def _kept(
    ended: Exception, outcome: ProbeOutcome, plan: ProbePlan, store: Store | None
) -> Exception:
    """Give the error with what is kept all the same."""
    count = len(plan.steps) - len(outcome.missing)
    where = "" if store is None else f" in {store.folder}; the same command goes on from there"
    kept = f"{count} of {len(plan.steps)} experiments are kept{where}"
    if isinstance(ended, StoppedError):
        # Milliseconds of the device's time, unless it was the fitting that was stopped.
        is_fitting = not outcome.missing
        scale, unit = (1, "cells of the profile") if is_fitting else (1000, "s of device time")
        return StoppedError(ended.done // scale, ended.total // scale, f"{unit}; {kept}", None)
    if isinstance(ended, InputError):
        return InputError(f"{ended}; {kept}")
    return RunError(f"{outcome.missing[0]}: {ended}; {kept}")


def _tell_before(
    target: Target,
    device: _core.Device,
    region: Region,
    session: Session,
    store: Store | None,
) -> None:
    """Say what is left out, what was done before, and what is going to be destroyed."""
    from flashwright.probing import safety

    reused = session.outcome.reused
    if reused and store is not None:
        _tell(f"Already in {store.folder}: {', '.join(reused)}; --again measures anew.")
        if target.is_simulated and session.steps:
            _tell(
                f"{target.name} begins {target.state} again: what earlier experiments wrote is not "
                "on it."
            )
    if target.is_real and any(step.writes for step in session.steps):
        _tell(safety.warning(target, device, region, session, target.endurance_tbw))


def _tell(line: str) -> None:
    # Standard output may belong to the JSON alone. Who does not read it loses nothing of the run.
    with suppress(BrokenPipeError):
        say(line, err=True)


def beside(
    run: Run, other: Run | Target, asked: ProbeOptions, on: TargetOptions, output: Output
) -> tuple[Run, Ended]:
    """Lay another drive over this one: probed now, if it has not been.

    Gives what ended that early, if something did.
    """
    from flashwright.probing import result
    from flashwright.probing.targets import Target
    from flashwright.reports import write_report

    if not isinstance(other, Target):
        return result.overlay(run, other), None
    theirs, folder, ended = probe(other, asked, on, output)
    if folder is not None:
        theirs.write(folder)
        write_report(folder)
    return result.overlay(run, theirs), ended


def print_run(run: Run) -> None:
    """Print what was found.

    Each value with what is to be believed of it, or the values of two drives side by side. Of an
    experiment with many values the first stand here; the report has all.
    """
    from flashwright.reports import probe_words as words

    result = run.result
    if "against" in result:
        rows, headings = words.comparison_rows(run), words.comparison_headings(result)
    else:
        rows, headings = words.value_rows(result), words.HEADINGS
    if rows:
        print_table(headings, _shortened(rows), words.title(result))
    for line in (
        *words.remarks(result),
        *words.profile_lines(result),
        *words.profile_notes(result),
    ):
        say(line)


MOST_VALUES = 6
"""Values of one experiment that are printed."""


def _shortened(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Keep the first values of each experiment, and say how many more there are.

    An experiment begins at a row that names it.
    """
    groups: list[list[tuple[str, ...]]] = []
    for row in rows:
        if row[0]:
            groups.append([])
        groups[-1].append(row)
    kept = []
    for group in groups:
        # One more row takes no more room than saying that there is one more.
        if len(group) <= MOST_VALUES + 1:
            kept += group
            continue
        more = f"{len(group) - MOST_VALUES} more, in the report"
        kept += [*group[:MOST_VALUES], ("", more, *[""] * (len(group[0]) - 2))]
    return kept


def print_experiments(output: Output) -> None:
    """Print what `flashwright list experiment` prints."""
    from flashwright.cli.listing import print_kind
    from flashwright.cli.named import everything

    chosen = {"experiment": everything()["experiment"]}
    output.write(chosen)
    if not output.is_only_json:
        print_kind("experiment", chosen["experiment"])
