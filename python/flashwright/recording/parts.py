"""Takes the requests of some purposes out of a recording."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flashwright._core import InputError

LOGS = ("wal", "journal")
"""The logs of the database and of its file system: written in order, again and again."""


def write_without(folder: Path, purposes: Collection[str], output: Path) -> int:
    """Write the requests of a recording that are for none of these purposes.

    They are a trace of their own. Gives their number. Flushes are for all, and stay.

    Raises:
        InputError: the recording does not tell what its requests are for.
    """
    owners = folder / "owners.parquet"
    if not owners.exists():
        raise InputError(
            f"{folder}: this recording does not tell what its requests are for: it has no "
            f"{owners.name}"
        )
    purpose = pq.read_table(owners, columns=["purpose"])["purpose"].cast(pa.string())
    table = pq.read_table(folder / "requests.parquet")
    left_out = pc.and_(
        pc.is_in(purpose, pa.array(list(purposes))),
        pc.not_equal(table["op"].cast(pa.string()), pa.scalar("flush")),
    )
    kept = table.filter(pc.invert(left_out))
    about = {**(kept.schema.metadata or {}), b"flashwright.requests": str(kept.num_rows).encode()}
    pq.write_table(kept.replace_schema_metadata(about), output, compression="zstd")
    return int(kept.num_rows)
