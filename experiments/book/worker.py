"""Runs parts of one set and keeps each: `python -m experiments.book.worker FOLDER SET PART...`.

It tells each part on standard output as soon as its result is kept, as a line of JSON with its name
and the error if there is none to keep; the others are run all the same. It ends when its standard
input closes, so that it does not outlive whoever waits for it.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from experiments.book.kept import identity, kept_of, values_of, write
from experiments.registry import Part, Request, Set
from experiments.sets import SEED, SETS
from flashwright._core import FlashwrightError
from flashwright._text import one_line
from flashwright.runs import provenance


def run(folder: Path, one: Set[Any], part: Part, reports: Path) -> Path:
    """Run a part with the set's defaults, keep what came of it, and give the file.

    Reports are written into a folder that nobody keeps; a set finds there what it has measured for
    another part.
    """
    values = values_of(one)
    words = ["python", "-m", "experiments", part.name]
    # As the sources are now: an editor may save another one before the part has ended.
    name = identity(one, part, values)
    made_by = provenance(words, one.inputs(), SEED)
    began = time.monotonic()
    if "out" in values:
        values["out"] = reports
    made = one.make(Request([part], values, " ".join(words), made_by))
    about = {
        "identity": name,
        "seconds": round(time.monotonic() - began, 1),
        "made_on": datetime.date.today().isoformat(),
        "provenance": made_by,
    }
    return write(folder, kept_of(one, part, made, about))


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def main() -> None:
    """Run what the command line names."""
    folder, set_name, *names = sys.argv[1:]
    one = next(one for one in SETS if one.name == set_name)
    parts = {part.name: part for part in one.parts}
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Others tell on standard output what they do: only names of parts may stand there.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory(prefix="flashwright-book-") as reports:
        for name in names:
            error = ""
            try:
                run(Path(folder), one, parts[name], Path(reports))
            except (FlashwrightError, OSError) as failed:
                error = one_line(str(failed))
            told.write(json.dumps({"part": name, "error": error}) + "\n")
            told.flush()


if __name__ == "__main__":
    main()
