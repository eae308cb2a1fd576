"""The registry of figures and validations: its names, and the one command that makes them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browsing import check_report
from experiments.mqsim import loads
from experiments.registry import chosen
from experiments.sets import SETS
from flashwright._core import InputError
from support import ROOT, run_experiments


def test_an_option_that_sets_share_has_one_default() -> None:
    """It is one option on the command line."""
    defaults: dict[str, set[str]] = {}
    for one in SETS:
        for option in one.options:
            defaults.setdefault(str(option.name), set()).add(str(option.default))
    assert [name for name, found in defaults.items() if len(found) > 1] == []


def test_the_figures_of_models_are_drawn(browser: Browser, tmp_path: Path) -> None:
    done = run_experiments("figures-models", "--json", "found.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["figures-models"]
    assert set(found) >= {"uniform", "window_greedy", "random_placement", "best_division"}
    assert set(found) >= {"simulated_uniform", "simulated_sets", "polynomial", "rows"}
    judged = {(row["where"], row["what"]): row["agrees"] for row in found["rows"]}
    assert judged["4.1, fig. 1a", "p_gc of LRU by eq. 3, less the simulated one"] is True
    assert judged["4.2.1", "p_avg by eq. 6 to 9, less the simulated one"] is True
    # MULTILOG 4.1: separating gains nothing where both sets are updated alike.
    alike = [
        ratio
        for frequency, ratio in zip(
            found["best_division"]["frequency_ratio"],
            found["best_division"]["cleaning_cost_random_over_separated"],
            strict=True,
        )
        if frequency == 1
    ]
    assert alike == pytest.approx([1.0] * 37)
    check_report(browser, tmp_path / "runs" / "figures-models" / "report.html")


def test_figures_without_simulations_are_drawn_and_judged(tmp_path: Path) -> None:
    done = run_experiments(
        "multilog-3a", "multilog-3c", "multilog-4.2.2", "--json", "found.json", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["figures-models"]
    assert {row["figure"] for row in found["rows"]} == {"3a", "3c", "4.2.2"}
    # MULTILOG 4.2.2: the root mean square holds, the greatest error does not.
    by_what = {row["what"]: row["agrees"] for row in found["rows"]}
    assert by_what["root mean square of beta's error, alpha 0.01 to 1"] is True
    assert by_what["greatest error of beta, alpha 0.01 to 1"] is False
    assert "| fitted over alpha | c_00 " in done.stdout
    fit = found["polynomial"]
    for size, alpha, beta, c_00, c_10, c_01, c_11, c_02, c_12, c_03 in zip(
        *(fit[name] for name in ("size", "over_provisioning", "beta_polynomial")),
        *(fit[name] for name in ("c_00", "c_10", "c_01", "c_11", "c_02", "c_12", "c_03")),
        strict=True,
    ):
        said = c_00 + c_10 * alpha + (c_01 + c_11 * alpha) * size
        said += (c_02 + c_12 * alpha) * size**2 + c_03 * size**3
        assert beta == pytest.approx(said)


def test_a_comparison_with_mqsim_wants_the_program(tmp_path: Path) -> None:
    for name in ("mqsim-loads", "mqsim-speed"):
        done = run_experiments(name, folder=tmp_path)
        assert done.returncode == 2
        assert f"{name}: give --mqsim PATH, the program" in done.stderr


def test_loads_of_mqsim_are_played_here_as_well(tmp_path: Path) -> None:
    """MQSim is a script here, which says a time whatever it is given."""
    program = tmp_path / "MQSim"
    told = "<End_to_End_Request_Delay>102</End_to_End_Request_Delay>"
    program.write_text(f"#!/bin/sh\necho '{told}' > load_scenario_1.xml\n")
    program.chmod(0o755)
    drive, load = loads.prepare(tmp_path, {loads.DEPTH: "1"}, {})
    assert loads.of_mqsim(program, tmp_path) == 102
    # docs/mqsim.md, the first row.
    assert loads.of_ours(drive, load) == pytest.approx(102.4, abs=0.05)


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
    assert names("validate-drive", "bathtub") == [("validate-drive", ["bathtub"])]
    found = dict(names("scheduler-*", "scheduler-4.19"))
    first = ["5.5", "7.2", "7.3", "7.4-file-systems"]
    assert found["figures-layers"] == [
        f"scheduler-{number}" for number in (*first, *(f"7.{place}" for place in range(4, 22)))
    ]
    assert all(name.startswith("scheduler-4.") for name in found["figures-prober"])
    with pytest.raises(InputError, match="unknown name `nonsense`"):
        names("uniform", "nonsense")


def test_the_list_has_every_part_with_its_paper_and_what_it_needs(tmp_path: Path) -> None:
    printed = run_experiments("list", folder=tmp_path).stdout
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
    done = run_experiments(*arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
