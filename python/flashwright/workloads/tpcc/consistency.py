"""The consistency conditions of clause 3.3.2.

What must hold in a database before and after any run. Condition 11 is left out: it holds only for a
database on which no Delivery has run.
"""

from __future__ import annotations

from ..base import Violation
from ..databases import Backend

_LINES = (
    "SELECT ol_w_id, ol_d_id, ol_o_id, COUNT(*) AS n, SUM(CASE WHEN ol_delivery_d IS NULL THEN 1 "
    "ELSE 0 END) AS open FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id"
)
_DELIVERED = (
    "SELECT o_w_id, o_d_id, o_c_id, SUM(ol_amount) AS amount FROM orders JOIN order_line "
    "ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL "
    "GROUP BY o_w_id, o_d_id, o_c_id"
)
_CUSTOMER_DELIVERED = (
    f"customer LEFT JOIN ({_DELIVERED}) AS delivered ON o_w_id = c_w_id AND o_d_id = c_d_id AND "
    "o_c_id = c_id"
)
_PAID = (
    "SELECT h_c_w_id, h_c_d_id, h_c_id, SUM(h_amount) AS paid FROM history GROUP BY h_c_w_id, "
    "h_c_d_id, h_c_id"
)
_NEW_ORDER_RANGE = (
    "SELECT no_w_id, no_d_id, MIN(no_o_id) AS low, MAX(no_o_id) AS high, COUNT(*) AS n "
    "FROM new_order GROUP BY no_w_id, no_d_id"
)

CONDITIONS: dict[int, tuple[str, str]] = {
    1: (
        "W_YTD is the sum of D_YTD",
        "SELECT w_id FROM warehouse JOIN (SELECT d_w_id, SUM(d_ytd) AS total FROM district GROUP "
        "BY d_w_id) AS d ON d_w_id = w_id WHERE w_ytd <> total",
    ),
    2: (
        "D_NEXT_O_ID - 1 is the greatest O_ID, and the greatest NO_O_ID where there is one",
        "SELECT d_w_id, d_id FROM district "
        "JOIN (SELECT o_w_id, o_d_id, MAX(o_id) AS high FROM orders GROUP BY o_w_id, o_d_id) AS o "
        "ON o_w_id = d_w_id AND o_d_id = d_id "
        f"LEFT JOIN ({_NEW_ORDER_RANGE}) AS n ON no_w_id = d_w_id AND no_d_id = d_id "
        "WHERE d_next_o_id - 1 <> o.high OR d_next_o_id - 1 <> COALESCE(n.high, o.high)",
    ),
    3: (
        "a district's NEW-ORDER rows have no gap",
        f"SELECT no_w_id, no_d_id FROM ({_NEW_ORDER_RANGE}) AS n WHERE high - low + 1 <> n.n",
    ),
    4: (
        "the sum of O_OL_CNT is the number of ORDER-LINE rows",
        "SELECT o_w_id, o_d_id FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) AS said FROM orders "
        "GROUP BY o_w_id, o_d_id) AS o LEFT JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) AS n FROM "
        "order_line GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id WHERE "
        "said <> COALESCE(n, 0)",
    ),
    5: (
        "O_CARRIER_ID is null exactly where the order is in NEW-ORDER",
        "SELECT o_w_id, o_d_id, o_id FROM orders LEFT JOIN new_order "
        "ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id "
        "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    6: (
        "O_OL_CNT is the number of the order's ORDER-LINE rows",
        f"SELECT o_w_id, o_d_id, o_id FROM orders LEFT JOIN ({_LINES}) AS l ON ol_w_id = o_w_id "
        "AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE o_ol_cnt <> COALESCE(n, 0)",
    ),
    7: (
        "OL_DELIVERY_D is null exactly where the order's O_CARRIER_ID is",
        f"SELECT o_w_id, o_d_id, o_id FROM orders JOIN ({_LINES}) AS l "
        "ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id "
        "WHERE open <> CASE WHEN o_carrier_id IS NULL THEN n ELSE 0 END",
    ),
    8: (
        "W_YTD is the sum of H_AMOUNT",
        "SELECT w_id FROM warehouse JOIN (SELECT h_w_id, SUM(h_amount) AS total FROM history GROUP "
        "BY h_w_id) AS h ON h_w_id = w_id WHERE w_ytd <> total",
    ),
    9: (
        "D_YTD is the sum of H_AMOUNT",
        "SELECT d_w_id, d_id FROM district JOIN (SELECT h_w_id, h_d_id, SUM(h_amount) AS total "
        "FROM history GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id WHERE "
        "d_ytd <> total",
    ),
    10: (
        "C_BALANCE is the sum of delivered OL_AMOUNT less the sum of H_AMOUNT",
        f"SELECT c_w_id, c_d_id, c_id FROM {_CUSTOMER_DELIVERED} "
        f"LEFT JOIN ({_PAID}) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id "
        "WHERE c_balance <> COALESCE(amount, 0) - COALESCE(paid, 0)",
    ),
    12: (
        "C_BALANCE + C_YTD_PAYMENT is the sum of delivered OL_AMOUNT",
        f"SELECT c_w_id, c_d_id, c_id FROM {_CUSTOMER_DELIVERED} "
        "WHERE c_balance + c_ytd_payment <> COALESCE(amount, 0)",
    ),
}
"""Number of the clause 3.3.2.x -> what it says, and a query for the keys of the rows that break it.
"""


def violations(backend: Backend) -> list[Violation]:
    """Give the conditions that do not hold; empty is good.

    Reads whole tables: some seconds for each warehouse.
    """
    found = []
    for number, (says, query) in CONDITIONS.items():
        rows = backend.batch([(query, ())], commit=True)[0]
        if rows:
            found.append(Violation(f"TPC-C clause 3.3.2.{number}", says, len(rows), rows[0]))
    return found
