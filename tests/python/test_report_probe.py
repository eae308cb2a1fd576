"""Reports of probes in a real browser, and what their charts and words are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from browsing import Opened, check_report
from flashwright import _core
from flashwright.reports import probe_answer
from flashwright.reports import probe_words as words
from flashwright.reports.probe import GROUPS
from flashwright.reports.probe_charts import Curve, figure
from support import Cli
from zygote import Zygote

DRIVE = ["probe", "profile(intel-x25e, media.erase_blocks_per_plane=64)"]
ALL = [*DRIVE, "--full", "--minutes", "2", "--fit", "0"]
COMMANDS = {
    "two drives": [*ALL, "--against", "sd-card"],
    "a profile": ["probe", "a16", "--only", "matrix_reads", "--minutes", "0.1", "--fit", "1"],
    "read-only": ["probe", "memory(bytes=16Mi)", "--only", "depth_read", "--minutes", "0.02"],
}


@pytest.fixture(scope="module")
def one_drive(tmp_path_factory: pytest.TempPathFactory, zygote: Zygote) -> Path:
    """The report of all experiments on a drive."""
    folder = tmp_path_factory.mktemp("one-drive")
    done = zygote.run([*ALL, "--out", "run"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "run" / "report.html"


def test_the_report_of_one_drive_is_drawn_without_complaint_or_request(
    browser: Browser, one_drive: Path
) -> None:
    check_report(browser, one_drive, has_titles=True, on_a_phone=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_report_is_drawn_without_complaint_or_request(
    browser: Browser, cli: Cli, tmp_path: Path, command: str
) -> None:
    cli(*COMMANDS[command], "--out", "run")
    check_report(browser, tmp_path / "run" / "report.html", has_titles=True)


def test_report_is_made_again_from_the_folder_alone(cli: Cli, tmp_path: Path) -> None:
    cli(
        *DRIVE,
        "--only",
        "depth_read",
        "--only",
        "interleaving",
        "--minutes",
        "0.3",
        "--against",
        "a16",
        "--out",
        "run",
    )
    report = tmp_path / "run" / "report.html"
    first = report.read_bytes()
    report.unlink()
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    cli("report", moved)
    assert (moved / "report.html").read_bytes() == first
    text = first.decode()
    for found in ("Side by side", "What was probed", "sub_domains", "two reads at a time"):
        assert found in text, found


def found(key: str, of: float | str, verdict: str = "sure") -> dict[str, Any]:
    value = {"word": of} if isinstance(of, str) else {"number": of}
    return {"key": key, "verdict": verdict, "why": "so it is", **value}


ANSWERED = (
    found("random_read_4ki_requests_per_second", 38763.2),
    found("random_write_4ki_requests_per_second", 45501.0),
    found("sequential_read_most_mb_per_second", 273.4),
    found("sequential_write_most_mb_per_second", 220.1),
    found("domains", 10),
    found("sub_domains", 2),
    found("page_bytes", 4096),
    found("mapping", "write_order"),
)


def probed(*values: dict[str, Any], state: str | None = "fresh") -> dict[str, Any]:
    device = {"state": {"kind": state}} if state else {}
    return {"drive": "intel-x25e", "device": device, "findings": [{"values": list(values)}]}


def test_the_headline_answers_and_says_what_is_unsure_or_not_found() -> None:
    assert probe_answer.sentence(probed(*ANSWERED)) == (
        "intel-x25e: 38.8 k random reads/s, 45.5 k random writes/s (fresh), 273 / 220 MB/s "
        "sequential; 10 channels × 2 dies, 4 KiB pages, page-mapped."  # noqa: RUF001
    )
    doubtful = [
        ANSWERED[0],
        found("random_write_4ki_requests_per_second", 45501.0, "unsure"),
        found("domains", 10, "not_found"),
        found("mapping", "lba", "unsure"),
    ]
    assert probe_answer.sentence(probed(*doubtful, state=None)) == (
        "intel-x25e: 38.8 k random reads/s, about 45.5 k random writes/s; probably mapped by "
        "address. Not found: channels."
    )
    assert probe_answer.sentence(probed(found("random_read_p99_us", 189.0))) == (
        "intel-x25e: random read p99 us 189 µs."
    )


def test_the_answer_has_a_row_for_each_question_and_says_why_it_is_unsure() -> None:
    buffer = {**found("write_buffer_bytes", 2**20, "unsure"), "interval": [2**19, 2**21]}
    table = probe_answer.table([probed(*ANSWERED, buffer)])
    assert table is not None
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["channels × dies that work at once"] == ("10 × 2", "sure")  # noqa: RUF001
    assert rows["write buffer"] == ("1 MiB", "unsure (512 KiB – 2 MiB): so it is")  # noqa: RUF001
    beside = probe_answer.table([probed(*ANSWERED), probed()])
    assert beside is not None
    assert beside.rows[0][1:] == ("38\u202f763 /s", "not looked for", "sure")
    assert probe_answer.table([probed()]) is None


def test_the_report_is_one_page_before_it_is_opened_and_has_no_empty_cells(
    browser: Browser, one_drive: Path
) -> None:
    opened = Opened(browser, one_drive)
    height = opened.page.evaluate("document.documentElement.scrollHeight")
    assert height < 8_000, "it was 34,777 px and more"
    assert opened.page.locator(".plot .main-svg").count() > 0
    opened.unfold()
    assert opened.page.evaluate("document.documentElement.scrollHeight") > height
    assert [cell for cell in opened.page.locator("td").all_text_contents() if not cell] == []
    assert "channels" in opened.page.locator(".headline").first.inner_text()


def test_every_experiment_has_a_group_of_the_report() -> None:
    assert {entry["group"] for entry in _core.variants("experiment")} <= GROUPS.keys()


def _chart(**changed: Any) -> dict[str, Any]:
    axis = {"label": "request size", "unit": "bytes", "is_log": True}
    return {
        "name": "c",
        "title": "C",
        "x": axis,
        "y": {"label": "latency", "unit": "us", "is_log": True},
        **changed,
    }


def _points(
    *values: tuple[float, float], low: float | None = None, high: float | None = None
) -> list[dict[str, Any]]:
    return [{"x": x, "y": y, "low": low, "high": high} for x, y in values]


def test_a_chart_has_units_bands_marks_and_what_no_logarithm_has_is_told() -> None:
    points = [
        *_points((512, 80), low=70, high=90),
        *_points((4096, 0)),
        *_points((65536, 400), low=300, high=500),
    ]
    curve = Curve("d", "reads", points, is_scatter=False)
    marks = [
        {"label": "page", "x": 4096.0},
        {"label": "least", "y": 80.0},
        {"label": "here", "x": 512.0, "y": 80.0},
        {"label": "0", "x": 0.0},
    ]
    drawn = figure("id", _chart(), [curve], marks, ["d"])
    assert drawn is not None
    assert drawn.layout["xaxis"]["ticktext"][0] == "512 B"
    assert drawn.layout["yaxis"]["title"]["text"] == "latency in µs"
    assert "1 points at 0 are not on the logarithmic axis" in drawn.reading
    assert "95 %" in drawn.reading
    band, line, star = drawn.data
    assert (band["fill"], len(band["x"])) == ("toself", 4)
    assert line["x"] == [512, 65536]
    assert star["name"] == "here"
    assert [shape["xref"] for shape in drawn.layout["shapes"]] == ["x", "paper"]
    assert drawn.layout["annotations"][0]["x"] == pytest.approx(3.612, abs=1e-3)
    assert figure("id", _chart(), [Curve("d", "reads", [], is_scatter=False)], marks, ["d"]) is None


def test_intervals_that_would_hide_a_chart_are_told_instead() -> None:
    sure = _points((512, 100), (1024, 100), low=90, high=110)
    again = [{**point, "x": 8 * point["x"]} for point in sure]
    curve = Curve(
        "d", "reads", [*sure, *_points((2048, 100), low=10, high=200), *again], is_scatter=False
    )
    varied = Curve("d", "writes", _points((512, 1), (1024, 1000)), is_scatter=False)
    drawn = figure("id", _chart(), [curve, varied], [], ["d"])
    assert drawn is not None
    assert drawn.data[0]["x"] == [512, 1024, 1024, 512, None, 4096, 8192, 8192, 4096]
    assert (
        "Bands and bars are 95 % intervals. 1 intervals of more than ±50% are not drawn"
        in drawn.reading
    )


def test_two_drives_of_one_chart_are_told_apart() -> None:
    curves = [
        Curve(drive, name, _points((512, 1), (1024, 2)), is_scatter=False)
        for drive in "ab"
        for name in ("r", "w")
    ]
    drawn = figure("id", _chart(), curves, [], ["a", "b"])
    assert drawn is not None
    assert [trace["name"] for trace in drawn.data] == ["a: r", "a: w", "b: r", "b: w"]
    assert [trace["line"]["dash"] for trace in drawn.data] == ["solid", "solid", "dash", "dash"]
    assert drawn.data[0]["line"]["color"] == drawn.data[2]["line"]["color"]


@pytest.mark.parametrize(
    ("key", "number", "said"),
    [
        ("chunk_bytes", 4096, "4 KiB"),
        ("chunk_bytes", 4608, "4.5 KiB"),
        ("focused_area_bytes", 166336 * 1024, "162 MiB"),
        ("superblock_bytes", 4 << 20, "4 MiB"),
        ("sector_bytes", 520, "520 B"),
        ("focused_area_bytes", 12345678, "11.8 MiB"),
        ("random_read_p99_us", 1500, "1.50 ms"),
        ("read_most_mb_per_second", 251.26, "251 MB/s"),
        ("bytes_per_second", 251.26e6, "251 MB/s"),
        ("reads_per_second", 1234.5, "1\u202f234 /s"),
        ("belt_1_share", 0.25, "25.0 %"),
        ("domains", 10, "10"),
        ("us_per_sector", 1.8524, "1.85"),
    ],
)
def test_values_have_the_unit_of_their_key(key: str, number: float, said: str) -> None:
    assert words.number_text(key, number) == said


def test_a_range_is_not_called_an_interval() -> None:
    value = {"key": "belt_1_us", "number": 60, "verdict": "sure"}
    assert words.interval_text(value) == ""
    assert words.interval_text({**value, "interval": [50, 70]}) == "50.0 – 70.0 µs"  # noqa: RUF001
    assert (
        words.interval_text({**value, "range": [50, 70]}) == "range 50.0 – 70.0 µs"  # noqa: RUF001
    )


def test_what_was_set_is_not_told_as_found() -> None:
    values = [{"key": "matrix_cells"}, {"key": "matrix_seed", "is_setting": True}]
    assert words.told_values({"values": values}) == values[:1]


def test_how_far_off_a_profile_is_at_worst_is_told() -> None:
    cells = [
        {"access": "random", "reads": reads, "size_bytes": 65_536, "depth": 16, "ratio": ratio}
        for reads, ratio in ((1.0, 1.01), (0.5, 0.25), (0.0, 2.0))
    ]
    profile = {"within_10_percent": 1 / 3, "cells": cells}
    said = "33 % of its 3 throughputs are within 10 % of what was measured"
    assert (
        words.closeness(profile)
        == f"{said}, the worst is 0.250 times that (random 50% reads of 64 KiB at depth 16)"
    )
    assert words.closeness({"within_10_percent": 1.0, "cells": cells[:1]}).endswith(
        "what was measured"
    )
