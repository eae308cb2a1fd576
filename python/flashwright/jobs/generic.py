"""Jobs that are done in Rust alone: their command, their function, their words and their page.

A job has a folder of its own here only for what Rust does not do, or says better in other words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flashwright.jobs.schema import about
from flashwright.jobs.work import Job
from flashwright.pages.page import Page, Section, Table
from flashwright.progress import work
from flashwright.runs import Job as Work
from flashwright.runs import Run

if TYPE_CHECKING:
    from flashwright._core import Progress

HEADINGS = (("figure", "left"), ("value", "right"))


def run(name: str, asked: Mapping[str, Any], *, label: str = "", unit: str = "") -> Run:
    """Do a job, and give what came of it as a run.

    Its progress has the label, and a rate where there is a unit.

    Raises InputError with the `option` that is wrong; RunError; StoppedError.
    """
    job: Job[dict[str, Any]] = Job(name, dict)
    settings = job.settings(asked)

    def do(progress: Progress) -> Any:
        return job.do(settings, progress)

    done = work(label or f"Doing {name}", unit, do)
    result = {"settings": settings, **done.outcome}
    identity = [settings, done.outcome.get("content_hash")]
    return Work(name, identity, [], settings.get("seed")).run(result, done.tables, done.texts)


def figures(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Give the single figures of a result, nested ones with joined names."""
    for key, value in result.items():
        if key in ("settings", "provenance"):
            continue
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from figures(value, f"{name} ")
        elif isinstance(value, float):
            yield name, f"{value:.6g}"
        elif not isinstance(value, list | tuple):
            yield name, str(value)


def page(run: Run) -> Page:
    """Give the report of a job: its figures, and what produced them."""
    table = Table("Figures", HEADINGS, list(figures(run.result)))
    said = about(run.command)
    return Page(
        kind=run.command,
        title=run.command,
        headline=said,
        facts=[],
        sections=[Section("What came of it", [table])],
        provenance=run.result["provenance"],
        remarks=[],
    )
