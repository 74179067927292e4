"""A login that has some rights, and the statements that a sink needs them for."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from tests.support.postgres import PostgresWorld
from tests.support.sqlite_worlds import Saying

PAGE = (Path(__file__).parents[2] / "docs" / "databases.md").read_text()


BLOCKS = [block.strip().splitlines() for block in re.findall(r"```sql\n(.*?)```", PAGE, flags=re.DOTALL)]


APPEND, UPSERT, DELETES = BLOCKS


MADE = [
    "create schema bank",
    "create table bank.payments (key text primary key, amount bigint)",
    "create role job login",
]


class Granted(Saying, PostgresWorld):
    """The page's table, as the page's user."""

    def visible(self):
        with psycopg.connect(self.owner) as connection:
            return [key for (key,) in connection.execute("select key from bank.payments").fetchall()]


KEYED = {"key": "key"}


DELETING = KEYED | {"delete_when": "gone"}
