"""Runs one load on a SQLite database: a program of its own, whose calls somebody counts.

Its argument is a JSON object: database, pragmas (in order), load, transactions,
transactions_in_one, seed; keep, a folder for copies of database and log before they are closed;
and pause, seconds after each commit.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ACCOUNTS = 20_000
BEGINS, ENDS = b"LOAD BEGINS\n", b"LOAD ENDS\n"
"""Written to standard error around what counts."""


def fill(path: Path, page_size: int, pragmas: Mapping[str, object]) -> None:
    """Make the database that every load begins with."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"PRAGMA page_size={page_size}")
    for name, value in pragmas.items():
        database.execute(f"PRAGMA {name}={value}")
    database.executescript("""
        BEGIN;
        CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
        CREATE TABLE tellers (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
        CREATE TABLE branches (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
        CREATE TABLE history (teller INTEGER, account INTEGER, delta INTEGER, filler TEXT);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, note TEXT);
        CREATE TABLE lines (id INTEGER, line INTEGER, item TEXT, PRIMARY KEY (id, line));
        CREATE INDEX customers ON orders (customer, note);
        CREATE TABLE blobs (id INTEGER PRIMARY KEY, content BLOB);
    """)
    filler = "f" * 84
    for table, rows in (("accounts", ACCOUNTS), ("tellers", 100), ("branches", 10)):
        database.executemany(
            f"INSERT INTO {table} VALUES (?, 0, ?)",  # noqa: S608  (names of our own)
            ((number, filler) for number in range(rows)),
        )
    database.execute("COMMIT")
    database.close()


def tpcb(database: sqlite3.Connection, number: int, dice: random.Random) -> None:
    """Do a transaction as TPC-B has it."""
    account, teller = dice.randrange(ACCOUNTS), dice.randrange(100)
    delta = dice.randrange(-999, 999)
    for table, key in (("accounts", account), ("tellers", teller), ("branches", teller // 10)):
        database.execute(
            f"UPDATE {table} SET balance = balance + ? WHERE id = ?",  # noqa: S608
            (delta, key),
        )
    row = (teller, account, delta, f"{number}")
    database.execute("INSERT INTO history VALUES (?, ?, ?, ?)", row)


def orders(database: sqlite3.Connection, number: int, dice: random.Random) -> None:
    """Take an order with its lines, and forget an old one now and then."""
    note = f"{dice.getrandbits(200):x}"
    row = (number, dice.randrange(1000), note)
    database.execute("INSERT INTO orders VALUES (?, ?, ?)", row)
    for line in range(dice.randrange(5, 15)):
        item = f"{dice.getrandbits(300):x}"
        database.execute("INSERT INTO lines VALUES (?, ?, ?)", (number, line, item))
    if number % 20 == 19:
        old = number // 2
        database.execute("DELETE FROM lines WHERE id BETWEEN ? AND ?", (old - 10, old))
        database.execute("DELETE FROM orders WHERE id BETWEEN ? AND ?", (old - 10, old))


def mixed(database: sqlite3.Connection, number: int, dice: random.Random) -> None:
    """Do anything: long values come, change and go, so that pages become free and are used."""
    for _ in range(dice.randrange(1, 4)):
        what, row = dice.randrange(4), dice.randrange(number + 20)
        content = dice.randbytes(dice.choice((10, 300, 3000, 9000, 30_000)))
        if what < 2:
            database.execute("INSERT OR REPLACE INTO blobs VALUES (?, ?)", (row, content))
        elif what == 2:
            database.execute("UPDATE blobs SET content = ? WHERE id = ?", (content, row))
        else:
            database.execute("DELETE FROM blobs WHERE id BETWEEN ? AND ?", (row, row + 2))
    # A transaction that changes nothing writes nothing, and would be none.
    database.execute("UPDATE branches SET balance = balance + 1 WHERE id = ?", (number % 10,))


LOADS: dict[str, Callable[[sqlite3.Connection, int, random.Random], None]] = {
    "tpcb": tpcb,
    "orders": orders,
    "mixed": mixed,
}


def run(asked: Mapping[str, Any]) -> None:
    """Run the load."""
    database = sqlite3.connect(asked["database"], isolation_level=None)
    for name, value in asked["pragmas"].items():
        database.execute(f"PRAGMA {name}={value}").fetchall()
    dice, one = random.Random(asked["seed"]), LOADS[asked["load"]]  # noqa: S311
    database.execute("SELECT count(*) FROM branches").fetchall()
    os.write(2, BEGINS)
    for begin in range(0, asked["transactions"], asked["transactions_in_one"]):
        database.execute("BEGIN IMMEDIATE")
        end = min(begin + asked["transactions_in_one"], asked["transactions"])
        for number in range(begin, end):
            one(database, number, dice)
        database.execute("COMMIT")
        time.sleep(asked.get("pause", 0.0))
    os.write(2, ENDS)
    if asked.get("keep"):
        for end_of_name in ("", "-wal"):
            path = Path(f"{asked['database']}{end_of_name}")
            shutil.copy(path, Path(asked["keep"]) / path.name)
    database.close()


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
