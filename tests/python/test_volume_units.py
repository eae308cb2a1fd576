"""Units of systemd whose paths have characters that it treats specially."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flashwright._core import InputError
from flashwright.volumes import units
from flashwright.volumes.mounting import MountPlan
from flashwright.volumes.serving import Serving
from support import Cli

ODD = "/srv/a $HOME ${X};'x\"y\\z %h/v ; b.img"
BY_LABEL = "/dev/disk/by-label/My\\x20Disk"
SYSTEMD = Path("/lib/systemd/systemd")


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a program whose path is odd, too."""
    path = tmp_path / "a $b%c" / "flashwright"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _name: str(path))
    return str(path)


def both() -> dict[str, str]:
    """Give a unit of each kind."""
    return {
        "mount.service": units.of_mount(
            MountPlan(ODD, Path("/mnt/a b\\"), staging=BY_LABEL, memory_bytes=4096)
        ),
        "nbd.service": units.of_nbd(Serving(ODD, staging=BY_LABEL), Path("/run/$d/n'.sock")),
    }


def words(line: str) -> list[str]:
    """Read a command as systemd.service(5) says: quotes, then `%`, then `$`."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    plain = [re.sub(r"\\(.)", r"\1", quoted) if quoted else bare for quoted, bare in found]
    assert not any(re.search(r"(?<!%)(%%)*%(?!%)", word) for word in plain)
    assert not any(re.search(r"(?<!\$)(\$\$)*\$(?!\$)", word) for word in plain[1:])
    program, *more = (word.replace("%%", "%") for word in plain)
    return [program, *(word.replace("$$", "$") for word in more)]


def test_every_path_arrives_as_it_is(program: str) -> None:
    for name, text in both().items():
        assert "%h" not in text.replace("%%h", "")
        (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        where = ["serve", ODD]
        if name == "mount.service":
            where = ["volume", "mount", ODD, "/mnt/a b\\"]
        assert words(line)[: 1 + len(where)] == [program, *where]
        assert words(line)[words(line).index("--staging") + 1] == BY_LABEL
        assert not re.search(r"\\$", text, re.MULTILINE), "the next line would go on with it"


@pytest.mark.parametrize("memory", [None, 1 << 26])
def test_the_memory_of_a_volume_arrives(memory: int | None) -> None:
    for text in (
        units.of_mount(MountPlan("/dev/sdb", Path("/mnt/db"), memory_bytes=memory)),
        units.of_nbd(Serving("/dev/sdb", memory_bytes=memory), Path("/run/db/socket")),
    ):
        (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        assert line.endswith(f" --memory {memory}" if memory else (" /mnt/db", " /run/db/socket"))


def test_all_that_is_asked_is_in_the_unit(cli: Cli) -> None:
    """Also by its own words: what `--unit` prints does what the command without it does."""
    asked = ["--depth", "7", "--scrub-every", "2", "--metrics", "/var/v.prom"]
    asked += ["--metrics-every", "2.5"]
    of_mount = ["volume", "mount", "/dev/sdb", "/mnt/db", "--options", "ro", "--ublk"]
    of_nbd = ["serve", "/dev/sdb", "--nbd", "/run/s"]
    for given, more in ((of_mount, []), (of_nbd, ["--nbdkit=--tls=require"])):
        text = cli(*given, *asked, *more, "--unit").stdout
        (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        wanted = [*given, *asked, *more]
        assert words(line)[-len(wanted) :] == wanted
        assert "/var" in _needed(text)
    assert "ReadWritePaths=/run /var\n" in text
    assert "give the whole path" in cli(*of_nbd, "--unit", "--metrics", "v.prom", code=2).stderr


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    program = "/usr/bin/systemd-analyze"
    if not Path(program).exists():
        if os.environ.get("CI"):
            pytest.fail(f"{program} is not there")
        pytest.skip(f"{program} is not there")
    for name, text in both().items():
        (tmp_path / name).write_text(f"{text}\n")
    paths = [str(tmp_path / name) for name in both()]
    done = subprocess.run(
        [program, "verify", "--man=no", *paths], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert (done.returncode, said) == (0, []), done.stderr


def test_what_a_line_cannot_hold_is_refused() -> None:
    for odd in ("/srv/a\nb", "/srv/a\tb", "/srv/\x1b"):
        with pytest.raises(InputError, match="name a path without line ends"):
            units.of_nbd(Serving(odd), Path("/run/db/nbd.sock"))
    with pytest.raises(InputError, match="give the whole path"):
        units.of_nbd(Serving("volume.img"), Path("/run/db/nbd.sock"))


def _needed(unit: str) -> list[str]:
    (line,) = re.findall("^RequiresMountsFor=(.*)$", unit, re.MULTILINE)
    return str(line).split()


def test_a_unit_waits_for_the_mounts_of_all_its_files(tmp_path: Path) -> None:
    for image, staging in (("/srv/v.img", "/fast/s.img"), ("/srv/v.img", None)):
        more = ["/fast"] if staging else []
        assert _needed(units.of_mount(MountPlan(image, Path("/mnt/db"), staging=staging))) == [
            "/mnt",
            "/srv",
            *more,
        ]
        assert _needed(units.of_nbd(Serving(image, staging=staging), Path("/run/s"))) == [
            "/srv",
            *more,
            "/run",
        ]
    link = tmp_path / "link"
    link.symlink_to("/srv/images")
    found = _needed(units.of_mount(MountPlan(f"{link}/v.img", link / "db")))
    assert found == [str(link), "/srv/images"]
    assert set(found) <= set(
        _needed(units.of_nbd(Serving(f"{link}/v.img"), link / "db" / "socket"))
    )


def test_a_stop_that_fails_leaves_the_server_of_what_is_mounted() -> None:
    """By default systemd ends all processes of a unit, whatever its command to stop said."""
    assert "\nKillMode=process\n" in units.of_mount(MountPlan("/dev/sdb", Path("/mnt/db")))
