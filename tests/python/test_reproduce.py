"""The registry of figures and validations: its names, and the one command that makes them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flashwright._core import InputError
from flashwright.reproduce.__main__ import SETS
from flashwright.reproduce.registry import chosen
from support import ROOT


def test_an_option_that_sets_share_has_one_default() -> None:
    """It is one option on the command line."""
    defaults: dict[str, set[str]] = {}
    for one in SETS:
        for option in one.options:
            defaults.setdefault(str(option.name), set()).add(str(option.default))
    assert [name for name, found in defaults.items() if len(found) > 1] == []


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "flashwright.reproduce", *arguments]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_every_name_is_of_one_set_or_part() -> None:
    names = [one.name for one in SETS] + [part.name for one in SETS for part in one.parts]
    assert [name for name, times in Counter([*names, "list"]).items() if times > 1] == []
    assert [
        name for name in names if not name.replace("-", "a").replace(".", "a").isidentifier()
    ] == []


def test_make_knows_every_set() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    line = next(line for line in makefile.splitlines() if line.startswith("SETS := "))
    assert sorted(line.removeprefix("SETS := ").split()) == sorted(one.name for one in SETS)


def test_a_name_asks_for_a_set_a_part_or_a_pattern_of_parts() -> None:
    def names(*asked: str) -> list[tuple[str, list[str]]]:
        return [(one.name, [part.name for part in parts]) for one, parts in chosen(SETS, asked)]

    whole = {one.name: [part.name for part in one.parts] for one in SETS}
    assert names("validate-drive") == [("validate-drive", whole["validate-drive"])]
    assert names("bathtub", "uniform") == [
        ("validate-placement", ["uniform"]),
        ("validate-drive", ["bathtub"]),
    ]
    found = dict(names("scheduler-*", "scheduler-4.19"))
    assert found["figures-layers"] == [f"scheduler-7.{number}" for number in range(4, 22)]
    assert all(name.startswith("scheduler-4.") for name in found["figures-prober"])
    with pytest.raises(InputError, match="unknown name `nonsense`"):
        names("uniform", "nonsense")


def test_the_list_has_every_part_with_its_paper_and_what_it_needs(tmp_path: Path) -> None:
    printed = command("list", folder=tmp_path).stdout
    words = printed.split()
    for one in SETS:
        assert f"{one.name}: " in printed
        assert {part.name for part in one.parts} <= set(words)
        assert {part.paper for part in one.parts if part.paper} <= set(words)
        assert one.needs.split()[0] in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "unknown name `nonsense`"),
        (["aging", "--quick"], "--quick is for validate-placement only"),
        (["recording-cost", "--stretches", "8"], "8 is not in the range"),
        (["sequence", "--trace", "missing.parquet"], "missing.parquet: no such trace"),
        (["parallelism-2", "--out", "file"], "file/figures-prober: cannot write the report"),
    ],
)
def test_wrong_use_ends_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = command(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
