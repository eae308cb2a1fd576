"""A profile of what was probed.

A simulated drive that behaves, to its host, as the real one did.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashwright import _core
from flashwright._core import InputError, RunError, __version__
from flashwright.outputs import RESULT_FILE
from flashwright.probing.consistency import consistent
from flashwright.probing.session import in_order
from flashwright.runs import PROFILE_FILE, plain

if TYPE_CHECKING:
    from flashwright._core import Progress
    from flashwright.probing.store import Finding

FITTED_TO = ("matrix", "matrix_reads")
"""Experiments that a profile can be fitted to."""
CLOSE = 0.1
OF_EARLIER = (
    "it is of what this folder held before, not of all that it holds now; the same command fits it "
    "anew, but for `--fit 0`"
)


def name_of(drive: str) -> str:
    """Name the profile of a drive: lower-case words and digits joined by `-`."""
    return "-".join(re.findall(r"[a-z0-9]+", Path(drive).name.lower())) or "drive"


def digest(findings: Mapping[str, Finding], seed: int) -> str:
    """Tell whether a profile is of these findings.

    Of the matrix, and of what was known of the inside.
    """
    text = json.dumps([plain(list(in_order(findings).values())), seed], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def is_enough(
    said: Mapping[str, Any], findings: Mapping[str, Finding], seed: int, effort: int
) -> bool:
    """Tell whether a profile stands for what is asked.

    Of this version and these findings, by as many simulations.
    """
    return bool(
        said.get("flashwright") == __version__
        and said["of"] == digest(findings, seed)
        and said.get("effort", -1) >= effort
    )


def outdated(said: Mapping[str, Any], findings: Mapping[str, Finding], seed: int) -> dict[str, Any]:
    """Give what is said of a profile that is kept though another may be due.

    With that said if its findings are not these.
    """
    notes = [note for note in said["notes"] if note != OF_EARLIER]
    return {
        **said,
        "notes": notes if said["of"] == digest(findings, seed) else [OF_EARLIER, *notes],
    }


def why_not(findings: Mapping[str, Finding]) -> str | None:
    """Say why there can be no profile; None if there can."""
    if any(finding["experiment"].partition("(")[0] in FITTED_TO for finding in findings.values()):
        return None
    return (
        f"it is fitted to what the experiment `{FITTED_TO[0]}` finds, which writes, or "
        f"`{FITTED_TO[1]}`, and neither was done"
    )


def read(folder: Path | None) -> tuple[dict[str, Any], str] | None:
    """Give the profile that a run folder holds, with what its result says of it.

    None if there is none.
    """
    if folder is None:
        return None
    try:
        said = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))["profile"]
        toml = (folder / PROFILE_FILE).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError):
        return None
    return (said, toml) if said is not None and "of" in said else None


def make(
    findings: Mapping[str, Finding],
    device: Mapping[str, Any],
    *,
    seed: int,
    effort: int,
    progress: Progress,
) -> tuple[dict[str, Any], str | None]:
    """Fit a profile. Gives what is said of it in the result, and its TOML; None if there is none.

    Raises Cancelled.
    """
    try:
        found = _core.fit_profile(
            json.dumps(list(consistent(in_order(findings)).values())),
            name=name_of(device["name"]),
            model=device["model"],
            capacity_bytes=device["capacity_bytes"],
            seed=seed,
            effort=effort,
            progress=progress,
        )
    except (InputError, RunError) as error:
        return {"why_not": str(error)}, None
    ratios = [cell["ratio"] for cell in found["cells"]]
    close = sum(abs(ratio - 1) <= CLOSE for ratio in ratios)
    said = {
        "file": PROFILE_FILE,
        "of": digest(findings, seed),
        "effort": effort,
        "flashwright": __version__,
        "cells": found["cells"],
        "within_10_percent": close / len(ratios) if ratios else None,
        "notes": found["notes"],
    }
    return said, found["toml"]
