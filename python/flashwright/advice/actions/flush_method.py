"""How InnoDB opens and flushes its files."""

from __future__ import annotations

from flashwright.advice.innodb import OfInnodb

FLUSH_METHOD = OfInnodb(
    "flush_method",
    ("Which innodb_flush_method?",),
    "Another innodb_flush_method",
    "O_DIRECT_NO_FSYNC loses what the drive's cache holds, unless it has power-loss protection.",
    OfInnodb.again("innodb_flush_method = O_DIRECT"),
)
