"""The public package: what each function gives, beside what the command line gives."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import flashwright as fw
from flashwright._core import RunError
from flashwright.data import TPCC_REQUESTS as TRACE
from support import ROOT, Cli

ZIPF = "synth:zipf(s=0.9,pages=8192,updates=10x)"


def of_command(cli: Cli, *arguments: str) -> dict[str, Any]:
    """Give the JSON of a command."""
    return dict(json.loads(cli(*arguments, "--json", "-").stdout))


def same(result: fw.Result, document: dict[str, Any]) -> None:
    """Hold a result against the document of the command that does the same work."""
    for key, value in json.loads(json.dumps(dict(result), default=str)).items():
        if key not in ("provenance", "identity", "peak_rss_bytes", "wall_seconds", "tables") and (
            not key.endswith("_per_second")
        ):
            assert document[key] == value, key


def test_every_name_that_is_promised_is_there() -> None:
    for name in fw.__all__:
        assert getattr(fw, name) is not None
    assert set(dir(fw)) == set(fw.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fw.nothing


def test_simulate_is_the_command(cli: Cli) -> None:
    found = fw.simulate(ZIPF, "dac", over_provisioning=0.25)
    same(found, of_command(cli, "compare", ZIPF, "--placements", "dac", "--op", "0.25"))
    assert found["offline_minimum"] < found["frequency_bound"] < found["write_amplification"]


def test_without_what_is_attainable_the_figures_are_the_same() -> None:
    workload = fw.load_workload(ZIPF)
    plain, full = (fw.simulate(workload, "dac", attainable=one) for one in (False, True))
    assert plain["write_amplification"] == full["write_amplification"]
    assert plain["frequency_bound"] is None
    assert "DAC" in repr(plain)
    assert "frequency bound" not in repr(plain)


def test_of_policies_that_nobody_named_one_may_not_fit() -> None:
    small = "synth:uniform(pages=2500,updates=5000)"
    rows = fw.compare(small, over_provisionings=[0.15]).to_polars()
    assert set(rows.filter(pl.col("error").is_not_null())["placement"]) >= {"envy_hybrid"}
    assert rows["write_amplification"].is_not_null().any()
    both: list[dict[str, Any]] = [{"placements": ["none", "envy_hybrid"]}, {"victims": ["greedy"]}]
    for named in both:
        with pytest.raises(RunError, match="too few for `envy_hybrid`"):
            fw.compare(small, over_provisionings=[0.15], **named)


def test_compare_is_the_command(cli: Cli) -> None:
    found = fw.compare(ZIPF, placements=["none", "dac"], over_provisionings=[0.2])
    document = of_command(cli, "compare", ZIPF, "--placements", "none,dac", "--op", "0.2")
    rows = found.to_polars()
    assert rows["write_amplification"].to_list() == [
        row["write_amplification"] for row in document["results"]
    ]
    assert {"bounds", "over_time", "results"} <= set(found.tables)


@pytest.mark.parametrize(
    ("source", "drive", "options", "words"),
    [
        (
            "io:random",
            "profile(intel-x25m, op=0.2, media.channels=4, state=aged(overwrites=0.2))",
            {"pace": "8", "requests": 3000},
            ["--pace", "8", "--requests", "3000"],
        ),
        (f"part({TRACE}, limit=2000, fit=dense)", "intel-x25m", {"pace": 4}, ["--pace", "4"]),
        (
            f"part({TRACE}, limit=500, fit=dense)",
            "usb-stick",
            {"stack": ["scheduler(defer,coalesce)"]},
            ["--stack", "scheduler(defer,coalesce)"],
        ),
    ],
    ids=["drive", "trace", "layers"],
)
def test_a_play_is_the_command(
    cli: Cli, source: str, drive: str, options: Any, words: list[str]
) -> None:
    found = fw.play(source, on=drive, **options)
    document = of_command(cli, "play", source, "--on", drive, *words)
    for mine, theirs in zip(found["runs"], document["runs"], strict=True):
        assert mine["latency_ns"] == theirs["latency_ns"]
    hashes = [one["devices"][0]["profile_hash"] for one in (found, document)]
    assert hashes[0] == hashes[1]
    times = [(row["verdict"] or {}).get("times_faster") for row in document["runs"]]
    assert found.to_polars()["times_faster"].to_list() == times


def test_a_play_writes_what_was_asked_beside_its_runs(tmp_path: Path) -> None:
    options: Any = {"on": "usb-stick", "requests": 300, "progress": False}
    first = fw.play("io:random", **options)
    kept = first.save(tmp_path / "first")
    requests = fw.play("io:random", per_request=True, **options).table("requests")
    assert requests.to_arrow().num_rows == 300
    found = fw.play("io:random", record=str(tmp_path / "rec"), against=str(kept), **options)
    assert found["recorded"]["folder"] == str(tmp_path / "rec")
    assert found["against"]["runs"][0]["requests"] == first["runs"][0]["requests"]
    with pytest.raises(fw.InputError, match="per_request: it is of one run"):
        fw.play("io:random", per_request=True, pace=["1", "8"], **options)


def test_a_probe_is_the_command(cli: Cli) -> None:
    found = fw.probe("intel-x25m", only=["write_patterns"], fit=0)
    document = of_command(cli, "probe", "intel-x25m", "--only", "write_patterns", "--fit", "0")
    assert found["findings"] == document["findings"]
    assert found.to_polars()["key"].to_list() == [
        value["key"] for finding in document["findings"] for value in finding["values"]
    ]


@pytest.fixture(scope="module")
def result() -> fw.Result:
    """Give a comparison with several tables."""
    return fw.compare(ZIPF, placements=["none", "dac"], over_provisionings=[0.2])


def test_benches_are_the_command(tmp_path: Path) -> None:
    found = fw.bench(
        "ycsb(scale=500)",
        db=["sqlite(buffer=256Ki)", "sqlite(buffer=1Mi)"],
        on=tmp_path,
        transactions=20,
        progress=False,
    )
    assert [one["level"] for one in found["benches"]] == ["256 KiB", "1 MiB"]
    rows = found.to_polars()
    assert rows["buffer_bytes"].to_list() == [256 << 10, 1 << 20]
    assert rows["transactions"].to_list() == [20, 20]
    assert all(rows["is_consistent"])
    assert found.provenance["command"][0].startswith("flashwright.bench('ycsb(scale=500)', db=[")
    with pytest.raises(fw.InputError, match="there is no parameter `bufer`; known are: buffer"):
        fw.bench("ycsb", db="sqlite(bufer=1)")


def test_tables_are_taken_by_everyone(result: fw.Result) -> None:
    arrow, pandas, polars = result.to_arrow(), result.to_pandas(), result.to_polars()
    assert isinstance(arrow, pa.Table)
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert arrow.num_rows == len(pandas) == polars.height == len(result.rows)
    over_time = result.table("over_time")
    assert pl.DataFrame(over_time).columns == over_time.columns
    arrow = over_time.to_arrow()
    with duckdb.connect() as connection:
        found = connection.register("t", arrow).execute("select count(*) from t").fetchall()
    assert found == [(len(over_time),)]
    with pytest.raises(fw.InputError, match="no_such: no such table; there are: bounds, over_time"):
        result.table("no_such")


def test_figures_without_rows_of_their_own_are_one_row() -> None:
    found = fw.simulate(ZIPF, attainable=False)
    row = found.to_polars()
    assert row.height == 1
    assert row["write_amplification"][0] == found["write_amplification"]


def test_what_a_notebook_shows(result: fw.Result) -> None:
    shown = result._repr_html_()
    assert "write amplification" in shown
    assert "flashwright.compare(&#x27;synth:zipf" in shown
    table = result.table("over_time")._repr_html_()
    assert table.count("<tr>") == 11
    assert "more rows" in table
    figures = result.plots()
    assert len(figures) > 1
    assert "@" not in json.dumps([figure.to_plotly_json() for figure in figures], default=str)


def test_a_result_is_saved_opened_and_reported(result: fw.Result, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "kept")
    again = fw.open_run(folder)
    assert again.to_arrow().equals(result.to_arrow())
    assert again.provenance == result.provenance
    assert (folder / "report.html").is_file()
    assert "flashwright.compare(" in result.report(tmp_path / "one.html").read_text()
    with pytest.raises(fw.InputError, match=r"no run folder: it has no result\.json"):
        fw.open_run(tmp_path)


def test_a_result_says_the_call_that_made_it() -> None:
    found = fw.simulate(ZIPF, "dac", over_provisioning=0.3, attainable=False, progress=False)
    said = f"flashwright.simulate({ZIPF!r}, 'dac', 0.3, attainable=False)"
    assert found.provenance["command"] == [said]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fw.simulate("no.such.file"), "no.such.file: no such file"),
        (lambda: fw.simulate(ZIPF, "no_such"), "unknown placement policy `no_such`"),
        (lambda: fw.play("io:random", on="no-such-drive"), "no such device, file or profile"),
        (
            lambda: fw.play(TRACE, on="intel-x25m", pace="fast"),
            "known are: closed, open, intervals",
        ),
        (lambda: fw.play(f"part({TRACE}, fit=bend)", on="intel-x25m"), "bend"),
        (lambda: fw.play(f"part({TRACE}, ops=erase)", on="intel-x25m"), "`erase` is none of"),
        (lambda: fw.play(TRACE, on="usb-stick", stack=["no_layer"]), "unknown layer"),
        (lambda: fw.waterfall("no/recording"), "no run folder"),
    ],
)
def test_bad_input_is_one_clear_line(call: Any, said: str) -> None:
    with pytest.raises(fw.InputError, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_a_file_is_only_read_unless_write_is_given(tmp_path: Path) -> None:
    path = tmp_path / "device"
    path.write_bytes(os.urandom(4 << 20))
    before = path.read_bytes()
    with pytest.raises(fw.InputError, match="write"):
        fw.play(f"part({TRACE}, limit=5000)", on=str(path), fold=True)
    assert path.read_bytes() == before
    with pytest.raises(fw.InputError, match="it confirms write"):
        fw.probe(path, destroy_data=True)


def test_what_the_guide_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102  (our own guide)
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()
