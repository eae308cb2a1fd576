"""All workloads. One is a file or a folder here, and a line below."""

from __future__ import annotations

import re
from typing import Any

from flashwright import _core
from flashwright._core import InputError

from . import tatp, tpcb, tpcc, ycsb
from .base import Workload

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        tpcc.WORKLOAD,
        tpcb.WORKLOAD,
        tatp.WORKLOAD,
        ycsb.WORKLOAD,
    )
}

_SPEC = re.compile(r"([a-z0-9_-]+)(?:\((.*)\))?")


def find(spec: str) -> tuple[Workload, dict[str, int]]:
    """Read `tpcc` or `tpcc(warehouses=2,items=500)`.

    The workload, and the parameters that are given.

    Raises:
        InputError: it is no such thing, or the name is unknown.
    """
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise InputError(
            f"workload `{spec}`: write a name, or NAME(parameter=number,...) as in "
            "`tpcc(warehouses=2)`"
        )
    if match[1] not in WORKLOADS:
        raise InputError(f"unknown workload `{match[1]}`; known are: {', '.join(WORKLOADS)}")
    workload, given = WORKLOADS[match[1]], dict[str, int]()
    for part in filter(None, (match[2] or "").split(",")):
        name, _, value = part.partition("=")
        number = _core.parse_count(value)
        if number is None:
            raise InputError(
                f"workload `{spec}`: {part.strip()} has to be parameter=number, such as "
                f"{_example(workload)}"
            )
        given[name.strip()] = number
    return workload, given


def _example(workload: Workload) -> str:
    return f"{workload.params[0].name}={workload.params[0].default}"


def listing() -> list[dict[str, Any]]:
    """Tell all workloads as `flashwright list` does.

    Entries as the core's `registry()` has them.
    """
    return [
        {
            "name": workload.name,
            "usage": f"{workload.name}("
            f"{', '.join(f'{param.name}={param.default}' for param in workload.params)})",
            "summary": f"{workload.summary}; mixes {', '.join(workload.mixes)}",
            "source": workload.source,
            "aliases": [],
            "params": [
                {
                    "name": param.name,
                    "default": str(param.default),
                    "help": param.help,
                    "accepts": param.accepts,
                }
                for param in workload.params
            ],
            "mixes": {
                mix.name: {"weights": dict(mix.weights), "source": mix.source}
                for mix in workload.mixes.values()
            },
        }
        for workload in WORKLOADS.values()
    ]
