"""Traces that come with Flashwright.

`traces/README.md` says what is in them, and where from.
"""

from pathlib import Path

TRACES = Path(__file__).parent / "traces"
TPCC = TRACES / "tpcc_postgres"
"""TPC-C on PostgreSQL, 19 minutes of it: a recording with its requests and what each is for."""
TPCC_REQUESTS = TPCC / "requests.parquet"
