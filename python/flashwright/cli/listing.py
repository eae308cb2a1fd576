"""`flashwright list`: everything that can be named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from flashwright import written
from flashwright._core import InputError, registry, variants
from flashwright.cli.lists import Named
from flashwright.cli.named import everything
from flashwright.cli.options import all_of, argument, option, options
from flashwright.cli.output import Json
from flashwright.terminal import print_table

# One and many of each kind.
WORDS = {
    "placement": ("placement policy", "placement policies"),
    "victim": ("victim policy", "victim policies"),
    "workload": ("synthetic workload", "synthetic workloads"),
    "trace_format": ("trace format", "trace formats"),
    "device": ("device", "devices besides profiles, disks and files"),
    "profile": ("profile", "profiles of simulated drives"),
    "array": ("array", "arrays of simulated drives"),
    "scheme": ("FTL scheme", "FTL schemes of simulated drives"),
    "pattern": ("request pattern", "request patterns (io:...)"),
    "layer": ("layer", "layers between a database and a device"),
    "load": ("load of transactions", "loads of transactions, by specification"),
    "buffer": ("buffer", "ways of a buffer pool to choose victims"),
    "lock_rule": ("lock rule", "rules for transactions in conflict"),
    "benchmark": ("benchmark", "benchmarks of `bench`, on a database"),
    "database": ("database", "databases of `bench`"),
    "place": ("place", "places of `bench`, which a database lies on"),
    "preset": ("preset", "presets of `bench`: the papers' set-ups"),
    "experiment": ("experiment", "experiments of `probe`"),
}


IN_FULL = ("experiment", "layer")
"""Kinds whose parameters are many, and have a page of their own."""


@click.command(
    "list", short_help="Policies, workloads, formats, drives, experiments: all that has a name."
)
@options
def listing(
    *,
    kind: str | None = argument(type=Named(others=list(WORDS)), required=False),
    markdown: bool = option("As tables for the docs."),
    to: Json = all_of(Json),
) -> None:
    """List what can be named on the command line: all of it, or one KIND.

    \b
    Examples:
      flashwright list
      flashwright list placement
      flashwright list profile
      flashwright list --json - | jq '.victim[].name'
    """
    known = everything()
    if kind is not None and kind not in known:
        raise InputError(f"unknown kind `{kind}`; known are: {', '.join(known)}")
    chosen = known if kind is None else {kind: known[kind]}
    to.write(chosen)
    if to.is_only_json:
        return
    if markdown:
        click.echo("\n\n".join(markdown_table(name, entries) for name, entries in chosen.items()))
        return
    for name, entries in chosen.items():
        print_kind(name, entries)


def markdown_table(kind: str, entries: list[dict[str, Any]]) -> str:
    """Give a kind as a table in Markdown."""
    lines = [f"| {WORDS[kind][0]} | {_heading(kind)} | source |", "|---|---|---|"]
    key = "name" if kind in IN_FULL else "usage"
    lines += [
        f"| `{entry[key]}` | {_cell(_summary(entry))} | {_cell(entry['source'])} |"
        for entry in entries
    ]
    if not any(entry["source"] for entry in entries):
        lines = [line.rpartition("|")[0].rpartition("|")[0] + "|" for line in lines]
    return "\n".join(lines)


def settings_tables() -> dict[str, str]:
    """Give what belongs into brackets of `bench` as tables in Markdown, by the kind of it."""
    from flashwright.benches.grounds import GROUNDS
    from flashwright.workloads.registry import SETTINGS
    from flashwright.workloads.session import DATABASES

    of_kinds: dict[str, Mapping[str, type[Any]]] = {
        "benchmark": SETTINGS,
        "database": DATABASES,
        "place": GROUNDS,
    }
    return {f"settings of {kind}": _settings(kinds) for kind, kinds in of_kinds.items()}


def _settings(kinds: Mapping[str, type[Any]]) -> str:
    lines = ["| parameter | of | what it is |", "|---|---|---|"]
    for names, one in written.together(kinds):
        known = written.of(one)
        usage = f"{written.written_name(one)}={known.kind.metavar}".replace("|", "\\|")
        lines.append(f"| `{usage}` | {names or 'all'} | {_cell(known.help)} |")
    return "\n".join(lines)


def experiments_in_full() -> str:
    """Give every experiment as Markdown for docs/probing.md.

    With what it does, what it uses of others, and its parameters.
    """
    groups: dict[str, list[str]] = {}
    for entry in variants("experiment"):
        does = "writes to the region" if entry["writes"] else "only reads"
        facts = [does, "in the quick set" if entry["is_quick"] else "with `--full` or `--only`"]
        if entry["after"]:
            facts.append(f"uses what {', '.join(f'`{name}`' for name in entry['after'])} found")
        facts.append(f"weight {entry['weight']:g}")
        also = (
            f" (also called {', '.join(f'`{name}`' for name in entry['aliases'])})"
            if entry["aliases"]
            else ""
        )
        lines = [
            f"**`{entry['name']}`**{also}: {entry['summary']}. {_upper(', '.join(facts))}. Source: "
            f"{entry['source']}."
        ]
        lines += _parameters(entry)
        groups.setdefault(entry["group"], []).append("\n".join(lines))
    return "\n\n".join(
        f"### {_upper(group)}\n\n" + "\n\n".join(entries) for group, entries in groups.items()
    )


def layers_in_full() -> str:
    """Give every layer with its parameters and what it counts, as Markdown for docs/layers.md."""
    parts = []
    for entry in registry()["layer"]:
        lines = [
            f"**`{entry['name']}`**: {entry['summary']}. Source: {entry['source']}.",
            *_parameters(entry),
        ]
        if entry["counters"]:
            lines += ["", "| counter | what it counts |", "|---|---|"]
            levels = {True: " (a level)", False: ""}
            lines += [
                f"| `{counter['name']}` | {_cell(counter['help'])}{levels[counter['is_level']]} |"
                for counter in entry["counters"]
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _parameters(entry: dict[str, Any]) -> list[str]:
    if not entry["params"]:
        return []
    rows = [
        f"| `{param['name']}` | `{param['default']}` | {_cell(param['help'])} |"
        for param in entry["params"]
    ]
    return ["", "| parameter | default | what it is |", "|---|---|---|", *rows]


def _upper(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _heading(kind: str) -> str:
    return "what it is" if kind == "profile" else "what it does"


def _summary(entry: dict[str, Any]) -> str:
    """Give what an entry does.

    Of an experiment also whether it writes to the device, and whether it is of the quick set.
    """
    marks = [mark for key, mark in (("writes", "writes"), ("is_quick", "quick")) if entry.get(key)]
    return f"{entry['summary']} ({', '.join(marks)})" if marks else str(entry["summary"])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def print_kind(kind: str, entries: list[dict[str, Any]]) -> None:
    """Print a kind as a table, its entries with their parameters."""
    rows = []
    for entry in entries:
        also = f" (also called {', '.join(entry['aliases'])})" if entry.get("aliases") else ""
        rows.append((entry["name"], _summary(entry) + also, entry["source"]))
        rows.extend(
            (f"  {param['name']}={param['default']}", f"{param['help']}: {param['accepts']}", "")
            for param in entry["params"]
        )
    print_table(
        [("name", "left"), (_heading(kind), "left"), ("source", "left")],
        rows,
        f"{WORDS[kind][1].capitalize()} ({kind})",
    )
