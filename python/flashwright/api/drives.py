"""Simulated drives: a profile with its changes, and loads played on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashwright import beyond, devices
from flashwright._core import InputError
from flashwright.api.calls import public
from flashwright.api.results import Result
from flashwright.devices import Load
from flashwright.drive_runs import DriveRun, play
from flashwright.flows import Flow
from flashwright.outputs import TABLE, check
from flashwright.slices import SizeAsked
from flashwright.sources import Reading
from flashwright.sweeps.policies import own_victim


class Drive:
    """A simulated drive: a built-in profile, or the path of a TOML file, with changes.

    `profiles()` lists the built-in ones. `changes` are by key as in the TOML, such as
    `{"media.channels": 4}`. A placement comes with the victim policy of its authors unless one is
    named. `over_provisioning` is (physical - logical) / logical.

    Raises InputError if there is no such profile, or something in it is wrong.
    """

    def __init__(
        self,
        profile: str | os.PathLike[str],
        *,
        placement: str | None = None,
        victim: str | None = None,
        over_provisioning: float | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        keys = dict(changes or {})
        if placement is not None:
            if not isinstance(placement, str):
                raise InputError(
                    f"{placement!r}: a drive takes the name of a built-in policy; `simulate` and "
                    "`compare` take one in Python"
                )
            keys["ftl.placement"] = placement
            keys.setdefault("ftl.victim", victim or own_victim(placement))
        if victim is not None:
            keys["ftl.victim"] = victim
        if over_provisioning is not None:
            keys["ftl.over_provisioning"] = f"{over_provisioning:.12g}"
        overrides = [f"{key}={_toml(value)}" for key, value in keys.items()]
        self._said = [repr(str(profile)), *([f"changes={keys!r}"] if keys else [])]
        self.device = devices.Device.load(str(profile), overrides)

    @property
    def name(self) -> str:
        """What its profile calls itself."""
        return self.device.name

    @property
    def capacity_bytes(self) -> int:
        """Bytes that the host can address."""
        return self.device.capacity_bytes

    @property
    def over_provisioning(self) -> float:
        """(physical - logical) / logical."""
        return self.device.over_provisioning

    @property
    def toml(self) -> str:
        """Its profile with all keys, as it is run."""
        return self.device.toml

    def limits(self) -> dict[str, float]:
        """Give what each of its parts could do by itself: bytes and requests a second."""
        return self.device.limits()

    @public
    def run(
        self,
        source: str | os.PathLike[str],
        *,
        depth: int = 32,
        open_loop: bool = False,
        think_time_us: float = 0.0,
        state: str = "filled",
        overwrites: float | None = None,
        requests: int | None = None,
        seconds: float | None = None,
        warm_up: int = 0,
        untimed: float = 0,
        page_size: int = 4096,
        repeat: int = 1,
        fold: bool = False,
        capacity: int | str | None = None,
        fill: float | None = None,
        slices: int | None = None,
        handle: int | None = None,
        beside: Sequence[Flow] = (),
        seed: int = 1,
        timeline: int = 0,
        audit: bool = False,
        requests_to: str | os.PathLike[str] | None = None,
        progress: bool = True,
    ) -> Result:
        """Play a source on the drive, which begins in `state` each time.

        `source` is a trace file, the folder of a recording, `synth:...` or a pattern such as
        `io:random(reads=1)`. `depth` requests are outstanding, or with `open_loop` each is sent at
        its time in the trace. `state` is fresh, loaded, filled or aged; aged by `overwrites`
        capacities of random writes (2). `requests` and `seconds` (simulated) end the run, `warm_up`
        requests are left out. `untimed` requests (an int), or that share of all (a float below 1),
        are played in no simulated time first, which brings the drive into its steady state as fast
        as it can be counted; what is left is played with a clock. `handle` is the placement handle
        of its writes on a drive with `fdp.handles`; without it each request has its own. `beside`
        are flows that are played until it ends (`flashwright.flows.Flow`). `timeline` activities of
        the dies are kept for ui.perfetto.dev. `requests_to` is a Parquet file to write: a row for
        each request, with what its latency consists of. It is the table `requests` of the result,
        and moves with it into a run folder.

        The drive has the size of the disk of a recording, or `capacity` bytes ("own" for the
        profile's); of it the share `fill` holds data, what the file system said if it is None. One
        of `slices` is simulated, as few as two minutes and 2 GiB allow.

        The result has throughput, latency_ns by operation with percentiles, what delayed requests,
        what the dies did, write_amplification, life_years; each figure is judged steady or not in
        `judged`.

        Raises InputError; KeyboardInterrupt after Ctrl-C.
        """
        if state == "aged" and overwrites is None:
            overwrites = 2.0
        load = Load(
            pace="open" if open_loop else "closed",
            depth=1 if open_loop else depth,
            think_time_us=think_time_us,
            state=state,
            overwrites=overwrites,
            most_requests=requests,
            most_seconds=seconds,
            warm_up_requests=warm_up,
            untimed=untimed,
            seed=seed,
            fold=fold,
            choices=beyond.FOLD_ARGUMENT,
            handle=handle,
            beside=tuple(beside),
        )
        reading = Reading(page_size=page_size, seed=seed, repeat=repeat)
        file = None if requests_to is None else Path(requests_to).absolute()
        if file is not None:
            check(file, TABLE)
        asked = DriveRun(
            devices.check_load_source(str(source)),
            reading,
            load,
            timeline,
            audit,
            size=SizeAsked(capacity, fill, slices),
            requests_to=file,
        )
        return Result(play(self.device, asked))

    def __repr__(self) -> str:
        return f"flashwright.Drive({', '.join(self._said)})"

    def _repr_html_(self) -> str:
        summary = self.device.summary
        rows = "".join(
            f"<tr><td>{key}</td><td>{value}</td></tr>"
            for key, value in summary.items()
            if not isinstance(value, list | dict)
        )
        return f"<table><tbody>{rows}</tbody></table>"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def profiles() -> list[str]:
    """Give the names of the built-in profiles."""
    return [entry["name"] for entry in devices.listing()["profile"]]
