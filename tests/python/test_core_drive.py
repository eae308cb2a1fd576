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

from flashwright import _core, drive_runs

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
    profile: str, source: str | dict[str, Any], pace: str = "closed(8)", **options: Any
) -> dict[str, Any]:
    """Play one flow."""
    return drive_runs.run(profile, source, pace=pace, **options)


def load(profile: str, source: str | dict[str, Any], **options: Any) -> _core.Source:
    """Read what such a run plays."""
    return drive_runs.load(profile, source, **options)


def without_wall(result: dict[str, Any]) -> str:
    """Everything that must be the same whenever it is run."""
    same = {
        key: value
        for key, value in result.items()
        if "wall" not in key and key not in ("prepare_seconds", "simulated")
    }
    return json.dumps(same, default=lambda array: array.tolist())


@pytest.mark.parametrize("name", [entry["name"] for entry in _core.variants("profile")])
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


def test_listings_say_how_to_write_each(profile: str) -> None:
    assert {"random", "focused", "partitioned"} <= {
        entry["name"] for entry in _core.variants("pattern")
    }
    assert {"page_mapped", "bast", "fast", "block_mapped"} <= {
        entry["name"] for entry in _core.variants("scheme")
    }
    for entry in _core.variants("pattern"):
        requests = load(profile, f"io:{entry['usage']}")
        assert requests.requests is None
        assert requests.content_hash.startswith(f"io:{entry['name']}(")


def test_a_run_says_all_that_it_promises(profile: str) -> None:
    source = "io:random(reads=0.5,requests=20000)"
    found = run(profile, source, state="aged", warm_up=1000, audit=True)
    assert found["requests"] == 19000
    assert list(found["latency_ns"]) == list(found["delays"]) == ["all", "read", "write"]
    for op in ("all", "read", "write"):
        latency = found["latency_ns"][op]
        assert latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"]
        delays = found["delays"][op]
        assert sum(delay["mean"] for delay in delays.values()) == pytest.approx(latency["mean"])
        assert sum(delay["share_of_latency"] for delay in delays.values()) == pytest.approx(1.0)
    assert found["latency_ns"]["read"]["count"] + found["latency_ns"]["write"]["count"] == 19000
    assert found["iops"] == pytest.approx(19000 / found["seconds"])
    assert sum(found["die_share"].values()) == pytest.approx(1.0)
    assert 0 < found["channel_share"] < 1
    operations = found["flash_operations"]
    assert set(operations) == {"read", "program", "erase", "copy_back"}
    assert operations["program"]["host"] > 0
    assert operations["program"]["cleaning"] > 0
    assert operations["erase"]["cleaning"] > 0
    assert found["ended"] is None
    assert len(bytes.fromhex(found["event_hash"])) == 8


def test_tables_agree_with_the_figures(profile: str) -> None:
    found = run(profile, "io:random(reads=0.5,requests=20000)", state="aged")
    tables = found["tables"]
    assert list(tables) == [
        "latency_histogram",
        "delay_histogram",
        "latency_over_time",
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
    assert (cells["start_s"] + cells["seconds"]).max() == pytest.approx(found["seconds"])
    delays = tables["delay_histogram"]
    is_cleaning = (np.array(delays["op"]) == "write") & (np.array(delays["delay"]) == "cleaning")
    assert delays["count"][is_cleaning].sum() == found["delays"]["write"]["cleaning"]["delayed"]
    over_time = tables["over_time"]
    assert over_time["reads"].sum() + over_time["writes"].sum() == found["requests"]
    assert over_time["relocated_pages"].sum() == found["relocated_pages"]
    assert over_time["seconds"][-1] == pytest.approx(found["seconds"])
    assert tables["dies"]["channel"].tolist() == [0, 1]
    assert tables["dies"]["cleaning"].mean() == pytest.approx(found["die_share"]["cleaning"])
    erases = (tables["wear"]["erases"].astype(float) * tables["wear"]["erase_blocks"]).sum()
    assert erases / tables["wear"]["erase_blocks"].sum() == pytest.approx(found["erases_mean"])


def test_the_same_run_twice_is_the_same_on_two_threads_too(profile: str) -> None:
    source = "io:focused(area=1Mi,hold=64,reads=0.3,requests=5000)"
    results: list[str] = []

    def work() -> None:
        found = run(profile, source, "closed(16, think=2us)", state="aged")
        results.append(without_wall(found))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work()
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("scheme", [entry["name"] for entry in _core.variants("scheme")])
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
    assert found["unmapped_pages"] == (100 if state == "fresh" else 0)
    assert (found["erases_mean"] > 0) == (state == "aged")


def test_a_loaded_drive_holds_what_is_read_and_no_more(profile: str, trace: str) -> None:
    assert load(profile, trace).footprint_bytes is not None
    found = run(profile, trace, state="loaded")
    assert found["unmapped_pages"] == 0
    # Every page that a trim names held data, or was written: the trace trims its first MiB.
    assert 0 < found["trimmed_pages"] <= 256
    assert found["erases_mean"] == 0


def test_flows_have_figures_of_their_own(profile: str) -> None:
    reads, writes = "io:random(reads=1)", "io:sequential(size=64Ki)"
    beside = {"flow": [f"flow({writes}, pace=32)"]}
    alone, both = (run(profile, reads, "closed(32)", duration=0.2, **more) for more in ({}, beside))
    assert [flow["source"] for flow in both["flows"]] == [reads, writes]
    assert sum(flow["requests"] for flow in both["flows"]) == both["requests"]
    first, second = both["flows"]
    assert first["read_bytes"] == both["read_bytes"] == first["requests"] * 4096
    assert first["written_bytes"] == second["read_bytes"] == 0
    assert second["written_bytes"] == both["written_bytes"]
    assert first["mean_latency_ns"] == pytest.approx(both["latency_ns"]["read"]["mean"])
    (only,) = alone["flows"]
    assert first["iops"] < only["iops"] == pytest.approx(alone["iops"], rel=1e-6)


def test_a_trace_is_fitted_to_the_drive(profile: str, trace: str) -> None:
    requests = load(profile, trace)
    assert requests.totals is not None
    totals = {
        "requests": 202,
        "read": 133,
        "write": 67,
        "trim": 1,
        "flush": 1,
        "read_bytes": 133 * 8192,
        "written_bytes": 67 * 8192,
        "duration_ns": 90_100_000,
    }
    assert requests.totals.items() >= totals.items()
    assert requests.reading["left_out"] == {}
    assert requests.has_times
    assert requests.duration_ns == 90_100_000
    assert requests.footprint_bytes is not None
    assert requests.footprint_bytes < 15 << 20
    found = run(profile, trace, "open")
    assert set(found["latency_ns"]) == {"all", *OPS}
    assert found["requests"] == 202
    assert found["seconds"] == pytest.approx(0.0901, rel=0.1)
    assert found["flows"][0]["folded"] is False
    assert run(profile, {"of": trace, "repeat": 2}, "open")["seconds"] > 0.18
    part = load(profile, {"of": trace, "skip": "4ms", "limit": 20})
    assert part.requests == 20
    assert part.content_hash.startswith(f"{requests.content_hash} ")
    assert '"limit":20' in part.content_hash
    assert run(profile, trace, "open")["event_hash"] == found["event_hash"]


def test_a_drive_that_is_too_small_is_told_or_folded_onto(trace: str) -> None:
    toml = _core.check_profile(
        _core.profile_toml("a16"),
        "a16",
        [*SMALL[:2], "media.erase_blocks_per_plane=16", "ftl.over_provisioning=8"],
    )
    assert _core.profile_summary(toml)["capacity_bytes"] < 8 << 20
    with pytest.raises(
        _core.InputError,
        match=r"small\.iolog needs \d+ bytes.* has \d+; right would be a larger device",
    ):
        run(toml, trace)
    found = run(toml, trace, fold=True)
    assert found["requests"] == 202
    assert found["flows"][0]["folded"] is True
    synthetic = "synth:uniform(pages=16Ki,updates=1x)"
    with pytest.raises(_core.InputError, match=r"`pages` of at most \d+"):
        run(toml, synthetic)
    assert run(toml, synthetic, fold=True)["host_page_writes"] == 16384


def test_an_oracle_is_told_how_often_pages_are_written(profile: str, trace: str) -> None:
    toml = _core.check_profile(profile, "a16", ["ftl.placement=multi_log_optimal"])
    for source in ("synth:kmodal(sets=0.2:0.8,0.8:0.2,pages=16Ki,updates=1x)", trace):
        assert run(toml, source, audit=True)["requests"] > 0
    with pytest.raises(_core.InputError, match="multi_log_optimal"):
        run(toml, "io:random(requests=10)")


def test_short_runs_have_finite_figures(profile: str) -> None:
    found = run(profile, "io:random", requests=1)
    assert found["requests"] == 1
    for key, value in found.items():
        assert not isinstance(value, float) or math.isfinite(value), key


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("io:random", {"requests": 0}, "requests: 0: nothing would be played"),
        ("io:random(requests=1)", {"pace": "open"}, "has no times.* or give a pattern `pause_us`"),
        ("io:random(requests=1)", {"pace": "soon"}, "`soon`; known are: closed, open, intervals"),
        ("io:random(requests=1)", {"pace": "closed(0)"}, "depth is 0: it must be from 1 to"),
        (
            "io:random(requests=1)",
            {"state": "new"},
            "unknown `new`; known are: fresh, loaded, filled, aged",
        ),
        ("io:random(requests=1)", {"state": "aged(overwrites=nan)"}, "`nan` is not a number"),
        ("io:random(requests=1)", {"duration": 0.0}, "`0` is not a duration above 0"),
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
    with pytest.raises(_core.InputError, match="cannot be repeated"):
        load(profile, {"of": "io:random", "repeat": 2})


def test_a_run_tells_how_far_it_is_and_stops_when_asked(profile: str) -> None:
    progress = _core.Progress()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run(profile, "io:random(reads=1)", requests=1 << 40, progress=progress)
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
