"""A drive has the size of the disk that a trace is from, and is simulated as a slice of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flashwright import Cancelled, InputError, _core, drive_runs, slice_words, slices
from flashwright.devices import DriveProfile
from flashwright.slices import Effort, Part, SizeAsked
from flashwright.slices import cut as cutting
from flashwright.slices.cut import STRIPE_BYTES, Survey
from flashwright.slices.disk import Disk, disk_of
from flashwright.slices.geometry import drive_of, is_page_mapped
from flashwright.slices.sized import BUDGET_BYTES, BUDGET_SECONDS, _Cost
from flashwright.sources import Reading
from support import Cli

GIB, KIB = 1 << 30, 1 << 10
PROFILES = [profile["name"] for profile in _core.variants("profile")]
PAGE_MAPPED = [name for name in PROFILES if is_page_mapped(DriveProfile.load(name))]
Requests = list[tuple[str, int, int]]


def nothing() -> None:
    """Let it go on."""


def write(path: Path, requests: Requests, step_ns: int = 1000) -> Path:
    """Write requests (operation, offset, length) as a trace."""
    ops, offsets, lengths = zip(*requests, strict=True)
    number = len(requests)
    table = pa.table(
        {
            "time_ns": pa.array(np.arange(number) * step_ns, pa.uint64()),
            "op": pa.array(ops).dictionary_encode(),
            "offset": pa.array(offsets, pa.uint64()),
            "length": pa.array(lengths, pa.uint32()),
            "stream": pa.array(np.zeros(number), pa.uint32()),
            "latency_ns": pa.nulls(number, pa.uint64()),
        }
    )
    pq.write_table(table, path)
    return path


def surveyed(path: Path) -> Survey:
    return cutting.survey(str(path), Reading(), Part(), STRIPE_BYTES, nothing)


def cut_of(path: Path, count: int, slice_bytes: int = 1 << 40) -> Requests:
    """Give what of a trace is on a slice."""
    target = path.with_name("cut.parquet")
    found = surveyed(path)
    cutting.cut(str(path), Reading(), Part(), found, count, slice_bytes, target, nothing)
    rows = pq.read_table(target).to_pylist()
    return [(row["op"], row["offset"], row["length"]) for row in rows]


def recording(folder: Path, requests: Requests, size_bytes: int, used_bytes: int | None) -> Path:
    """Make the folder of a recording, as far as slices look at it."""
    folder.mkdir()
    write(folder / "requests.parquet", requests)
    device = {"name": "sdx", "size_bytes": size_bytes, "used_bytes": used_bytes}
    about = {"command": "record", "recording": {"device": device}}
    (folder / "result.json").write_text(json.dumps(about))
    return folder


def some(number: int, stride: int = GIB) -> Requests:
    """Give requests that are spread over a large disk."""
    return [("write" if k % 3 else "read", k % 60 * stride, 8 * KIB) for k in range(number)]


def test_a_whole_drive_gets_all_requests_side_by_side(tmp_path: Path) -> None:
    """Requests that lie together stay so, in order; flushes stay; trims as far as they cover it."""
    far = 100 * GIB
    requests: Requests = [
        ("write", far, 100 * KIB),
        ("read", 4 * KIB, 8 * KIB),
        ("flush", 0, 0),
        ("trim", 0, GIB),
        ("trim", 50 * GIB, GIB),
    ]
    assert cut_of(write(tmp_path / "t", requests), 1) == [
        ("write", STRIPE_BYTES, 100 * KIB),
        ("read", 4 * KIB, 8 * KIB),
        ("flush", 0, 0),
        ("trim", 0, STRIPE_BYTES),
    ]


def test_each_frequency_of_overwriting_has_its_share_of_a_slice() -> None:
    """Otherwise the slice would have other garbage in its erase blocks than the drive."""
    random = np.random.default_rng(1)
    often = random.permutation(np.repeat([1.0, 10.0, 100.0], [6400, 3200, 1600]))
    found = Survey(STRIPE_BYTES, np.arange(11_200, dtype=np.uint64), often, 100_000, 0)
    kept, is_hot = cutting.chosen(found, 16, GIB)
    assert not is_hot.any()
    numbers = [int((often[kept.astype(int)] == one).sum()) for one in (1, 10, 100)]
    assert numbers == pytest.approx([400, 200, 100], abs=1)


def test_the_stripes_that_are_written_most_stay_with_a_part_of_their_writes(
    tmp_path: Path,
) -> None:
    """A journal's stripe takes the same share of a slice's writes as of the drive's."""
    requests: Requests = []
    for k in range(40_000):
        requests.append(("write", 0, 4 * KIB))
        requests.append(("write", (1 + k % 4000) * STRIPE_BYTES, 4 * KIB))
    kept = cut_of(write(tmp_path / "t", requests), 8)
    at_first = sum(offset < STRIPE_BYTES for _, offset, _ in kept)
    assert at_first == pytest.approx(5000, rel=0.05)
    assert len(kept) == pytest.approx(10_000, rel=0.05)


def test_a_request_keeps_what_of_it_is_on_the_slice(tmp_path: Path) -> None:
    long: Requests = [("write", k * 64 * STRIPE_BYTES, 64 * STRIPE_BYTES) for k in range(64)]
    kept = cut_of(write(tmp_path / "t", long), 4)
    assert {length for _, _, length in kept} == {16 * STRIPE_BYTES}
    assert len(kept) == len(long)


def test_as_many_requests_come_in_a_second_on_a_slice(tmp_path: Path) -> None:
    path = write(tmp_path / "t", [("write", k * STRIPE_BYTES, 4 * KIB) for k in range(4000)])
    target, found = tmp_path / "cut", surveyed(path)
    cutting.cut(str(path), Reading(), Part(), found, 4, 1 << 40, target, nothing)
    times = pq.read_table(target)["time_ns"].to_numpy()
    whole = pq.read_table(path)["time_ns"].to_numpy()
    rates = [len(one) / np.ptp(one) for one in (times, whole)]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("gib", [0.0625, 1, 8, 100])
def test_a_profile_takes_any_size_and_keeps_its_dies(profile: str, gib: float) -> None:
    own = DriveProfile.load(profile)
    made = drive_of(own, gib * GIB)
    for key in ("dies", "channels", "planes", "page_bytes"):
        assert made.summary[key] == own.summary[key]
    assert made.capacity_bytes >= gib * GIB * 0.999
    if gib >= 8:
        assert made.capacity_bytes == pytest.approx(gib * GIB, rel=0.01)
        assert made.over_provisioning == pytest.approx(own.over_provisioning, rel=0.05)


def test_space_that_holds_nothing_is_spare() -> None:
    own = DriveProfile.load("samsung-pm9a3")
    full, half = drive_of(own, 8 * GIB), drive_of(own, 8 * GIB, 0.5)
    assert half.summary["physical_pages"] == full.summary["physical_pages"]
    assert half.capacity_bytes == pytest.approx(full.capacity_bytes / 2, rel=1e-3)


def amplification(path: Path, size_bytes: int, count: int) -> float:
    own, effort = DriveProfile.load("samsung-pm9a3"), Effort(capacities_written=3.0)
    asked = SizeAsked(size_bytes, 1.0, count)
    sized = slices.take(own, str(path), Reading(), asked, effort)
    source = {"of": sized.source, "repeat": sized.plays or 1}
    warm_up = (drive_runs.load(sized.device.toml, source).requests or 0) // 2
    found = drive_runs.run(sized.device.toml, source, warm_up=warm_up)
    return float(found["write_amplification"])


def test_slices_amplify_as_the_whole_drive_does(tmp_path: Path) -> None:
    """Hot and cold data, a log that is written again and again: docs/profiles.md has more."""
    random = np.random.default_rng(2)
    disk, number = 4 * GIB, 250_000
    pages = int(disk * 0.85) // (8 * KIB)
    hot = random.random(number) < 0.7
    page: npt.NDArray[Any] = np.where(
        hot, random.integers(0, pages // 5, number), random.integers(0, pages, number)
    )
    # Hot pages lie anywhere.
    offsets = page * 2654435761 % pages * (8 * KIB)
    is_log = np.arange(number) % 4 == 0
    offsets[is_log] = int(disk * 0.9) // STRIPE_BYTES * STRIPE_BYTES + (
        np.arange(int(is_log.sum())) * 8 * KIB % (32 << 20)
    )
    path = write(tmp_path / "t", [("write", int(offset), 8 * KIB) for offset in offsets])
    whole, part = (amplification(path, disk, count) for count in (1, 4))
    assert whole > 1.5, "nothing was cleaned, so nothing is compared"
    assert part == pytest.approx(whole, rel=0.06)


@pytest.mark.parametrize("profile", PAGE_MAPPED)
@pytest.mark.parametrize("gib", [64, 256, 2000, 16_000])
@pytest.mark.parametrize(
    "effort",
    [Effort(), Effort(capacities_written=3.0), Effort(state="aged", overwrites=2.0, at_once=2)],
    ids=["played", "amplification", "aged"],
)
def test_an_hour_takes_no_more_time_and_memory_than_it_may(
    profile: str, gib: int, effort: Effort
) -> None:
    stripes = np.arange(400_000, dtype=np.uint64)
    hour = Survey(STRIPE_BYTES, stripes, np.full(len(stripes), 200e9 / len(stripes)), 18_000_000, 0)
    cost = _Cost(DriveProfile.load(profile), hour, gib * GIB, effort)
    count, _ = cost.slices()
    plays = min(cost.plays, cost.most_plays(count))
    assert cost.memory(count) <= BUDGET_BYTES
    assert cost.seconds(count, plays) <= BUDGET_SECONDS * 1.01


def test_what_would_take_too_long_is_cut_short_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashwright.slices.sized.BUDGET_SECONDS", 0.002)
    path = write(tmp_path / "t", some(5000, STRIPE_BYTES))
    own = DriveProfile.load("samsung-pm9a3")
    sized = slices.take(own, str(path), Reading(), SizeAsked(2 * GIB), Effort(state="fresh"))
    found = sized.device.slice
    assert found is not None
    assert found["taken_of"] < found["requests_of"] == 5000
    assert any("were played" in line for line in slice_words.lines(found))
    asked = SizeAsked(2 * GIB, slices=1)
    sized = slices.take(own, str(path), Reading(), asked, Effort(state="fresh"))
    assert sized.device.slice is not None
    assert sized.device.slice["taken_of"] == 5000


def test_the_reading_of_a_trace_can_be_stopped(tmp_path: Path) -> None:
    path = write(tmp_path / "t", some(9))
    stopper = cutting.Stopper()
    stopper.cancel()
    with pytest.raises(Cancelled):
        cutting.survey(str(path), Reading(), Part(), STRIPE_BYTES, stopper.check)


def test_a_trace_of_several_volumes_is_no_disk(tmp_path: Path) -> None:
    lines = [f"{128166372000000000 + 1000 * n},prxy,{n % 2},Write,0,4096,100" for n in range(9)]
    (tmp_path / "prxy.csv").write_text("\n".join(lines))
    with pytest.raises(InputError, match="is of 2 volumes"):
        slices.take(
            DriveProfile.load("a16"), str(tmp_path / "prxy.csv"), Reading(), SizeAsked(8 * GIB)
        )


def test_only_a_recording_knows_its_disk(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec", some(9), 256 * GIB, 64 * GIB)
    assert disk_of(str(folder / "requests.parquet")) == Disk(256 * GIB, 0.25)
    assert disk_of(str(write(tmp_path / "requests.parquet", some(9)))) is None
    own = DriveProfile.load("nvme-tlc")
    other = write(tmp_path / "other.parquet", some(9))
    assert slices.take(own, str(other), Reading()).device is own
    inside = str(folder / "requests.parquet")
    assert slices.take(own, inside, Reading(), SizeAsked("own")).device is own
    by_hand = DriveProfile.load("nvme-tlc", ["media.erase_blocks_per_plane=64"])
    assert slices.take(by_hand, inside, Reading()).device is by_hand


def test_a_fill_that_is_not_known_is_taken_as_full(tmp_path: Path) -> None:
    folder = recording(tmp_path / "rec", some(9), 8 * GIB, None)
    sized = slices.take(
        DriveProfile.load("samsung-pm9a3"), str(folder / "requests.parquet"), Reading()
    )
    assert sized.device.slice is not None
    assert sized.device.slice["fill"] == 1
    assert any("is not known" in line for line in slice_words.lines(sized.device.slice))


@pytest.mark.parametrize(
    ("source", "asked", "said"),
    [
        ("io:random", SizeAsked(8 * GIB), "for a trace of a disk"),
        ("synth:uniform(pages=1Ki)", SizeAsked(slices=2), "for a trace of a disk"),
        ("trace", SizeAsked(fill=0.5), "capacity"),
        ("trace", SizeAsked(8 * GIB, slices=4096), "make 128 at most"),
    ],
)
def test_a_size_that_means_nothing_is_refused(
    source: str, asked: SizeAsked, said: str, tmp_path: Path
) -> None:
    given = str(write(tmp_path / "t", some(9))) if source == "trace" else source
    with pytest.raises(InputError, match=said):
        slices.take(DriveProfile.load("samsung-pm9a3"), given, Reading(), asked)


@pytest.mark.parametrize("profile", ["nvme-tlc", "sd-card"])
def test_a_drive_is_the_same_for_a_recording_however_it_is_played(
    profile: str, tmp_path: Path, cli_json: Callable[..., Any]
) -> None:
    recording(tmp_path / "rec", some(300), 256 * GIB, 64 * GIB)
    found = [
        cli_json("play", "rec", "--on", profile, *more)["devices"][0]["slice"]
        for more in ([], ["--pace", "open"], ["--stack", "scheduler(defer)"])
    ]
    keys = ("disk_bytes", "size_from", "fill_from", "stripe_bytes")
    assert [[one[key] for key in keys] for one in found] == [[found[0][key] for key in keys]] * 3
    assert found[0]["disk_bytes"] == 256 * GIB
    ways = [one["way"] for one in found]
    # Several drives at once take more memory than one may.
    expected = ["packed"] * 3 if profile == "sd-card" else ["whole"] * 2 + ["sampled"]
    assert ways == expected


def test_a_slice_is_said_in_words_and_can_be_chosen(tmp_path: Path, cli: Cli) -> None:
    recording(tmp_path / "rec", some(3000, 2 * GIB), 256 * GIB, 64 * GIB)

    def printed(*more: str) -> str:
        drive = f"profile({', '.join(('samsung-pm9a3', *more))})"
        return cli("play", "rec", "--on", drive).stdout

    own = printed("slices=32", "fill=50%")
    assert "one of 32 slices, 8 GiB" in own
    assert "50.0 % of it holds data, from " in own
    assert "128 GiB, from " in printed("capacity=128Gi")
    assert "slices" not in printed("capacity=own")
