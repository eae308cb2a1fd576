"""Profiles of drives that were measured, for `flashwright device`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError
from flashwright.cli.output import Json
from flashwright.outputs import PROFILE, write_text
from flashwright.terminal import print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashwright.measured.fio import FioRows
    from flashwright.measured.predict import Prediction
    from flashwright.measured.rows import Row

CAPACITY_OF_A_SLICE_GB = 30


def _rows(
    paths: tuple[Path, ...], drive: str | None, capacity_gb: Callable[[str], float], to: Json
) -> tuple[str, list[Row], FioRows]:
    """Read tables and fio's files; gives the rows of one drive, and what was not taken of fio's."""
    from flashwright.measured import fio, fio_documents, rows

    by_fio = [path for path in paths if fio_documents.is_fio(path)]
    found = rows.read(path for path in paths if path not in by_fio)
    drives = sorted({row.drive for row in found})
    if drive is None:
        if by_fio:
            raise InputError("fio's files do not name the drive: right would be --drive NAME")
        if len(drives) != 1:
            raise InputError(
                f"the rows are of {len(drives)} drives: name one by --drive ({', '.join(drives)})"
            )
        drive = drives[0]
    taken = fio.read(by_fio, drive, capacity_gb(drive)) if by_fio else fio.FioRows()
    for reason in taken.left_out:
        to.say(f"Left out: {reason}")
    for note in taken.notes:
        to.say(f"Note: {note}")
    chosen = [*rows.of_drive(found, drive), *taken.rows]
    if not chosen and taken.left_out:
        others = len(taken.left_out) - 1
        more = f"; and {others} more" if others else ""
        raise InputError(f"no job can be a row: {taken.left_out[0]}{more}")
    if not chosen:
        raise InputError(f"--drive {drive}: no row is of it; there are {', '.join(drives)}")
    return drive, chosen, taken


def fit(
    measurements: tuple[Path, ...],
    drive: str | None,
    keys: tuple[str, ...],
    slices: int | None,
    out: Path,
    threads: int,
    to: Json,
) -> None:
    """Fit a profile of a modern drive to measurements: CSV tables, or JSON files of fio's.

    Raises InputError if they are not of one drive, or its data sheet says too little.
    """
    from flashwright.measured.fit import Fit
    from flashwright.measured.rows import LatencyRow, WriteRow
    from flashwright.measured.template import DataSheet

    given = _pairs(keys)

    def capacity(name: str) -> float:
        if "capacity_gb" not in given:
            raise InputError(
                "fio's files do not say how large the drive is: right would be --data-sheet "
                "capacity_gb=960"
            )
        return DataSheet.of(name, given).capacity_gb

    name, chosen, taken = _rows(measurements, drive, capacity, to)
    writes = [row for row in chosen if isinstance(row, WriteRow)]
    if writes and "capacity_gb" not in given:
        given["capacity_gb"] = f"{writes[0].capacity_gb:g}"
    sheet = DataSheet.of(name, given)
    parts = slices or max(
        1, 2 ** round(sheet.capacity_gb / CAPACITY_OF_A_SLICE_GB - 1).bit_length()
    )
    steps: list[str] = []

    def tell(text: str) -> None:
        steps.append(text)
        to.say(f"  {text}")

    latencies = [row for row in chosen if isinstance(row, LatencyRow)]
    to.say(f"Fitting {name} to {len(writes)} rows of writes, {len(latencies)} of response times:")
    fitted = Fit(sheet, writes, latencies, parts, tell, threads)
    text = fitted.run()
    write_text(out, text, PROFILE)
    to.write(
        {
            "profile": str(out),
            "slices": parts,
            "estimate": vars(fitted.estimate),
            "basis": fitted.basis,
            "steps": steps,
            "left_out": taken.left_out,
            "notes": taken.notes,
        }
    )
    to.say(f"Profile: {out}")
    to.say(f"How well it meets the rows: flashwright device {out} --against ROWS")


def predict(
    profile: str, measurements: tuple[Path, ...], drive: str | None, threads: int, to: Json
) -> None:
    """Play each row of measurements on a profile, and print measured, predicted, error.

    Raises InputError if there is no such profile, or the rows are not of one drive.
    """
    from flashwright.devices import DriveProfile
    from flashwright.measured import predict as predicting
    from flashwright.measured.play import PlayedProfile

    device = DriveProfile.load(profile)
    played = PlayedProfile.of(device.toml)
    name, chosen, taken = _rows(measurements, drive, lambda _: played.capacity_gb, to)
    count = 0

    def tell(_: Prediction) -> None:
        nonlocal count
        count += 1
        if not to.is_only_json:
            click.echo(f"\r{count} of {len(chosen)} rows", nl=count == len(chosen), err=True)

    found = predicting.many(chosen, played, threads=threads, tell=tell)
    rows = [one for prediction in found for one in prediction.compared()]
    to.write(
        {
            "profile": device.name,
            "drive": name,
            "rows": [prediction.document() for prediction in found],
            "figures": rows,
            "left_out": taken.left_out,
            "notes": taken.notes,
        }
    )
    if not to.is_only_json:
        print_table(
            [
                ("row", "left"),
                ("figure", "left"),
                ("measured", "right"),
                ("predicted", "right"),
                ("error", "right"),
            ],
            [_cells(one) for one in rows],
            f"{name}: measured, and predicted by {device.name}",
        )


def _cells(one: dict[str, object]) -> tuple[str, ...]:
    measured, error = one["measured"], one["error"]
    return (
        str(one["row"]),
        str(one["figure"]),
        "" if measured is None else f"{measured:,.1f}",
        f"{one['predicted']:,.1f}",
        "" if error is None else f"{error:+.1%}",
    )


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--data-sheet {text}: right would be KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs
