"""An emulated drive over NBD says when it is ready, and how it is reached."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flashwright import _core
from flashwright.cli.serve import _is_bare
from flashwright.cli.volume_options import Server
from flashwright.layering import known
from flashwright.volumes.serving import _attaching
from processes import until
from support import ROOT, Cli, find_program


def test_a_drive_over_nbd_says_when_it_is_ready_and_how_to_attach(tmp_path: Path) -> None:
    """The words that it prints are run as they stand."""
    find_program("nbdkit")
    find_program("nbdinfo")
    socket = tmp_path / "a drive.sock"
    drive = "emulated(sd-card,size=256M,state=fresh)"
    process = subprocess.Popen(
        [sys.executable, "-m", "flashwright", "serve", drive, "--nbd", socket.name],
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


@pytest.mark.usefixtures("can_mount")
def test_with_a_volume_on_a_drive_it_is_said_which_of_both_is_served(
    cli: Cli, tmp_path: Path
) -> None:
    """A client that took the drive for the volume would write over its headers."""
    data, shown = tmp_path / "data", tmp_path / "shown"
    shown.mkdir()
    drive = f"emulated(intel-x25e,size=64M,state=fresh,data={data})"
    cli("volume", "create", drive, "--stack", "direct")
    about = _core.volume_about(str(data))
    refused = cli("serve", drive, "--fuse", str(shown), code=2).stderr
    assert f"volume {about['uuid']} is on it: add --volume" in refused
    assert refused.count("\n") == 1
    for word, size in (("--drive", data.stat().st_size), ("--volume", about["data_bytes"])):
        words = [sys.executable, "-m", "flashwright", "serve", drive, word, "--fuse", str(shown)]
        process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        try:
            assert until((shown / "volume").exists)
            assert (shown / "volume").stat().st_size == size
        finally:
            process.terminate()
            assert process.wait(60) == 0
    assert _core.check_volume(str(data))["bad_bytes"] == 0
    data.write_bytes(bytes(data.stat().st_size))
    assert _is_bare(drive, None, Server()), "without a volume it is the drive"


def test_a_device_is_a_volume_and_a_profile_may_stand_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for device in ("/dev/sdb", "volume.img", "emulated.img", "./emulated(sd-card)"):
        assert not _is_bare(device, None, Server())
    found: list[str] = []
    monkeypatch.setattr(known, "facts_for", lambda target, *_, **__: found.append(target.given))
    for drive in ("emulated(sd-card)", "emulated(size=1G, profile=sd-card)", "emulated"):
        assert _is_bare(drive, None, Server())
        known.facts_for_volume(drive, None, is_chosen=True)
    assert found == ["sd-card", "sd-card", "nvme-tlc"]


def test_a_file_is_no_emulated_drive_whatever_its_name_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _core.allocate_file(Path("emulated.img"), 1 << 20)
    _core.check_free("emulated.img")


def test_the_words_of_attaching_take_any_path() -> None:
    said = _attaching(Path("/run/it's & all/x.sock"))
    [uri] = [shlex.split(line)[1] for line in said.splitlines() if "nbdinfo" in line]
    assert uri == "nbd+unix:///?socket=/run/it%27s%20%26%20all/x.sock"


def test_a_trace_on_an_emulated_drive_has_bytes_or_is_refused(cli: Cli) -> None:
    """It panicked, or looked for a path that the drive does not have."""
    drive = "emulated(sd-card,size=256M,state=fresh)"
    asked = ("play", "synth:uniform(pages=64,updates=1x)", "--on", drive, "--write")
    refused = cli(*asked, code=2)
    assert "--stack direct --data drained" in refused.stderr
    played = cli(*asked, "--stack", "direct", "--data", "drained")
    assert "hold what they have to" in played.stdout
