"""Reads `name(key=value, ...)` into frozen dataclasses, by the rules of `registry::read`.

What may stand there is declared once: a field with `setting` says what it takes, its default, its
help and its words in a report. What reads, lists, explains and compares settings is made of that.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from flashwright import _core
from flashwright._core import InputError
from flashwright._text import size as size_text

T = TypeVar("T")
_SETTING = "setting"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_COUNTS_END = 2**63


@dataclass(frozen=True)
class Kind:
    """Kind of values that a setting takes.

    `read` gives None for a text that is not `right`; `say` writes a value for people. Values lie on
    an axis if there is a `scale`, by which they are divided, and its `unit`. With a `prefix` it
    takes all keys that begin so, by the rest of their names.
    """

    metavar: str
    right: str
    read: Callable[[str], Any]
    say: Callable[[Any], str] = str
    scale: float | None = None
    unit: str = ""
    prefix: str = ""

    def take(self, value: Any) -> Any:
        """Read a value as it is written, or take one as Python has it.

        Raises:
            InputError: it is not right.
        """
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()
        found = self.read(text)
        if found is None:
            raise InputError(f"`{text}` is not {self.right}")
        return found


def _range(what: str, least: float, most: float, is_open: bool, say: Callable[[Any], str]) -> str:
    if most != math.inf:
        return f"{what} {'above' if is_open else 'from'} {say(least)} to {say(most)}"
    return f"{what} above {say(least)}" if is_open else f"{what} of {say(least)} or more"


def _number(
    metavar: str,
    what: str,
    read: Callable[[str], Any],
    bounds: tuple[float, float, bool],
    say: Callable[[Any], str],
    unit: tuple[float, str],
) -> Kind:
    least, most, is_open = bounds

    def within(text: str) -> Any:
        found = read(text)
        fits = found is not None and least <= found <= most and not (is_open and found == least)
        return found if fits else None

    is_free = most == math.inf and not is_open and least <= 0
    right = what if is_free else _range(what, least, most, is_open, say)
    return Kind(metavar, right, within, say, *unit)


def count(least: int = 0, most: float = math.inf) -> Kind:
    """Take a count: `4096`, `10k`, `64Ki`."""

    def read(text: str) -> int | None:
        found = _core.parse_count(text)
        return None if found is None or found >= _COUNTS_END else found

    return _number("N", "a count", read, (least, most, False), lambda n: f"{n:,}", (1, ""))


def size(least: int = 1) -> Kind:
    """Take a size in bytes: `4096`, `4Ki`, `2G`."""
    what = "a size in bytes, such as 4Mi,"
    bounds = (least, math.inf, False)
    return _number("BYTES", what, _core.parse_bytes, bounds, size_text, (1 << 20, "MiB"))


def read_seconds(text: str) -> float | None:
    """Read a duration as seconds: `90`, `90s`, `2m`; None if it is none."""
    # A minute is `m` for sleep(1) and most people, and `min` for the core.
    return _core.parse_duration(re.sub(r"(?<=\d)\s*m$", "min", text.strip()))


def seconds(least: float = 0.0, *, is_open: bool = False) -> Kind:
    """Take a duration: `90`, `90s`, `2min`."""
    what = "a duration, such as 90s or 2min,"
    bounds = (least, math.inf, is_open)
    return _number("S", what, read_seconds, bounds, lambda s: f"{s:g} s", (1, ""))


def number(least: float, *, is_open: bool = False) -> Kind:
    """Take a number."""

    def read(text: str) -> float | None:
        try:
            found = float(text)
        except ValueError:
            return None
        return found if math.isfinite(found) else None

    bounds = (least, math.inf, is_open)
    return _number("X", "a number", read, bounds, lambda x: f"{x:g}", (1, ""))


def choice(*words: str) -> Kind:
    """Take one of these words."""
    right = f"one of {', '.join(words)}"
    return Kind("|".join(words), right, lambda text: text if text in words else None)


def _truth(text: str) -> bool | None:
    return {"yes": True, "true": True, "no": False, "false": False}.get(text)


TRUTH = Kind("yes|no", "yes or no", _truth, lambda value: "yes" if value else "no")
FOLDER = Kind("DIR", "a folder", lambda text: Path(text) if text else None)
DEVICE = Kind("DEVICE", "a device", FOLDER.read)
TEXT = Kind("TEXT", "a text", lambda text: text or None)


def others(prefix: str) -> Kind:
    """Take all keys that begin so, as texts by the rest of their names."""
    say = lambda given: ", ".join(f"{name}={value}" for name, value in given.items())  # noqa: E731
    return Kind("VALUE", "a text", lambda text: text or None, say, prefix=prefix)


@dataclass(frozen=True)
class Setting:
    """Properties of a setting besides its name.

    `title` are its words in a report, `is_log` says that its values are ratios. Words before
    the first key are of the one that `is_first`, or of the first. `flag`, `group`, `is_several` and
    `completes` are of those that are options of a command.
    """

    kind: Kind
    help: str
    title: str = ""
    is_log: bool = False
    flag: str = ""
    group: str = ""
    is_several: bool = False
    completes: str = ""
    is_first: bool = False


def setting(help_text: str, kind: Kind, default: Any = MISSING, **more: Any) -> Any:
    """Declare a field by the properties of a setting; one without a default has to be given."""
    known = Setting(kind, help_text, **more)
    if kind.prefix:
        return field(default_factory=dict, metadata={_SETTING: known})
    return field(default=default, metadata={_SETTING: known})


def of(one: Field[Any]) -> Setting:
    """Give what a field was declared with."""
    known: Setting = one.metadata[_SETTING]
    return known


def parts(text: str, separator: str = ",") -> Iterator[str]:
    """Split at the separators outside of brackets."""
    depth, begin = 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == separator and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1
    yield text[begin:].strip()


def split(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Give the name and the keys with their values; words before the first key have the key "".

    A part without `=` belongs to the value before it, and so does all in inner brackets.

    Raises:
        InputError: it is not of the form.
    """

    def malformed(why: str) -> InputError:
        return InputError(f"`{text}`: {why}; write name or name(key=value,...)")

    text = text.strip()
    name, bracket, rest = text.partition("(")
    if not _NAME.fullmatch(name):
        raise malformed("the name must be letters, digits, `_`, `-` or `.`")
    if bracket and not rest.endswith(")"):
        raise malformed("the closing bracket is missing")
    given: list[tuple[str, str]] = []
    for part in filter(None, parts(rest[:-1])):
        key, equals, value = part.partition("=")
        if equals and "(" not in key:
            if not key.strip():
                raise malformed("a value has no key")
            given.append((key.strip(), value.strip()))
        elif given:
            given[-1] = (given[-1][0], f"{given[-1][1]},{part}")
        else:
            given.append(("", part))
    return name, given


def read(
    text: str, kinds: Mapping[str, type[T]], what: str, beneath: Mapping[str, Any] | None = None
) -> T:
    """Read what was written; `beneath` are values of keys that are not given.

    Raises:
        InputError: it names the part that is wrong, and what would be right.
    """
    name, given = split(text)
    if name not in kinds:
        raise InputError(f"unknown {what} `{name}`; known are: {', '.join(kinds)}")
    kind = kinds[name]
    first = sorted(fields(kind), key=lambda one: not of(one).is_first)[0].name  # type: ignore[arg-type]
    named = [(key or first, value) for key, value in given]
    keys = [key for key, _ in named]
    twice = next((key for at, key in enumerate(keys) if key in keys[:at]), None)
    if twice is not None:
        raise InputError(f"`{text.strip()}`: `{twice}` is given twice")
    try:
        return build(kind, {**(beneath or {}), **dict(named)})
    except InputError as error:
        raise InputError(f"`{text.strip()}`: {error}") from None


def build(kind: type[T], given: Mapping[str, Any]) -> T:
    """Make a dataclass of values, as they are written or as Python has them.

    Raises:
        InputError: one is unknown, missing, or not right.
    """
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    prefixes = {of(one).kind.prefix: one for one in known.values() if of(one).kind.prefix}
    values: dict[str, Any] = {}
    for key, value in given.items():
        prefix = next((one for one in prefixes if key.startswith(one)), None)
        if prefix is not None:
            one = prefixes[prefix]
            taken = of(one).kind.take(value)
            values.setdefault(one.name, {})[key.removeprefix(prefix)] = taken
        elif key in known and not of(known[key]).kind.prefix:
            if value is not None:
                values[key] = _taken(of(known[key]), value)
        else:
            names = ", ".join(map(written_name, known.values()))
            raise InputError(f"there is no parameter `{key}`; known are: {names}")
    for name, one in known.items():
        if name not in values and one.default is MISSING and not of(one).kind.prefix:
            raise InputError(f"`{name}` is missing")
    return kind(**values)


def _taken(known: Setting, value: Any) -> Any:
    if not known.is_several:
        return known.kind.take(value)
    if isinstance(value, str | os.PathLike):
        value = [str(value)] if os.path.lexists(value) else parts(str(value))
    each: Iterable[Any] = value if isinstance(value, Iterable) else (value,)
    return tuple(known.kind.take(one) for one in each)


def written_name(one: Field[Any]) -> str:
    """Name a setting as it is written."""
    prefix = of(one).kind.prefix
    return f"{prefix}NAME" if prefix else one.name


def explained(kind: type[Any]) -> list[dict[str, str]]:
    """Give the parameters of a kind as `flashwright list` has them."""
    return [
        {
            "name": written_name(one),
            "default": "" if one.default in (MISSING, None) else of(one).kind.say(one.default),
            "help": of(one).help,
            "accepts": of(one).kind.right.rstrip(","),
        }
        for one in fields(kind)
    ]


def together(kinds: Mapping[str, type[Any]]) -> list[tuple[str, Field[Any]]]:
    """Give each setting of several kinds once, with the names of those that have it.

    No names where all do.
    """
    found: dict[tuple[str, str, str], tuple[list[str], Field[Any]]] = {}
    for name, kind in kinds.items():
        for one in fields(kind):
            key = (one.name, of(one).help, of(one).kind.right)
            found.setdefault(key, ([], one))[0].append(name)
    return [
        ("" if len(names) == len(kinds) else ", ".join(names), one) for names, one in found.values()
    ]


def listing(
    kinds: Mapping[str, type[Any]], summaries: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """Give kinds as `flashwright list` has them; `summaries` are what each is, and its source."""
    return [
        {
            "name": name,
            "usage": name,
            "summary": summaries[name][0],
            "source": summaries[name][1],
            "aliases": [],
            "params": explained(kind),
        }
        for name, kind in kinds.items()
    ]


def plain(settings: Any) -> dict[str, Any]:
    """Give the values of a dataclass of settings as JSON holds them."""
    return {one.name: _plain(getattr(settings, one.name)) for one in fields(settings)}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, os.PathLike) else value


def wrong(option: str, said: str) -> InputError:
    """Give the error of an option's value; a shell names the option in its way."""
    error = InputError(f"{option}: {said}")
    error.option = option  # type: ignore[attr-defined]
    return error
