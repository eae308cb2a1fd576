"""One probe, or two side by side: the device opened, the experiments followed, the run folder, the tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashwright._core import InputError, RunError
from flashwright.cli.output import command_line, print_table, prints_only_json, say, write_json
from flashwright.cli.progress import StoppedError

if TYPE_CHECKING:
    from flashwright import _core
    from flashwright.probing.plan import Plan
    from flashwright.probing.session import Outcome, Session
    from flashwright.probing.targets import Region, Target
    from flashwright.runs import Run

Ended = Exception | None
"""What ended a probe before its time, to be raised when all that it found is written."""


@dataclass(frozen=True)
class Asked:
    """How drives are to be probed."""

    set_name: str
    only: tuple[str, ...]
    minutes: float | None
    region: Region
    seed: int
    write: bool
    destroy_data: tuple[str, ...]
    endurance_tbw: float | None
    again: bool

    is_polled: bool

    def opened(self, target: Target) -> Target:
        """Give the device with what may be done to it, if it is a real one."""
        access = "destroy_data" if target.given in self.destroy_data else "write" if self.write else "read_only"
        return target.opened_by(access, self.seed, is_polled=self.is_polled)


def create(given: str, size_bytes: int) -> None:
    """Make a file to be probed, if there is none yet."""
    from flashwright import _core
    from flashwright.cli.progress import work

    if not Path(given).exists():
        work(f"Writing {given}", "bytes", lambda progress: _core.create_file(given, size_bytes, progress))


def is_run_folder(given: str) -> bool:
    """Tell whether a name is that of a run folder, and not of a device."""
    from flashwright.runs import RESULT_FILE

    return (Path(given) / RESULT_FILE).is_file()


def other(given: str, asked: Asked) -> Run | Target:
    """Find what `--against` names: a probe that was made, or a device that is to be probed.

    Raises InputError if it is neither.
    """
    from flashwright.probing import result
    from flashwright.probing.targets import Target

    if is_run_folder(given):
        return result.read(Path(given))
    if Path(given).is_dir():
        raise InputError(
            f"--against {given}: a folder without a result.json; name a run folder of `probe`, or a device"
        )
    return asked.opened(Target.find(given))


def probe(target: Target, asked: Asked, *, out: Path | None, json_path: str | None) -> tuple[Run, Path | None, Ended]:
    """Probe one device. Gives the run, its folder if it has one, and what ended it early, if something did."""
    from flashwright.cli.progress import work
    from flashwright.probing import plan as plans
    from flashwright.probing import result, safety
    from flashwright.probing.session import Session
    from flashwright.probing.store import Store
    from flashwright.runs import default_folder

    plan = plans.make(asked.set_name, asked.only, asked.minutes, may_write=target.may_write)
    device = work(f"Opening {target.name}", "page writes", target.open)
    about = target.document(device.info)
    region = asked.region.on(device.info)
    identity = result.identity(about, region, asked.seed)
    folder = None
    if out is not None or not prints_only_json(json_path):
        folder = out or default_folder(result.COMMAND, identity)
        Store(folder).check(identity)
    session = Session(
        device,
        region,
        plan,
        seed=asked.seed,
        may_write=target.may_write,
        store=None if folder is None else Store(folder),
        again=asked.again,
    )

    def run_of(outcome: Outcome) -> Run:
        return result.make_run(
            about,
            region,
            plan,
            outcome,
            seed=asked.seed,
            may_write=target.may_write,
            provenance=_provenance(target, asked.seed),
        )

    if folder is not None:
        # From now on the folder is a run folder, whatever happens.
        session.outcome.missing = [step.label for step in session.steps]
        run_of(session.outcome).write(folder)
    _tell_before(target, device, region, session, asked, folder)
    outcome, ended = _follow(session)
    run = run_of(outcome)
    if ended is not None:
        ended = _kept(ended, outcome, plan, folder)
    if target.is_real and target.may_write:
        written = run.result["written_bytes"]
        _tell(
            f"{target.given}: {_size(written)} were written in all, {safety.share_of_life(written, about, asked.endurance_tbw)}."
        )
    return run, folder, ended


def _follow(session: Session) -> tuple[Outcome, Ended]:
    """Run what is to be run, with a bar of its progress."""
    from flashwright.cli.progress import follow

    if not session.steps:
        return session.outcome, None
    try:
        outcome = follow(session.label, "", session, session.run)
    except StoppedError as stop:
        # The session itself ends cleanly, unless its last experiment ended at that moment.
        return session.outcome, stop
    return outcome, None if outcome.error is None else RunError(outcome.error)


def _kept(ended: Exception, outcome: Outcome, plan: Plan, folder: Path | None) -> Exception:
    """Give the error with what is kept all the same."""
    count = len(plan.steps) - len(outcome.missing)
    where = "" if folder is None else f" in {folder}; the same command goes on from there"
    kept = f"{count} of {len(plan.steps)} experiments are kept{where}"
    if isinstance(ended, StoppedError):
        return StoppedError(ended.done // 1000, ended.total // 1000, f"s of device time; {kept}", None)
    return RunError(f"{outcome.missing[0]}: {ended}; {kept}")


def _tell_before(
    target: Target, device: _core.Device, region: Region, session: Session, asked: Asked, folder: Path | None
) -> None:
    """Say what is left out, what was done before, and what is going to be destroyed."""
    from flashwright.probing import safety

    reused = session.outcome.reused
    if reused:
        _tell(f"Already in {folder}: {', '.join(reused)}; --again measures anew.")
        if target.is_simulated and session.steps:
            _tell(f"{target.name} begins {target.state} again: what earlier experiments wrote is not on it.")
    if target.is_real and any(step.writes for step in session.steps):
        _tell(safety.warning(target, device, region, session, asked.endurance_tbw))


def _tell(line: str) -> None:
    # Standard output may belong to the JSON alone.
    click.echo(line, err=True)


def _size(value: float) -> str:
    from flashwright._text import size

    return size(value)


def _provenance(target: Target, seed: int) -> dict[str, Any]:
    from flashwright.runs import provenance

    content = None if target.drive is None else target.drive.profile_hash
    return provenance(command_line(), [{"source": target.given, "sha256": None, "content_hash": content}], seed)


def beside(
    run: Run, other: Run | Target, asked: Asked, place: Path | None, *, json_path: str | None
) -> tuple[Run, Ended]:
    """Lay another drive over this one: probed now, if it has not been. Gives what ended that early, if something did."""
    from flashwright.probing import result
    from flashwright.probing.targets import Target
    from flashwright.reports import write_report

    if not isinstance(other, Target):
        return result.overlay(run, other), None
    theirs, folder, ended = probe(other, asked, out=place, json_path=json_path)
    if folder is not None:
        theirs.write(folder)
        write_report(folder)
    return result.overlay(run, theirs), ended


def print_run(run: Run) -> None:
    """Print what was found: each value with what is to be believed of it, or the values of two drives side by side."""
    from flashwright.reports import probe_words as words

    result = run.result
    if "against" in result:
        print_table(words.comparison_headings(result), words.comparison_rows(run), words.title(result))
    else:
        print_table(words.HEADINGS, words.value_rows(result), words.title(result))
    for line in words.remarks(result):
        say(line)
    for line in words.profile_lines(result):
        say(line)


def print_experiments(json_path: str | None) -> None:
    """Print what `flashwright list experiment` prints."""
    from flashwright.cli.listing import everything, print_kind

    chosen = {"experiment": everything()["experiment"]}
    write_json(chosen, json_path)
    if not prints_only_json(json_path):
        print_kind("experiment", chosen["experiment"])
