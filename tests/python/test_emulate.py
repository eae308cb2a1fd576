"""An emulated drive over NBD says when it is ready, and how it is reached."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from flashwright.volumes.serving import _attaching
from support import ROOT, find_program


def test_a_drive_over_nbd_says_when_it_is_ready_and_how_to_attach(tmp_path: Path) -> None:
    """The words that it prints are run as they stand."""
    find_program("nbdkit")
    find_program("nbdinfo")
    socket = tmp_path / "a drive.sock"
    emulate = [sys.executable, "-m", "flashwright", "emulate", "sd-card", "--size", "256M"]
    process = subprocess.Popen(
        [*emulate, "--state", "fresh", "--nbd", socket.name],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line.rstrip())
            if "nbdinfo" in line:
                break
        assert said[0].startswith("flashwright: ready"), said
        attach = next(line for line in said if "nbd-client" in line)
        assert attach.strip().endswith(f"-unix {shlex.quote(str(socket))} /dev/nbd0")
        told = subprocess.run(
            shlex.split(said[-1]), capture_output=True, text=True, check=True, timeout=60
        ).stdout
        size = re.search(r"export-size: (\d+)", told)
        assert size is not None
        assert 0 < int(size[1]) <= 1.05 * (256 << 20)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.stderr is not None
        process.stderr.close()


def test_the_words_of_attaching_take_any_path() -> None:
    said = _attaching(Path("/run/it's & all/x.sock"))
    [uri] = [shlex.split(line)[1] for line in said.splitlines() if "nbdinfo" in line]
    assert uri == "nbd+unix:///?socket=/run/it%27s%20%26%20all/x.sock"
