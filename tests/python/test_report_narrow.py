"""Reports in a narrow window: headlines, notes, long tables, bars; figures to take away."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, expect

import flashwright as fw
from browsing import Opened
from flashwright._core import InputError
from flashwright._text import brief
from flashwright.pages import headlines
from flashwright.pages.figures import LOG_NOTE, bars
from support import SMALL, Cli


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (995734.0, "996\u202f000"),
        (4079.0, "4\u202f080"),
        (31.04, "31.0"),
        (0.00512, "0.00512"),
        (100.0, "100"),
    ],
)
def test_numbers_of_headlines_have_three_digits(value: float, said: str) -> None:
    assert brief(value) == said
    assert headlines.digits(said) <= 3


def test_only_numbers_that_stand_alone_lose_digits() -> None:
    kept = "sd-card2025 on /dev/nvme0n1234, 99.99 % within 12.5 ms of nand-1234 (15 % of 2024x)"
    assert headlines.brief_numbers(kept) == kept
    assert headlines.long_numbers(kept) == []
    assert headlines.brief_numbers("44\u202f999 requests, 14.3333 of 1000.") == (
        "45\u202f000 requests, 14.3 of 1000."
    )


@pytest.mark.parametrize(
    ("text", "lead", "more"),
    [
        ("One. Two.", ("One. Two.",), ()),
        ("One. Two. Three.", ("One. Two.",), ("Three.",)),
        ("One.\nTwo.\nThree.", ("One.", "Two."), ("Three.",)),
        (f"First {'a ' * 20}part: a second {'b ' * 20}one.", None, ()),
    ],
)
def test_a_headline_is_two_sentences(
    text: str, lead: tuple[str, ...] | None, more: tuple[str, ...]
) -> None:
    found = headlines.answer(text)
    if lead is not None:
        assert found.lead == lead
    assert found.more == more
    said = [sentence for line in found.lead for sentence in headlines.sentences(line)]
    assert len(said) <= headlines.MOST_SENTENCES
    assert all(headlines.words(sentence) <= headlines.MOST_WORDS for sentence in said)


def test_what_a_headline_loses_stands_below_it_in_full() -> None:
    life = (
        "It would live 2.6 years with this policy instead of 2.1 years (a drive of 238 GiB, 100 % "
        "full, 3\u202f000 erases for each erase block, 3.15 drive writes a day, as recorded)."
    )
    found = headlines.answer(life)
    assert found.lead == ("It would live 2.6 years with this policy instead of 2.1 years.",)
    assert found.more == (life,)
    # A word or two that takes something back stays.
    assert headlines.answer("It writes 3 (not steady).").lead == ("It writes 3 (not steady).",)


def test_a_bar_that_is_far_longer_has_a_logarithmic_scale_and_says_so() -> None:
    data, layout = bars(["a", "b", "c"], [500.0, 1.0, 0.0], ["500", "1", "0"], ["@c0"] * 3, "x")
    assert data[0]["x"] == [500.0, 1.0, 0.0]
    assert layout["xaxis"]["type"] == "log"
    assert layout["meta"]["note"] == LOG_NOTE
    low, high = layout["meta"]["phoneRange"]
    assert low < 0.0 < math.log10(500) < high
    assert [note["x"] for note in layout["annotations"]] == [math.log10(500), 0.0, low]
    _, even = bars(["a", "b"], [50.0, 1.0], ["50", "1"], ["@c0"] * 2, "x")
    assert even["xaxis"].get("type") is None
    assert even["meta"] == {"phoneRange": [0.0, 51.0]}


def test_drives_far_apart_are_drawn_so(browser: Browser, cli: Cli, tmp_path: Path) -> None:
    drives = ("play", "io:random", "--on", "usb-stick,intel-x25e", "--requests", "300")
    cli(*drives, "--out", "run")
    opened = Opened(browser, tmp_path / "run" / "report.html", width=400)
    page = opened.page
    assert LOG_NOTE in page.locator("#d0-iops-reading").inner_text()
    # Names stand above their bars, which have the width.
    widths = page.evaluate(
        "[...document.querySelectorAll('#d0-iops .bars path')]"
        ".map(bar => bar.getBoundingClientRect().width)"
    )
    assert max(widths) > 250
    assert min(widths) > 5
    texts = page.locator("#d0-iops .annotation-text").all_text_contents()
    assert [text.partition(":")[0] for text in texts] == ["intel-x25e", "usb-stick"]
    notes = page.locator("details.notes")
    assert notes.locator("summary").inner_text().endswith(" notes")
    expect(notes.locator(".remark").first).not_to_be_visible()
    notes.locator("summary").click()
    expect(notes.locator(".remark").first).to_be_visible()
    page.context.close()


def test_long_tables_are_folded_in_a_narrow_window_alone(
    browser: Browser, cli: Cli, tmp_path: Path
) -> None:
    cli("compare", SMALL, "--out", "run")
    path = tmp_path / "run" / "report.html"
    wide, narrow = Opened(browser, path), Opened(browser, path, width=400)
    count = "[document.querySelectorAll('details.long').length, " + (
        "document.querySelectorAll('details.long[open]').length]"
    )
    whole, opened = wide.page.evaluate(count)
    assert whole == opened > 0
    assert narrow.page.evaluate(count) == [whole, 0]
    assert narrow.page.locator("details.long summary").first.inner_text().endswith(" rows")


def test_a_figure_is_saved_as_svg_and_the_report_printed_as_pdf(
    browser: Browser, cli: Cli, tmp_path: Path
) -> None:
    cli("model", "--out", "run")
    page = Opened(browser, tmp_path / "run" / "report.html").page
    plot = page.locator(".plot").first
    plot.hover()
    with page.expect_download() as saved:
        plot.locator("[data-title*='Download']").click()
    saved.value.save_as(tmp_path / "figure.svg")
    root = ElementTree.fromstring((tmp_path / "figure.svg").read_text(encoding="utf-8"))  # noqa: S314
    assert root.tag.endswith("svg")
    assert saved.value.suggested_filename == f"{plot.get_attribute('id')}.svg"
    assert page.pdf()[:5] == b"%PDF-"
    page.context.close()


def test_a_report_shows_the_lines_that_are_asked_for(cli: Cli, tmp_path: Path) -> None:
    cli("compare", SMALL, "--op", "0.2,0.3", "--placements", "none,dac,multi_log", "--out", "run")
    result = fw.open_run(tmp_path / "run")

    def shown(lines: list[str]) -> set[str]:
        figure = result.plots(lines)[0]
        return {trace.name for trace in figure.data if trace.visible != "legendonly"}

    assert shown(["dac"]) == {"DAC"}
    assert {"DAC", "Greedy"} <= shown(["dac", "GREEDY"]) < shown([])
    cli("report", "run", "--lines", "dac,greedy")
    html = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert html.count('"legendonly"') > 1
    said = cli("report", "run", "--lines", "nix", code=2).stderr
    assert "nix: no figure has a line of that name; there is: " in said
    with pytest.raises(InputError, match="nix: no figure"):
        result.plots(["nix"])
