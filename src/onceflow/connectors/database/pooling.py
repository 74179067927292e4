"""Whether what a connection is told still holds in its next transaction.

Must not know: what is written, sinks' tables. A pooler of transactions gives each one another connection of the
server's: settings by which a commit waits for the disk, or a lock is not waited for, are then those of somebody else.
"""

from __future__ import annotations

import uuid

from sqlalchemy import Engine, text

from onceflow.connectors.database.refusals import by_pooler

_TOLD = text("select set_config('onceflow.session', :told, false)")
_HEARD = text("select coalesce(current_setting('onceflow.session', true), '')")


def require_sessions(engine: Engine, who: str) -> None:
    """See that a connection is the same one in each of its transactions; it costs a query where no pooler is.

    A pooler is told by the number of the server's process, which is not the one that the connection began with. One of
    transactions gives the first connection's to the second, or another one to the first while the second has that.

    Args:
        engine: The driver's.
        who: Of whom it is told.

    Raises:
        ConfigurationError: It is not.
        DBAPIError: No answer.
    """
    if engine.dialect.name != "postgresql":
        return
    with engine.connect() as one:
        with one.begin():
            if one.scalar(text("select pg_backend_pid()")) == one.connection.dbapi_connection.info.backend_pid:  # type: ignore[union-attr]
                return
        mine = uuid.uuid4().hex
        with engine.connect() as other:
            with one.begin():
                one.execute(_TOLD, {"told": mine})
            with other.begin():
                heard = [other.scalar(_HEARD)]
                with one.begin():
                    kept = one.scalar(_HEARD)
            with other.begin():  # of a pooler that takes the one which was longest unused
                heard.append(other.scalar(_HEARD))
            with one.begin():
                one.execute(_TOLD, {"told": ""})
    if mine in heard or kept != mine:
        raise by_pooler(f"{who} gives each transaction another connection")
