"""`flashwright list`: everything that can be named."""

from __future__ import annotations

from typing import Any

import click

from flashwright._core import InputError, registry
from flashwright.cli.options import json_option
from flashwright.cli.output import print_table, prints_only_json, write_json

# One and many of each kind.
WORDS = {
    "placement": ("placement policy", "placement policies"),
    "victim": ("victim policy", "victim policies"),
    "workload": ("synthetic workload", "synthetic workloads"),
    "trace_format": ("trace format", "trace formats"),
}


@click.command("list", short_help="Policies, workloads and formats, with their parameters.")
@click.argument("kind", required=False)
@click.option("--markdown", is_flag=True, help="As tables for the docs.")
@json_option
def listing(kind: str | None, *, markdown: bool, json_path: str | None) -> None:
    """List what can be named on the command line: all of it, or one KIND.

    \b
    Examples:
      flashwright list
      flashwright list placement
      flashwright list --json - | jq '.victim[].name'
    """
    everything = registry()
    if kind is not None and kind not in everything:
        raise InputError(f"unknown kind `{kind}`; known are: {', '.join(everything)}")
    chosen = everything if kind is None else {kind: everything[kind]}
    write_json(chosen, json_path)
    if prints_only_json(json_path):
        return
    if markdown:
        click.echo("\n\n".join(markdown_table(name, entries) for name, entries in chosen.items()))
        return
    for name, entries in chosen.items():
        _print(name, entries)


def markdown_table(kind: str, entries: list[dict[str, Any]]) -> str:
    """Give a kind as a table in Markdown."""
    lines = [f"| {WORDS[kind][0]} | what it does | source |", "|---|---|---|"]
    lines += [f"| `{entry['usage']}` | {_cell(entry['summary'])} | {_cell(entry['source'])} |" for entry in entries]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _print(kind: str, entries: list[dict[str, Any]]) -> None:
    rows = []
    for entry in entries:
        also = f" (also called {', '.join(entry['aliases'])})" if entry.get("aliases") else ""
        rows.append((entry["name"], entry["summary"] + also, entry["source"]))
        rows.extend(
            (f"  {param['name']}={param['default']}", f"{param['help']}: {param['accepts']}", "")
            for param in entry["params"]
        )
    print_table(
        [("name", "left"), ("what it does", "left"), ("source", "left")],
        rows,
        f"{WORDS[kind][1].capitalize()} ({kind})",
    )
