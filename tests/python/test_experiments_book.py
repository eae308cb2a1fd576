"""The book of the papers: its inventory, what is kept and run, verdicts, pages, revisions."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

import test_experiments_tpcc
from browsing import check_report
from experiments.book import kept as keeping
from experiments.book import revisions, running
from experiments.book.chapters import CHAPTERS
from experiments.book.claims import Chapter as BookChapter
from experiments.book.claims import Claim, Kind, NotTested, Rows, Topic
from experiments.book.command import make
from experiments.book.kept import Kept
from experiments.book.readings import multilog as of_multilog
from experiments.book.readings import replication as of_replication
from experiments.book.running import COSTS, QUICK, Runs, Shelf, Wanted
from experiments.book.verdicts import Library, Verdict, all_wanted, judged, row_verdict
from experiments.drives import parallelism as points
from experiments.figures import layers, multilog, prober
from experiments.registry import Outcome, Part, Set
from experiments.sets import SETS
from experiments.ssb import figures as queries
from experiments.ssb.queries import STREAMS
from experiments.tpcc.judged import AGAINST_SEQUENTIAL
from support import ROOT

TO_BE_MADE_AGAIN = {
    ("volumes.md", "fdf0dac3a961-dirty"),
    ("volumes.md", "4260569417e9-dirty"),
    ("volumes.md", "c7404a64ffd4-dirty"),
    ("volumes.md", "8e7afe139ef7-dirty"),
}
"""Results of long runs whose revision is not in the history; none may be added."""


PART = "multilog-1a"


def claims() -> Iterator[tuple[str, Topic, Claim]]:
    for chapter in CHAPTERS:
        yield from chapter.claims()


def outcome(
    published: float | str, ours: float | str | None, unit: str = "", **more: Any
) -> Outcome:
    return Outcome(PART, "what", "where", published, ours, unit, **more)


class TestInventory:
    def test_every_paper_has_a_chapter_and_every_claim_an_id_of_its_own(self) -> None:
        assert [chapter.paper for chapter in CHAPTERS] == [
            "MULTILOG",
            "STABLEBUFFER",
            "SCHEDULER",
            "REPLICATION",
            "PARALLELISM",
        ]
        assert [
            name for name, times in Counter(one for one, *_ in claims()).items() if times > 1
        ] == []

    def test_every_figure_and_table_has_a_topic(self) -> None:
        """The numbers of the last figure and the last table of each paper."""
        last = {
            "MULTILOG": (7, 3),
            "STABLEBUFFER": (7, 1),
            "REPLICATION": (7, 5),
            "PARALLELISM": (9, 2),
        }
        for chapter in CHAPTERS:
            places = " ".join(topic.place for topic in chapter.topics)
            if chapter.paper in last:
                wanted = {
                    f"{kind} {number}"
                    for kind, most in zip(("figure", "table"), last[chapter.paper], strict=True)
                    for number in range(1, most + 1)
                }
                assert wanted - covered(places) == set(), chapter.paper
            else:
                figures = {f"4.{n}" for n in range(1, 33)} | {f"5.{n}" for n in range(1, 13)}
                figures |= {f"6.{n}" for n in range(1, 9)} | {f"7.{n}" for n in range(1, 22)}
                wanted = {f"figure {number}" for number in figures | {"8.1"}}
                assert wanted - covered(places) == set()

    def test_what_is_not_tested_says_what_is_missing(self) -> None:
        for name, _, claim in claims():
            if isinstance(claim.by, NotTested):
                assert len(claim.by.missing.split()) > 3, name

    def test_a_topic_without_claims_says_why(self) -> None:
        for chapter in CHAPTERS:
            for topic in chapter.topics:
                assert topic.claims or topic.remark, topic.place

    def test_every_reference_is_to_a_set_and_a_part(self) -> None:
        library = Library(SETS, Shelf(Path("nowhere")))
        assert len(all_wanted(CHAPTERS, library)) > 100

    def test_every_row_that_is_referred_to_is_there(self) -> None:
        """Rows of figures and of points are known without a run."""
        known = {
            ("figures-layers", row.what) for paper in layers.PAPERS for row in rows_of(paper)
        } | {("figures-prober", row.what) for paper in prober.PAPERS for row in rows_of(paper)}
        known |= {("figures-models", one.what) for chart in multilog.CHARTS for one in chart.shapes}
        known |= {("validate-drive", point.what) for point in points.points()}
        drives = [queries.PAPERS_DRIVE, "hard_disk"]
        for part in (one for one in queries.PARTS if one.paper):
            drawn = queries._drawings(part, lambda *_: 1.0, drives, STREAMS)
            known |= {("figures-queries", row.what) for one in drawn for row in one.published}
            known |= {("figures-queries", row.what) for one in drawn for row in one.shapes}
        known |= {("figures-tpcc", row.what) for row in test_experiments_tpcc.rows()}
        known |= {("figures-tpcc", AGAINST_SEQUENTIAL)}
        for name, _, claim in claims():
            for judge in (*claim.judges, *claim.beside):
                if isinstance(judge, Rows) and judge.set.startswith("figures-"):
                    found = [what for of, what in known if of == judge.set and matches(judge, what)]
                    assert found, f"{name}: no row `{judge.what}` in {judge.set}"
                elif isinstance(judge, Rows) and judge.part == "parallelism":
                    assert [what for _, what in known if matches(judge, what)], name

    def test_no_published_number_is_written_twice(self) -> None:
        """Where rows judge, they have it; a claim has it only if nothing is tested."""
        twice = [name for name, _, claim in claims() if claim.published and claim.judges]
        assert twice == []


def covered(places: str) -> set[str]:
    """Give all figures and tables that places name: `figures 5.1 to 5.4` are four."""
    found: set[str] = set()
    for kind, first, word, last in re.findall(
        r"(figure|table)s? (\d+(?:\.\d+)?)[a-c]?(?: (to|and) (\d+(?:\.\d+)?))?", places
    ):
        chapter, _, number = first.rpartition(".")
        numbers = [int(number)]
        if word:
            end = int(last.rpartition(".")[2])
            numbers = list(range(int(number), end + 1)) if word == "to" else [int(number), end]
        found |= {f"{kind} {chapter}.{one}" if chapter else f"{kind} {one}" for one in numbers}
    return found


def rows_of(paper: Any) -> list[Any]:
    return [row for drawing in paper.drawings() for row in (*drawing.published, *drawing.shapes)]


def matches(judge: Rows, what: str) -> bool:
    return fnmatchcase(what, judge.what)


class TestReadings:
    """Of what studies give today: the whole book ended with an error that a part of it hid."""

    def test_rows_without_over_provisioning_are_no_costs(self) -> None:
        row = {"load": "TATP", "reference": 2.0, "reference_name": "greedy", "measured": 1.0}
        rows = [
            {**row, "what": "multi_log: cleaning_cost", "over_provisioning": 0.1},
            {**row, "what": "share of the hottest tenth", "over_provisioning": None},
        ]
        found = of_multilog.costs_on(rows, "TATP")
        assert found == {0.1: {"multi_log": 1.0, "greedy": 2.0}}

    def test_copies_are_counted_where_the_job_has_them(self) -> None:
        copies = {
            "counts": {"replica_page_writes": 10},
            "predicted_copies": 11,
            "groups_by_size": [3, 1],
            "interference": [0.01, 0.02],
        }
        plays = [{"benchmark": "TPC-C", "state": "pblru", "replication": copies}]
        [estimated] = of_replication.estimate(plays)
        assert (estimated.ours, estimated.agrees) == ("+10%", True)
        [groups] = of_replication.groups_of_two(plays)
        assert groups.ours == 75.0

    def test_a_play_without_a_layer_has_none(self) -> None:
        assert of_replication._counted({"layer": {}})["layers"] == []


class TestVerdicts:
    @pytest.mark.parametrize(
        ("kind", "row", "holds", "words"),
        [
            (Kind.NUMBER, outcome(100, 104, "MB/s"), True, "within 5%"),
            (Kind.NUMBER, outcome(100, 119, "MB/s"), True, "within 20%"),
            (Kind.NUMBER, outcome(100, 121, "MB/s"), False, "+21%: same order"),
            (Kind.NUMBER, outcome(100, 121, "MB/s", tolerance=0.25), True, "within 25%"),
            (Kind.NUMBER, outcome(5.0, 78.0, "times"), False, "+1460%: same sign, another order"),
            (Kind.NUMBER, outcome(3300, 30738, "1/s"), False, "+831%: another order"),
            (Kind.NUMBER, outcome(176.0, -15.0, "%"), False, "-109%: other sign"),
            (Kind.NUMBER, outcome(1.25, 0.99, "times"), False, "-21%: other sign"),
            (Kind.SIGN, outcome(-71.0, -20.0, "%"), True, "same sign"),
            (Kind.SIGN, outcome(1.25, 0.99, "times"), False, "other sign"),
            (Kind.SHAPE, outcome("a dip", "no dip", agrees=False), False, "does not agree"),
            (Kind.SHAPE, outcome("a dip", "unsure", agrees=None), None, "not decided"),
            (Kind.NUMBER, outcome(1.0, None, remark="too small"), None, "no result: too small"),
        ],
    )
    def test_of_a_row(self, kind: Kind, row: Outcome, holds: bool | None, words: str) -> None:
        assert row_verdict(kind, row) == (holds, words)

    def test_a_claim_holds_only_if_every_row_does(self, tmp_path: Path) -> None:
        rows = [outcome(1.0, 1.0), outcome(1.0, 2.0), outcome("a", "b", agrees=None)]
        assert verdict_of(rows[:1], tmp_path) is Verdict.HELD
        assert verdict_of(rows[:2], tmp_path) is Verdict.NOT_HELD
        assert verdict_of([rows[0], rows[2]], tmp_path) is Verdict.NOT_TESTED

    def test_a_fitted_row_makes_the_claim_fitted(self, tmp_path: Path) -> None:
        fitted, derived = outcome(1.0, 1.0, basis="fitted"), outcome(1.0, 1.0, basis="from two")
        assert judged_of([outcome(1.0, 1.0)], tmp_path).basis == "predicted"
        assert judged_of([fitted, outcome(1.0, 1.0)], tmp_path).basis == "fitted in part"
        assert judged_of([derived, outcome(1.0, 1.0)], tmp_path).basis == "derived from two"

    def test_a_row_that_is_gone_is_an_error_unless_the_result_is_old(self, tmp_path: Path) -> None:
        with pytest.raises(LookupError, match="no row matches"):
            verdict_of([], tmp_path)
        library = Library([a_set()], OneResult(tmp_path, [], is_current=False))
        found = next(judged(chapter_of(a_set()), library))
        assert found.verdict is Verdict.NOT_RUN
        assert "older source" in found.reason

    def test_without_a_result_it_says_the_command(self, tmp_path: Path) -> None:
        found = next(judged(chapter_of(a_set()), Library([a_set()], Shelf(tmp_path))))
        assert found.verdict is Verdict.NOT_RUN
        assert f"python -m experiments book runs {PART}" in found.reason


def a_set() -> Set[Any]:
    return set_named("figures-models")


def chapter_of(one: Set[Any]) -> BookChapter:
    claim = Claim("a", "It is so.", Kind.NUMBER, Rows(one.name, PART))
    return BookChapter("PAPER", "title", "authors", (Topic("figure 1", "title", (claim,)),))


class OneResult(Shelf):
    """A shelf that has a result of every part."""

    def __init__(self, folder: Path, rows: list[Outcome], *, is_current: bool = True) -> None:
        super().__init__(folder)
        self._rows = rows
        self._is_current = is_current

    def find(self, wanted: Wanted) -> Kept | None:
        return replace(a_result(wanted, self._rows), is_current=self._is_current)


def a_result(wanted: Wanted, rows: list[Outcome]) -> Kept:
    made_by = {"revision": "0123456", "flashwright": "0", "command": [], "inputs": [], "seed": 1}
    return Kept(wanted.set.name, wanted.name, "x", 1.0, "2026-01-01", made_by, {}, rows, [])


def judged_of(rows: list[Outcome], folder: Path) -> Any:
    return next(judged(chapter_of(a_set()), Library([a_set()], OneResult(folder, rows))))


def verdict_of(rows: list[Outcome], folder: Path) -> Verdict:
    verdict: Verdict = judged_of(rows, folder).verdict
    return verdict


def set_named(name: str) -> Set[Any]:
    return next(one for one in SETS if one.name == name)


class TestKept:
    def test_a_result_is_read_back_as_it_was(self, tmp_path: Path) -> None:
        one = set_named("figures-models")
        wanted = Wanted(one, one.parts[0])
        written = a_result(wanted, [outcome(1.0, 2.0, "x", basis="fitted")])
        assert keeping.read(keeping.write(tmp_path, written)) == written

    def test_a_damaged_result_is_none(self, tmp_path: Path) -> None:
        path = tmp_path / "one.json"
        assert keeping.read(path) is None
        for text in ("", "{}", '{"format": 0}', '{"format": 1, "outcomes": []}'):
            path.write_text(text)
            assert keeping.read(path) is None, text

    def test_the_identity_depends_on_part_options_and_source(self) -> None:
        one = set_named("validate-placement")
        values = keeping.values_of(one)
        first, second = one.parts[:2]
        here = keeping.identity(one, first, values)
        assert here == keeping.identity(one, first, values)
        assert here != keeping.identity(one, second, values)
        assert here != keeping.identity(one, first, {**values, "quick": True})

    def test_where_files_lie_is_not_in_it(self) -> None:
        one = set_named("figures-models")
        values = keeping.values_of(one)
        elsewhere = {**values, "out": Path("elsewhere")}
        part = one.parts[0]
        assert keeping.identity(one, part, values) == keeping.identity(one, part, elsewhere)

    def test_words_of_the_source_are_not_in_it_and_numbers_are(self) -> None:
        def hashed(text: str) -> str:
            return ast.dump(keeping._without_words(ast.parse(text)))

        plain = hashed("X = 1\n")
        assert hashed('"""Words."""\nX = 1\n"""More."""\n# And more.\n') == plain
        assert hashed("X = 2\n") != plain

    def test_the_source_is_followed_through_imports(self) -> None:
        paths = {keeping._path_of(name) for name in ("experiments.figures.prober", "experiments")}
        assert None not in paths
        tree = ast.parse("from experiments.figures import scheduler\nimport experiments.pages")
        assert {"experiments.figures.scheduler", "experiments.pages"} <= set(
            keeping._imported(tree)
        )

    def test_a_result_of_an_older_source_is_found_and_marked(self, tmp_path: Path) -> None:
        one = set_named("figures-models")
        wanted = Wanted(one, one.parts[0])
        keeping.write(tmp_path, a_result(wanted, []))
        shelf = Shelf(tmp_path)
        assert shelf.current(wanted) is None
        found = shelf.find(wanted)
        assert found is not None
        assert not found.is_current

    def test_committed_results_stand_in_for_what_is_not_kept(self, tmp_path: Path) -> None:
        one = set_named("figures-models")
        wanted = Wanted(one, one.parts[0])
        keeping.write(tmp_path / "committed", a_result(wanted, []))
        shelf = Shelf(tmp_path / "own", tmp_path / "committed")
        assert shelf.find(wanted) is not None


class TestRunning:
    def test_the_book_runs_what_needs_nothing_else(self) -> None:
        wanted = all_wanted(CHAPTERS, Library(SETS, Shelf(Path("nowhere"))))
        runs = [one for one in wanted if one.is_run]
        assert {one.set.name for one in runs} == set(COSTS)
        assert not [one.set.needs for one in runs if "root" in one.set.needs]
        names = {one.name for one in wanted} | {one.set.name for one in wanted}
        assert set(QUICK) <= names

    def test_what_it_does_not_run_is_kept_in_the_repository(self) -> None:
        shelf = Shelf(Path("nowhere"), keeping.COMMITTED)
        wanted = all_wanted(CHAPTERS, Library(SETS, Shelf(Path("nowhere"))))
        others = [one for one in wanted if not one.is_run]
        assert [one.name for one in others if shelf.find(one) is None] == []

    def test_parts_are_run_in_a_process_and_kept(self, tmp_path: Path) -> None:
        one = set_named("figures-models")
        wanted = [Wanted(one, part) for part in one.parts[:2]]
        shelf = Shelf(tmp_path)
        runs = Runs(wanted, shelf)
        runs.run()
        assert runs.failed == {}
        assert runs.state()[0] == runs.state()[1]
        for part in wanted:
            found = shelf.current(part)
            assert found is not None
            assert found.is_current
            assert found.drawn
            assert found.provenance["command"] == ["python", "-m", "experiments", part.name]

    def test_a_set_that_fails_is_told(self, tmp_path: Path) -> None:
        one = set_named("figures-models")
        lost = Wanted(one, Part("no-such-part", "", ""))
        runs = Runs([lost], Shelf(tmp_path))
        runs.run()
        assert "no-such-part" in runs.failed["figures-models"]

    def test_a_part_that_fails_leaves_the_others(self, tmp_path: Path) -> None:
        """Nothing can be kept where a file is in the way of the folder."""
        one = set_named("figures-models")
        (tmp_path / one.name).mkdir()
        first, second = (Wanted(one, part) for part in one.parts[:2])
        name = keeping.identity(one, first.part, keeping.values_of(one))
        keeping.path_of(tmp_path, one.name, name).mkdir()
        runs = Runs([first, second], Shelf(tmp_path))
        runs.run()
        assert list(runs.failed) == [first.name]
        assert Shelf(tmp_path).current(second) is not None

    def test_cancelling_ends_the_processes(self, tmp_path: Path) -> None:
        one = set_named("figures-prober")
        runs = Runs([Wanted(one, part) for part in one.parts[:3]], Shelf(tmp_path))
        runs.cancel()
        runs.run()
        assert runs._lanes == []

    def test_sets_that_take_longest_begin_first(self) -> None:
        every = all_wanted(CHAPTERS, Library(SETS, Shelf(Path("nowhere"))))
        wanted = [one for one in every if one.is_run]
        seconds = [COSTS[one.name].seconds for one, _ in running._by_set(wanted)]
        assert seconds == sorted(seconds, reverse=True)


def test_ctrl_c_ends_all_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """It is stopped as soon as a part is kept; nothing of it is left running."""
    words = [sys.executable, "-m", "experiments", "book", "--quick"]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            words, cwd=tmp_path, env=environment, stdout=said, stderr=said, start_new_session=True
        )
        folder = tmp_path / keeping.FOLDER
        while process.poll() is None and not list(folder.glob("*/*.json")):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(120) == 130, (tmp_path / "said").read_text()
    text = (tmp_path / "said").read_text()
    assert "the same command goes on from there" in text
    assert "Traceback" not in text
    before = {one: one.stat().st_mtime_ns for one in folder.glob("*/*.json")}
    assert before
    assert all(keeping.read(one) is not None for one in before)
    running_now = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    workers = [line for line in running_now.stdout.splitlines() if "book.worker" in line]
    assert [line for line in workers if str(folder) in line] == []
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {one: one.stat().st_mtime_ns for one in before} == before


def test_the_quick_book_is_whole(browser: Browser, tmp_path: Path) -> None:
    """It runs what takes seconds, counts all claims, links them, and needs no network."""
    assert make(SETS, tmp_path, quick=True, kept=tmp_path / "kept")
    folder = tmp_path / "book"
    document = json.loads((folder / "claims.json").read_text())["claims"]
    assert len(document) == len(list(claims()))
    found = Counter(one["verdict"] for one in document)
    assert found["held"] > 10
    assert found["not run yet"] > 10
    assert all(one["reason"] for one in document if one["verdict"] in ("not tested", "not run yet"))
    assert all(one["rows"] for one in document if one["verdict"] in ("held", "not held here"))
    index = (folder / "index.html").read_text()
    pages = {chapter.file: (folder / chapter.file).read_text() for chapter in CHAPTERS}
    links = re.findall(r'href="([a-z]+\.html)#([^"]+)"', index)
    assert len(links) == len(document)
    assert [place for file, place in links if f'id="{place}"' not in pages[file]] == []
    check_report(browser, folder / "multilog.html", least_plots=9, on_a_phone=True)


class TestRevisions:
    def test_are_found_in_texts(self) -> None:
        text = "revision 3766ab8d2b1c-dirty, at revision `57d02ad827d9`. No revision is known."
        assert revisions.named(text) == ["3766ab8d2b1c-dirty", "57d02ad827d9"]

    def test_that_are_none_are_faults(self) -> None:
        if revisions.is_shallow():
            pytest.skip("this clone has no history: revisions cannot be looked up")
        assert revisions.fault("0123456789ab") == "not in the history"
        assert "changes" in revisions.fault("HEAD-dirty")
        assert revisions.fault("") == "not known"
        assert revisions.fault("HEAD") == ""

    def test_of_results_are_in_the_history(self) -> None:
        if revisions.is_shallow():
            pytest.skip("this clone has no history: revisions cannot be looked up")
        found = {
            (path.name, revision)
            for path in sorted((ROOT / "docs" / "results").glob("*.md"))
            for revision in revisions.named(path.read_text(encoding="utf-8"))
            if revisions.fault(revision)
        }
        assert found - TO_BE_MADE_AGAIN == set()

    def test_of_committed_results_are_in_the_history(self) -> None:
        if revisions.is_shallow():
            pytest.skip("this clone has no history: revisions cannot be looked up")
        for path in keeping.COMMITTED.glob("*/*.json"):
            found = keeping.read(path)
            assert found is not None, path
            assert revisions.fault(found.revision) == "", path
