"""Makes of the options the benches that are to be run, and names each by what sets it apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from flashwright import written
from flashwright._core import InputError
from flashwright.recording.recorder import check_folder
from flashwright.recording.tools import need_root
from flashwright.runs import Job
from flashwright.workloads import presets, registry
from flashwright.workloads.base import DatabaseLoad, Sized, Workload
from flashwright.workloads.databases.cluster import Postgres
from flashwright.workloads.databases.place import Settings
from flashwright.workloads.driver import RunConfig
from flashwright.workloads.presets import Preset
from flashwright.workloads.session import DATABASES, BenchPlan, Folder
from flashwright.written import Kind

from . import grounds
from .drive import DrivePlan
from .grounds import Anywhere, Made, OnVolume
from .options import BenchOptions, Life, life_of

T = TypeVar("T")
DEFAULT_SECONDS = 60.0
CHECKPOINTS = 4
"""Number of checkpoints in a run on PostgreSQL whose layers are measured, if no interval is given.
"""
_ROOM = 2.0
"""A volume has room for so many times the database's data, beside its logs."""
_IN_NAMES = ("file_system", "size", "folder", "path", "device")
"""Settings of places that their names say, or that follow from others."""
_NUMBERED = "[0-9][0-9][0-9]-*"


@dataclass(frozen=True)
class Axis:
    """Axis of figures: what varies besides the file system, with its unit.

    `is_log` if values are ratios.
    """

    title: str = "file system"
    is_log: bool = False


@dataclass(frozen=True)
class Bench:
    """One of the benches: what is run, and what sets it apart from the others.

    `value` is its place on a numeric axis; None on one of names.
    """

    plan: BenchPlan
    settings: Sized
    ground: Anywhere
    file_system: str
    level: str = ""
    value: float | None = None

    @property
    def label(self) -> str:
        """Name it in one word or two."""
        return f"{self.file_system} {self.level}".strip()

    @property
    def is_out_of_place(self) -> bool:
        """True if its file system never overwrites data in place."""
        return grounds.is_out_of_place(self.file_system)

    def document(self) -> dict[str, Any]:
        """Give it as JSON holds it."""
        plan = self.plan
        return {
            **{name: getattr(self, name) for name in ("label", "file_system", "level", "value")},
            "workload": {
                "name": plan.workload.name,
                "source": plan.workload.source,
                "size": {
                    name: value
                    for name, value in vars(plan.load).items()
                    if name not in ("mix", "clock")
                },
                "mix": {
                    "name": plan.load.mix.name,
                    "source": plan.load.mix.source,
                    "weights": dict(plan.load.mix.weights),
                },
            },
            "settings": {
                "database": {"name": plan.database.name, **written.plain(plan.database)},
                "run": asdict(plan.config),
                "place": written.plain(self.ground),
            },
        }


@dataclass(frozen=True)
class Benches:
    """All that was asked for, checked before the first run."""

    options: BenchOptions
    each: list[Bench]
    axis: Axis
    preset: Preset | None
    drive: DrivePlan | None
    life: Life
    remarks: list[str]

    @property
    def has_layers(self) -> bool:
        """True if runs are recorded."""
        return _has_layers(self.options)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.options.repeat * len(self.each)

    def job(self) -> Job:
        """Give them as work with an identity."""
        options = self.options
        about = [
            [one.document() for one in self.each],
            [options.repeat, self.has_layers, options.device, options.life],
        ]
        return Job("bench", about, seed=options.seed)

    @staticmethod
    def of(options: BenchOptions) -> Benches:
        """Make the plan.

        Raises:
            InputError: something asked for cannot be.
        """
        preset = None if options.preset is None else presets.find(options.preset)
        remarks = [] if preset is None else _said_of(preset)
        if _has_layers(options):
            need_root("recording what the kernel does")
        each = _each(options, preset, remarks)
        each, axis = _set_apart(each)
        drive = None
        if options.device is not None:
            drive = DrivePlan.of(options.device, options.seed)
            for one in each:
                # A volume that is larger than the drive shall not be told after hours of running.
                drive.drive_for(grounds.device_bytes_of(one.ground))
        life = Life() if options.life is None else life_of(options.life)
        made = Benches(options, each, axis, preset, drive, life, list(dict.fromkeys(remarks)))
        _check(made)
        return made


def _has_layers(options: BenchOptions) -> bool:
    return options.layers or any((options.record, options.device, options.life))


def _said_of(preset: Preset) -> list[str]:
    said = (("ours, as the paper does not say", preset.ours), ("theirs was other", preset.differs))
    return [f"{preset.name} ({preset.source}), {what}: {text}." for what, text in said if text]


def _each(options: BenchOptions, preset: Preset | None, remarks: list[str]) -> list[Bench]:
    workloads = _once(
        "WORKLOAD", options.workload, [_workload(one, preset) for one in options.workload]
    )
    beneath = None if preset is None else preset.of_database()
    databases = _once(
        "--db",
        options.db,
        [written.read(one, DATABASES, "database", beneath) for one in options.db],
    )
    places: list[Anywhere] = []
    texts: list[str] = []
    for text in options.on or [_default_place(options)]:
        found, said = grounds.read(text, options.destroy_data)
        places += found
        texts += [text] * len(found)
        remarks += said
    _once("--on", texts, places)
    _once("--clients", [str(one) for one in options.clients], list(options.clients))
    for path in options.destroy_data:
        if not any(isinstance(one, grounds.OnDisk) and one.device == path for one in places):
            raise InputError(f"--destroy-data {path}: it must repeat the device of --on")
    return [
        _bench(options, preset, remarks, workload, database, ground, clients)
        for ground, workload, database, clients in itertools.product(
            places, workloads, databases, options.clients or [None]
        )
    ]


def _once(option: str, texts: Sequence[str], found: list[T]) -> list[T]:
    for at, one in enumerate(found):
        if one in found[:at]:
            raise InputError(f"{option}: `{texts[at]}` is named twice")
    return found


def _default_place(options: BenchOptions) -> str:
    return "volume" if _has_layers(options) else str(grounds.DEFAULT_FOLDER)


def _workload(text: str, preset: Preset | None) -> tuple[Workload, Sized, DatabaseLoad]:
    name = written.split(text)[0]
    if preset is None or name not in registry.WORKLOADS:
        return registry.find(text)
    return registry.find(text, preset.of_workload(registry.WORKLOADS[name]))


def _bench(
    options: BenchOptions,
    preset: Preset | None,
    remarks: list[str],
    asked: tuple[Workload, Sized, DatabaseLoad],
    database: Settings,
    ground: Anywhere,
    clients: int | None,
) -> Bench:
    workload, settings, load = asked
    most = load.most_clients()
    if clients is None:
        clients = 1 if preset is None else preset.clients
        if preset is not None and most is not None and clients > most:
            remarks.append(
                f"{preset.name} has {clients} clients; scaled down, there is room for {most}."
            )
            clients = most
    length = options.duration
    if length is None and options.transactions is None:
        length = DEFAULT_SECONDS if preset is None else preset.seconds
    warm_up = options.warm_up
    if warm_up is None:
        warm_up = 0.0 if preset is None else preset.warm_up_seconds
    config = RunConfig(
        clients,
        length,
        options.transactions,
        warm_up,
        settings.think_time,
        options.seed,
        window_seconds=options.window,
        keep_transactions=options.log_transactions or options.record is not None,
    )
    try:
        config.check(load)
    except ValueError as error:
        raise InputError(str(error)) from error
    if isinstance(ground, OnVolume) and ground.size is None:
        data = round(settings.scale * workload.bytes_per_unit * _ROOM)
        ground = replace(ground, size=data + database.log_room_bytes)
    # By itself PostgreSQL would write nearly none of its pages in a short run.
    if (
        isinstance(database, Postgres)
        and (options.layers or options.device or options.life)
        and database.checkpoint is None
        and length is not None
    ):
        database = replace(database, checkpoint=length / CHECKPOINTS)
        remarks.append(
            f"PostgreSQL is asked for a checkpoint each {length / CHECKPOINTS:g} s: "
            "--db 'postgres(checkpoint=S)' chooses."
        )
    plan = BenchPlan(workload, load, database, config, ground, options.keep)
    return Bench(plan, settings, ground, grounds.file_system_of(ground))


@dataclass(frozen=True)
class _Fact:
    """Setting by which benches may differ: its title, kind and value, and what it is `of`."""

    title: str
    kind: Kind
    is_log: bool
    value: Any
    of: str = ""

    def __str__(self) -> str:
        """Say the value."""
        if self.value is None:
            return "off" if self.title.endswith("cleanings") else "default"
        said = self.kind.say(self.value)
        return f"{self.title} {said}" if self.is_count else said

    @property
    def is_count(self) -> bool:
        """True if it is a count of what the title names."""
        return self.kind.metavar == written.count().metavar

    @property
    def number(self) -> float | None:
        """Its place on an axis, if it has one."""
        is_share = isinstance(self.value, float) and self.kind.unit == "MiB"
        if self.kind.scale is None or self.value is None or is_share:
            return None
        return float(self.value / self.kind.scale)


def _facts(one: Bench) -> dict[str, _Fact]:
    found: dict[str, _Fact] = {}
    for area, name, settings in (
        ("workload", one.plan.workload.name, one.settings),
        ("database", one.plan.database.name, one.plan.database),
        ("place", _name_of(one.ground), one.ground),
    ):
        found[area] = _Fact(area, written.TEXT, is_log=False, value=name)
        for field in fields(settings):
            known, value = written.of(field), getattr(settings, field.name)
            if field.name not in _IN_NAMES:
                title = known.title or field.name.replace("_", " ")
                found[f"{area}.{field.name}"] = _Fact(title, known.kind, known.is_log, value, name)
    clients = one.plan.config.clients
    return {**found, "clients": _Fact("clients", written.count(), is_log=False, value=clients)}


def _name_of(ground: Anywhere) -> str:
    if isinstance(ground, Folder):
        return str(ground.path)
    return f"volume in {ground.folder}" if isinstance(ground, OnVolume) else str(ground.device)


def _set_apart(each: list[Bench]) -> tuple[list[Bench], Axis]:
    """Name each bench by what differs between them, besides the file system."""
    known = [_facts(one) for one in each]
    values: dict[str, dict[str, set[str]]] = {}
    for facts in known:
        for key, fact in facts.items():
            values.setdefault(key, {}).setdefault(fact.of, set()).add(repr(fact.value))
    varied = [key for key, of in values.items() if any(len(one) > 1 for one in of.values())]
    if not varied:
        return each, Axis()
    found = [[facts[key] for key in varied if key in facts] for facts in known]
    titles = {fact.title: None for facts in found for fact in facts}
    if len(varied) > 1:
        return [
            replace(one, level=", ".join(map(_of_several, facts)))
            for one, facts in zip(each, found, strict=True)
        ], Axis(", ".join(titles))
    only = [facts[0] for facts in found]
    is_numeric = all(fact.number is not None for fact in only)
    named = [
        replace(one, level=str(fact), value=fact.number if is_numeric else None)
        for one, fact in zip(each, only, strict=True)
    ]
    unit = only[0].kind.unit
    title = f"{only[0].title}, {unit}" if unit and is_numeric else only[0].title
    return named, Axis(title, only[0].is_log and is_numeric)


def _of_several(fact: _Fact) -> str:
    says_itself = fact.is_count or fact.kind == written.TEXT
    return str(fact) if says_itself else f"{fact.title} {fact}"


def _check(made: Benches) -> None:
    """Refuse what cannot be, before hours of running.

    Raises:
        InputError: it says what would be right.
    """
    options = made.options
    checkpoints = {one.plan.database.checkpoint for one in made.each}
    for one in made.each:
        length, checkpoint = one.plan.config.seconds, one.plan.database.checkpoint
        is_late = length is not None and checkpoint is not None and checkpoint >= length
        if is_late and len(checkpoints) > 1:
            raise InputError(
                f"in runs of {length:g} s there is no checkpoint each {checkpoint:g} s; take a "
                "longer --for"
            )
        clean = one.ground.clean if isinstance(one.ground, Made) else None
        if clean is not None and length is not None and clean >= length:
            raise InputError(
                f"in runs of {length:g} s nothing is cleaned each {clean:g} s; take a longer --for"
            )
        if options.keep and isinstance(one.ground, Made):
            raise InputError(
                "--keep is for a folder that is there: a volume of our own is gone at the end"
            )
        if made.has_layers and options.record is None and isinstance(one.ground, Folder):
            raise InputError(
                f"{one.ground.path}: its device is recorded, so the recording has to lie on "
                "another: give --record DIR, or put the database on a volume"
            )
    if options.keep and made.runs > 1:
        raise InputError("--keep: DIR has room for the database of one run")
    if made.life.cycles is not None and made.drive is None:
        raise InputError("life(cycles=...): it is of a simulated drive, so give --device too")
    if options.record is not None and made.runs > 1:
        check_records(options.record)


def check_records(folder: Path) -> None:
    """Refuse a folder for the recordings of several runs that holds some.

    Raises:
        InputError: it does.
    """
    if any(folder.glob(_NUMBERED)):
        raise InputError(
            f"{folder} holds the recordings of an earlier bench; choose another folder, or remove "
            "it"
        )


def check_record(made: Benches, out: Path | None) -> None:
    """Refuse a folder for the recording of one run that holds what would be lost.

    Raises:
        InputError: it does, or it is the folder of the run.
    """
    if made.options.record is not None and made.runs == 1:
        check_folder(made.options.record, run=out)
