"""Makes figures of the papers, validations and comparisons again: `python -m experiments`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from experiments import engine
from experiments.book import command as book
from experiments.pages import one_line_errors
from experiments.registry import Part, Request, Set, chosen
from experiments.sets import SEED, SETS
from flashwright.cli.output import Json
from flashwright.engine.where import LOCAL, RAY
from flashwright.runs import provenance
from flashwright.terminal import print_table


def _list() -> None:
    for one in SETS:
        rows = [(part.name, part.paper, part.title) for part in one.parts]
        print_table(
            [("name", "left"), ("paper", "left"), ("what", "left")],
            rows,
            f"{one.name}: {one.title} ({one.needs})",
        )


def _options_of(
    context: click.Context, sets: Sequence[Set[Part]], values: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Give the values of each set's own options.

    Raises click.UsageError for one that was given and that no chosen set has.
    """
    found = {one.name: {str(o.name): values[str(o.name)] for o in one.options} for one in sets}
    for name in values:
        if name == book.AGAIN.name and values[name]:
            raise click.UsageError(f"--{name} is for {book.NAME} only")
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not any(name in own for own in found.values()):
            owners = [one.name for one in SETS if any(o.name == name for o in one.options)]
            raise click.UsageError(f"--{name.replace('_', '-')} is for {', '.join(owners)} only")
    return found


def _make(
    context: click.Context, names: Sequence[str], json_path: str | None, values: Mapping[str, Any]
) -> bool:
    """Make what is asked for, print it, and say whether it is complete."""
    asked = chosen(SETS, names)
    options = _options_of(context, [one for one, _ in asked], values)
    words = ["python", "-m", "experiments", *sys.argv[1:]]
    document: dict[str, Any] = {}
    is_complete = True
    for one, parts in asked:
        made_by = provenance(words, one.inputs(), SEED)
        made = one.make(Request(parts, options[one.name], shlex.join(words), made_by))
        document[one.name] = {**made.figures, "provenance": made_by}
        is_complete = is_complete and made.is_complete
        if json_path != "-":
            click.echo(made.page, nl=False)
    Json(json_path).write(document)
    return is_complete


@click.pass_context
def _run(
    context: click.Context,
    /,
    names: tuple[str, ...],
    json_path: str | None,
    workers: str,
    address: str | None,
    **values: Any,
) -> None:
    engine.use(workers, address)
    if not names:
        click.echo(context.get_help())
        context.exit(2)
    with one_line_errors():
        if names == ("list",):
            _list()
        elif names == (book.NAME,):
            if not book.make(SETS, values["out"], again=values["again"], quick=values["quick"]):
                context.exit(1)
        elif not _make(context, names, json_path, values):
            context.exit(1)


def _own_options() -> list[click.Parameter]:
    """Give the options of all sets; one that several sets have is one option."""
    owners: dict[str, list[str]] = {}
    for one in SETS:
        for option in one.options:
            owners.setdefault(str(option.name), []).append(one.name)
    options = {str(option.name): option for one in SETS for option in one.options}
    for name, option in options.items():
        option.help = f"{', '.join(owners[name])}: {option.help}"
    return [*options.values(), book.AGAIN]


main = click.Command(
    "experiments",
    callback=_run,
    params=[
        click.Argument(["names"], nargs=-1, metavar="[list|book|NAME...]"),
        click.Option(
            ["--json", "json_path"],
            metavar="PATH",
            help="Write all numbers to PATH, by set; `-` prints only JSON.",
        ),
        click.Option(
            ["--engine", "workers"],
            type=click.Choice([LOCAL, RAY]),
            default=LOCAL,
            show_default=True,
            help="Who does jobs: this machine, or a Ray cluster whose nodes have this clone.",
        ),
        click.Option(
            ["--address"],
            metavar="URL",
            help="The Ray cluster.  [default: that of this machine]",
        ),
        *_own_options(),
    ],
    help="Make figures of the papers and validations again, and print each set as a Markdown page."
    "\n\nNAME is a set (`validate-drive`), a part of one (`aging`), or a pattern of parts "
    f"(`'scheduler-4.*'`); `list` lists them all.\n\n{book.HELP}",
)

if __name__ == "__main__":
    main(prog_name="python -m experiments")
