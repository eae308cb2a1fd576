"""Texts such as `name(key=value, ...)`: the rules and the errors of the core's `read`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from flashwright import InputError, written
from flashwright.written import FOLDER, TEXT, TRUTH, choice, count, number, seconds, setting, size


@dataclass(frozen=True)
class Closed:
    """A pace."""

    depth: int = setting("How many.", count(1, 64), 1)
    is_patient: bool = setting("Whether it waits.", TRUTH, default=False)
    think: float = setting("How long.", seconds(), 0.0)
    extra: Mapping[str, str] = setting("Others.", written.others("set."))


@dataclass(frozen=True)
class Flow:
    """A flow, whose source has to be given."""

    ops: tuple[str, ...] = setting("Which.", choice("read", "write"), (), is_several=True)
    source: str = setting("From where.", TEXT, "", is_first=True)
    share: float | None = setting("How much.", number(0, is_open=True), None)
    region: int | None = setting("How large.", size(), None)
    folder: Path | None = setting("Where.", FOLDER, None)


@dataclass(frozen=True, kw_only=True)
class Needed:
    """Setting without a default."""

    device: Path = setting("Which.", FOLDER)


KINDS: dict[str, type[Closed | Flow | Needed]] = {
    "closed": Closed,
    "flow": Flow,
    "needed": Needed,
}


def read(text: str) -> object:
    return written.read(text, KINDS, "pace")


def test_words_before_the_first_key_are_of_the_first_setting() -> None:
    assert read("closed(8)") == Closed(8)
    assert read(" closed ") == read("closed()") == Closed()
    assert read("closed(is_patient=yes, depth=2,think=5ms)") == Closed(2, True, 0.005)  # noqa: FBT003
    assert read("flow(io:random(reads=1,size=4Ki),share=0.5)") == Flow(
        (), "io:random(reads=1,size=4Ki)", 0.5
    )


def test_a_part_without_a_key_belongs_to_the_value_before_it() -> None:
    assert read("flow(ops=read,write,region=4Ki)") == Flow(("read", "write"), region=4096)
    assert read("flow(a,b)") == Flow(source="a,b")
    assert read("needed(device=/dev/x)") == Needed(device=Path("/dev/x"))


def test_keys_with_a_prefix_are_kept_by_the_rest_of_their_names() -> None:
    found = read("closed(set.wal_level=minimal,set.jit=off)")
    assert found == Closed(extra={"wal_level": "minimal", "jit": "off"})
    assert written.plain(found)["extra"] == {"wal_level": "minimal", "jit": "off"}


def test_what_lies_beneath_is_beaten_by_what_is_given() -> None:
    beneath = {"depth": 4, "think": 1.5, "is_patient": None}
    assert written.read("closed(2)", KINDS, "pace", beneath) == Closed(2, think=1.5)


def test_values_of_python_are_taken_as_those_that_are_written() -> None:
    given = {"depth": 4, "is_patient": True, "think": "2m"}
    assert written.build(Closed, given) == Closed(4, True, 120.0)  # noqa: FBT003
    flow = {"ops": ["read"], "folder": Path("x"), "region": 4096, "share": None}
    assert written.build(Flow, flow) == Flow(("read",), region=4096, folder=Path("x"))
    assert written.build(Flow, {"ops": "read,write"}).ops == ("read", "write")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("closd(8)", "unknown pace `closd`; known are: closed, flow, needed"),
        (
            "closed(dept=8)",
            "`closed(dept=8)`: there is no parameter `dept`; known are: depth, is_patient, think, "
            "set.NAME",
        ),
        ("closed(x)", "`closed(x)`: `x` is not a count from 1 to 64"),
        ("closed(65)", "`65` is not a count from 1 to 64"),
        ("closed(depth=1,depth=2)", "`closed(depth=1,depth=2)`: `depth` is given twice"),
        ("closed(1,depth=2)", "`depth` is given twice"),
        ("closed(is_patient=maybe)", "`maybe` is not yes or no"),
        ("closed(think=-1)", "`-1` is not a duration"),
        ("closed(think=nan)", "`nan` is not a duration"),
        ("closed(set.x=)", "`` is not a text"),
        ("closed(extra=1)", "there is no parameter `extra`"),
        ("closed(1", "`closed(1`: the closing bracket is missing; write name or name(key=value"),
        ("closed(=1)", "a value has no key"),
        ("(1)", "the name must be letters, digits"),
        ("flow(share=0)", "`0` is not a number above 0"),
        ("flow(ops=read,trim)", "`trim` is not one of read, write"),
        ("flow(region=0)", "`0` is not a size in bytes, such as 4Mi, of 1 B or more"),
        ("needed", "`needed`: `device` is missing"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(text: str, said: str) -> None:
    with pytest.raises(InputError) as wrong:
        read(text)
    assert said in str(wrong.value)


def test_settings_of_several_kinds_are_told_once() -> None:
    told = [(names, one.name) for names, one in written.together({"a": Closed, "b": Closed})]
    assert told == [("", "depth"), ("", "is_patient"), ("", "think"), ("", "extra")]
    assert written.together({"a": Closed, "b": Flow})[0][0] == "a"
