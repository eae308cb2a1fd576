"""Every notebook runs from top to bottom, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "outputs are not kept: clear them"
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=300, kernel_name="python3", resources=resources).execute()
    # Each result that a cell ends with is shown as HTML, not as the place of an object in memory.
    shown = [
        output["data"]
        for cell in book.cells
        for output in cell.get("outputs", [])
        if output["output_type"] in ("execute_result", "display_data")
    ]
    assert shown
    assert not any(" object at 0x" in data.get("text/plain", "") for data in shown)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


def test_progress_of_long_work_is_drawn_below_the_cell(tmp_path: Path) -> None:
    code = (
        "import time\n"
        "from flashwright.progress import work\n"
        "def slow(progress):\n    time.sleep(1.5)\n"
        "work('Something slow', 'pages', slow)\n"
        "import flashwright\n"
        "from flashwright.progress import hidden\n"
        "with hidden():\n    work('Hidden', 'pages', slow)\n"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    client = NotebookClient(book, timeout=60, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    drawn = [output["data"]["text/html"] for output in book.cells[0].outputs if "data" in output]
    # One bar, which is gone when the work is done.
    assert drawn == [""]
