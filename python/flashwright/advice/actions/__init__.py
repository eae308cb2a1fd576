"""Actions of advice, one file each, and their list: an action is found where it stands there."""

from __future__ import annotations

from collections.abc import Sequence

from flashwright.advice.action import Action
from flashwright.advice.actions.alignment import Alignment
from flashwright.advice.actions.autocheckpoint import Autocheckpoint
from flashwright.advice.actions.background_writer import BackgroundWriter
from flashwright.advice.actions.checkpoints import Checkpoints
from flashwright.advice.actions.commit_delay import CommitDelay
from flashwright.advice.actions.doublewrite import DOUBLEWRITE
from flashwright.advice.actions.file_system import FileSystem
from flashwright.advice.actions.flush_method import FLUSH_METHOD
from flashwright.advice.actions.full_page_writes import FullPageWrites
from flashwright.advice.actions.handles import Handles
from flashwright.advice.actions.heap import Heap
from flashwright.advice.actions.io_scheduler import IoScheduler
from flashwright.advice.actions.journal import Journal
from flashwright.advice.actions.larger_transactions import LargerTransactions
from flashwright.advice.actions.layers import Layers
from flashwright.advice.actions.log_apart import LogApart
from flashwright.advice.actions.log_fast_enough import LogFastEnough
from flashwright.advice.actions.other_drive import OtherDrive
from flashwright.advice.actions.page_size import PageSize
from flashwright.advice.actions.placement import Placement
from flashwright.advice.actions.power_loss import PowerLoss
from flashwright.advice.actions.queue_depth import QueueDepth
from flashwright.advice.actions.read_ahead import ReadAhead
from flashwright.advice.actions.record_size import RecordSize
from flashwright.advice.actions.redo import REDO
from flashwright.advice.actions.shared_buffers import SharedBuffers
from flashwright.advice.actions.smart import Smart
from flashwright.advice.actions.spare import Spare
from flashwright.advice.actions.synchronous import Synchronous
from flashwright.advice.actions.synchronous_commit import SynchronousCommit
from flashwright.advice.actions.trim import Trim
from flashwright.advice.actions.wal_compression import WalCompression
from flashwright.advice.actions.who_writes import WhoWrites

ALL: Sequence[Action] = (
    # What the answer begins with.
    WhoWrites(),
    LogFastEnough(),
    Smart(),
    # The drive, in the order in which changes are simulated where time is short.
    LogApart(),
    Spare(),
    Trim(),
    Handles(),
    # PostgreSQL.
    Checkpoints(),
    WalCompression(),
    FullPageWrites(),
    SharedBuffers(),
    SynchronousCommit(),
    CommitDelay(),
    Heap(),
    BackgroundWriter(),
    # SQLite.
    Journal(),
    Synchronous(),
    Autocheckpoint(),
    LargerTransactions(),
    PageSize(),
    # MySQL.
    DOUBLEWRITE,
    FLUSH_METHOD,
    REDO,
    # The system.
    FileSystem(),
    Alignment(),
    IoScheduler(),
    ReadAhead(),
    QueueDepth(),
    RecordSize(),
    # Layers.
    Layers(),
    # What replaces the rest: it is simulated last, if the time suffices.
    PowerLoss(),
    OtherDrive(),
    Placement(),
)
