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
from flashwright import data
from support import ROOT, Cli

ZIPF = "synth:zipf?s=0.9&pages=8192&updates=10x"


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
    same(found, of_command(cli, "simulate", ZIPF, "--placement", "dac", "--op", "0.25"))
    assert found["offline_minimum"] < found["frequency_bound"] < found["write_amplification"]


def test_without_what_is_attainable_the_figures_are_the_same() -> None:
    workload = fw.load_workload(ZIPF)
    plain, full = (fw.simulate(workload, "dac", attainable=one) for one in (False, True))
    assert plain["write_amplification"] == full["write_amplification"]
    assert plain["frequency_bound"] is None
    assert "DAC" in repr(plain)
    assert "frequency bound" not in repr(plain)


def test_compare_is_the_command(cli: Cli) -> None:
    found = fw.compare(ZIPF, placements=["none", "dac"], over_provisionings=[0.2])
    document = of_command(cli, "compare", ZIPF, "--placements", "none,dac", "--op", "0.2")
    rows = found.to_polars()
    assert rows["write_amplification"].to_list() == [
        row["write_amplification"] for row in document["results"]
    ]
    assert {"bounds", "over_time", "results"} <= set(found.tables)


def test_a_drive_is_the_command(cli: Cli) -> None:
    drive = fw.Drive("intel-x25m", over_provisioning=0.2, changes={"media.channels": 4})
    found = drive.run("io:random", depth=8, requests=3000, state="aged", overwrites=0.2)
    document = of_command(
        cli,
        *["simulate", "io:random", "--device", "intel-x25m", "--set", "media.channels=4"],
        *["--op", "0.2", "--depth", "8", "--requests", "3000", "--state", "aged"],
        *["--overwrites", "0.2"],
    )
    assert found["latency_ns"] == document["latency_ns"]
    assert found["device"]["profile_hash"] == document["device"]["profile_hash"]
    assert drive.over_provisioning == pytest.approx(0.2)


def test_a_probe_is_the_command(cli: Cli) -> None:
    found = fw.probe("intel-x25m", only=["write_patterns"], fit=0)
    document = of_command(cli, "probe", "intel-x25m", "--only", "write_patterns", "--fit", "0")
    assert found["findings"] == document["findings"]
    assert found.to_polars()["key"].to_list() == [
        value["key"] for finding in document["findings"] for value in finding["values"]
    ]


def test_a_replay_is_the_command(cli: Cli) -> None:
    drive = fw.Drive("intel-x25m")
    found = fw.replay(data.TPCC_DATA, drive, pace="closed", depth=4, limit=2000, remap="dense")
    document = of_command(
        cli,
        *["replay", str(data.TPCC_DATA), "--device", "intel-x25m", "--depth", "4"],
        *["--limit", "2000", "--remap", "dense"],
    )
    assert found["latency_ns"] == document["latency_ns"]


def test_layers_are_the_command(cli: Cli) -> None:
    stack = "scheduler(defer,coalesce)"
    found = fw.layers(data.TPCC_DATA, "usb-stick", [stack], limit=500, remap="dense")
    document = of_command(
        cli,
        *["layers", str(data.TPCC_DATA), "--device", "usb-stick", "--stack", stack],
        *["--limit", "500", "--remap", "dense"],
    )
    times = [(row["verdict"] or {}).get("times_faster") for row in document["results"]]
    assert found.to_polars()["times_faster"].to_list() == times


@pytest.fixture(scope="module")
def result() -> fw.Result:
    """Give a comparison with several tables."""
    return fw.compare(ZIPF, placements=["none", "dac"], over_provisionings=[0.2])


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
    assert "intel-x25e" in fw.Drive("intel-x25e")._repr_html_()


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
        (lambda: fw.Drive("no-such-drive"), "no such profile or file"),
        (lambda: fw.replay(data.TPCC_DATA, "intel-x25m", pace="fast"), "must be open or closed"),
        (lambda: fw.replay(data.TPCC_DATA, "intel-x25m", remap="bend"), "must be one of refuse"),
        (lambda: fw.replay(data.TPCC_DATA, "intel-x25m", ops=["erase"]), "'erase' is none of"),
        (lambda: fw.layers(data.TPCC_DATA, "usb-stick", ["no_layer"]), "unknown layer"),
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
        fw.replay(data.TPCC_DATA, path, limit=5000, remap="fold")
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
