"""Takes the picture of a report for README.md: `screenshot.py RUN_FOLDER docs/report.png`."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]


def main(run_folder: str, picture: str) -> None:
    """Open the run's report in Chromium and take its upper part."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": 1080, "height": 1250}, color_scheme="light")
        page.goto((Path(run_folder).resolve() / "report.html").as_uri())
        page.wait_for_function("document.documentElement.dataset.plots === 'drawn'")
        page.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
