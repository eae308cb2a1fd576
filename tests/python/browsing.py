"""Reports in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

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


class Opened:
    """A report in a tab, with all that the tab complained about and asked for."""

    def __init__(self, browser: Browser, path: Path, *, width: int = 1200, scheme: str = "light") -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("document.documentElement.dataset.plots !== undefined", timeout=60_000)

    def background(self) -> str:
        return str(self.page.evaluate("getComputedStyle(document.body).backgroundColor"))
