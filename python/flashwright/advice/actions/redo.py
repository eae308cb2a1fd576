"""The size of InnoDB's redo log."""

from __future__ import annotations

from flashwright.advice.innodb import OfInnodb

REDO = OfInnodb(
    "redo",
    ("How large should the redo log be?",),
    "A larger redo log (innodb_redo_log_capacity)",
    "A larger one delays writes of pages, and takes longer to replay.",
    OfInnodb.again("innodb_redo_log_capacity = 4G"),
)
