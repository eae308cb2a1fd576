"""The simulated drive through the binding: what the dict of a run promises."""

from __future__ import annotations

import json
import math
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashwright import _core

SMALL = ["media.channels=2", "media.packages_per_channel=1", "media.erase_blocks_per_plane=64"]
OPS = ["read", "write", "trim", "flush"]


@pytest.fixture(scope="module")
def profile() -> str:
    """Give the profile `a16` with two dies: 256 MiB raw."""
    return _core.check_profile(
        _core.profile_toml("a16"), "a16", [*SMALL, "ftl.over_provisioning=25%"]
    )


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Give a trace of two files with every kind of request, at addresses far apart."""
    lines = ["fio version 3 iolog", "0 a add", "0 b add"]
    for number in range(200):
        file, offset = "ab"[number % 2], (number % 7) * (64 << 20) + number * 4096
        lines.append(f"{number * 400} {file} {'read' if number % 3 else 'write'} {offset} 8192")
    lines += ["90000 a trim 0 1048576", "90100 a sync 0 0"]
    path = tmp_path / "small.iolog"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run(
    profile: str, source: str, pace: str = "closed", depth: int = 8, **options: Any
) -> dict[str, Any]:
    """Play one flow."""
    return _core.simulate_drive(
        profile,
        [{"requests": _core.load_requests(source), "pace": pace, "depth": depth}],
        **options,
    )


def without_wall(result: dict[str, Any]) -> str:
    """Everything that must be the same whenever it is run."""
    same = {
        key: value
        for key, value in result.items()
        if "wall" not in key and key != "prepare_seconds"
    }
    return json.dumps(same, default=lambda array: array.tolist())


@pytest.mark.parametrize("name", [entry["name"] for entry in _core.profiles()])
def test_every_profile_is_told_and_checked(name: str) -> None:
    toml = _core.profile_toml(name)
    summary = _core.profile_summary(toml)
    assert summary["name"] == name == tomllib.loads(toml)["name"]
    assert summary["capacity_bytes"] == summary["logical_pages"] * summary["page_bytes"]
    alpha = (summary["physical_pages"] - summary["logical_pages"]) / summary["logical_pages"]
    assert alpha == pytest.approx(summary["over_provisioning"], rel=1e-3)
    full = _core.check_profile(toml, name)
    assert _core.check_profile(full, name) == full
    assert _core.profile_summary(full) == summary


def test_listings_say_how_to_write_each() -> None:
    assert {"random", "focused", "partitioned"} <= {entry["name"] for entry in _core.patterns()}
    assert {"page_mapped", "bast", "fast", "block_mapped"} <= {
        entry["name"] for entry in _core.schemes()
    }
    for entry in _core.patterns():
        requests = _core.load_requests(f"io:{entry['usage']}")
        assert requests.requests is None
        assert requests.content_hash.startswith(f"io:{entry['name']}?")


def test_a_run_says_all_that_it_promises(profile: str) -> None:
    source = "io:random(reads=0.5,requests=20000)"
    found = run(profile, source, state="aged", warm_up_requests=1000, timeline_spans=50, audit=True)
    assert found["requests"] == 19000
    assert list(found["latency_ns"]) == list(found["delays"]) == ["all", "read", "write"]
    for op in ("all", "read", "write"):
        latency = found["latency_ns"][op]
        assert latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
        delays = found["delays"][op]
        assert sum(delay["mean"] for delay in delays.values()) == pytest.approx(latency["mean"])
        assert sum(delay["share_of_latency"] for delay in delays.values()) == pytest.approx(1.0)
    assert found["latency_ns"]["read"]["count"] + found["latency_ns"]["write"]["count"] == 19000
    assert found["iops"] == pytest.approx(19000 / found["simulated_seconds"])
    assert sum(found["die_share"].values()) == pytest.approx(1.0)
    assert found["cleaning_cost"] == pytest.approx(found["write_amplification"] - 1)
    assert 0 < found["channel_share"] < 1
    operations = found["flash_operations"]
    assert list(operations) == ["read", "program", "erase", "copy_back"]
    assert operations["program"]["host"] > 0
    assert operations["program"]["cleaning"] > 0
    assert operations["erase"]["cleaning"] > 0
    assert found["worn_out"] is None
    assert len(bytes.fromhex(found["event_hash"])) == 8
    events = json.loads(found["timeline"])["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 50


def test_tables_agree_with_the_figures(profile: str) -> None:
    found = run(profile, "io:random(reads=0.5,requests=20000)", state="aged")
    tables = found["tables"]
    assert list(tables) == [
        "latency_histogram",
        "latency_over_time",
        "delay_histogram",
        "over_time",
        "dies",
        "wear",
    ]
    for table in tables.values():
        assert len({len(column) for column in table.values()}) == 1
    histogram = tables["latency_histogram"]
    for op in ("read", "write"):
        is_op = np.array(histogram["op"]) == op
        assert histogram["count"][is_op].sum() == found["latency_ns"][op]["count"]
        assert float(histogram["value_ns"][is_op].max()) == pytest.approx(
            found["latency_ns"][op]["max"], rel=2e-3
        )
    cells = tables["latency_over_time"]
    for op in ("read", "write"):
        is_op = np.array(cells["op"]) == op
        assert cells["count"][is_op].sum() == found["latency_ns"][op]["count"]
        assert cells["to_ns"][is_op].max() >= found["latency_ns"][op]["max"]
    assert (cells["start_s"] + cells["seconds"]).max() == pytest.approx(found["simulated_seconds"])
    delays = tables["delay_histogram"]
    is_cleaning = (np.array(delays["op"]) == "write") & (np.array(delays["delay"]) == "cleaning")
    assert delays["count"][is_cleaning].sum() == found["delays"]["write"]["cleaning"]["delayed"]
    over_time = tables["over_time"]
    assert over_time["reads"].sum() + over_time["writes"].sum() == found["requests"]
    assert over_time["relocated_pages"].sum() == found["relocated_pages"]
    assert over_time["seconds"][-1] == pytest.approx(found["simulated_seconds"])
    assert tables["dies"]["channel"].tolist() == [0, 1]
    assert tables["dies"]["cleaning"].mean() == pytest.approx(found["die_share"]["cleaning"])
    erases = (tables["wear"]["erases"].astype(float) * tables["wear"]["erase_blocks"]).sum()
    assert erases / tables["wear"]["erase_blocks"].sum() == pytest.approx(found["erases_mean"])


def test_the_same_run_twice_is_the_same_on_two_threads_too(profile: str) -> None:
    requests = _core.load_requests("io:focused(area=1Mi,hold=64,reads=0.3,requests=5000)")
    results: list[str] = []

    def work() -> None:
        results.append(
            without_wall(
                _core.simulate_drive(
                    profile, [{"requests": requests, "depth": 16, "think_us": 2.0}], state="aged"
                )
            )
        )

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("scheme", [entry["name"] for entry in _core.schemes()])
def test_every_scheme_runs(profile: str, scheme: str) -> None:
    changes = [f"ftl.scheme={scheme}"]
    if scheme == "zoned":
        changes += ["write_buffer.bytes=1Mi", "write_buffer.power_loss_protected=true"]
    toml = _core.check_profile(profile, "a16", changes)
    if scheme == "zoned":
        found = run(toml, "io:sequential(requests=3000)", state="fresh", audit=True)
        assert found["write_amplification"] == 1
        return
    found = run(toml, "io:random(reads=0.5,requests=3000)", audit=True)
    assert found["requests"] == 3000
    assert found["write_amplification"] >= 1


@pytest.mark.parametrize("state", ["fresh", "filled", "aged"])
def test_a_drive_begins_in_its_state(profile: str, state: str) -> None:
    found = run(profile, "io:sequential(reads=1,requests=100)", state=state)
    assert found["state"] == state
    assert found["unmapped_pages"] == (100 if state == "fresh" else 0)
    assert (found["erases_mean"] > 0) == (state == "aged")


def test_a_loaded_drive_holds_what_is_read_and_no_more(profile: str, trace: str) -> None:
    requests = _core.load_requests(trace)
    assert requests.footprint_bytes is not None
    found = _core.simulate_drive(profile, [{"requests": requests}], state="loaded")
    assert found["state"] == "loaded"
    assert found["unmapped_pages"] == 0
    # Every page that a trim names held data, or was written: the trace trims its first MiB.
    assert 0 < found["trimmed_pages"] <= 256
    assert found["erases_mean"] == 0


def test_flows_have_figures_of_their_own(profile: str) -> None:
    reads = _core.load_requests("io:random(reads=1)")
    writes = _core.load_requests("io:sequential(size=64Ki)")
    alone = _core.simulate_drive(profile, [{"requests": reads}], most_seconds=0.2)
    both = _core.simulate_drive(
        profile, [{"requests": reads}, {"requests": writes}], most_seconds=0.2
    )
    assert [flow["name"] for flow in both["flows"]] == [reads.name, writes.name]
    assert sum(flow["requests"] for flow in both["flows"]) == both["requests"]
    assert both["flows"][0]["bytes"] == both["read_bytes"] == both["flows"][0]["requests"] * 4096
    assert both["flows"][1]["written_bytes"] == both["written_bytes"]
    assert both["flows"][0]["latency_ns"]["mean"] == pytest.approx(
        both["latency_ns"]["read"]["mean"]
    )
    assert (
        both["flows"][0]["iops"]
        < alone["flows"][0]["iops"]
        == pytest.approx(alone["iops"], rel=1e-6)
    )


def test_a_trace_is_fitted_to_the_drive(profile: str, trace: str) -> None:
    requests = _core.load_requests(trace)
    assert requests.counts == {
        "read": 133,
        "write": 67,
        "trim": 1,
        "flush": 1,
        "read_bytes": 133 * 8192,
        "written_bytes": 67 * 8192,
        "left_out": 0,
    }
    assert requests.has_times
    assert requests.duration_ns == 90_100_000
    assert requests.footprint_bytes is not None
    assert requests.footprint_bytes < 15 << 20
    found = _core.simulate_drive(profile, [{"requests": requests, "pace": "open"}])
    assert list(found["latency_ns"]) == ["all", *OPS]
    assert found["requests"] == 202
    assert found["simulated_seconds"] == pytest.approx(0.0901, rel=0.1)
    assert found["flows"][0]["folded"] is False
    twice = _core.load_requests(trace, repeat=2)
    assert (
        _core.simulate_drive(profile, [{"requests": twice, "pace": "open"}])["simulated_seconds"]
        > 0.18
    )
    part = _core.load_requests(trace, start=10, limit=20)
    assert part.requests == 20
    assert part.content_hash == f"{requests.content_hash} from request 10, 20 of them"
    from_file = _core.load_requests(trace, memory_limit_bytes=0)
    again = _core.simulate_drive(profile, [{"requests": from_file, "pace": "open"}])
    assert again["event_hash"] == found["event_hash"]


def test_a_drive_that_is_too_small_is_told_or_folded_onto(trace: str) -> None:
    toml = _core.check_profile(
        _core.profile_toml("a16"),
        "a16",
        [*SMALL[:2], "media.erase_blocks_per_plane=16", "ftl.over_provisioning=8"],
    )
    assert _core.profile_summary(toml)["capacity_bytes"] < 8 << 20
    with pytest.raises(
        _core.InputError,
        match=r"its requests need \d+ bytes .* right would be a drive of that size",
    ):
        run(toml, trace)
    folded = _core.load_requests(trace, fold=True)
    found = _core.simulate_drive(toml, [{"requests": folded}])
    assert found["requests"] == 202
    assert found["flows"][0]["folded"] is True
    with pytest.raises(_core.InputError, match=r"`pages` of at most \d+"):
        run(toml, "synth:uniform?pages=16Ki&updates=1x")
    synthetic = _core.load_requests("synth:uniform?pages=16Ki&updates=1x", fold=True)
    assert _core.simulate_drive(toml, [{"requests": synthetic}])["host_page_writes"] == 16384


def test_an_oracle_is_told_how_often_pages_are_written(profile: str, trace: str) -> None:
    toml = _core.check_profile(profile, "a16", ["ftl.placement=multi_log_optimal"])
    for source in ("synth:kmodal?sets=0.2:0.8,0.8:0.2&pages=16Ki&updates=1x", trace):
        assert run(toml, source, audit=True)["requests"] > 0
    with pytest.raises(_core.InputError, match="multi_log_optimal"):
        run(toml, "io:random(requests=10)")


def test_short_runs_have_finite_figures(profile: str) -> None:
    for count in (0, 1):
        found = run(profile, "io:random", most_requests=count)
        assert found["requests"] == count
        for key, value in found.items():
            assert not isinstance(value, float) or math.isfinite(value), key


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("io:random", {}, "the requests have no end"),
        ("io:random(requests=1)", {"pace": "open"}, "has no times .* or `pause_us` in the pattern"),
        ("io:random(requests=1)", {"pace": "soon"}, "pace is `soon`: it must be closed or open"),
        ("io:random(requests=1)", {"depth": 0}, "depth is 0: it must be from 1 to"),
        (
            "io:random(requests=1)",
            {"state": "new"},
            "state is `new`: it must be fresh, loaded, filled or aged",
        ),
        (
            "io:random(requests=1)",
            {"state": "aged", "overwrites": math.nan},
            "overwrites is NaN: it must be a number",
        ),
        ("io:random(requests=1)", {"most_seconds": 0.0}, "most_seconds is 0: it must be above 0"),
        ("io:random(requests=1,offset=1Gi)", {}, "offset=1073741824 is not less than the"),
        ("io:rundom", {}, "unknown request pattern `rundom`; known are: sequential, random"),
        ("io:random(area=3)", {}, "`random` has no parameter `area`; known are: reads, size"),
        ("no_such_file", {}, "no_such_file: open failed"),
    ],
)
def test_wrong_input_says_what_would_be_right(
    profile: str, source: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(_core.InputError, match=message):
        run(profile, source, **options)


def test_wrong_profiles_say_where(profile: str) -> None:
    with pytest.raises(
        _core.InputError, match="unknown device profile `a17`; known are: mtron-pro-7500"
    ):
        _core.profile_toml("a17")
    with pytest.raises(_core.InputError, match=r"my\.toml, line 1, column 1"):
        _core.check_profile("channels = 3", "my.toml")
    with pytest.raises(_core.InputError, match=r"media\.channels = 0: must be from 1 to 64"):
        _core.check_profile(profile, "a16", ["media.channels=0"])
    with pytest.raises(_core.InputError, match="no flows"):
        _core.simulate_drive(profile, [])
    with pytest.raises(_core.InputError, match="cannot be repeated"):
        _core.load_requests("io:random", repeat=2)


def test_a_run_tells_how_far_it_is_and_stops_when_asked(profile: str) -> None:
    progress = _core.Progress()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run(profile, "io:random(reads=1)", most_requests=1 << 40, progress=progress)
        except _core.Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while progress.state()[0] == 0 and thread.is_alive():
        time.sleep(0.01)
    assert progress.state()[1] == 1 << 40
    progress.cancel()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert len(raised) == 1
