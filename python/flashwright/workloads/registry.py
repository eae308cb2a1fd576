"""All workloads. One is a file or a folder here, and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flashwright import written
from flashwright._core import InputError

from . import tatp, tpcb, tpcc, ycsb
from .base import DatabaseLoad, Sized, Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        tpcc.WORKLOAD,
        tpcb.WORKLOAD,
        tatp.WORKLOAD,
        ycsb.WORKLOAD,
    )
}
SETTINGS = {name: workload.settings for name, workload in WORKLOADS.items()}


def find(
    text: str, beneath: Mapping[str, Any] | None = None
) -> tuple[Workload, Sized, DatabaseLoad]:
    """Read `tpcc` or `tpcc(scale=2, mix=normal)`: the workload, its settings, and its load.

    `beneath` are settings where none are given.

    Raises:
        InputError: there is no such workload, or it cannot be so.
    """
    settings = written.read(text, SETTINGS, "workload", beneath)
    workload = next(one for one in WORKLOADS.values() if one.settings is type(settings))
    try:
        load = workload.load(settings)
    except ValueError as error:
        raise InputError(f"`{text}`: {error}") from error
    return workload, replace(settings, mix=load.mix.name), load


def listing() -> list[dict[str, Any]]:
    """Give all workloads as `flashwright list` does, with their mixes."""
    summaries = {
        one.name: (f"{one.summary}; mixes {', '.join(one.mixes)}", one.source)
        for one in WORKLOADS.values()
    }
    entries = written.listing(SETTINGS, summaries)
    for entry in entries:
        entry["mixes"] = {
            mix.name: {"weights": dict(mix.weights), "source": mix.source}
            for mix in WORKLOADS[entry["name"]].mixes.values()
        }
    return entries
