"""Reports in a real browser: drawn, silent, offline, fit for a phone, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsing import Opened, check_report
from support import SMALL, Cli

COMMANDS = {
    "compare one": ["compare", SMALL, "--placements", "multi_log"],
    "compare": ["compare", SMALL, "synth:uniform(pages=16Ki,updates=4x)", "--op", "0.2,0.3"],
    "trace": ["trace", "stats", SMALL],
    "model of a source": ["model", SMALL],
    "model": ["model"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_report_is_drawn_without_complaint_or_request(
    browser: Browser, cli: Cli, tmp_path: Path, command: str
) -> None:
    cli(*COMMANDS[command], "--out", "run")
    check_report(browser, tmp_path / "run" / "report.html")


def test_the_report_of_the_demo_is_drawn_too(browser: Browser, shipped_demo: Path) -> None:
    check_report(browser, shipped_demo / "run" / "report.html", on_a_phone=True)


def test_theme_follows_the_system_and_the_button(
    browser: Browser, cli: Cli, tmp_path: Path
) -> None:
    cli("model", "--out", "run")
    path = tmp_path / "run" / "report.html"
    text = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    opened = Opened(browser, path, scheme="dark")
    dark, dark_text = opened.background(), opened.page.evaluate(text)
    opened.page.locator("#theme").click()
    assert opened.page.locator("#theme").inner_text() == "Theme: light"
    expect(opened.page.locator(".plot .xtick text").first).not_to_have_css("fill", dark_text)
    light = opened.background()
    assert light != dark
    opened.page.reload()
    assert opened.background() == light, "the choice is forgotten"
    opened.page.context.close()
    assert Opened(browser, path, scheme="light").background() == light


def test_text_has_contrast(browser: Browser, cli: Cli, tmp_path: Path) -> None:
    cli("model", "--out", "run")
    script = """() => {
      const luminance = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map(Number)
          .map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
          const colour = getComputedStyle(e).backgroundColor;
          if (!colour.endsWith(', 0)') && colour !== 'transparent') return colour;
        }
        return 'rgb(255,255,255)';
      };
      return Math.min(...[
        ...document.querySelectorAll('h1, h2, h3, p, dt, dd, td, th, #theme')
      ].map((element) => {
        const pair = [luminance(getComputedStyle(element).color), luminance(behind(element))]
          .sort((a, b) => b - a);
        return (pair[0] + 0.05) / (pair[1] + 0.05);
      }));
    }"""
    for scheme in ("light", "dark"):
        opened = Opened(browser, tmp_path / "run" / "report.html", scheme=scheme)
        assert opened.page.evaluate(script) >= 4.5, scheme


def test_labels_cannot_break_out_of_the_page(browser: Browser, cli: Cli, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)><!--.parquet"
    cli("trace", "convert", SMALL, name)
    cli("trace", "stats", name, "--out", "run")
    opened = Opened(browser, tmp_path / "run" / "report.html")
    assert opened.complaints == []
    assert opened.page.locator("img[src=x]").count() == 0
    assert opened.page.locator("h1").inner_text() == name
