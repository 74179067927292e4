"""The user of a dev cluster's login, made known to its brokers: they keep SCRAM's passwords themselves.

Must not know: files, processes.
"""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from onceflow.local.devcluster.login import SCRAM

_ITERATIONS = 4096  # the least that Kafka takes
_ANSWERS_WITHIN_S = 30.0


def make_user(bootstrap_servers: str, user: str, password: str) -> None:
    """Give a user this password for each of SCRAM's mechanisms, over the old one if it has one.

    Args:
        bootstrap_servers: A listener that asks for no login.
        user: The user.
        password: The password.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for each in SCRAM:  # Kafka takes one of a user in a request
        how = ScramCredentialInfo(getattr(ScramMechanism, each.replace("-", "_")), _ITERATIONS)
        given = UserScramCredentialUpsertion(user, how, password.encode())
        for answer in admin.alter_user_scram_credentials([given]).values():
            answer.result(_ANSWERS_WITHIN_S)
