"""The layer `replicas` under transactions: which plays there are, and a little of one."""

from __future__ import annotations

import pytest

from experiments.drives import replicated as runs
from experiments.figures import replicas
from flashwright import _core

SMALL = runs.Scale(drive=0.5, play=0.03)


SHORT = runs.Setting("a patience that queueing exceeds", layer="patience=500us")


def case(
    benchmark: str, policy: str = "", buffer: str = "lru", setting: runs.Setting = runs.BASE
) -> runs.Case:
    """Give a little play on the smallest drive."""
    return runs.Case(runs.X25E, benchmark, policy, buffer, setting, SMALL)


def test_every_piece_has_its_plays() -> None:
    plays = {piece.name: list(piece.cases(runs.FULL)) for piece in replicas.PIECES}
    pairs = plays["replication-7"]
    assert len(pairs) == len(runs.KINDS) * len(runs.BENCHMARKS) * 2
    assert len(set(pairs)) == len(pairs)
    assert {one.policy for one in plays["replication-table-4"]} == {"lru", "pblru"}
    assert {(one.policy, one.buffer) for one in plays["replication-table-5"]} == {
        ("", "lru"),
        ("pblru", "lru"),
        ("", "cflru_e"),
        ("pblru", "cflru_e"),
    }
    assert len(replicas.PUBLISHED_4) == len(plays["replication-table-4"])


@pytest.mark.parametrize("kind", runs.KINDS, ids=lambda kind: kind.profile)
def test_a_drive_is_as_the_paper_says(kind: runs.Kind) -> None:
    about = _core.profile_summary(runs.profile(runs.Case(kind, "TPC-C")))
    database = runs.database_bytes(kind, "TPC-C", about["capacity_bytes"])
    assert database / about["capacity_bytes"] == pytest.approx(48 / kind.paper_gb, rel=1e-3)
    stack = runs.stack(runs.Case(kind, "TPC-C", "lru"))
    assert f"partitions={8 if kind is runs.MTRON else 16}," in stack
    assert f"budget={0.1 * 48 / kind.paper_gb:.6f}," in stack
    assert _core.check_stack(stack) == ["replicas"]
    assert runs.stack(runs.Case(kind, "TPC-C")) == "direct"


def test_a_restored_drive_has_nothing_to_clean() -> None:
    restored = runs.play(
        runs.Case(runs.X25E, "TPC-B", setting=runs.RESTORED, scale=runs.Scale(0.5, 1))
    )
    assert restored["flash"]["erases"] == restored["die_share"]["cleaning"] == 0


def test_a_play_has_what_the_tables_need() -> None:
    alone = runs.play(case("TPC-B"))
    copied = runs.play(case("TPC-B", "pblru", setting=SHORT))
    assert runs.play(case("TPC-B")) is alone
    counted = runs.counters(copied)
    assert counted["extra_writes"] > 0
    extra = counted["extra_writes"] / runs.page_writes(copied)
    assert runs.extra_writes(copied) == pytest.approx(extra)
    assert runs.extra_writes(alone) == 0 < runs.writes_each(alone)
    assert sum(runs.calls(copied, "rwrite")) == pytest.approx(1)
    # Of the measured part alone.
    calls = sum(counted[f"rwrite_{number}"] for number in (1, 2, 3))
    assert calls == pytest.approx(runs.page_writes(copied), rel=0.02)
    waits = runs.delays(case("TPC-B"))
    assert sum(share for name, share in waits.items() if name != "mean_ns") == pytest.approx(1)


def test_a_buffer_that_compares_blocking_takes_the_layers_patience() -> None:
    both = case("TPC-B", "pblru", runs.CFLRU_E)
    patience = runs.counters(runs.play(case("TPC-B", "pblru")))["write_patience_ns"]
    assert runs.patience_ns(both) == patience > 0
    assert runs.patience_ns(case("TPC-B")) == runs.DEFAULT_D_NS
