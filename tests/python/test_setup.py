"""What `make build` does with files that running programs use."""

from __future__ import annotations

import mmap
import subprocess
from pathlib import Path

from support import ROOT


def test_a_library_that_is_mapped_is_replaced_and_not_written_over(tmp_path: Path) -> None:
    folder, built = tmp_path / "native", tmp_path / "built"
    folder.mkdir()
    built.mkdir()
    (folder / "lib.so").write_bytes(b"old" * 10_000)
    (built / "lib.so").write_bytes(b"new")
    with (folder / "lib.so").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    script = ROOT / "scripts" / "setup" / "put.sh"
    subprocess.run([script, folder, built / "lib.so"], check=True)
    assert mapped[-3:] == b"old", "a file that was cut would end us with SIGBUS"
    assert (folder / "lib.so").read_bytes() == b"new"
    assert [path.name for path in folder.iterdir()] == ["lib.so"]
    assert "scripts/setup/put.sh" in (ROOT / "Makefile").read_text()
