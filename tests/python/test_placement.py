"""Placement policies in Python: held against the same in Rust, and what is wrong with them said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import flashwright
from flashwright import InputError, Placement, RunError, _core, check_placement
from flashwright._core import FlashState
from flashwright.placement import U16, U32

LOAD = "synth:zipf(s=0.9,pages=4096,updates=8x)"
COUNTED = ("relocated_pages", "erases", "spilled_pages", "pulled_pages", "rescues", "p_gc")


class Separate(Placement):
    """The policy `separate`."""

    streams = 2

    def host_streams(self, lpns: U32, *_: Any) -> U32:
        return np.zeros(len(lpns), np.uint32)

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> U32:
        return np.ones(len(lpns), np.uint32)

    def stream_label(self, stream: int) -> str:
        return ("host", "relocated")[stream]


class OldestFirst(Separate):
    """The policy `separate` with `lru`, which it chooses itself."""

    victim = "own"

    def choose_victim(self, candidates: U32, domain: int, flash: FlashState) -> int | None:
        return int(candidates[0]) if len(candidates) else None


class Dac(Placement):
    """The policy `dac`, of four regions."""

    streams = 4
    relocation_targets = 2
    victim = "cost_benefit"

    def begin(self, flash: FlashState, seed: int) -> None:
        self.updated_at = np.zeros(flash.logical_pages, np.int64)
        self.young_below = (flash.logical_pages * 0.5 ** np.arange(4)).astype(np.int64)

    def host_streams(
        self, lpns: U32, previous_blocks: U32, previous_streams: U32, flash: FlashState
    ) -> U32:
        found = np.zeros(len(lpns), np.uint32)
        for number, (lpn, stream) in enumerate(zip(lpns, previous_streams, strict=True)):
            now = flash.clock + number
            if stream != flashwright.NO_STREAM:
                is_young = now - self.updated_at[lpn] < self.young_below[stream]
                found[number] = min(3, stream + is_young)
            self.updated_at[lpn] = now
        return found

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> Any:
        are_young = flash.clock - self.updated_at[lpns] < self.young_below[stream]
        return np.where(are_young, stream, max(0, stream - 1))


def counted(placement: Any, victim: str | None = None, **more: Any) -> dict[str, Any]:
    workload = flashwright.load_workload(LOAD)
    found = _core.simulate(workload, placement, victim, 0.25, audit=True, **more)
    return {key: found[key] for key in COUNTED}


@pytest.mark.parametrize("victim", ["greedy", "lru", "cost_benefit(age=closed)"])
def test_a_policy_in_python_counts_as_the_same_in_rust(victim: str) -> None:
    assert counted(Separate(), victim) == counted("separate", victim)


def test_victims_chosen_in_python_are_those_of_the_same_policy_in_rust() -> None:
    assert counted(OldestFirst()) == counted("separate", "lru")


def test_asked_for_one_page_at_a_time_dac_is_dac() -> None:
    policy = Dac()
    policy.batch = 1
    assert counted(policy) == counted("dac")


def test_many_pages_at_a_time_change_little() -> None:
    batched, exact = counted(Dac()), counted("dac")
    assert batched["relocated_pages"] == pytest.approx(exact["relocated_pages"], rel=0.03)


def test_what_it_is_called_and_its_streams_are_in_the_result() -> None:
    found = _core.simulate(flashwright.load_workload(LOAD), Separate(), None, 0.25)
    assert (found["placement"], found["victim"]) == ("Separate", "greedy")
    assert found["tables"]["streams"]["stream"] == ["host", "relocated"]


class PerStream(Placement):
    """Hot and cold pages in domains of their own, of which the one with more spare space gives."""

    streams = 2
    per_stream = True
    relocation_targets = 1

    def begin(self, flash: FlashState, seed: int) -> None:
        self.donors = 0

    def host_streams(self, lpns: U32, *_: Any) -> Any:
        return lpns > 500

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> Any:
        return np.full(len(lpns), stream)

    def donor(self, needy: int, flash: FlashState) -> int:
        self.donors += 1
        held = flash.stream_erase_blocks() * flash.pages_per_erase_block
        return int(np.argmax(held.astype(np.int64) - flash.stream_valid_pages()))


class Pulling(Separate):
    """Takes four of the host's oldest pages along with each victim of relocated ones."""

    def pulls(
        self, block: int, stream: int, lpns: U32, flash: FlashState
    ) -> Iterable[tuple[int, bool, int, int]]:
        return [(0, False, 4, 1)] if stream == 1 else []


class Watching(Separate):
    """Counts what dies, and holds it against what the FTL has counted."""

    def begin(self, flash: FlashState, seed: int) -> None:
        self.deaths = self.trims = 0
        self.valid = np.zeros(flash.erase_blocks, np.int64)

    def pages_died(
        self, lpns: U32, blocks: U32, offsets: U32, streams: U32, are_trimmed: Any, flash: Any
    ) -> None:
        assert offsets.max() < flash.pages_per_erase_block
        self.deaths += len(lpns)
        self.trims += are_trimmed.sum()


class Closing(Separate):
    """Closes the erase block of relocated pages before a cleaning, once in a thousand writes."""

    def begin(self, flash: FlashState, seed: int) -> None:
        self.closed_at = 0

    def stream_to_close(self, flash: FlashState) -> int | None:
        if flash.clock < self.closed_at + 1000:
            return None
        self.closed_at = flash.clock
        return 1


@pytest.mark.parametrize("kind", [Separate, OldestFirst, PerStream, Pulling, Watching, Closing])
def test_policies_of_all_questions_conform(kind: type[Placement]) -> None:
    policy = kind()
    assert check_placement(policy) >= 54
    if isinstance(policy, PerStream):
        assert policy.donors


def test_each_question_is_asked() -> None:
    workload = flashwright.load_workload(LOAD)
    assert _core.simulate(workload, Pulling(), None, 0.25, audit=True)["pulled_pages"] > 0
    assert _core.simulate(workload, Closing(), None, 0.5, audit=True)["unused_pages"] > 0
    watching = Watching()
    found = _core.simulate(workload, watching, None, 0.25)
    # The start is left out of the count, and all its pages are written again but for a few.
    still_to_tell = workload.page_writes - watching.deaths
    assert 0 <= still_to_tell < 2 * watching.batch
    assert found["host_page_writes"] == workload.page_writes


class Wrong(Separate):
    """Placement whose answers are wrong in the way that a test gives."""

    def __init__(self, host: Any = None, relocated: Any = None) -> None:
        self.host, self.relocated = host, relocated

    def host_streams(self, lpns: U32, *_: Any) -> Any:
        return np.zeros(len(lpns), np.uint32) if self.host is None else self.host(lpns)

    def relocation_streams(
        self, block: int, stream: int, offsets: U16, lpns: U32, flash: FlashState
    ) -> Any:
        return np.ones(len(lpns), int) if self.relocated is None else self.relocated(lpns)


def raising(lpns: U32) -> None:
    raise ZeroDivisionError("of the policy")


@pytest.mark.parametrize(
    ("policy", "error", "said"),
    [
        (Wrong(host=lambda _: [0]), InputError, "Wrong: host_streams gave 1 streams for 64 pages"),
        (Wrong(host=lambda lpns: np.full(len(lpns), 2)), InputError, "gave stream 2: there are 2"),
        (Wrong(host=lambda lpns: np.full(len(lpns), -1)), InputError, "gave stream -1"),
        (Wrong(host=lambda _: "zero"), InputError, "it must be an array of stream numbers"),
        (
            Wrong(relocated=lambda lpns: np.arange(len(lpns)) % 2),
            InputError,
            "2 different streams for one victim, and relocation_targets is 1",
        ),
        (Wrong(host=raising), ZeroDivisionError, "of the policy"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(
    policy: Placement, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        counted(policy)


def test_a_victim_that_is_no_candidate_is_refused() -> None:
    class Elsewhere(OldestFirst):
        def choose_victim(self, candidates: U32, domain: int, flash: FlashState) -> int:
            return int(np.setdiff1d(np.arange(flash.erase_blocks), candidates)[0])

    with pytest.raises(InputError, match="which is none of the candidates"):
        counted(Elsewhere())


def test_a_stream_that_is_closed_for_ever_is_refused() -> None:
    class Endless(Separate):
        def stream_to_close(self, flash: FlashState) -> int:
            return 0

    with pytest.raises(InputError, match="twice between two writes"):
        counted(Endless())


def test_own_victims_need_the_question() -> None:
    with pytest.raises(InputError, match="chooses no victims itself"):
        counted(Separate(), "own")


def test_numbers_out_of_range_are_refused() -> None:
    policy = Separate()
    policy.streams = 0
    with pytest.raises(InputError, match="streams is 0: it must be a whole number from 1"):
        counted(policy)
    with pytest.raises(InputError, match=r"made from flashwright\.Placement"):
        counted(object())


def test_the_check_notices_a_policy_that_is_not_the_same_twice() -> None:
    class Remembering(Separate):
        seen = 0

        def host_streams(self, lpns: U32, *_: Any) -> Any:
            self.seen += 1
            return np.full(len(lpns), self.seen // 997 % 2)

    with pytest.raises(RunError, match="the same run twice gave different"):
        check_placement(Remembering())
