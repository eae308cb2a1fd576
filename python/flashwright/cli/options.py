"""Options that several commands share, and the reading of their values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flashwright import _core
from flashwright.cli.lists import Named, split_names
from flashwright.written import read_seconds

if TYPE_CHECKING:
    from flashwright.engine.where import Where
    from flashwright.lifetime import Wear

Command = TypeVar("Command", bound=Callable[..., Any])
_OPTION = "option"


def option(help_text: str, *names: str, **how: Any) -> Any:
    """Declare an option, as a field of a class of options or as a parameter of a command.

    It is what `click.option` takes, with the help first. The option is named as the field unless
    `names` says otherwise; a `bool` is a flag, and a default is shown.
    """
    return field(
        default=how.get("default"), metadata={_OPTION: (names, {"help": help_text, **how})}
    )


@dataclass(frozen=True)
class _Argument:
    how: Mapping[str, Any]


def argument(**how: Any) -> Any:
    """Declare an argument of a command, as its parameter: what `click.argument` takes."""
    return _Argument(how)


@dataclass(frozen=True)
class _AllOf:
    kind: type
    notes: Mapping[str, str]


def all_of(kind: type, notes: Mapping[str, str] | None = None) -> Any:
    """Declare a parameter of a command that stands for all options of a class of options.

    `notes` are added to the help of fields, for what differs from command to command.
    """
    return _AllOf(kind, notes or {})


def options(command: Command) -> Command:
    """Give a command the arguments and options that its parameters declare, in their order."""
    for one in reversed([*signature(command).parameters.values()]):
        if isinstance(one.default, _Argument):
            command = click.argument(one.name, **one.default.how)(command)
        elif isinstance(one.default, _AllOf):
            command = _with_instance(command, one.name, one.default)
        elif isinstance(one.default, Field):
            command = _declared(one.name, one.annotation, one.default)(command)
    return command


def _with_instance(command: Command, parameter: str, of: _AllOf) -> Command:
    """Let a command take all options of a class of options, and get them as one instance of it."""

    @wraps(command)
    def with_instance(*given: Any, **values: Any) -> Any:
        made = of.kind(**{one.name: values.pop(one.name) for one in fields(of.kind)})
        return command(*given, **values, **{parameter: made})

    for one in reversed(fields(of.kind)):
        note = of.notes.get(one.name, "")
        with_instance = _declared(one.name, one.type, one, note)(with_instance)
    return with_instance  # type: ignore[return-value]


def _declared(name: str, kind: Any, declared: Field[Any], note: str = "") -> Callable[[Any], Any]:
    names, how = declared.metadata[_OPTION]
    # Annotations are texts in all modules of this package.
    is_flag = kind == "bool" and not any("/" in one for one in names)
    shown: dict[str, Any] = {"is_flag": True} if is_flag else {"show_default": "default" in how}
    if isinstance(how.get("type"), click.IntRange):
        shown["metavar"] = "N"
    how = {**shown, **how, "help": how["help"] + note}
    return click.option(*(names or (f"--{name.replace('_', '-')}",)), name, **how)


class Taken(click.ParamType[Any]):
    """What a function reads of a text; anything else, as a default may be, is taken as it is."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        """Take a function that raises InputError for what is not right."""
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except _core.InputError as error:
            self.fail(str(error), param, ctx)


def _fraction(given: str) -> float:
    text = given.strip()
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = float("nan")
    if not 0 < number <= 100:
        raise _core.InputError(
            f"{text!r} is not an over-provisioning: write a number above 0 and at most 100 (which "
            "is 10000 %), such as 0.2 or 20%"
        )
    return number


def _fractions(text: str) -> tuple[float, ...]:
    values = tuple(map(_fraction, text.split(",")))
    if len(set(values)) != len(values):
        raise _core.InputError(f"{text!r} names a value twice")
    return tuple(sorted(values))


def size(text: str) -> int:
    """Read a size of at least 1 byte. Raises InputError."""
    found = _core.parse_bytes(text)
    if not found:
        raise _core.InputError(f"{text!r} is not a size in bytes: write 4096, 4k or 4KiB")
    return found


def _page_size(text: str) -> int:
    found = size(text)
    if not 512 <= found <= 1 << 24:
        raise _core.InputError(f"{text!r} is not the size of a page: 512 bytes to 16 MiB")
    return found


FRACTION = Taken("FRACTION", _fraction)
"""An over-provisioning: `0.2` or `20%`."""
FRACTIONS = Taken("LIST", _fractions)
"""Some of them: `0.1,0.2` or `10%,20%`."""
SIZE = Taken("BYTES", size)
"""A size in bytes: `4096`, `4k`, `16KiB`, `2G`; `4kB` is 4,000."""
PAGE_SIZE = Taken("BYTES", _page_size)
"""The size of a page of flash: 512 bytes to 16 MiB."""


def duration(unit: float = 1.0, *, least: float = 0.0, is_open: bool = False) -> Taken:
    """Take a duration: a number of `unit` seconds, or with a unit: `90s`, `2m`, `200us`.

    It is given in units, from `least` of these on, or above it.
    """

    def read(text: str) -> float:
        found: float | None
        try:
            found = float(text)
        except ValueError:
            seconds = read_seconds(text)
            found = None if seconds is None else seconds / unit
        if found is None or not math.isfinite(found):
            raise _core.InputError(f"{text!r} is not a duration: write 90, 90s or 2m")
        if found < least or (is_open and found == least):
            above = "above" if is_open else "at least"
            raise _core.InputError(f"{text!r} is too short: it has to be {above} {least:g}")
        return found

    return Taken("S", read)


def seed_option(help_text: str) -> Any:
    """Declare the option of a seed of 64 bits."""
    return option(help_text, type=click.IntRange(0, 2**64 - 1), default=1)


def over_provisionings_option(default: str = "0.1,0.2,0.3") -> Any:
    """Declare the option of a list of over-provisionings."""
    return option("Over-provisionings.", "--op", type=FRACTIONS, default=default)


PLACEMENTS = option(
    "Placement policies; FILE.py:CLASS for one of your own (docs/python.md).",
    default="all",
    type=Named("placement", others=["all"]),
    metavar="a,b|all",
)
"""The option of a list of placement policies; `split_policies` reads it."""
LIFE = option(
    "What a drive's life is computed from: `life(40G, capacity=256Gi, fill=40%, cycles=3000)`: "
    "what the host writes a day (bytes; how often it writes its data over; `trace`, as recorded, "
    "of ten minutes or more), bytes that the drive can store and the share of them that holds "
    "data, erases that an erase block stands.  [default: its data once a day, or as recorded if a "
    "capacity is given; 3000 erases]",
    metavar="LIFE",
)
"""The option of what a life is computed from; `wear_of` reads it."""


def split_policies(text: str, option: str) -> list[str] | None:
    """Give the names in a list of policies, or None for all.

    Raises:
        InputError: it has none.
    """
    if text.strip() == "all":
        return None
    names = split_names(text)
    if not names:
        raise _core.InputError(f"{option}: no name is given; write a,b or all")
    return names


def at_most_one(given: Mapping[str, object], why: str) -> None:
    """Raise click.UsageError if more than one of these options was given.

    `why` says what is wrong with that.
    """
    names = [name for name, value in given.items() if value]
    if len(names) > 1:
        raise click.UsageError(f"{' and '.join(names)}: {why}")


@dataclass(frozen=True)
class Flash:
    """The flash of the counting simulator."""

    pages_per_erase_block: int = option(
        "Pages that are erased together.", type=click.IntRange(2, 4096), default=64
    )
    start: str = option(
        "filled: every page of the footprint is written once, in order, before the trace, and left "
        "out of the steady state.",
        type=click.Choice(["filled", "fresh"]),
        default="filled",
    )


@dataclass(frozen=True)
class Workers:
    """Where jobs are done, and their results kept."""

    engine: str = option(
        "Processes of this machine, or a Ray cluster.",
        type=click.Choice(["local", "ray"]),
        default="local",
    )
    address: str | None = option("The Ray cluster.  [default: that of this machine]", metavar="URL")
    jobs: int | None = option("Jobs at a time.  [default: one a core]", type=click.IntRange(1))
    store: str | None = option(
        "Results by their content: a folder, or what fsspec takes, such as s3://bucket/sweeps.  "
        "[default: runs/store]",
        metavar="URL",
    )

    def where(self) -> Where:
        """Give what the engine takes. Raises click.UsageError for an address of no cluster."""
        from flashwright.engine.where import Where

        if self.address is not None and self.engine != "ray":
            raise click.UsageError("--address: it is of --engine ray; give both")
        return Where(self.engine, self.address, self.jobs, self.store)

    def check_local(self, why: str) -> None:
        """Raise click.UsageError if a cluster or a store was named for what is done here alone."""
        for name, given in (("--engine", self.engine != "local"), ("--store", self.store)):
            if given:
                raise click.UsageError(f"{name}: {why}; leave it out")


def wear_of(life: str | None) -> Wear:
    """Give what a life is computed from as those who count take it.

    Raises InputError if something in it is wrong.
    """
    from flashwright.lifetime import Wear

    found = {} if life is None else json.loads(_core.read_setting("life", life))
    return Wear(
        found.get("cycles", 3000),
        found.get("writes_per_day"),
        found.get("capacity"),
        found.get("fill", 1.0),
    )
