"""Writes the dataclasses of jobs from what Rust says of their settings and outcomes.

A test fails when they are out of date.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from flashwright import _core

ROOT = Path(__file__).resolve().parents[2] / "python" / "flashwright" / "jobs"
PLAIN = {"boolean": "bool", "integer": "int", "number": "float", "string": "str", "null": "None"}


def main() -> None:
    """Write `outcome.py` and `options.py` of each job."""
    for name in _core.job_names():
        (ROOT / name).mkdir(exist_ok=True)
        for file, text in written(name).items():
            (ROOT / name / file).write_text(text, encoding="utf-8")


def written(name: str) -> dict[str, str]:
    """Give the files of a job as they should be."""
    settings, outcome, defaults = map(json.loads, _core.job_schema(name))
    settings["properties"] = {key: settings["properties"][key] for key in defaults}
    for key, default in defaults.items():
        settings["properties"][key]["default"] = default
    return {
        "outcome.py": formatted(module(outcome, "", dataclass_of)),
        "options.py": formatted(module(settings, "", options_of)),
    }


def formatted(text: str) -> str:
    """Format a module as `make format` does."""
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [ruff, "format", "--stdin-filename", str(ROOT / "x.py"), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def module(schema: dict[str, Any], _: str, write: Any) -> str:
    """Give a module with what `write` makes of each object of a schema."""
    found = {**schema.get("$defs", {}), schema["title"]: schema}
    body = "\n\n\n".join(
        write(name, one) for name, one in found.items() if one.get("type") == "object"
    )
    imports = {
        "Sequence[": "from collections.abc import Sequence",
        "@dataclass": "from dataclasses import dataclass",
    }
    lines = [line for mark, line in imports.items() if mark in body]
    typing = [name for name in ("Literal", "TypedDict") if name in body]
    lines += [f"from typing import {', '.join(typing)}"] if typing else []
    return "\n".join(
        [
            '"""Written by `make jobs` from crates/jobs: change it there."""',
            "",
            "from __future__ import annotations",
            "",
            *lines,
            "",
            "",
            body,
            "",
        ]
    )


def dataclass_of(name: str, schema: dict[str, Any]) -> str:
    """Give the dataclass of an object of an outcome."""
    lines = ["@dataclass(frozen=True, kw_only=True)", f"class {name}:"]
    lines += [*said(schema.get("description", name)), ""]
    for key, field in schema["properties"].items():
        lines += [f"    {key}: {type_of(field)}", *said(field.get("description", ""))]
    return "\n".join(lines)


def options_of(name: str, schema: dict[str, Any]) -> str:
    """Give the type of the keyword arguments of a job: its settings without its argument."""
    lines = [f"class {name}(TypedDict, total=False):"]
    lines += [*said(schema.get("description", name)), ""]
    for key, field in schema["properties"].items():
        if not field.get("argument") and not field.get("hidden"):
            kind = type_of(field, is_input=True)
            lines += [f"    {key}: {kind}", *said(field.get("description", ""))]
    return "\n".join(lines)


def said(text: str) -> list[str]:
    """Give a docstring in lines that fit."""
    lines = textwrap.wrap(
        f'"""{" ".join(text.split())}"""', 96, initial_indent="    ", subsequent_indent="    "
    )
    if len(lines) > 1:
        # As ruff wants it: the end of a docstring of several lines stands alone.
        return [*lines[:-1], lines[-1].removesuffix('"""'), '    """']
    return lines


def type_of(field: dict[str, Any], *, is_input: bool = False) -> str:
    """Give the type of a field in Python."""
    if "$ref" in field:
        return str(field["$ref"].rpartition("/")[2])
    words = [one["const"] for one in field.get("oneOf", ()) if "const" in one] or field.get("enum")
    if words:
        return f"Literal[{', '.join(repr(word) for word in words)}]"
    if "anyOf" in field:
        parts = [type_of(one, is_input=is_input) for one in field["anyOf"]]
        return " | ".join(dict.fromkeys(parts))
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    found = []
    for kind in kinds:
        if kind == "array":
            items = type_of(field["items"], is_input=is_input) if "items" in field else "float"
            found.append(f"str | Sequence[{items}]" if is_input else f"tuple[{items}, ...]")
        elif kind == "object":
            found.append(f"dict[str, {type_of(field['additionalProperties'])}]")
        else:
            found.append(PLAIN[kind])
    return " | ".join(dict.fromkeys(found))


if __name__ == "__main__":
    main()
