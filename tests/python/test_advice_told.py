"""What actions of advice tell: figures of a load and a system, in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from advice_cases import (
    GIB,
    HEAP,
    JOURNAL,
    MS,
    PAGE,
    case_of,
    of,
    trace,
)
from flashwright.advice import drive_facts, server_settings, telling, traces
from flashwright.advice import load as loads
from flashwright.advice.action import (
    NotKnown,
    Useless,
)
from flashwright.advice.actions.file_system import FileSystem
from flashwright.advice.actions.record_size import records
from flashwright.advice.actions.who_writes import _pages
from flashwright.advice.load import WRITE, Load
from flashwright.advice.setup import Drive
from flashwright.advice.what_ifs import as_job
from flashwright.recording.device import BlockDevice


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loads")


@pytest.fixture(scope="module")
def load(folder: Path) -> Load:
    return trace(folder / "load.parquet", purposes=True, flushes=True, trims=True)


class TestSystem:
    def test_a_file_system_that_adds_little_can_save_little(self, load: Load, folder: Path) -> None:
        drive = Drive("nvme-tlc")
        share = load.share("journal", "metadata")
        [one] = of(FileSystem(), case_of(load, drive))
        assert isinstance(one, Useless if share < 0.05 else NotKnown)
        assert telling.share(share) in one.why
        requests = traces.load(load.path)
        kept = requests.stream != JOURNAL
        requests.stream[requests.stream == HEAP] = JOURNAL
        traces.write(requests.taken(kept), folder / "journal.parquet")
        heavy = loads.of_file(folder / "journal.parquet", "journal", None)
        [other] = of(FileSystem(), case_of(heavy, drive))
        assert isinstance(other, NotKnown)
        assert "flashwright bench" in other.how

    def test_records_are_counted_as_sets_have_them(self) -> None:
        rng = np.random.default_rng(2)
        rows = 400
        data = traces.Requests(
            np.sort(rng.integers(0, 20_000, rows)) * MS,
            np.full(rows, WRITE),
            rng.integers(0, 300, rows) * PAGE,
            rng.integers(1, 9, rows) * PAGE,
            np.full(rows, HEAP),
        )
        for size in (8192, 16384, 131072):
            wanted = {
                (at // 5_000_000_000, record)
                for at, offset, length in zip(
                    data.time_ns.tolist(), data.offset.tolist(), data.length.tolist(), strict=True
                )
                for record in range(offset // size, (offset + length - 1) // size + 1)
            }
            assert records(data, size) == len(wanted)

    def test_pages_that_are_touched_are_counted_as_sets_have_them(self) -> None:
        rng = np.random.default_rng(3)
        data = traces.Requests(
            np.arange(500),
            np.full(500, WRITE),
            rng.integers(0, 2000, 500) * 512,
            rng.integers(1, 40, 500) * 512,
            np.full(500, HEAP),
        )
        wanted = {
            page
            for offset, length in zip(data.offset.tolist(), data.length.tolist(), strict=True)
            for page in range(offset // PAGE, (offset + length - 1) // PAGE + 1)
        }
        assert _pages(data) == len(wanted)

    def test_depth_and_costs_are_those_that_the_drive_shows(self) -> None:
        found = drive_facts.reads(Drive("emmc-51"))
        assert found.random_over_sequential == pytest.approx(1.0, abs=0.05)
        assert found.enough() == 4
        assert max(found.random) / found.random[0] == pytest.approx(2.84, abs=0.1)


class TestWords:
    @pytest.mark.parametrize(
        ("name", "disk"),
        [
            ("sda1", "/dev/sda"),
            ("sda", "/dev/sda"),
            ("nvme0n1p3", "/dev/nvme0n1"),
            ("nvme0n1", "/dev/nvme0n1"),
            ("mmcblk0p2", "/dev/mmcblk0"),
            ("loop3", "/dev/loop3"),
            ("dm-0", "/dev/dm-0"),
            ("", "/dev/DISK"),
        ],
    )
    def test_a_partition_lies_on_its_disk(self, load: Load, name: str, disk: str) -> None:
        recording = {"recording": {"device": {"name": name}}}
        assert telling.disk(case_of(load, Drive("nvme-tlc"), recording=recording)) == disk

    def test_settings_are_put_back_as_they_were(self, load: Load) -> None:
        recorded = {
            "max_wal_size": str(GIB),
            "checkpoint_timeout": "300.0",
            "full_page_writes": "True",
        }
        case = case_of(load, Drive("nvme-tlc"), settings=recorded)
        wanted = dict.fromkeys([*recorded, "commit_delay"], "x")
        lines = " ".join(server_settings.put_back(case, wanted))
        for part in ("'1048576kB'", "'300000ms'", "'on'", "RESET commit_delay"):
            assert part in lines

    @pytest.mark.parametrize("bytes_", [1 << 20, 300 << 20, GIB, 48 * GIB])
    def test_sizes_are_those_that_postgresql_reads(self, bytes_: int) -> None:
        assert as_job({"max_wal_size": server_settings.as_size(bytes_)}) == {"max_wal_size": bytes_}


class TestDevice:
    def test_says_what_advice_needs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        disk = tmp_path / "nvme0n1"
        part = disk / "nvme0n1p1"
        (disk / "queue").mkdir(parents=True)
        (disk / "device").mkdir()
        part.mkdir()
        (disk / "device" / "model").write_text("Micron_7450_MTFDKBG960TFR              \n")
        facts = {
            "write_cache": "write back",
            "read_ahead_kb": "128",
            "nr_requests": "1023",
            "discard_granularity": "4096",
            "discard_max_bytes": "0",
            "atomic_write_unit_max_bytes": "16384",
            "scheduler": "[none] mq-deadline",
        }
        for name, text in facts.items():
            (disk / "queue" / name).write_text(f"{text}\n")
        for place in (disk, part):
            (place / "size").write_text("2048\n")
        (part / "start").write_text("2048\n")
        for place in (disk, part):
            monkeypatch.setattr(BlockDevice, "sys", place)
            monkeypatch.setattr("flashwright.recording.device.used_bytes", lambda _: None)
            said = BlockDevice(place.name, "259:1").about()
            assert said["model"] == "Micron_7450_MTFDKBG960TFR"
            assert said["write_cache"] == "write back"
            assert said["scheduler"] == "none"
            assert said["read_ahead_kb"] == 128
            assert said["discard_max_bytes"] == 0
            assert said["atomic_write_unit_max_bytes"] == 16384
