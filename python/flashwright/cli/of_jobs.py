"""Makes the command line of a job: an option for each of its settings, in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from flashwright._core import InputError
from flashwright.cli.grouped import GroupedCommand
from flashwright.cli.lists import Listed, Named
from flashwright.cli.output import Output
from flashwright.cli.outputs import OutFile, OutFolder
from flashwright.jobs import generic
from flashwright.jobs.schema import Setting, about, plain_of, settings_of
from flashwright.outputs import JSON
from flashwright.terminal import print_table

Result = TypeVar("Result")
_COMPLETES: dict[str, Callable[[], click.ParamType[Any]]] = {
    "source": lambda: Named(or_file=True),
    "device": lambda: Named("profile", or_file=True),
    "layer": lambda: Named("layer", others=["auto", "direct"]),
    **{kind: partial(Named, kind) for kind in ("buffer", "lock_rule")},
    "load": lambda: Named("load", or_file=True),
}
"""Types of what a shell completes."""
_DAY = 86_400


class Chosen(click.Choice[str]):
    """One of some words, which a shell completes; what is wrong with another the job says."""

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,  # noqa: ARG002
        ctx: click.Context | None,  # noqa: ARG002
    ) -> str:
        """Give it as it is."""
        return str(value)


def command_of(
    job: str,
    do: Callable[..., Any],
    *,
    more: Iterable[click.Parameter] = (),
    short_help: str,
    examples: str = "",
    name: str | None = None,
    types: Mapping[str, click.ParamType[Any]] | None = None,
) -> click.Command:
    """Make the command of a job: `do` gets what was given, and the values of `more` by name.

    `name` is that of the command, if the job has another. `types` are those of settings of which
    Rust does not say enough.
    """
    known = [one for one in settings_of(job) if not one.is_hidden]
    names = {one.name for one in known}

    def run(**given: Any) -> Any:
        context = click.get_current_context()
        unset = (None, click.core.ParameterSource.DEFAULT)
        asked = {
            name: plain_of(value)
            for name, value in given.items()
            if name in names and context.get_parameter_source(name) not in unset
        }
        rest = {name: value for name, value in given.items() if name not in names}
        return in_words(known, lambda: do(asked, **rest))

    groups: dict[str, list[str]] = {}
    for one in known:
        groups.setdefault(one.group, []).append(one.name)
    kinds = types or {}
    return GroupedCommand(
        name or job,
        callback=run,
        params=[*(_parameter(one, kinds.get(one.name)) for one in known), *more],
        help=about(job) + ("" if not examples else f"\n\n\b\n{examples}"),
        short_help=short_help,
        groups=groups,
    )


def in_words(known: Iterable[Setting], do: Callable[[], Result]) -> Result:
    """Do something, and name a setting that is wrong as the command line does.

    Raises click.UsageError instead of an InputError with an `option`.
    """
    try:
        return do()
    except InputError as error:
        at = getattr(error, "option", None)
        if at is None:
            raise
        flags = {one.name: one.metavar if one.is_argument else one.flag for one in known}
        name = at.partition("[")[0].partition(".")[0]
        said = str(error).removeprefix(f"{at}: ")
        flag = flags.get(name)
        raise InputError(f"{flag}: {said}" if flag else said) from None


def _parameter(one: Setting, given: click.ParamType[Any] | None) -> click.Parameter:
    kind = given or (_COMPLETES[one.completes]() if one.completes else click.STRING)
    if one.is_argument:
        return _argument(one, kind)
    how: dict[str, Any] = {"help": one.help, "metavar": one.metavar, "type": kind}
    if "boolean" in one.kinds:
        return click.Option([one.flag, one.name], is_flag=True, help=one.help)
    if "array" in one.kinds:
        return Listed([one.flag, one.name], **how)
    if one.kinds == ("integer",):
        how["type"] = click.IntRange(min=0)
    elif one.choices:
        how |= {"type": Chosen(one.choices), "metavar": None}
    elif one.writes and given is None:
        how["type"] = OutFolder(is_recording=one.writes == "recording")
    if one.default == "":
        how["required"] = True
    elif one.default not in (None, 0, "0"):
        how |= {"default": _said(one), "show_default": True}
    return click.Option([one.flag, one.name], **how)


def _argument(one: Setting, kind: click.ParamType[Any]) -> click.Argument:
    if "array" not in one.kinds:
        return click.Argument([one.name], metavar=one.metavar, type=kind)
    several = f"{one.metavar}..."
    return click.Argument([one.name], metavar=several, type=kind, nargs=-1, required=True)


def _said(one: Setting) -> Any:
    """Give a default as people write it: `1d`, `128Mi`."""
    value = one.default
    if one.metavar == "S" and value % _DAY == 0:
        return f"{value / _DAY:g}d"
    if isinstance(value, int) and not isinstance(value, bool):
        for unit, name in ((1 << 30, "Gi"), (1 << 20, "Mi")):
            if value % unit == 0:
                return f"{value // unit}{name}"
    return value


def json_option() -> click.Option:
    """Give the option of where a job's result is written as JSON."""
    return click.Option(
        ["--json", "json_path"],
        type=OutFile(JSON, is_dash_allowed=True, path_type=str),
        metavar="PATH|-",
        help="Write the result as JSON there. `-` prints nothing but JSON.",
    )


def out_option(name: str) -> click.Option:
    """Give the option of a job's run folder."""
    return click.Option(
        ["--out"],
        type=OutFolder(),
        metavar="DIR",
        help="The run folder: result.json, tables as Parquet, report.html; with --json - there is "
        f"none without it.  [default: runs/{name}-HASH of what goes in]",
    )


def plain_command(name: str) -> click.Command:
    """Make the command of a job that is done in Rust alone."""

    def do(asked: Mapping[str, Any], *, json_path: str | None, out: Path | None) -> None:
        output = Output(json_path, out)
        found = generic.run(name, asked)
        if not output.is_only_json:
            print_table(generic.HEADINGS, list(generic.figures(found.result)), name)
        output.finish(found)

    return command_of(
        name,
        do,
        short_help=about(name).partition(".")[0] + ".",
        more=[
            json_option(),
            out_option(name),
        ],
    )
