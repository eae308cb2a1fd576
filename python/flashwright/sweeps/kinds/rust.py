"""Any job that is done in Rust alone: its figures are the single ones of its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright._core import InputError
from flashwright.engine.task import Found
from flashwright.jobs.play.figures import flat
from flashwright.jobs.schema import settings_of
from flashwright.jobs.work import Job

if TYPE_CHECKING:
    from flashwright._core import Progress

JOB = "job"
"""Setting that names the job."""
OF_THE_MACHINE = ("wall_seconds", "peak_rss_bytes")


def settings(asked: Mapping[str, Any]) -> dict[str, Any]:
    """See `SweptKind`."""
    name = asked[JOB]
    job: Job[dict[str, Any]] = Job(name, dict)
    found = job.settings({key: value for key, value in asked.items() if key != JOB})
    writing = [one.name for one in settings_of(name) if one.writes and found[one.name]]
    if writing:
        raise InputError(f"{writing[0]}: a sweep has no place for it; leave it out")
    return {**found, JOB: name}


def inputs(settings: Mapping[str, Any]) -> list[str]:
    """See `SweptKind`: each text that is the path of a file is one."""
    rest = {key: value for key, value in settings.items() if key != JOB}
    return [text for text in _texts(rest) if text and Path(text).exists()]


def _texts(value: Any) -> Iterator[str]:
    """Give all texts within settings: also those of lists, such as several files."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def do(settings: Mapping[str, Any], progress: Progress) -> Found:
    """See `Kind`."""
    job: Job[dict[str, Any]] = Job(settings[JOB], dict)
    asked = {key: value for key, value in settings.items() if key != JOB}
    done = job.do(asked, progress)
    figures = flat(done.outcome)
    kept = {key: one for key, one in figures.items() if not key.endswith(OF_THE_MACHINE)}
    return Found(kept, done.tables)
