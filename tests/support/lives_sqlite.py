"""The life of a SQLite database beside a job."""

import sqlite3

from tests.support.lives import Harm, Statements
from tests.support.sqlite_worlds import SqliteWorld as OneSqlite


class SqliteWorld(Statements, OneSqlite):
    """A table in a file, which may be gone."""

    def visible(self) -> list[str]:
        try:
            return super().visible()
        except sqlite3.OperationalError:
            return []

    def whole(self) -> list[dict[str, object]]:
        try:
            return super().whole()
        except sqlite3.OperationalError:
            return []

    def do(self, *statements: str) -> None:
        with sqlite3.connect(self.path, timeout=30) as file:
            for each in statements:
                file.execute(each)

    def renamed_back(self) -> None:
        with sqlite3.connect(self.path, timeout=30) as file:
            names = {name for (name,) in file.execute("select name from sqlite_master where type = 'table'")}
        if "payments" in names:
            self.do("insert into payments select * from payments_old", "drop table payments_old")
        else:
            self.do("alter table payments_old rename to payments")

    def harms(self) -> dict[str, Harm]:
        statement, alter = self.harm, "alter table payments"
        return {
            "a column is added": statement(f"{alter} add column note text", f"{alter} drop column note"),
            "a column that must be given": statement(
                f"{alter} add column note text not null default 'x'", f"{alter} drop column note"
            ),
            "a column is dropped": statement(f"{alter} drop column amount", f"{alter} add column amount bigint"),
            "a column is renamed": statement(
                f"{alter} rename column amount to amounts", f"{alter} rename column amounts to amount"
            ),
            "the table is renamed": Harm(
                lambda: self.do(f"{alter} rename to payments_old"), self.renamed_back, hides=True
            ),
            **self.harms_to_what_is_beside(),
        }
