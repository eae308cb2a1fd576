"""Placement policies in Python beside the built-in ones, in comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flashwright as fw
from flashwright._core import FlashState, InputError, RunError
from flashwright.comparing.policies import choose
from flashwright.placement import U16, U32, Streams
from support import SMALL, Cli

SOURCE = """
import numpy as np

import flashwright as fw


class HotAndCold(fw.Placement):
    streams = 2

    def begin(self, flash, seed):
        self.writes = np.zeros(flash.logical_pages)

    def host_streams(self, lpns, previous_blocks, previous_streams, flash):
        np.add.at(self.writes, lpns, 1)
        return self.writes[lpns] > 2 * self.writes.mean()

    def relocation_streams(self, block, stream, offsets, lpns, flash):
        return np.full(len(lpns), stream)


class Wrong(HotAndCold):
    def relocation_streams(self, block, stream, offsets, lpns, flash):
        return {}["there is none"]
"""


class OneStream(fw.Placement):
    """Puts all pages into one stream: what `none` does, too."""

    def __init__(self) -> None:
        self.pages = 0

    def begin(self, flash: FlashState, seed: int) -> None:
        self.pages = 0

    def host_streams(
        self, lpns: U32, previous_blocks: U32, previous_streams: U32, flash: FlashState
    ) -> Streams:
        self.pages += len(lpns)
        return np.zeros(len(lpns), np.uint16)

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> Streams:
        return np.zeros(len(lpns), np.uint16)


def _found(**asked: Any) -> fw.Result:
    return fw.compare(SMALL, over_provisionings=[0.2], progress=False, **asked)


def test_a_policy_in_python_stands_beside_the_built_in_ones() -> None:
    own = OneStream()
    found = _found(placements=["none", own, "dac"], victims=["greedy"], jobs=3)
    rows = {row["policy"]: row for row in found["results"]}
    assert list(rows) == ["greedy", "OneStream", "dac + greedy"]
    assert rows["OneStream"]["placement"] == "OneStream"
    same = ("write_amplification", "relocated_pages", "erases")
    assert [rows["OneStream"][key] for key in same] == [rows["greedy"][key] for key in same]
    figures = str([figure.to_dict() for figure in found.plots()])
    assert "OneStream" in figures
    assert "OneStream" in found.to_polars()["policy"].to_list()
    # Each run has a copy of its own, as they go on beside each other.
    assert own.pages == 0


def test_a_policy_in_python_runs_with_its_own_victims_and_the_usual_ones() -> None:
    assert [policy.label for policy in choose([OneStream()], None)] == [
        "OneStream",
        "OneStream + cost_benefit(age=closed)",
    ]


def test_policies_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="OneStream: two placement policies are called so"):
        _found(placements=[OneStream(), OneStream()])
    taken = OneStream()
    taken.name = "dac"  # type: ignore[misc]
    with pytest.raises(InputError, match="dac: two placement policies are called so"):
        _found(placements=[taken])


def test_what_a_policy_raises_names_its_place() -> None:
    class Broken(OneStream):
        def host_streams(
            self, lpns: U32, previous_blocks: U32, previous_streams: U32, flash: FlashState
        ) -> Streams:
            raise ValueError("no such page")

    with pytest.raises(RunError, match=r"Broken on .*: ValueError: no such page \(test_python_po"):
        _found(placements=["none", Broken()], victims=["greedy"])


def test_a_policy_that_cannot_be_copied_is_named() -> None:
    class Held(OneStream):
        def __deepcopy__(self, memo: object) -> OneStream:
            raise TypeError("a lock")

    with pytest.raises(RunError, match=r"Held.*it cannot be copied.*in `begin`"):
        _found(placements=[Held()], victims=["greedy"])


def test_a_drive_takes_no_policy_in_python() -> None:
    with pytest.raises(InputError, match="unknown placement policy"):
        fw.play("io:random", on="profile(intel-x25e, placement=OneStream)", progress=False)


def test_the_command_takes_a_policy_from_a_file(cli: Cli, tmp_path: Path) -> None:
    Path(tmp_path, "my.py").write_text(SOURCE)
    compare = ("compare", SMALL, "--op", "0.2", "--victims", "greedy", "--placements")
    said = cli(*compare, "none,my.py:HotAndCold,dac", "--out", "run").stdout
    assert "HotAndCold" in said
    assert "HotAndCold" in Path(tmp_path, "run", "report.html").read_text()
    simulated = cli(
        "compare", SMALL, "--placements", "my.py:HotAndCold", "--op", "0.2", "--json", "-"
    ).stdout
    assert '"placement": "HotAndCold"' in simulated
    done = cli(*compare, "none,my.py:Wrong", "--out", "other", code=1)
    assert "Wrong at over-provisioning 0.2" in done.stderr
    assert "KeyError: 'there is none' (my.py, line 23)" in done.stderr
    assert "none" in done.stdout


def test_what_a_policy_prints_is_no_part_of_the_json(cli: Cli, tmp_path: Path) -> None:
    loud = SOURCE.replace("        np.add.at", "        print('noise')\n        np.add.at")
    Path(tmp_path, "my.py").write_text("print('noise')\n" + loud)
    for placements in ("my.py:HotAndCold", "none,my.py:HotAndCold"):
        done = cli("compare", SMALL, "--op", "0.2", "--placements", placements, "--json", "-")
        json.loads(done.stdout)
        assert "noise" in done.stderr


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("nix.py:Hot", "nix.py: No such file or directory"),
        ("my.py:Nix", "my.py has no policy Nix; there is HotAndCold, Wrong"),
        ("my.py", "my.py has HotAndCold, Wrong; name one, as my.py:HotAndCold"),
        ("broken.py", "SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("raises.py", "ZeroDivisionError: division by zero (raises.py, line 1)"),
        ("asks.py", "(asks.py, line 1); broken.py is not taken: a policy is one file"),
        ("empty.py", "empty.py has no class made from flashwright.Placement"),
    ],
)
def test_a_wrong_name_of_a_policy_in_a_file_says_what_is_right(
    named: str, said: str, cli: Cli, tmp_path: Path
) -> None:
    for name, text in (
        ("my.py", SOURCE),
        ("broken.py", "x = ("),
        ("raises.py", "1 / 0"),
        ("asks.py", "import broken"),
        ("empty.py", "x = 1"),
    ):
        Path(tmp_path, name).write_text(text)
    assert said in cli("compare", SMALL, "--placements", named, code=2).stderr


def test_with_a_drive_it_is_said_that_policies_in_python_are_for_other_runs(
    cli: Cli, tmp_path: Path
) -> None:
    Path(tmp_path, "my.py").write_text(SOURCE)
    drive = "profile(intel-x25e, placement=my.py:HotAndCold)"
    said = cli("play", "io:random", "--on", drive, code=2).stderr
    assert "my.py:HotAndCold: a policy in Python is for `compare`; known" in said
