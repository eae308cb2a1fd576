"""An installed wheel, outside the source tree: it has all that README's first commands need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support import ROOT, find_program

BLOCK = re.compile(
    r"<!-- first commands -->\n```sh\n(.*?)```\n<!-- end of first commands -->", re.S
)

pytestmark = pytest.mark.timeout(2400)
"""A machine may be busy: pip installs all that the package needs."""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the extension that is there."""
    folder = tmp_path_factory.mktemp("wheel")
    maturin = Path(sys.executable).parent / "maturin"
    find_program("cargo")
    # Of what tests are built of: only the last crate is compiled again, for the revision.
    run(
        maturin, "build", "--profile", "dev", "--quiet", "--out", folder,
        cwd=ROOT, VIRTUAL_ENV=str(maturin.parents[1]), FLASHWRIGHT_REVISION="of-the-test",
    )  # fmt: skip
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """Install the wheel, and give its programs."""
    folder = wheel.parent
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    programs = folder / "venv" / "bin"
    # As on a machine without a compiler: nothing but the programs of the new place is found.
    run(
        programs / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
        wheel, cwd=folder, PATH=str(programs),
    )  # fmt: skip
    return programs


def test_the_first_commands_of_the_readme_work_in_an_empty_folder(
    installed: Path, tmp_path: Path
) -> None:
    found = BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    lines = found.group(1).splitlines()
    assert len(lines) == 2
    path = f"{installed}:{os.environ['PATH']}"
    assert "revision of-the-test" in run(installed / "flashwright", "--version", cwd=tmp_path)
    # One over-provisioning and two placements in place of all: `make demo` plays the whole.
    lines[0] = lines[0].replace("--shipped", "--shipped --op 0.2 --placements none,hazard")
    printed = [run("sh", "-c", line, cwd=tmp_path, PATH=path) for line in lines]
    pages = installed.parent / "share" / "man" / "man1"
    assert (pages / "flashwright-probe.1").is_file(), "`man flashwright` finds its pages"
    demo = printed[0]
    assert "recorded for 19 minutes" in demo, "the demo plays the recorded trace"
    result = json.loads(next(tmp_path.glob("runs/demo-*/result.json")).read_text())
    assert str(ROOT) not in json.dumps(result["provenance"]), "and that of the wheel"


def test_experiments_are_no_part_of_the_wheel(wheel: Path) -> None:
    """They and their traces are for who has the repository."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(name.startswith("flashwright/cli/") for name in names)
    assert [name for name in names if "experiments/" in name or "tpcc_scheduler" in name] == []
    traces = [name for name in names if name.endswith(".parquet")]
    assert {str(Path(name).parent) for name in traces} == {"flashwright/data/traces/tpcc_postgres"}


def test_nothing_of_the_package_imports_experiments() -> None:
    for path in (ROOT / "python").rglob("*.py"):
        assert not re.search(
            r"^\s*(from|import) experiments\b", path.read_text(encoding="utf-8"), re.M
        ), path


def test_a_source_distribution_has_all_that_a_build_and_a_demo_need(tmp_path: Path) -> None:
    maturin = Path(sys.executable).parent / "maturin"
    find_program("cargo")
    run(maturin, "sdist", "--out", tmp_path, cwd=ROOT, VIRTUAL_ENV=str(maturin.parents[1]))
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run(
        "git", "ls-files", "python", "crates", "docs", "packaging", "experiments", cwd=ROOT
    ).splitlines()
    # Tests of crates are theirs, and not needed to build them.
    needed = [name for name in tracked if "/tests/" not in name and "/benches/" not in name]
    missing = [name for name in needed if name not in names and not name.endswith("README.md")]
    assert [name for name in missing if not name.startswith("crates/faults")] == []
    assert {"Makefile", "README.md", "CHANGELOG.md", "LICENSE", "Cargo.lock"} <= names
    assert not any(name.endswith(".so") for name in names)
    assert any(name.endswith("tpcc_postgres/requests.parquet") for name in names)
