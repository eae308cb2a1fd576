"""Outputs of commands replace nothing that is not theirs: every option, every target."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from flashwright import _core, outputs
from flashwright._core import InputError
from flashwright.cli import cli as everything
from flashwright.cli.groups import CommandsLater
from flashwright.cli.of_jobs import plain_command
from flashwright.cli.output import Json
from flashwright.cli.outputs import OutFile, OutFolder, OutPlace, Output
from flashwright.runs import Run
from flashwright.volumes import serving
from support import Cli

MEBIBYTE = 1 << 20
PROM = "# HELP flashwright_volume_capacity_bytes Bytes.\n"
INPUTS = {
    *(("advise", name) for name in ("source", "command", "--database", "--device")),
    *(("compare", "source_names"), ("device", "what"), ("device", "--against")),
    *(("serve", "what"), ("serve", "--fuse"), ("list", "kind"), ("model", "source")),
    *(("play", "source"), ("play", "--on"), ("play", "--facts"), ("play", "--against")),
    ("play", "--destroy-data"),
    *(("bench", "workload"), ("bench", "--device"), ("bench", "--on"), ("bench", "--db")),
    *(
        ("bench", "--destroy-data"),
        ("probe", "--destroy-data"),
        ("transactions", "--destroy-data"),
        ("probe", "device"),
        ("record", "target"),
        ("record", "command"),
    ),
    *(("record", "--database"), ("record", "--finish"), ("report", "run_folder")),
    *(("trace stats", "source"), ("trace convert", "source"), ("trace split", "sources")),
    *(("transactions", "source"), ("sweep", "file")),
    *(("transactions", "--facts"), ("volume create", "--facts"), ("volume mount", "directory")),
    *(("volume umount", "target"), ("waterfall", "recording")),
    *((f"volume {name}", "device") for name in ("create", "info", "mount", "change")),
}
"""Parameters that name what is read, or made by others; all others that name a path are written."""
PATHS = ("PATH", "FILE", "DIR", "SOCKET", "PROFILE")


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _commands(command.commands[name], (*words, name))
    if type(command) is not click.Group and words:
        yield " ".join(words), command


COMMANDS = dict(_commands(everything, ()))


def _written() -> list[tuple[str, click.Parameter]]:
    return [
        (words, param)
        for words, command in COMMANDS.items()
        for param in command.params
        if isinstance(param.type, Output)
    ]


WRITTEN = [pytest.param(words, param, id=f"{words} {param.opts[0]}") for words, param in _written()]


def test_each_parameter_that_names_a_path_is_known_as_input_or_output() -> None:
    unknown = [
        (words, param.opts[0])
        for words, command in COMMANDS.items()
        for param in command.params
        if not isinstance(param.type, Output)
        and (words, param.opts[0]) not in INPUTS
        and (
            isinstance(param.type, click.Path | click.File)
            or isinstance(param, click.Argument)
            or any(word in (param.metavar or "").upper() for word in PATHS)
        )
    ]
    assert unknown == [], "an output has a type of cli/outputs.py; an input is listed here"
    assert len(WRITTEN) > 30


def _ours(folder: Path) -> dict[str, Path]:
    """Make a file of each kind that an earlier run wrote."""
    made = {name: folder / f"own.{name}" for name in ("json", "toml", "parquet", "prom", "html")}
    made["json"].write_text('{"flashwright": "0.1.0", "uuid": "x"}\n')
    made["toml"].write_text(_core.profile_toml("intel-x25e"))
    spec = "uniform(pages=64,updates=2x)"
    _core.write_synthetic(spec, made["parquet"], None, 4096, 1, _core.Progress())
    made["prom"].write_text(PROM)
    made["html"].write_text(f"<!doctype html>\n<head>\n{outputs.REPORT_MARK}\n</head>\n")
    return made


KINDS = {
    "json": outputs.JSON,
    "toml": outputs.PROFILE,
    "parquet": outputs.TRACE,
    "prom": outputs.METRICS,
    "html": outputs.REPORT,
}


@pytest.fixture
def targets(tmp_path: Path) -> dict[str, Path]:
    """Make what may be where an output is to go, and must not be replaced."""
    here = tmp_path / "targets"
    here.mkdir()
    kinds = {
        name: here / name.replace(" ", "-") for name in ("text", "foreign json", "foreign toml")
    }
    kinds["text"].write_text("what I know\n")
    kinds["foreign json"].write_text('{"mine": 1, "command": "record"}\n')
    kinds["foreign toml"].write_text('[tool]\nname = "mine"\n')
    kinds["foreign table"] = here / "table.parquet"
    pq.write_table(pa.table({"a": [1]}), kinds["foreign table"])
    kinds["volume"] = here / "volume"
    _core.allocate_file(kinds["volume"], 8 * MEBIBYTE)
    _core.create_volume(str(kinds["volume"]), "direct")
    kinds["recording"] = here / "recording"
    (kinds["recording"] / "raw").mkdir(parents=True)
    own = _ours(here)
    kinds["recording's table"] = kinds["recording"] / "requests.parquet"
    kinds["recording's table"].write_bytes(own["parquet"].read_bytes())
    kinds["recording's result"] = kinds["recording"] / "result.json"
    kinds["recording's result"].write_text('{"command": "record", "recording": {}}\n')
    kinds["recording's stream"] = kinds["recording"] / "raw" / "about.json"
    kinds["recording's stream"].write_text('{"flashwright": "0.1.0"}\n')
    run = here / "run"
    run.mkdir()
    kinds["run's result"] = run / "result.json"
    came_from = {"provenance": {"flashwright": "0.1.0"}}
    kinds["run's result"].write_text(json.dumps({"command": "play", **came_from}))
    kinds["folder"] = here / "folder"
    kinds["folder"].mkdir()
    (kinds["folder"] / "mine").write_text("what I know\n")
    kinds["folder with a result"] = here / "results"
    kinds["folder with a result"].mkdir()
    (kinds["folder with a result"] / "result.json").write_text('{"command": "mine"}\n')
    for name, to in (
        ("link", "text"),
        ("link to nothing", "nothing"),
        ("link to a folder", "folder"),
    ):
        kinds[name] = here / f"{name.replace(' ', '-')}"
        kinds[name].symlink_to(kinds.get(to, here / to))
    for name, path in own.items():
        kinds[f"link to an own {name}"] = here / f"link.{name}"
        kinds[f"link to an own {name}"].symlink_to(path)
        kinds[f"read-only {name}"] = here / f"read-only.{name}"
        kinds[f"read-only {name}"].write_bytes(path.read_bytes())
        kinds[f"read-only {name}"].chmod(0o444)
    kinds["pipe"] = here / "pipe"
    os.mkfifo(kinds["pipe"])
    if os.geteuid() == 0:
        for name, kind in (("block device", stat.S_IFBLK), ("character device", stat.S_IFCHR)):
            kinds[name] = here / name.replace(" ", "-")
            # Numbers that no driver has.
            os.mknod(kinds[name], kind | 0o600, os.makedev(510, 77))
    return kinds


def _look(folder: Path) -> dict[str, object]:
    """Tell all that is in a folder: what it is, where a link leads, its bytes."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        is_file = stat.S_ISREG(about.st_mode)
        content = path.read_bytes() if is_file else path.readlink() if path.is_symlink() else None
        found[str(path.relative_to(folder))] = (about.st_ino, about.st_mode, content)
    return found


def _words(words: str, param: click.Parameter, target: Path, first: str = "x") -> list[str]:
    """Give a command whose other arguments are there, up to the one that is tried."""
    command, said = COMMANDS[words], words.split()
    for other in command.params:
        if other is param and isinstance(param, click.Argument):
            said.append(str(target))
        elif isinstance(other, click.Argument) and other.nargs == 1:
            said.append(first)
    if isinstance(param, click.Option):
        said += [param.opts[0], str(target)]
    return said


IS_NO_HARM = {
    "a socket": {"socket"},
    "an image": set(),
    "a link": {"link", "link to nothing", "link to a folder"},
}
"""Targets that the parser lets through: whoever makes such a thing looks at what is there (below).
"""


@pytest.mark.parametrize(("words", "param"), WRITTEN)
def test_nothing_is_replaced(
    cli: Cli, tmp_path: Path, targets: dict[str, Path], words: str, param: click.Parameter
) -> None:
    before = _look(tmp_path / "targets")
    kind = param.type
    for name, target in targets.items():
        if isinstance(kind, OutPlace):
            if (
                name.startswith(("link", "read-only", "recording's", "run's"))
                or name in IS_NO_HARM[kind.what]
            ):
                continue
        elif isinstance(kind, OutFolder) and name == "recording" and kind.is_recording:
            # Whoever records says so: test_cli_record.
            continue
        done = cli(*_words(words, param, target), code=2)
        assert done.stderr.count("\n") == 1, name
        assert str(target) in done.stderr, (name, done.stderr)
        assert param.opts[0].lstrip("-") in done.stderr.lower(), (name, done.stderr)
    assert _look(tmp_path / "targets") == before


@pytest.mark.parametrize(
    ("words", "param"),
    [
        pytest.param(words, param, id=f"{words} {param.opts[0]}")
        for words, param in _written()
        if isinstance(param.type, OutFile)
    ],
)
def test_no_input_of_the_same_command_is_replaced(
    cli: Cli, tmp_path: Path, words: str, param: click.Parameter
) -> None:
    assert isinstance(param.type, OutFile)
    arguments = [one for one in COMMANDS[words].params if isinstance(one, click.Argument)]
    (tmp_path / "own").mkdir()
    own = _ours(tmp_path / "own")
    (target,) = (own[name] for name, kind in KINDS.items() if kind is param.type.kind)
    linked = tmp_path / "linked"
    linked.hardlink_to(target)
    inputs = [one for one in arguments if not isinstance(one.type, Output)]
    if not inputs or not getattr(inputs[0].type, "file_okay", True):
        pytest.skip("it reads no file that is named")
    before = _look(tmp_path)
    for first in (target, linked, f"emulated(profile=sd-card,data={target})"):
        said = words.split()
        for other in COMMANDS[words].params:
            is_option = isinstance(other, click.Option)
            if other is param or (is_option and other.required):
                value = str(target if other is param else tmp_path / "other")
                said += [other.opts[0], value] if is_option else [value]
            elif not is_option:
                said.append(str(first if other in inputs else tmp_path / "other"))
        done = cli(*said, code=2)
        assert done.stderr.count("\n") == 1
        # One that must exist is looked for by the parser.
        has_to_exist = any(getattr(one.type, "exists", False) for one in inputs)
        if not has_to_exist or Path(str(first)).exists():
            assert "names, too" in done.stderr, done.stderr
        assert _look(tmp_path) == before


def test_a_command_that_a_job_makes_replaces_no_input_either(tmp_path: Path) -> None:
    """Commands with a module of their own were guarded, and those of plain jobs were not."""
    own = _ours(tmp_path)["json"]
    before = own.read_bytes()
    commands = CommandsLater({})
    commands["play"] = plain_command("play")
    given = [str(own), "--on", "profile(emmc-51)", "--json", str(own)]
    said = CliRunner().invoke(commands["play"], given)
    assert said.exit_code == 2
    assert "would be lost: name another file" in said.output
    assert own.read_bytes() == before


def test_two_outputs_are_two_files(cli: Cli, tmp_path: Path) -> None:
    words = ["trace", "convert", "synth:uniform(pages=64,updates=2x)", "one", "--to", "parquet"]
    assert "names, too" in cli(*words, "--json", "one", code=2).stderr
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_run_wrote_is_replaced(cli: Cli, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    for _ in range(2):
        cli("volume", "create", volume, "--size", "8M", "--json", tmp_path / "made.json")
        for words in (
            ["volume", "info", volume, "--json", "info.json"],
            ["list", "--json", "all.json"],
            ["device", "intel-x25e", "--out", "own.toml", "--json", "device.json"],
            ["trace", "convert", "synth:uniform(pages=64,updates=2x)", "own.parquet"],
            ["trace", "convert", "own.parquet", "small.parquet", "--compact"],
            ["trace", "stats", "own.parquet", "--out", "run", "--json", "stats.json"],
            ["report", "run", "--json", "report.json"],
        ):
            cli(*words)
        volume.unlink()
    assert json.loads((tmp_path / "info.json").read_text())["flashwright"] == _core.__version__
    assert [path.name for path in tmp_path.glob(".*")] == [], "nothing is left beside"


def test_each_part_of_a_list_says_that_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    for document in ([{"uuid": "x"}, {"uuid": "y"}], []):
        Json(str(path)).write(document)
        Json(str(path)).write(document)
    path.write_text('[{"uuid": "x"}]')
    with pytest.raises(InputError, match="would be lost"):
        Json(str(path)).write([])


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_known_by_its_content(tmp_path: Path, name: str) -> None:
    own = _ours(tmp_path)
    for other, path in own.items():
        if other == name:
            outputs.check(path, KINDS[name])
        else:
            with pytest.raises(InputError, match=r"is not .* that flashwright wrote"):
                outputs.check(path, KINDS[name])
    own[name].write_text("")
    outputs.check(own[name], KINDS[name])


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"flashwright": "0.1.0"}')
    path.chmod(0o640)

    def stopped() -> None:
        with outputs.replacing(path, outputs.JSON) as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert path.read_text() == '{"flashwright": "0.1.0"}'
    outputs.write_text(path, '{"flashwright": "0.2.0"}', outputs.JSON)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_durable_before_it_takes_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"flashwright": "0.1.0"}')
    synced: list[tuple[int, str]] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append((os.fstat(file).st_ino, path.read_text()))
    )
    outputs.write_text(path, '{"flashwright": "0.2.0"}', outputs.JSON)
    assert synced == [(path.stat().st_ino, '{"flashwright": "0.1.0"}')]


def test_a_full_disk_is_an_error_and_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.json"
    path.write_text('{"flashwright": "0.1.0"}')

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for kind, name in ((outputs.JSON, "a JSON document"), (None, "it")):
        with pytest.raises(InputError, match=f"cannot write {name}: No space left on device"):
            outputs.write_text(path, "new", kind)
        assert path.read_text() == '{"flashwright": "0.1.0"}'
        assert list(tmp_path.iterdir()) == [path]


def test_a_volume_whose_beginning_was_written_over_is_a_volume_still(tmp_path: Path) -> None:
    device = tmp_path / "device"
    _core.allocate_file(device, 8 * MEBIBYTE)
    _core.create_volume(str(device), "direct")
    with device.open("r+b") as file:
        file.write(PROM.encode().ljust(4096, b"\n"))
    with pytest.raises(InputError, match="it is a volume, and would be lost"):
        outputs.check(device, outputs.METRICS)


def test_what_somebody_has_put_there_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "own.json"

    def written() -> None:
        with outputs.replacing(path, outputs.JSON) as part:
            part.write_text('{"flashwright": "0.1.0"}')
            path.write_text("what I know")

    with pytest.raises(InputError, match="would be lost"):
        written()
    assert path.read_text() == "what I know"
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_takes_away_its_own_tables_alone(tmp_path: Path) -> None:
    came_from = {"provenance": {"flashwright": "0.1.0"}}
    Run("trace", came_from, {"old": pa.table({"a": [1]})}).write(tmp_path / "run")
    kept = tmp_path / "run" / "mine.parquet"
    pq.write_table(pa.table({"a": [1]}), kept)
    Run("trace", came_from, {"new": pa.table({"a": [1]})}).write(tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["mine.parquet", "new.parquet", "result.json"]
    (tmp_path / "run" / "new.parquet").unlink()
    (tmp_path / "run" / "new.parquet").symlink_to(kept)
    Run("trace", came_from, {"new": pa.table({"a": [2]})}).write(tmp_path / "run")
    assert pq.read_table(kept)["a"].to_pylist() == [1], "no link is followed"


def test_an_image_is_its_owners_alone(cli: Cli, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        stack = ["--stack", "stable_buffer(size=1Mi,page=4Ki)"]
        more = ["--staging", "fast", "--staging-size", "8M"]
        cli("volume", "create", "slow", "--size", "16M", *stack, *more)
    finally:
        os.umask(before)
    for name in ("slow", "fast"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_create_over_a_file_leaves_it_as_it_is(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"what I know" * 1000)
    (tmp_path / "zeros").write_bytes(bytes(8 * MEBIBYTE))
    stack = ["--stack", "stable_buffer(size=1Mi,page=4Ki)"]
    cli("volume", "create", "slow", "--size", "16M", *stack)
    before = _look(tmp_path)
    staged = [*stack, "--staging", "mine", "--staging-size", "8M"]
    for words in (
        ["create", "mine", "--size", "8M"],
        ["create", "zeros", "--size", "8M"],
        ["create", "slow", "--size", "16M"],
        ["create", "new", "--size", "16M", *staged],
        ["create", "zeros", *staged],
        ["change", "slow", "--new-staging", *staged[3:]],
    ):
        done = cli("volume", *words, code=2)
        assert "there is such a file already" in done.stderr
        assert _look(tmp_path) == before


def test_a_drives_file_is_that_of_a_drive(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("what I know")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    before = _look(tmp_path)
    for name, said in (("mine", "has 11 bytes"), ("link", "is a symbolic link")):
        drive = f"emulated(intel-x25e,size=64M,data={name})"
        assert said in cli("serve", drive, "--fuse", "empty", code=2).stderr
    spec = f"emulated(profile=intel-x25e,size=64Mi,data={tmp_path / 'link'})"
    assert "is a symbolic link" in cli("volume", "create", spec, code=2).stderr
    assert _look(tmp_path) == before


def test_a_socket_of_somebody_stays(tmp_path: Path) -> None:
    place = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as somebodys:
        somebodys.bind(str(place))
        with pytest.raises(InputError, match="somebody's socket is there"):
            serving._listen(place)
        assert place.is_socket()
    # Nobody listens there any more.
    place.unlink()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    serving._listen(place).close()


def test_a_link_of_somebody_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "check_ublk", lambda: None)
    (tmp_path / "mine").write_text("what I know")
    for name, to in (("link", tmp_path / "mine"), ("dangling", tmp_path / "nothing")):
        link = tmp_path / name
        link.symlink_to(to)
        how = serving.Serving("memory(bytes=8Mi)")
        with pytest.raises(InputError, match="something else is there"):
            serving.serve_ublk(how, link, read_only=False)
        assert link.readlink() == to
    link = tmp_path / "left"
    link.symlink_to("/dev/ublkb4095")
    assert serving._is_left_link(link)


def test_metrics_take_the_place_of_metrics_alone_and_stay(tmp_path: Path) -> None:
    device = tmp_path / "device"
    _core.allocate_file(device, 8 * MEBIBYTE)
    _core.create_volume(str(device), "direct")
    places = {name: tmp_path / name for name in ("notes", "link", "nothing", "read-only", "pipe")}
    places["notes"].write_text("what I know")
    places["link"].symlink_to(places["notes"])
    places["nothing"].symlink_to(tmp_path / "nowhere")
    places["read-only"].write_text(PROM)
    places["read-only"].chmod(0o444)
    os.mkfifo(places["pipe"])
    # The temporary file beside the metrics once had this name.
    (tmp_path / "own.prom.new").symlink_to(places["notes"])
    volume = _core.Volume(str(device))
    for place in (*places.values(), device, tmp_path):
        with pytest.raises(InputError, match="would be lost"):
            volume.keep_metrics(place, 3600.0)
    volume.keep_metrics(tmp_path / "own.prom", 3600.0)
    volume.write(0, bytes(4096))
    volume.close()
    kept = (tmp_path / "own.prom").read_text().splitlines()
    assert any("requests_total{" in line and line.endswith('op="write"} 1') for line in kept)
    assert places["notes"].read_text() == "what I know"
    assert not (tmp_path / "nowhere").exists()


def test_no_file_that_the_command_makes_first_is_replaced(cli: Cli, tmp_path: Path) -> None:
    done = cli("volume", "create", "new", "--size", "8M", "--json", "new", code=2)
    assert "it is what 'DEVICE' names, too, and would be lost" in done.stderr
    staged = ("--stack", "stable_buffer(size=1Mi,page=4Ki)", "--staging", "fast")
    done = cli("volume", "create", "new", "--size", "8M", *staged, "--json", "fast", code=2)
    assert "it is what '--staging' names, too" in done.stderr
    assert not list(tmp_path.iterdir())
