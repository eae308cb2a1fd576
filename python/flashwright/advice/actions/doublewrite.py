"""InnoDB's doublewrite buffer."""

from __future__ import annotations

from flashwright.advice import questions
from flashwright.advice.innodb import OfInnodb

DOUBLEWRITE = OfInnodb(
    "doublewrite",
    (questions.DOUBLEWRITE, questions.ATOMIC_WRITES),
    "Write pages once (innodb_doublewrite = OFF)",
    "Where pages of 16 KiB are not written whole, a power cut then damages the database: it is not "
    "advised without a file system or a device that is known to.",
    OfInnodb.again("innodb_doublewrite = OFF"),
)
