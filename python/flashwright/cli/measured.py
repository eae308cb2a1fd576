"""`flashwright device fit` and `predict`: profiles of drives that were measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashwright._core import InputError
from flashwright.cli.lists import Listed, Named, split_assignments
from flashwright.cli.options import takes
from flashwright.cli.output import Json, print_table, say
from flashwright.cli.outputs import OutFile
from flashwright.outputs import PROFILE, write_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashwright.measured.fio import FioRows
    from flashwright.measured.predict import Prediction
    from flashwright.measured.rows import Row

MEASUREMENTS = click.argument(
    "measurements",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
)
DRIVE = click.option("--drive", metavar="NAME", help="The drive whose rows are meant.")
THREADS = click.option(
    "--threads",
    type=click.IntRange(1, 256),
    default=os.cpu_count() or 1,
    metavar="N",
    help="Simulations at a time; all processors by default.",
)
SLICES = 64
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


@click.command("fit", short_help="Fit a profile to measurements of a drive.")
@MEASUREMENTS
@DRIVE
@click.option(
    "--data-sheet",
    "keys",
    cls=Listed,
    split=split_assignments,
    metavar="KEY=VALUE",
    help="What the data sheet says: capacity_gb, pcie, sequential_read_mb_s, "
    "sequential_write_mb_s, random_read_iops, random_write_iops, read_latency_us, "
    "write_latency_us. a=1,b=2 or again for each.",
)
@click.option(
    "--slices",
    type=click.IntRange(1, 65_536),
    metavar="N",
    help="The profile is one of N slices of the drive: quicker to simulate, as fast as the whole. "
    "By default such that one has some 15 to 30 GB.",
)
@click.option(
    "--out",
    type=OutFile(PROFILE),
    required=True,
    metavar="PROFILE.toml",
    help="Write the profile there.",
)
@THREADS
@takes(Json, "to")
def fit(
    measurements: tuple[Path, ...],
    drive: str | None,
    keys: tuple[str, ...],
    slices: int | None,
    out: Path,
    threads: int,
    to: Json,
) -> None:
    """Fit a profile of a modern drive to MEASUREMENTS: CSV tables, or JSON files of fio's.

    \b
    Examples:
      flashwright device fit writes.csv latency.csv --drive mine --out mine.toml
      flashwright device fit fill.json random.json --drive mine \\
          --data-sheet capacity_gb=960 --data-sheet pcie=4 --out mine.toml

    It takes one to three minutes. `docs/measured.md` has the columns, how each row is played, and
    what each step of the fit rests on. The profile's comments say it of each key.
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
        if not to.is_only_json:
            say(f"  {text}")

    latencies = [row for row in chosen if isinstance(row, LatencyRow)]
    if not to.is_only_json:
        say(f"Fitting {name} to {len(writes)} rows of writes, {len(latencies)} of response times:")
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
    if not to.is_only_json:
        say(f"Profile: {out}. How well it meets the rows: flashwright device predict {out} ...")


@click.command("predict", short_help="Measurements beside what a profile gives.")
@click.argument("profile", type=Named("profile", or_file=True))
@MEASUREMENTS
@DRIVE
@THREADS
@takes(Json, "to")
def predict(
    profile: str, measurements: tuple[Path, ...], drive: str | None, threads: int, to: Json
) -> None:
    """Play each row of MEASUREMENTS on PROFILE: measured, predicted, error.

    MEASUREMENTS are CSV tables, or JSON files of fio's.

    \b
    Examples:
      flashwright device predict mine.toml writes.csv latency.csv --drive mine
      flashwright device predict micron-7450-pro latency.csv --drive micron-7450-pro --json -

    A row without its measured figures is predicted, too. `docs/measured.md` has the columns, and
    how each row is played. A row that the profile was fitted to is no prediction.
    """
    from flashwright.devices import Device
    from flashwright.measured import predict as predicting
    from flashwright.measured.play import Drive

    device = Device.load(profile)
    played = Drive.of(device.toml)
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
