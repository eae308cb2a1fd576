"""Actions of advice: what they say of cases of every kind, and what they never do."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advice_cases import (
    COMMITS,
    GIB,
    Known,
    candidates,
    case_of,
    of,
    trace,
)
from flashwright._core import InputError
from flashwright._text import span
from flashwright.advice import drive_facts, questions
from flashwright.advice.action import (
    Candidate,
    Lost,
    NotKnown,
    Told,
    Useless,
)
from flashwright.advice.actions import ALL
from flashwright.advice.actions.checkpoints import SEEN, Checkpoints
from flashwright.advice.actions.commit_delay import CommitDelay
from flashwright.advice.actions.full_page_writes import FullPageWrites
from flashwright.advice.actions.handles import Handles
from flashwright.advice.actions.layers import Layers
from flashwright.advice.actions.log_apart import LogApart
from flashwright.advice.actions.placement import Placement
from flashwright.advice.actions.power_loss import PowerLoss
from flashwright.advice.actions.smart import Smart
from flashwright.advice.actions.spare import Spare
from flashwright.advice.actions.synchronous import Synchronous
from flashwright.advice.actions.synchronous_commit import SynchronousCommit
from flashwright.advice.actions.trim import Trim
from flashwright.advice.actions.wal_compression import WalCompression
from flashwright.advice.case import Case
from flashwright.advice.engine import Engine
from flashwright.advice.gain import gain_of
from flashwright.advice.load import Load
from flashwright.advice.loop import Loop
from flashwright.advice.setup import Drive, Setup
from flashwright.advice.what_ifs import as_job
from flashwright.slices.disk import Disk
from support import ROOT

ACTIONS = ROOT / "python" / "flashwright" / "advice" / "actions"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loads")


@pytest.fixture(scope="module")
def load(folder: Path) -> Load:
    return trace(folder / "load.parquet", purposes=True, flushes=True, trims=True)


@pytest.fixture(scope="module")
def family(folder: Path) -> dict[str, Case]:
    """Cases that differ in all that may be known or not."""
    made: dict[str, Case] = {}
    drives = (
        Drive("emmc-51", (), GIB, 0.9),
        Drive("nvme-tlc"),
        Drive("micron-7450-pro", (), 8 * GIB, 1.0),
        Drive("mtron-pro-7500", (), 4 * GIB, None),
    )
    settings = {
        "postgres": {
            "checkpoint_timeout": "300.0",
            "max_wal_size": str(GIB),
            "wal_compression": "off",
        },
        "sqlite": {"journal_mode": "delete", "synchronous": "2", "page_size": "4096"},
    }
    flags = itertools.product((True, False), repeat=2)
    for number, (purposes, flushes) in enumerate(flags):
        path = folder / f"family-{number}.parquet"
        found = trace(path, purposes=purposes, flushes=flushes, trims=number % 2 == 0, long_s=4000)
        for database, drive in itertools.product(("postgres", "sqlite", "mysql", None), drives):
            key = f"{database}/{drive.profile}/{'' if purposes else 'no '}purposes/" + (
                "flushes" if flushes else "no flushes"
            )
            rich = number == 0
            known: dict[str, Any] = {"database": database}
            if rich:
                known |= {
                    "settings": settings.get(database or "", {}),
                    "what_ifs": Known(found),
                    "loop": Loop(8, 200.0, 0.003, 0.002),
                    "writes_per_day": 40e9,
                    "rate_said": "as asked",
                    "database_path": "/srv/db",
                    "recording": {
                        "recording": {
                            "device": {"name": "nvme0n1p2", "start_bytes": 1 << 20},
                            "file_system": {"type": "ext4", "options": "rw,discard"},
                        }
                    },
                    "counters": {"after": {"host_written_bytes": 10**13, "percentage_used": 7}},
                }
            if not flushes:
                known["commits"] = None
            made[key] = case_of(
                replace(found, disk=Disk(GIB, 0.5) if rich else None), drive, **known
            )
    made["refused"] = replace(
        made["postgres/emmc-51/purposes/flushes"],
        what_ifs=Known(made["postgres/emmc-51/purposes/flushes"].load, "its log does not fit"),
    )
    made["nothing amplified"] = case_of(found, drives[0], 1.0)
    wal = replace(made["sqlite/emmc-51/purposes/flushes"], settings={"journal_mode": "wal"})
    made["sqlite with a log"] = wal
    return made


class TestAll:
    def test_each_case_is_answered_and_each_change_names_what_it_takes(
        self, family: dict[str, Case]
    ) -> None:
        """Over all actions and cases: bar 4 of what advice has to hold."""
        kinds = set()
        for key, case in family.items():
            names = set()
            for action in ALL:
                for one in of(action, case):
                    kinds.add(type(one))
                    where = f"{key}: {one}"
                    assert one.action == action.NAME, where
                    if isinstance(one, Candidate):
                        assert one.name not in names, where
                        names.add(one.name)
                        self._check(one, case, where)
                    elif isinstance(one, Told):
                        assert re.search(r"\d", one.says), where
                    else:
                        assert one.what, where
                        assert one.why, where
                        if isinstance(one, NotKnown):
                            assert one.how, where
                        else:
                            assert re.search(r"\d", one.why), where
        assert kinds == {Candidate, Useless, NotKnown, Told}

    @staticmethod
    def _check(one: Candidate, case: Case, where: str) -> None:
        assert one.cost, where
        assert one.do, where
        assert one.undo, where
        assert re.search(r"\d", one.why), where
        assert one.what[0].isupper(), where
        assert not one.what.endswith("."), where
        assert one.loss.says, where
        assert (one.loss.says == "none") == (one.loss.level is Lost.NONE), where
        after = one.changed(case.base)
        assert after != case.base or case.what_ifs is None, where
        # What others have changed before stays, but for what replaces the rest.
        kept = one.changed(case.base.changed(stack="scheduler(coalesce)", trims=False))
        assert not kept.trims, where
        assert kept.stack is not None, where

    def test_actions_have_names_and_files_of_their_own(self) -> None:
        names = [action.NAME for action in ALL]
        assert len(set(names)) == len(names)
        assert sorted(names) == sorted(
            path.stem for path in ACTIONS.glob("*.py") if path.stem != "__init__"
        )

    def test_each_question_that_people_ask_is_answered_by_some_action(self) -> None:
        assert len(questions.PEOPLE_ASK) == 20
        found = questions.answered_by(ALL)
        assert [question for question, actions in found.items() if not actions] == []
        assert list(found)[:20] == list(questions.PEOPLE_ASK)
        asked = [question for action in ALL for question in action.QUESTIONS]
        assert all(question.endswith("?") for question in asked)

    def test_the_page_of_the_docs_has_them_all(self) -> None:
        page = (ROOT / "docs" / "reference" / "actions.md").read_text()
        for action in ALL:
            assert f"actions/{action.NAME}.py" in page, "out of date: run `make readme`"
        for question in questions.PEOPLE_ASK:
            assert f"| {question} |" in page


class TestWithoutItsLog:
    @pytest.mark.parametrize("name", ["checkpoints", "wal_compression", "shared_buffers"])
    def test_what_other_settings_do_is_not_known_and_the_command_says_how(
        self, load: Load, name: str
    ) -> None:
        action = next(one for one in ALL if name == one.NAME)
        for what_ifs in (None, Known(load, "its log is short")):
            found = of(
                action,
                case_of(load, Drive("emmc-51", (), GIB), database="postgres", what_ifs=what_ifs),
            )
            [one] = [one for one in found if isinstance(one, NotKnown)]
            assert not candidates(found)
            assert "flashwright record --database postgres" in one.how
            assert ("its log is short" in one.why) == (what_ifs is not None)

    def test_a_setting_that_cannot_be_told_raises_only_when_it_is_made(self, load: Load) -> None:
        class Refuses(Known):
            def load(self, *_: object) -> Load:
                raise InputError("no such relation")

        case = case_of(load, Drive("emmc-51", (), GIB), database="postgres", what_ifs=Refuses(load))
        [*_, one] = candidates(of(WalCompression(), case))
        with pytest.raises(InputError, match="no such relation"):
            one.changed(case.base)


class TestFullPageWrites:
    def case(self, load: Load, **file_system: Any) -> Case:
        return case_of(
            load,
            Drive("nvme-tlc"),
            database="postgres",
            what_ifs=Known(load),
            recording={"recording": {"file_system": file_system}},
        )

    @pytest.mark.parametrize(
        "file_system",
        [
            {},
            {"type": "ext4"},
            {"type": "xfs"},
            {"type": "zfs"},
            {"type": "zfs", "record_bytes": 4096},
            {"type": "btrfs", "record_bytes": 4096},
            {"type": "btrfs", "record_bytes": 16384, "options": "rw,nodatacow"},
        ],
    )
    def test_off_loses_the_database_unless_pages_are_known_to_be_written_whole(
        self, load: Load, file_system: dict[str, Any]
    ) -> None:
        [one] = candidates(of(FullPageWrites(), self.case(load, **file_system)))
        assert one.loss.level is Lost.ANY
        assert "damaged" in one.loss.says

    def test_off_is_free_where_whole_records_are_copied(self, load: Load) -> None:
        case = self.case(load, type="zfs", record_bytes=131072)
        [one] = candidates(of(FullPageWrites(), case))
        assert one.loss.level is Lost.NONE
        assert any("131072" in said for said in one.assumes)

    def test_in_no_case_of_the_family_with_a_lower_loss(self, family: dict[str, Case]) -> None:
        found = [one for case in family.values() for one in candidates(of(FullPageWrites(), case))]
        assert found
        assert all(one.loss.level is Lost.ANY for one in found)


class TestCheckpoints:
    def case(self, load: Load, seconds: float, **settings: str) -> Case:
        longer = replace(load, seconds=seconds)
        return case_of(
            longer,
            Drive("nvme-tlc"),
            database="postgres",
            what_ifs=Known(longer),
            settings=settings,
        )

    def test_only_intervals_that_the_recording_holds_twice_are_tried(self, load: Load) -> None:
        found = of(Checkpoints(), self.case(load, 3600.0, checkpoint_timeout="300"))
        assert [one.name for one in candidates(found)] == [
            "checkpoints(15min)",
            "checkpoints(30min)",
        ]
        [rest] = [one for one in found if isinstance(one, NotKnown)]
        assert f"--for {SEEN * 60}m" in rest.how

    def test_those_of_a_short_recording_are_multiples_of_a_short_interval(self, load: Load) -> None:
        found = candidates(of(Checkpoints(), self.case(load, 600.0, checkpoint_timeout="30")))
        names = [one.name for one in found]
        assert names == ["checkpoints(90s)", "checkpoints(3min)"]

    def test_the_log_has_room_for_the_interval(self, load: Load) -> None:
        """By a plain reckoning: log of the interval, and what is left of the one before."""
        case = self.case(load, 3600.0, checkpoint_timeout="300", max_wal_size="16777216")
        rate = load.written_by["wal"] / 3600.0
        for one in candidates(of(Checkpoints(), case)):
            made = as_job(one.settings)["max_wal_size"]
            text = one.settings["checkpoint_timeout"]
            seconds = {"h": 3600, "n": 60, "s": 1}[text[-1]] * int(re.sub(r"\D", "", text))
            assert isinstance(made, int)
            assert made >= rate * seconds * 1.9
            assert "16384kB" in one.undo[1]


class TestCommits:
    def test_a_delay_shows_in_the_latency(self, load: Load, tmp_path: Path) -> None:
        case = case_of(
            load,
            Drive("emmc-51", (), GIB, 0.9),
            database="postgres",
            loop=Loop(8, 10, 0.003, 0.002),
        )
        engine = Engine(None, seconds_each=1.0)
        try:
            case = replace(case, figures=engine.figures(case.base))
            one = candidates(of(CommitDelay(), case))[-1]
            after = one.changed(case.base)
            found = engine.figures(after)
            alone = engine.figures(after.changed(waits=0.0))
        finally:
            engine.close()
        assert found.commits is not None
        assert alone.commits is not None
        assert after.waits
        assert found.commits.p99 == pytest.approx(alone.commits.p99 + after.waits)
        assert gain_of(case, found).latency > gain_of(case, alone).latency
        assert one.loss.level is Lost.NONE

    def test_one_client_has_nobody_to_wait_for(self, load: Load) -> None:
        case = case_of(load, Drive("nvme-tlc"), database="postgres", loop=Loop(1, 10, 0.01, 0.01))
        [one] = of(CommitDelay(), case)
        assert isinstance(one, Useless)

    def test_commits_that_do_not_wait_take_no_time_and_lose_seconds(self, load: Load) -> None:
        for what_ifs in (None, Known(load)):
            case = case_of(
                load,
                Drive("nvme-tlc"),
                database="postgres",
                what_ifs=what_ifs,
                settings={"wal_writer_delay": "0.5"},
            )
            [one] = candidates(of(SynchronousCommit(), case))
            after = one.changed(case.base)
            assert after.waits is None
            assert after.merge_seconds == (0.5 if what_ifs is None else 0.0)
            assert one.loss.level is Lost.SECONDS
            assert "1.50 s" in one.loss.says
        assert COMMITS.waiting(None).p99 == 0.0

    def test_sqlite_says_how_long_ago_commits_may_be_lost(self, load: Load) -> None:
        case = case_of(
            load,
            Drive("nvme-tlc"),
            database="sqlite",
            what_ifs=Known(load),
            settings={"journal_mode": "wal", "synchronous": "full"},
        )
        [one] = candidates(of(Synchronous(), case))
        per_checkpoint = 1000 * (4096 + 24) / (load.written_by["wal"] / load.seconds)
        assert one.loss.level is Lost.SECONDS
        assert span(per_checkpoint) in one.loss.says

    def test_normal_without_a_log_comes_with_one(self, load: Load) -> None:
        case = case_of(
            load,
            Drive("nvme-tlc"),
            database="sqlite",
            what_ifs=Known(load),
            settings={"journal_mode": "delete", "synchronous": "full"},
        )
        [one] = candidates(of(Synchronous(), case))
        assert one.settings == {"journal_mode": "wal", "synchronous": "normal"}


class TestDrive:
    def test_spare_space_is_offered_only_where_data_are_moved(self, load: Load) -> None:
        drive = Drive("emmc-51", (), GIB, 0.9)
        assert [one.name for one in candidates(of(Spare(), case_of(load, drive, 2.0)))] == [
            "spare(15 %)",
            "spare(28 %)",
        ]
        [little] = of(Spare(), case_of(load, drive, 1.01))
        assert isinstance(little, Useless)
        [none] = of(Spare(), case_of(load, Drive("mtron-pro-7500", (), GIB), 5.0))
        assert isinstance(none, Useless)
        for one in candidates(of(Spare(), case_of(load, drive, 2.0))):
            assert any(line.startswith("blkdiscard") for line in one.do)
            assert one.changed(Setup(load, replace(drive, fill=0.5))).drive.fill == 0.5

    def test_trims_are_looked_at_from_both_sides(self, load: Load, folder: Path) -> None:
        drive = Drive("emmc-51", (), GIB, 1.0)
        told, off, weekly = of(
            Trim(), case_of(replace(load, disk=Disk(GIB, 0.6)), drive, writes_per_day=1e9)
        )
        assert isinstance(told, Told)
        assert isinstance(off, Candidate)
        assert not off.changed(Setup(load, drive)).trims
        assert isinstance(weekly, Candidate)
        assert weekly.changed(Setup(load, drive)).drive.fill == 0.6
        without = trace(folder / "no-trims.parquet", purposes=True, flushes=True, trims=False)
        [unknown] = of(Trim(), case_of(without, drive))
        assert isinstance(unknown, NotKnown)
        assert "--fill" in unknown.how
        recording = {"recording": {"device": {"discard_max_bytes": 0}}}
        [none] = of(Trim(), case_of(load, drive, recording=recording))
        assert isinstance(none, Useless)

    def test_handles_need_superblocks_and_a_log_that_is_known(
        self, load: Load, folder: Path
    ) -> None:
        micron = Drive("micron-7450-pro", (), 8 * GIB, 0.9)
        [one] = of(Handles(), case_of(load, micron))
        assert isinstance(one, Candidate)
        after = one.changed(Setup(load, micron))
        assert after.handles
        assert "fdp.handles=2" in after.drive.overrides
        [no] = of(Handles(), case_of(load, Drive("nvme-tlc")))
        assert isinstance(no, Useless)
        bare = trace(folder / "bare.parquet", purposes=False, flushes=True, trims=False)
        [unknown] = of(Handles(), case_of(bare, micron))
        assert isinstance(unknown, NotKnown)

    def test_power_loss_protection_goes_by_the_share_of_the_flush(self, load: Load) -> None:
        drive = Drive("nvme-tlc")
        one, never = of(PowerLoss(), case_of(load, drive))
        assert isinstance(one, Candidate)
        assert isinstance(never, Useless)
        assert "never" in never.why
        assert drive_facts.is_protected(one.changed(Setup(load, drive)).drive)
        small = replace(COMMITS, flush_mean=COMMITS.mean * 0.01)
        assert not candidates(of(PowerLoss(), case_of(load, drive, commits=small)))
        assert not candidates(of(PowerLoss(), case_of(load, Drive("samsung-pm9a3"))))

    def test_smart_says_what_is_counted_and_else_which_command(self, load: Load) -> None:
        after = {
            "host_written_bytes": 10**12,
            "media_written_bytes": 3 * 10**12,
            "percentage_used": 10,
            "power_on_hours": 8766,
        }
        [told] = of(Smart(), case_of(load, Drive("nvme-tlc"), counters={"after": after}))
        assert isinstance(told, Told)
        assert "3.00 bytes for each" in told.says
        assert "the rest lasts 9.0 years" in told.says
        [unknown] = of(Smart(), case_of(load, Drive("nvme-tlc")))
        assert isinstance(unknown, NotKnown)
        assert "smartctl" in unknown.how

    def test_layers_are_offered_where_writes_at_random_are_slow(self, load: Load) -> None:
        slow = of(Layers(), case_of(load, Drive("sd-card", (), GIB)))
        assert len(candidates(slow)) >= 5
        for one in candidates(slow):
            assert any("flashwright volume create" in line for line in one.do)
            assert any("risk" in said for said in one.assumes)
        [none] = of(Layers(), case_of(load, Drive("emmc-51", (), GIB)))
        assert isinstance(none, Useless)

    @pytest.mark.parametrize("action", [Handles(), PowerLoss(), Placement(), Spare(), LogApart()])
    def test_what_is_offered_can_be_simulated(self, load: Load, action: Any) -> None:
        profiles = {"handles": "micron-7450-pro", "power_loss": "nvme-tlc"}
        drive = Drive(profiles.get(action.NAME, "emmc-51"), (), 2 * GIB, 0.95)
        engine = Engine(None, seconds_each=0.5)
        try:
            found = candidates(of(action, case_of(load, drive)))
            assert found
            for one in found:
                figures = engine.figures(one.changed(Setup(load, drive)))
                assert figures.host_bytes > 0
                assert figures.commits is not None
        finally:
            engine.close()
