"""Types of options and arguments that name what a command writes, and what it must not be."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from flashwright import outputs
from flashwright._core import InputError

STANDARD_OUTPUT = "-"
_MADE = {"device", "staging", "new_staging", "what"}
"""Parameters that may name a file which the command makes first: it is not there yet."""


class Output(click.Path):
    """Path of an output, which may not be an input of the same command (`guarded`)."""

    def __init__(self, *, is_dash_allowed: bool = False, path_type: type = Path) -> None:
        super().__init__(path_type=path_type, allow_dash=is_dash_allowed)
        self.given_as = path_type

    def check(self, path: Path) -> None:
        """Raise InputError if the output may not be written there."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Give the path back if the output may be written there.

        Nobody shall learn otherwise after an hour of simulating.
        """
        path = Path(str(super().convert(value, param, ctx)))
        if not (self.allow_dash and str(path) == STANDARD_OUTPUT):
            try:
                self.check(path)
            except InputError as error:
                self.fail(str(error), param, ctx)
        return self.given_as(path)


class OutFile(Output):
    """A file of some kind that is written; see `flashwright.outputs`."""

    def __init__(self, kind: outputs.Kind, **how: Any) -> None:
        super().__init__(**how)
        self.kind = kind

    def check(self, path: Path) -> None:
        """Raise InputError if a file of this kind may not be written there."""
        outputs.check(path, self.kind)


class OutFolder(Output):
    """A folder of a run, which is made, or holds a run of ours already, or nothing.

    Whether a recording may take the place of another, whoever records knows.
    """

    def __init__(self, *, is_recording: bool = False) -> None:
        super().__init__()
        self.is_recording = is_recording

    def check(self, path: Path) -> None:
        """Raise InputError if a run may not be written there."""
        outputs.check_folder(path, is_recording=self.is_recording)


class OutStore(Output):
    """A folder of a store of volumes, which is made, or is one already, or holds nothing."""

    def check(self, path: Path) -> None:
        """Raise InputError if a store may not be made there, or gone on with."""
        outputs.check_store(path)


class OutPlace(Output):
    """A socket, a link or a file that is not replaced: whoever makes it looks at what is there."""

    def __init__(self, what: str, *, may_be: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.what, self.may_be = what, may_be

    def check(self, path: Path) -> None:
        """Raise InputError if something is there that may not be."""
        outputs.check_place(path, self.what, self.may_be)


def guarded(command: click.Command) -> click.Command:
    """Let a command, and those below it, first look whether an output is one of their inputs."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            guarded(below)
    written = [one for one in command.params if isinstance(one.type, Output)]
    call = command.callback
    if written and call is not None:

        @functools.wraps(call)
        def looked_first(*given: Any, **values: Any) -> Any:
            _refuse_inputs(click.get_current_context(), written)
            return call(*given, **values)

        command.callback = looked_first
    return command


def _refuse_inputs(context: click.Context, written: list[click.Parameter]) -> None:
    for one in written:
        path = context.params.get(one.name or "")
        if path is None or str(path) == STANDARD_OUTPUT:
            continue
        for other in context.command.params:
            if other is one or isinstance(other.type, click.Choice):
                continue
            is_path = isinstance(other.type, click.Path) or other.name in _MADE
            for named in _paths(context.params.get(other.name or "")):
                if _is_same(Path(path), named, may_be_missing=is_path):
                    raise click.BadParameter(
                        f"{path}: it is what {other.get_error_hint(context)} names, too, and would "
                        "be lost: name another file",
                        context,
                        one,
                    )


def _paths(value: Any) -> Iterator[Path]:
    """Give all that a value may name: also the words of `emulated(profile=a.toml,data=b.img)`."""
    if isinstance(value, tuple | list):
        for one in value:
            yield from _paths(one)
    elif isinstance(value, str | os.PathLike):
        text = os.fspath(value)
        if text and text != STANDARD_OUTPUT:
            yield Path(text)
            yield from (
                Path(word) for word in re.split(r"[(),=?&:]", text) if word and word != text
            )


def _is_same(path: Path, other: Path, *, may_be_missing: bool) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return may_be_missing and path.absolute() == other.absolute()
