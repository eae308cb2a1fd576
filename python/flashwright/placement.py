"""A placement policy in Python: slow, for trying out before it is written in Rust.

An object of a class made from `Placement` goes where `flashwright.simulate` takes the name of a
policy. It is asked what the Rust trait `placement::Placement` is asked, for many pages at a time.

    class HotAndCold(flashwright.Placement):
        streams = 2

        def begin(self, flash, seed):
            self.writes = numpy.zeros(flash.logical_pages, numpy.uint32)

        def host_streams(self, lpns, previous_blocks, previous_streams, flash):
            numpy.add.at(self.writes, lpns, 1)
            return self.writes[lpns] > self.writes.mean()

        def relocation_streams(self, block, stream, offsets, lpns, flash):
            return numpy.full(len(lpns), stream)

    flashwright.simulate("synth:zipf(pages=64Ki)", HotAndCold(), over_provisioning=0.2)
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from flashwright import _core
from flashwright._core import NO_STREAM, FlashwrightError, InputError, RunError

if TYPE_CHECKING:
    from flashwright._core import FlashState, Workload

U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
Streams = npt.NDArray[Any] | Sequence[int]
"""Stream numbers, from 0 on, as many as pages were asked about."""

CHECKED_PAGES = 6000
CHECKED_WRITES = 30_000
LOADS = ("uniform", "skewed", "sequential")
VICTIMS = ("greedy", "lru", "cost_benefit")


class Placement:
    """Placement policy: it chooses the stream of each page. A stream is a write frontier.

    A class made from it gives `host_streams` and `relocation_streams`, and whichever of the other
    questions it wants to be asked. `begin` is called before each run, so that an object can be used
    again. Streams are numbered from 0. Arrays are of u32, but for offsets (u16). `flash` shows the
    device as it is at that moment; its arrays are copies.

    What a method raises ends the run, and is raised there.
    """

    name: ClassVar[str] = ""
    """Name in results. Empty: the name of the class."""
    victim: str = "greedy"
    """The victim policy if `simulate` is given none; `own` asks `choose_victim`."""
    streams: int = 1
    """Most streams that there may be; fixed when `begin` has returned. 1 to 65,535."""
    relocation_targets: int = 1
    """Most streams that the survivors of one victim may go to: so many erase blocks are kept in
    reserve. 1 to `streams`.
    """
    per_stream: bool = False
    """True if each stream is cleaned by itself, in a domain of its own. Then `donor` is asked which
    one gives up an erase block, and `flash.stream_valid_pages` is kept.
    """
    batch: int = 64
    """Operations of the host that are asked about together, 1 to 65,536. Where the pages lay is
    as it was before the first of them; with 1 a policy sees just what one in Rust sees."""

    content: str | None = None
    """SHA-256 of the file that `FILE.py:CLASS` named, if it was loaded so."""
    file: str | None = None
    """Path of that file."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def begin(self, flash: FlashState, seed: int) -> None:
        """Prepare for a run on this device: all that it keeps is made here.

        `seed` is for whatever it draws.
        """

    def host_streams(
        self, lpns: U32, previous_blocks: U32, previous_streams: U32, flash: FlashState
    ) -> Streams:
        """Give the stream for each page that the host writes, in order.

        The erase block and the stream in which its last version lies are `NO_STREAM` if the page
        holds no data.
        """
        raise NotImplementedError

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> Streams:
        """Give the stream for each survivor of the victim `block`, which was opened for `stream`.

        `offsets` are their places in it, ascending.
        """
        raise NotImplementedError

    def pulls(
        self, block: int, stream: int, lpns: U32, flash: FlashState
    ) -> Iterable[tuple[int, bool, int, int]]:
        """Give what a cleaning takes along, as (from stream, newest, pages, to stream).

        Of the stream's newest closed erase block the last pages, or of its oldest the first; fewer
        if there are not so many, or if the cleaning would gain nothing.
        """
        raise NotImplementedError

    def donor(self, needy: int, flash: FlashState) -> int:
        """Give the stream that gives up an erase block, so that `needy` can have one.

        Asked with `per_stream` alone. Without it a stream gives up its own.
        """
        raise NotImplementedError

    def pages_died(
        self,
        lpns: U32,
        blocks: U32,
        offsets: U32,
        streams: U32,
        are_trimmed: npt.NDArray[np.bool_],
        flash: FlashState,
    ) -> None:
        """Hear of pages that were written again or trimmed since the last question, in order.

        `blocks`, `offsets` and `streams` are of the version that died.
        """
        raise NotImplementedError

    def stream_to_close(self, flash: FlashState) -> int | None:
        """Give a stream whose open erase block is to be closed though it is not full.

        Asked before a cleaning, once between two writes of the host, until it gives None.
        """
        raise NotImplementedError

    def choose_victim(self, candidates: U32, domain: int, flash: FlashState) -> int | None:
        """Give the erase block that is cleaned next, one of the candidates.

        They are the closed erase blocks of the domain, in the order in which they were closed.
        None: the FTL chooses the one with the fewest valid pages. Asked where the victim policy is
        `own`.
        """
        raise NotImplementedError

    def stream_label(self, stream: int) -> str:
        """Name a stream for reports."""
        raise NotImplementedError

    def _answers(self) -> dict[str, bool]:
        """Tell for each of the other questions whether the class has a method of its own for it."""
        asked = ("donor", "pulls", "pages_died", "stream_to_close", "choose_victim", "stream_label")
        return {name: getattr(type(self), name) is not getattr(Placement, name) for name in asked}


def check_placement(policy: Placement, *, over_provisioning: float = 0.5, seed: int = 1) -> int:
    """Play a policy against several loads and victim policies, and check the FTL's tables.

    Loads are uniform, skewed with trims, and sequential; pages per erase block 8, 13 and 64. Every
    page must be found, each run must count all that the host wrote, and the same run twice must be
    the same. A policy that chooses victims does so, too. Gives the number of runs.

    Raises RunError with the run and what is wrong with it.
    """
    victims = [*VICTIMS, *(["own"] if policy._answers()["choose_victim"] else [])]
    runs = 0
    for load in LOADS:
        workload = _load(load, seed)
        for victim in victims:
            for pages in (8, 13, 64):
                settings: dict[str, Any] = {
                    "placement": policy,
                    "victim": victim,
                    "over_provisioning": over_provisioning,
                    "pages_per_erase_block": pages,
                    "seed": seed,
                }
                _check_run(workload, settings, f"{load}, {victim}, {pages} pages an erase block")
                runs += 2
    return runs


def _check_run(workload: Workload, settings: dict[str, Any], what: str) -> None:
    name = settings["placement"].name
    try:
        first, second = (_core.simulate(workload, **settings, audit=True) for _ in range(2))
    except InputError:
        raise
    except FlashwrightError as error:
        raise RunError(f"{name} ({what}): {error}") from error
    if first["host_page_writes"] != workload.page_writes:
        raise RunError(
            f"{name} ({what}): {first['host_page_writes']} of {workload.page_writes} page writes "
            "were counted"
        )
    differs = [
        key for key in ("relocated_pages", "erases", "pulled_pages") if first[key] != second[key]
    ]
    if differs:
        raise RunError(
            f"{name} ({what}): the same run twice gave different {', '.join(differs)}; `begin` "
            "must make anew all that the policy keeps, and draw from the seed alone"
        )


def _load(kind: str, seed: int) -> Workload:
    """Make one of the loads; pages of very different heat, and some trims, in the skewed one."""
    # Heavy, and only needed here.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    random = np.random.default_rng(seed)
    if kind == "uniform":
        pages = random.integers(0, CHECKED_PAGES, CHECKED_WRITES)
    elif kind == "skewed":
        pages = (CHECKED_PAGES * random.random(CHECKED_WRITES) ** 4).astype(np.int64)
    else:
        pages = np.arange(CHECKED_WRITES) % CHECKED_PAGES
    are_trims = (random.random(CHECKED_WRITES) < 0.03) & (kind == "skewed")
    # All pages are named first, so that each load has as many.
    pages = np.concatenate([np.arange(CHECKED_PAGES), pages])
    are_trims = np.concatenate([np.zeros(CHECKED_PAGES, bool), are_trims])
    requests = pa.table(
        {
            "time_ns": np.arange(len(pages)),
            "op": np.where(are_trims, "trim", "write"),
            "offset": pages * 4096,
            "length": np.full(len(pages), 4096),
        }
    )
    with tempfile.TemporaryDirectory(prefix="flashwright-") as folder:
        path = Path(folder) / "load.parquet"
        pq.write_table(requests, path)
        return _core.load_workload(str(path))


__all__ = ["NO_STREAM", "Placement", "check_placement"]
