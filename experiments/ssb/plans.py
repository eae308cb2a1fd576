"""Plans of queries: PostgreSQL is made to take one, and what it took is looked at.

Nothing is measured of a plan that is not the one asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.ssb.queries import FACT, Plan, Query
from experiments.ssb.schema import TREES
from flashwright._core import RunError

_ALWAYS: Mapping[str, str] = {
    # Only our own split is parallel.
    "max_parallel_workers_per_gather": "0",
    "join_collapse_limit": "1",
    "from_collapse_limit": "1",
    "jit": "off",
    "synchronize_seqscans": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
    "enable_memoize": "off",
    # A table of a dimension stays in memory.
    "work_mem": "256MB",
}
SETTINGS: Mapping[Plan, Mapping[str, str]] = {
    Plan.INDEX: {**_ALWAYS, "enable_hashjoin": "off", "enable_seqscan": "off"},
    Plan.HASH: {**_ALWAYS, "enable_nestloop": "off", "enable_indexscan": "off"},
}
"""Settings of a session that make PostgreSQL take a plan."""
_SCANS_OF_FACT = ("Seq Scan", "Tid Range Scan")
_REFUSED = ("Gather", "Gather Merge", "Materialize", "Memoize", "Merge Join")


def check(explained: Mapping[str, Any], query: Query, plan: Plan) -> None:
    """Make sure that EXPLAIN's tree of nodes is the plan that is asked for.

    Raises:
        RunError: it is another one; the message says what is wrong with it.
    """
    nodes = list(_nodes(explained))
    for node in nodes:
        if node["Node Type"] in _REFUSED:
            raise _wrong(query, plan, f"it has a node {node['Node Type']}")
    joins = [node for node in nodes if "Join Type" in node]
    if len(joins) != len(query.joins):
        raise _wrong(query, plan, f"it has {len(joins)} joins")
    look = _check_loop if plan is Plan.INDEX else _check_hash
    # The outermost join is of the table that is joined last.
    for join, of in zip(joins, reversed(query.joins), strict=True):
        look(join, query, of.table)
    [fact] = [node for node in nodes if node.get("Relation Name") == FACT]
    if plan is Plan.HASH and fact["Node Type"] not in _SCANS_OF_FACT:
        raise _wrong(query, plan, f"{FACT} is read by {fact['Node Type']}")
    if plan is Plan.INDEX and fact.get("Index Name") != TREES[query.joins[0].fact_key]:
        raise _wrong(query, plan, f"{FACT} is read by {fact.get('Index Name', fact['Node Type'])}")


def _check_loop(join: Mapping[str, Any], query: Query, table: str) -> None:
    """Look at a join by index: a row of the outer side, then those of a table with its key."""
    outer, inner = join["Plans"]
    if "Relation Name" in outer:
        # The innermost join begins with the dimension, and goes to LINEORDER.
        if outer["Relation Name"] != table:
            raise _wrong(query, Plan.INDEX, f"it begins with {outer['Relation Name']}")
        table = FACT
    found = f"{inner['Node Type']} of {inner.get('Relation Name', 'no table')}"
    if join["Node Type"] != "Nested Loop" or found != f"Index Scan of {table}":
        raise _wrong(query, Plan.INDEX, f"{join['Node Type']} with {found} in place of {table}")
    if "Index Cond" not in inner:
        raise _wrong(query, Plan.INDEX, f"{table} is not looked up by its key")


def _check_hash(join: Mapping[str, Any], query: Query, table: str) -> None:
    """Look at a join by hash: one side is a dimension that is read in order.

    PostgreSQL takes the smaller side into memory; late in a query of many parts that may be what is
    left of LINEORDER.
    """
    below = [node["Plans"][0] if node["Node Type"] == "Hash" else node for node in join["Plans"]]
    sides = [f"{node['Node Type']} of {node.get('Relation Name', 'no table')}" for node in below]
    if join["Node Type"] != "Hash Join" or f"Seq Scan of {table}" not in sides:
        found = " and ".join(sides)
        raise _wrong(query, Plan.HASH, f"{join['Node Type']} of {found} where {table} is joined")


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _wrong(query: Query, plan: Plan, what: str) -> RunError:
    return RunError(f"{query.name}: PostgreSQL does not take the {plan.value} join plan: {what}")


def explain(connection: Any, sql: str) -> Mapping[str, Any]:
    """Give PostgreSQL's plan for a statement as its tree of nodes."""
    [[found]] = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}").fetchall()
    plan: Mapping[str, Any] = found[0]["Plan"]
    return plan


def use(connection: Any, plan: Plan) -> None:
    """Make a session take a plan from now on."""
    connection.execute("RESET ALL")
    for name, value in SETTINGS[plan].items():
        known = connection.execute("SELECT 1 FROM pg_settings WHERE name = %s", (name,)).fetchone()
        # Some came with later versions.
        if known is not None:
            connection.execute(f"SET {name} = '{value}'")
