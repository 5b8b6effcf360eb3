"""Helpers of tests about stores of states."""

import sqlite3

import pytest

from server import run


def without_sqlite():
    """Skips where the program has no store in a file."""
    if "LINNET_SQLITE" in run("--version").stdout:
        pytest.skip("this build has no LINNET_SQLITE")


def check_sound(path):
    """SQLite finds no damage, and the counts of owners are those of their states."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counted = db.execute("SELECT owner, count(*), sum(size) FROM states GROUP BY owner ORDER BY owner").fetchall()
        assert db.execute("SELECT name, states, bytes FROM owners ORDER BY name").fetchall() == counted
        assert db.execute("SELECT count(*) FROM blobs").fetchone()[0] == sum(n for _, n, _ in counted)
    db.close()
