"""Tables and indexes (clause 1.3), in SQL that PostgreSQL and SQLite both take.

Money is in whole cents and rates are in hundredths of a per cent, both as integers: exact in every
database.
"""

from __future__ import annotations

from collections.abc import Sequence

_ADDRESS = (
    "{0}_street_1 VARCHAR(20), {0}_street_2 VARCHAR(20), {0}_city VARCHAR(20), {0}_state CHAR(2), "
    "{0}_zip CHAR(9)"
)
_STOCK_DISTRICTS = ", ".join(f"s_dist_{d:02} CHAR(24)" for d in range(1, 11))

TABLES: dict[str, str] = {
    "warehouse": f"w_id INTEGER NOT NULL, w_name VARCHAR(10), {_ADDRESS.format('w')}, w_tax "
    "INTEGER, w_ytd BIGINT",
    "district": (
        "d_id INTEGER NOT NULL, d_w_id INTEGER NOT NULL, d_name VARCHAR(10), "
        f"{_ADDRESS.format('d')}, d_tax INTEGER, d_ytd BIGINT, d_next_o_id INTEGER"
    ),
    "customer": (
        "c_id INTEGER NOT NULL, c_d_id INTEGER NOT NULL, c_w_id INTEGER NOT NULL, c_first "
        f"VARCHAR(16), c_middle CHAR(2), c_last VARCHAR(16), {_ADDRESS.format('c')}, c_phone "
        "CHAR(16), c_since TIMESTAMP, c_credit CHAR(2), c_credit_lim BIGINT, c_discount INTEGER, "
        "c_balance BIGINT, c_ytd_payment BIGINT, c_payment_cnt INTEGER, c_delivery_cnt INTEGER, "
        "c_data VARCHAR(500)"
    ),
    "history": (
        "h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER, h_w_id INTEGER, "
        "h_date TIMESTAMP, h_amount BIGINT, h_data VARCHAR(24)"
    ),
    "new_order": "no_o_id INTEGER NOT NULL, no_d_id INTEGER NOT NULL, no_w_id INTEGER NOT NULL",
    "orders": (
        "o_id INTEGER NOT NULL, o_d_id INTEGER NOT NULL, o_w_id INTEGER NOT NULL, o_c_id INTEGER, "
        "o_entry_d TIMESTAMP, o_carrier_id INTEGER, o_ol_cnt INTEGER, o_all_local INTEGER"
    ),
    "order_line": (
        "ol_o_id INTEGER NOT NULL, ol_d_id INTEGER NOT NULL, ol_w_id INTEGER NOT NULL, ol_number "
        "INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id INTEGER, ol_delivery_d TIMESTAMP, "
        "ol_quantity INTEGER, ol_amount BIGINT, ol_dist_info CHAR(24)"
    ),
    "item": "i_id INTEGER NOT NULL, i_im_id INTEGER, i_name VARCHAR(24), i_price INTEGER, i_data "
    "VARCHAR(50)",
    "stock": (
        "s_i_id INTEGER NOT NULL, s_w_id INTEGER NOT NULL, s_quantity INTEGER, "
        f"{_STOCK_DISTRICTS}, s_ytd INTEGER, s_order_cnt INTEGER, s_remote_cnt INTEGER, s_data "
        "VARCHAR(50)"
    ),
}

INDEXES: tuple[str, ...] = (
    "CREATE UNIQUE INDEX warehouse_key ON warehouse (w_id)",
    "CREATE UNIQUE INDEX district_key ON district (d_w_id, d_id)",
    "CREATE UNIQUE INDEX customer_key ON customer (c_w_id, c_d_id, c_id)",
    "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE UNIQUE INDEX new_order_key ON new_order (no_w_id, no_d_id, no_o_id)",
    "CREATE UNIQUE INDEX orders_key ON orders (o_w_id, o_d_id, o_id)",
    "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
    "CREATE UNIQUE INDEX order_line_key ON order_line (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    "CREATE UNIQUE INDEX item_key ON item (i_id)",
    "CREATE UNIQUE INDEX stock_key ON stock (s_w_id, s_i_id)",
)
"""Made after the load, which is faster."""


def create_tables() -> Sequence[str]:
    """Give the statements that make the empty tables."""
    return [f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()]
