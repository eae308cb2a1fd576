"""Installation by `make build`, with files that running programs use."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from support import ROOT

LIBRARIES = {
    "lib_core.so": "_core.abi3.so",
    "libflashwright_nbdkit.so": "_native/libflashwright_nbdkit.so",
    "libflashwright_sqlite.so": "_native/libflashwright_sqlite.so",
}
"""Names that cargo gives them, and their places in the package."""


def install(tree: Path, content: bytes) -> None:
    built = tree / "target" / "debug"
    built.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        (built / name).write_bytes(content)
    (built / "stub").write_text('#!/bin/sh\necho "of $1" > "$2"\n')
    (built / "stub").chmod(0o755)
    script = ROOT / "scripts" / "setup" / "install.sh"
    subprocess.run([script, "debug", "venv/bin"], check=True, cwd=tree)


def test_a_library_that_is_mapped_is_replaced_and_not_written_over(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    package = tmp_path / "python" / "flashwright"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    install(tmp_path, b"old" * 10_000)
    first = (package / "_core.abi3.so").stat().st_ino
    with (package / "_core.abi3.so").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    install(tmp_path, b"old" * 10_000)
    assert (package / "_core.abi3.so").stat().st_ino == first, "what is the same stays"
    install(tmp_path, b"new")
    assert mapped[-3:] == b"old", "a file that was cut would end us with SIGBUS"
    for there in LIBRARIES.values():
        assert (package / there).read_bytes() == b"new"
    assert (package / "_core.pyi").read_text() == "of target/debug/lib_core.so\n"
    assert not list(package.rglob("*.new"))
    python = str(tmp_path / "venv" / "bin" / "python")
    asked = [python, "-c", "import flashwright as f; print(f.__file__)"]
    said = subprocess.run(asked, check=True, capture_output=True, text=True, cwd="/").stdout
    assert said.strip() == str(package / "__init__.py")
    assert "scripts/setup/install.sh" in (ROOT / "Makefile").read_text()


def test_all_that_a_user_needs_is_installed_for_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w-]+)(?:\[\w+\])?==", installed, re.MULTILINE))
    needed = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}
    assert needed - pinned == set()


def test_each_test_of_rust_that_make_test_leaves_out_is_there_and_no_other_has_its_name() -> None:
    tests = [
        name
        for path in (ROOT / "crates").rglob("*.rs")
        for name in re.findall(r"^\s*fn (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    for name in (ROOT / "tests" / "rust-thorough.txt").read_text(encoding="utf-8").split():
        # cargo skips every test in whose name it is.
        assert [one for one in tests if name in one] == [name]
