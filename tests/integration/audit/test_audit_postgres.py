"""The audit of a table in PostgreSQL: what it holds is what was decided, and an edited row is found."""

import psycopg
import pytest
from psycopg.rows import scalar_row

from tests.support.audited_table import Filled, hashed, let_go_of_the_first, whats
from tests.support.keyed_rows import KEY
from tests.support.postgres import running


@pytest.fixture(scope="module")
def server():
    with running() as made:
        yield made


@pytest.fixture
def url(server):
    """Of a database without tables."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return server.url()


def test_a_table_of_postgresql(url, tmp_path):
    """As decided it is good; with one row edited, and with one deleted, it is told which of the two."""
    filled = Filled(tmp_path, url.replace("postgresql://", "postgresql+psycopg://"), ["a", "bb"], ["ccc"])
    report = filled.audit()
    assert report["findings"] == []
    assert report["rows"] == 3
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update payments set amount = 9 where key = 'bb'")
    report = filled.audit()
    assert (report["changed"], report["good"]) == (1, False)
    assert "table payments: all 3 rows are there, and not all are those" in whats(report, "changed")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("delete from payments where key = 'bb'")
    assert filled.audit()["missing"] == 1


@pytest.mark.parametrize("key", [None, KEY])
def test_the_ledgers_own_word_about_epochs_without_a_receipt_proves_no_row(url, tmp_path, key):
    """A payment of today is edited, and the entry of an epoch whose receipt was let go is made to fit the sum."""
    filled = Filled(
        tmp_path, url.replace("postgresql://", "postgresql+psycopg://"), ["old"], ["bb"], ["ccc"], audit_key=key
    )
    let_go_of_the_first(tmp_path)
    honest = filled.audit(key=key)
    assert honest["good"]
    assert not [each for each in honest["findings"] if each["kind"] in ("missing", "changed", "foreign")]
    with psycopg.connect(url, autocommit=True, row_factory=scalar_row) as connection:
        connection.execute("update payments set amount = 9000 where key = 'ccc'")
        entry = connection.execute("select hash from onceflow_ledger where epoch = 0").fetchone()
        fits = (int(entry) + hashed("ccc", 9000) - hashed("ccc", 3)) % (1 << 64)
        connection.execute("update onceflow_ledger set hash = %s where epoch = 0", [fits])
    report = filled.audit(key=key)
    if key is not None:
        assert "made to fit" in whats(report, "changed")[0]
        return
    assert report["unknown"] == 3, report
    assert "epochs without a receipt" in whats(report, "unknown")[0]


BY_ROW = (
    "alter table payments enable row level security",
    "alter table payments force row level security",
    "create policy shown on payments using (current_user <> 'auditor' or key <> 'forged')",
)
BY_VIEW = (
    "alter table payments rename to held",
    "create view payments as select * from held where current_user <> 'auditor' or key <> 'forged'",
)


@pytest.mark.parametrize(
    ("statements", "why"), [(BY_ROW, "it has row level security"), (BY_VIEW, "it is a view")], ids=["by row", "view"]
)
def test_a_table_that_shows_each_login_other_rows_proves_nothing(server, url, tmp_path, statements, why):
    """A row that consumers see, and the auditor does not."""
    filled = Filled(tmp_path, url.replace("postgresql://", "postgresql+psycopg://"), ["a", "bb"], ["ccc"])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop role if exists auditor")
        connection.execute("create role auditor login")
        connection.execute("grant usage on schema public to auditor")
        connection.execute("insert into payments values ('forged', 9000)")
        for statement in statements:
            connection.execute(statement)
        connection.execute("grant select on all tables in schema public to auditor")
    filled.url = server.url("auditor").replace("postgresql://", "postgresql+psycopg://")
    report = filled.audit()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop owned by auditor")
    assert (report["unknown"], why in whats(report, "unknown")[0]) == (3, True), report
