"""The audit of a table in MariaDB, to which texts that differ may be equal."""

import pytest
from sqlalchemy import create_engine, text

from tests.support.audited_table import JOB, Filled, hashed, whats
from tests.support.keyed_rows import KEY
from tests.support.mariadb import running_mariadb


@pytest.fixture(scope="module")
def url():
    with running_mariadb() as server:
        yield server.world().sink().url.render_as_string(hide_password=False)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(("job", "sink"), [(JOB, "PAYMENTS"), (JOB.upper(), "payments"), (JOB, "payments ")])
def test_an_entry_of_the_ledger_that_the_database_takes_for_the_sinks_covers_no_row(url, tmp_path, job, sink, key):
    """Texts are compared there without regard to case and blanks at their end."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in ("payments", "onceflow_ledger", "onceflow_attempts", "onceflow_marks", "onceflow_identity"):
            connection.execute(text(f"drop table if exists {table}"))
    filled = Filled(tmp_path, url, ["a", "bb"], ["ccc"], audit_key=key)
    assert filled.audit(key=key)["findings"] == []
    with engine.begin() as connection:
        connection.execute(text("insert into payments (`key`, amount) values ('thief', 5)"))
        entry = {"job": job, "sink": sink, "hash": hashed("thief", 5) % (1 << 64)}
        connection.execute(
            text(
                "insert into onceflow_ledger (job, sink, epoch, incarnation, handle, `rows`, hash) "
                "values (:job, :sink, 7, 1, 'made up', 1, :hash)"
            ),
            entry,
        )
    engine.dispose()
    report = filled.audit(key=key)
    assert (report["good"], report["foreign"]) == (False, 1), report
    assert "1 rows more than its ledger counts" in whats(report, "foreign")[0]
