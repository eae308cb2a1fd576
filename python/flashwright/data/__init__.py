"""Traces that come with Flashwright; `traces/README.md` says what is in them, and where from."""

from pathlib import Path

TRACES = Path(__file__).parent / "traces"
TPCC = TRACES / "tpcc_postgres.parquet"
"""TPC-C on PostgreSQL, 19 minutes of it, below the file system; `TPCC` with `.json` tells more."""
TPCC_DATA = TRACES / "tpcc_postgres_data.parquet"
"""The same load, as the device of the data alone got it: the log lay elsewhere."""
