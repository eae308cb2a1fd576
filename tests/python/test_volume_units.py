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
        "mount.service": units.of_mount(ODD, Path("/mnt/a b\\"), BY_LABEL, 4096),
        "nbd.service": units.of_nbd(ODD, Path("/run/$d/n'.sock"), BY_LABEL),
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
        where = ["mount", ODD, "/mnt/a b\\"] if name == "mount.service" else ["serve", ODD]
        assert words(line)[: 2 + len(where)] == [program, "volume", *where]
        assert words(line)[words(line).index("--staging") + 1] == BY_LABEL
        assert not re.search(r"\\$", text, re.MULTILINE), "the next line would go on with it"


@pytest.mark.parametrize("memory", [None, 1 << 26])
def test_the_memory_of_a_volume_arrives(memory: int | None) -> None:
    for text in (
        units.of_mount("/dev/sdb", Path("/mnt/db"), None, memory),
        units.of_nbd("/dev/sdb", Path("/run/db/socket"), None, memory),
    ):
        (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
        assert line.endswith(f" --memory {memory}" if memory else (" /mnt/db", " /run/db/socket"))


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
            units.of_nbd(odd, Path("/run/db/nbd.sock"))
    with pytest.raises(InputError, match="give the whole path"):
        units.of_nbd("volume.img", Path("/run/db/nbd.sock"))


def _needed(unit: str) -> list[str]:
    (line,) = re.findall("^RequiresMountsFor=(.*)$", unit, re.MULTILINE)
    return str(line).split()


def test_a_unit_waits_for_the_mounts_of_all_its_files(tmp_path: Path) -> None:
    for image, staging in (("/srv/v.img", "/fast/s.img"), ("/srv/v.img", None)):
        more = ["/fast"] if staging else []
        assert _needed(units.of_mount(image, Path("/mnt/db"), staging)) == ["/mnt", "/srv", *more]
        assert _needed(units.of_nbd(image, Path("/run/s"), staging)) == ["/srv", *more, "/run"]
    link = tmp_path / "link"
    link.symlink_to("/srv/images")
    found = _needed(units.of_mount(f"{link}/v.img", link / "db"))
    assert found == [str(link), "/srv/images"]
    assert set(found) <= set(_needed(units.of_nbd(f"{link}/v.img", link / "db" / "socket")))


def test_a_stop_that_fails_leaves_the_server_of_what_is_mounted() -> None:
    """By default systemd ends all processes of a unit, whatever its command to stop said."""
    assert "\nKillMode=process\n" in units.of_mount("/dev/sdb", Path("/mnt/db"))
