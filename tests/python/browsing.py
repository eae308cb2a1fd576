"""Reports in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from flashwright.pages import headlines

# Without these Chromium looks for updates on its own, and its requests would be taken for ours.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

MARKS = ".trace, .hm, .heatmaplayer image, .contourlayer path, .bars path"
"""Selector of the elements that Plotly draws for data."""
TOO_WIDE = (
    "[...document.querySelectorAll('figure, .table, .facts')].filter(e => "
    "e.getBoundingClientRect().right > 375).length"
)

FITS = "document.documentElement.scrollWidth <= 375"

PLOTS = """marks => [...document.querySelectorAll('.plot')].map(plot => ({
  id: plot.id,
  isDrawn: plot.querySelector('.main-svg') !== null,
  hasMarks: plot.querySelector(marks) !== null,
  x: plot.querySelector('.xtitle')?.textContent,
  y: plot.querySelector('.ytitle')?.textContent ||
    plot.layout?.yaxis?.type === 'category',
  label: plot.getAttribute('aria-labelledby'),
}))"""
"""Script that gives the parts of each plot. All are asked at once: a question takes milliseconds,
and some pages have 100 plots.
"""


OVERLAPS = """() => {
  const found = [];
  for (const plot of document.querySelectorAll('.plot')) {
    for (const kind of ['.xtick text', '.annotation-text']) {
      const boxes = [...plot.querySelectorAll(kind)].filter(text => text.textContent.trim())
        .map(text => [text.textContent, text.getBoundingClientRect()]);
      boxes.forEach(([one, a], place) => {
        for (const [other, b] of boxes.slice(place + 1)) {
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (wide > 1 && high > 3) found.push(`${plot.id}: ${one} | ${other}`);
        }
      });
    }
  }
  return found;
}"""
"""Labels of axes, or of bars, that lie over each other."""

SHORT_BARS = """() => [...document.querySelectorAll('.plot')].filter(plot => {
  const bars = [...plot.querySelectorAll('.bars path')].map(bar => bar.getBoundingClientRect());
  const isFlat = plot.layout?.yaxis?.type === 'category' && bars.length > 0;
  const end = Math.max(...bars.map(bar => bar.right));
  return isFlat && end - Math.min(...bars.map(bar => bar.left)) < 150;
}).map(plot => plot.id)"""
"""Plots of bars whose longest takes less than 150 of 375 pixels."""


class Opened:
    """A report in a tab, with all that the tab complained about and asked for."""

    def __init__(
        self, browser: Browser, path: Path, *, width: int = 1200, scheme: str = "light"
    ) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        # A function as text would be evaluated, which the page's content security policy forbids.
        self.page.locator("html[data-plots]").wait_for(state="attached", timeout=60_000)

    def unfold(self) -> None:
        """Open all that is folded, and wait for the plots in it."""
        self.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
        expect(self.page.locator(".plot:not(:has(.main-svg))")).to_have_count(0, timeout=60_000)

    def background(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))


def check_headline(lines: list[str]) -> None:
    """Check that it is two sentences at most, of 30 words each, and numbers of three digits."""
    assert lines
    assert len(lines[0]) > 40
    said = [sentence for line in lines for sentence in headlines.sentences(line)]
    assert len(said) <= headlines.MOST_SENTENCES, said
    for sentence in said:
        assert headlines.words(sentence) <= headlines.MOST_WORDS, sentence
        assert headlines.long_numbers(sentence) == [], sentence


def check_report(
    browser: Browser,
    path: Path,
    *,
    least_plots: int = 1,
    has_titles: bool = False,
    on_a_phone: bool = False,
) -> None:
    """Open a report: each plot is drawn, nothing is asked of the network, and a phone shows it all.

    `has_titles`: of both axes, but for names from top to bottom. `on_a_phone`: it is opened there,
    too, with a dark theme; otherwise the window becomes as narrow.
    """
    opened = Opened(browser, path)
    assert opened.page.evaluate("document.documentElement.dataset.plots") == "drawn"
    assert opened.complaints == []
    assert opened.requests == [path.as_uri()]
    opened.unfold()
    plots = opened.page.evaluate(PLOTS, MARKS)
    assert len(plots) >= least_plots
    for plot in plots:
        name = plot["id"]
        assert plot["isDrawn"], name
        assert plot["hasMarks"], f"{name} is empty"
        for axis in "xy" if has_titles else "":
            assert plot[axis], f"{name} has no title of {axis}"
        assert plot["label"], name
    assert opened.page.locator("h1").count() == 1
    check_headline(opened.page.locator(".headline").all_inner_texts())
    if on_a_phone:
        opened.page.context.close()
        opened = Opened(browser, path, width=375, scheme="dark")
        opened.unfold()
    else:
        opened.page.set_viewport_size({"width": 375, "height": 900})
    # Plots follow the width of the window a moment later.
    opened.page.wait_for_function(f"{FITS} && {TOO_WIDE} == 0", timeout=60_000)
    opened.page.locator("html[data-drawn-for='375']").wait_for(state="attached", timeout=60_000)
    for what in (SHORT_BARS, OVERLAPS):
        found = opened.page.evaluate(what)
        assert found == [], found
    assert opened.complaints == []
    opened.page.context.close()
