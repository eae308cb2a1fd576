"""The five transactions (clauses 2.4 to 2.8).

Each takes as few round trips as its data dependencies allow. Where a clause reads a row and then
writes it, one UPDATE ... RETURNING does both, so that no update is lost at READ COMMITTED. Sets of
rows go as one statement; `column1`, `column2` ... are the names that both PostgreSQL and SQLite
give to the columns of VALUES.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..base import TransactionOutcome
from ..databases import Backend, Row, Statement, TransactionConflictError, Value
from .inputs import (
    CustomerChoice,
    DeliveryInput,
    NewOrderInput,
    OrderLine,
    OrderStatusInput,
    PaymentInput,
    StockLevelInput,
    TransactionInput,
)
from .scale import DISTRICTS_PER_WAREHOUSE

_CUSTOMER_KEY = "c_w_id = ? AND c_d_id = ? AND c_id = ?"


def execute(backend: Backend, request: TransactionInput, now: str) -> TransactionOutcome:
    """Run a transaction to its end.

    `now` is the time of day that it writes, as `YYYY-MM-DD HH:MM:SS`. The misses of its outcome are
    districts in which Delivery found no order to deliver (clause 2.7.4.2), 0 ... 10.

    Raises:
        TransactionConflictError: another transaction was in the way; it may be run again with the
        same input.
    """
    match request:
        case NewOrderInput():
            return _new_order(backend, request, now)
        case PaymentInput():
            return _payment(backend, request, now)
        case OrderStatusInput():
            return _order_status(backend, request)
        case DeliveryInput():
            return _delivery(backend, request, now)
        case StockLevelInput():
            return _stock_level(backend, request)


# New-Order (clause 2.4)


@cache
def _marks(rows: int, columns: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return ", ".join([row] * rows)


def _rounds(lines: tuple[OrderLine, ...]) -> Iterator[list[OrderLine]]:
    """Split the lines into lists without a repeated stock row, each ordered by it.

    An UPDATE changes a row once, so a repeated row needs another UPDATE; the order keeps two orders
    from a deadlock.
    """
    left = sorted(lines, key=lambda line: (line.supply_w_id, line.item))
    while left:
        this: dict[tuple[int, int], OrderLine] = {}
        later = []
        for line in left:
            key = (line.supply_w_id, line.item)
            if key in this:
                later.append(line)
            else:
                this[key] = line
        yield list(this.values())
        left = later


@cache
def _stock_sql(rows: int, district: int) -> str:
    return (
        "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= v.column3 + 10 THEN s_quantity - "
        "v.column3 ELSE s_quantity - v.column3 + 91 END, s_ytd = s_ytd + v.column3, s_order_cnt = "
        f"s_order_cnt + 1, s_remote_cnt = s_remote_cnt + v.column4 FROM (VALUES {_marks(rows, 4)}) "
        "AS v WHERE s_w_id = v.column1 AND s_i_id = v.column2 RETURNING s_w_id, s_i_id, "
        f"s_quantity, s_dist_{district:02}, s_data"
    )


def _stock_statement(request: NewOrderInput, lines: list[OrderLine]) -> Statement:
    values: list[Value] = []
    for line in lines:
        values += (
            line.supply_w_id,
            line.item,
            line.quantity,
            int(line.supply_w_id != request.w_id),
        )
    return _stock_sql(len(lines), request.d_id), tuple(values)


def _new_order(backend: Backend, request: NewOrderInput, now: str) -> TransactionOutcome:
    w_id, d_id, c_id, lines = request.w_id, request.d_id, request.c_id, request.lines
    rounds = list(_rounds(lines))
    results = backend.batch(
        [
            (
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ? "
                "RETURNING d_next_o_id - 1, d_tax",
                (w_id, d_id),
            ),
            (
                "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse "
                f"WHERE w_id = ? AND {_CUSTOMER_KEY}",
                (w_id, w_id, d_id, c_id),
            ),
            (
                "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN "
                f"{_marks(1, len(lines))}",
                tuple(line.item for line in lines),
            ),
            *(_stock_statement(request, round_lines) for round_lines in rounds),
        ]
    )
    (o_id, d_tax), (discount, _, _, w_tax) = results[0][0], results[1][0]
    price = {i_id: i_price for i_id, i_price, *_ in results[2]}
    district_info = {(row[0], row[1]): row[3] for rows in results[3:] for row in rows}
    known = [line for line in lines if line.item in price]
    values: list[Value] = []
    total_cents = 0
    for number, line in enumerate(known, 1):
        amount = line.quantity * price[line.item]
        total_cents += amount
        info = district_info[line.supply_w_id, line.item]
        values += (
            o_id,
            d_id,
            w_id,
            number,
            line.item,
            line.supply_w_id,
            None,
            line.quantity,
            amount,
            info,
        )
    all_local = int(all(line.supply_w_id == w_id for line in lines))
    valid = len(known) == len(lines)
    backend.batch(
        [
            (
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, NULL, ?, ?)",
                (o_id, d_id, w_id, c_id, now, len(lines), all_local),
            ),
            ("INSERT INTO new_order VALUES (?, ?, ?)", (o_id, d_id, w_id)),
            (f"INSERT INTO order_line VALUES {_marks(len(known), 10)}", tuple(values)),
        ],
        commit=valid,
    )
    if not valid:
        # Clause 2.4.2.3: all the work is done before it is found that the last item is unused.
        backend.rollback()
        return TransactionOutcome(committed=False)
    total_cents = total_cents * (10_000 - discount) * (10_000 + w_tax + d_tax) // 10**8
    return TransactionOutcome(output=(o_id, total_cents))


# Payment (clause 2.5)

_CUSTOMER_COLUMNS = "c_id, c_first, c_middle, c_last, c_balance, c_credit"


def _find_customer(choice: CustomerChoice) -> Statement:
    if choice.last_name is None:
        return f"SELECT {_CUSTOMER_COLUMNS} FROM customer WHERE {_CUSTOMER_KEY}", (
            choice.w_id,
            choice.d_id,
            choice.c_id,
        )
    return (
        f"SELECT {_CUSTOMER_COLUMNS} FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? "
        "ORDER BY c_first",
        (choice.w_id, choice.d_id, choice.last_name),
    )


def _pick_customer(rows: list[Row]) -> Row:
    """Pick the one at n/2, rounded up (clauses 2.5.2.2 and 2.6.2.2).

    By number there is only one.
    """
    return rows[(len(rows) + 1) // 2 - 1]


def _payment(backend: Backend, request: PaymentInput, now: str) -> TransactionOutcome:
    choice, amount = request.customer, request.amount_cents
    warehouse, district, customers = backend.batch(
        [
            (
                "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ? "
                "RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
                (amount, request.w_id),
            ),
            (
                "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ? "
                "RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
                (amount, request.w_id, request.d_id),
            ),
            _find_customer(choice),
        ]
    )
    customer = _pick_customer(customers)
    c_id, bad_credit = customer[0], customer[5] == "BC"
    key = (choice.w_id, choice.d_id, c_id)
    sets = (
        "c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, c_payment_cnt = "
        "c_payment_cnt + 1"
    )
    values: tuple[Value, ...] = (amount, amount)
    if bad_credit:
        note = f"{c_id} {choice.d_id} {choice.w_id} {request.d_id} {request.w_id} {amount} "
        sets, values = sets + ", c_data = SUBSTR(? || c_data, 1, 500)", (*values, note)
    history = f"{warehouse[0][0]}    {district[0][0]}"
    updated, _ = backend.batch(
        [
            (
                f"UPDATE customer SET {sets} WHERE {_CUSTOMER_KEY} RETURNING c_balance, c_data",
                (*values, *key),
            ),
            (
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (c_id, choice.d_id, choice.w_id, request.d_id, request.w_id, now, amount, history),
            ),
        ],
        commit=True,
    )
    return TransactionOutcome(output=(c_id, updated[0][0]))


# Order-Status (clause 2.6)


def _order_status(backend: Backend, request: OrderStatusInput) -> TransactionOutcome:
    choice = request.customer
    customer = _pick_customer(backend.batch([_find_customer(choice)], read_only=True)[0])
    key = (choice.w_id, choice.d_id)
    last = "SELECT MAX(o_id) FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?"
    order, lines = backend.batch(
        [
            (
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? "
                f"AND o_id = ({last})",
                (*key, *key, customer[0]),
            ),
            (
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM "
                f"order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ({last})",
                (*key, *key, customer[0]),
            ),
        ],
        commit=True,
    )
    return TransactionOutcome(output=(customer[0], customer[4], order[0][0], len(lines)))


# Delivery (clause 2.7)


def _delivery(backend: Backend, request: DeliveryInput, now: str) -> TransactionOutcome:
    """All ten districts in one transaction (clause 2.7.2.2 allows ten).

    Run at once instead of queued.
    """
    w_id = request.w_id
    districts = range(1, DISTRICTS_PER_WAREHOUSE + 1)
    oldest = "SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = ? AND no_d_id = ?"
    taken = backend.batch(
        [
            (
                f"DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ({oldest}) "
                "RETURNING no_o_id",
                (w_id, d_id, w_id, d_id),
            )
            for d_id in districts
        ]
    )
    orders = [(d_id, rows[0][0]) for d_id, rows in zip(districts, taken, strict=True) if rows]
    empty = [d_id for d_id, rows in zip(districts, taken, strict=True) if not rows]
    if empty and any(
        rows[0][0] is not None for rows in backend.batch([(oldest, (w_id, d_id)) for d_id in empty])
    ):
        # The oldest order went to another Delivery while this one waited for it.
        backend.rollback()
        raise TransactionConflictError("another Delivery took the oldest order")
    updated = backend.batch(
        [
            *(
                (
                    "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = "
                    "? RETURNING o_c_id",
                    (request.carrier_id, w_id, d_id, o_id),
                )
                for d_id, o_id in orders
            ),
            *(
                (
                    "UPDATE order_line SET ol_delivery_d = ? WHERE ol_w_id = ? AND ol_d_id = ? AND "
                    "ol_o_id = ? RETURNING ol_amount",
                    (now, w_id, d_id, o_id),
                )
                for d_id, o_id in orders
            ),
        ]
    )
    customers, amounts = updated[: len(orders)], updated[len(orders) :]
    backend.batch(
        [
            (
                "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + "
                f"1 WHERE {_CUSTOMER_KEY}",
                (sum(row[0] for row in amounts[k]), w_id, d_id, customers[k][0][0]),
            )
            for k, (d_id, _) in enumerate(orders)
        ],
        commit=True,
    )
    return TransactionOutcome(misses=len(empty), output=tuple(orders))


# Stock-Level (clause 2.8)


def _stock_level(backend: Backend, request: StockLevelInput) -> TransactionOutcome:
    w_id, d_id = request.w_id, request.d_id
    next_order = backend.batch(
        [("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", (w_id, d_id))],
        read_only=True,
    )[0][0][0]
    low = backend.batch(
        [
            (
                "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND "
                "ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= ? AND s_w_id = ? AND s_i_id = ol_i_id "
                "AND s_quantity < ?",
                (w_id, d_id, next_order, next_order - 20, w_id, request.threshold),
            )
        ],
        commit=True,
    )[0][0][0]
    return TransactionOutcome(output=(low,))
