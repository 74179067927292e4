"""What is told of a right that the brokers do not give: which, to whom, on what, and the command that gives it.

Must not know: how it was found out, jobs.
"""

from __future__ import annotations

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import KafkaRightsError

_OPTIONS = {"Topic": "--topic", "Group": "--group", "TransactionalId": "--transactional-id"}


def principal(cluster: KafkaCluster) -> str:
    """Whom the brokers know this login as, as far as it says so: of a token or a certificate they decide."""
    if cluster.username is not None:
        return f"User:{cluster.username}"
    if cluster.oauth_client_id is not None:
        return f"User:<sub of the tokens of {cluster.oauth_client_id}>"
    if cluster.ssl_certificate is not None:
        return f"User:<subject of {cluster.ssl_certificate}>"
    return "User:ANONYMOUS"


def has_login(cluster: KafkaCluster) -> bool:
    """Whether the brokers are told who this is."""
    return principal(cluster) != "User:ANONYMOUS"


def command(cluster: KafkaCluster, right: str, kind: str, name: str, *, prefixed: bool = False) -> str:
    """The command by which whoever administers the brokers gives a right.

    Args:
        cluster: With the login that lacks it.
        right: Kafka's name of the operation.
        kind: Kafka's name of the kind of resource.
        name: The resource's.
        prefixed: It is what the names of all that is meant begin with.
    """
    on = f"{_OPTIONS[kind]} '{name}'" if kind in _OPTIONS else "--cluster"
    servers, whom = cluster.bootstrap_servers, principal(cluster)
    by = " --resource-pattern-type prefixed" if prefixed else ""
    return f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal '{whom}' --operation {right} {on}{by}"


def missing(
    cluster: KafkaCluster, saw: str, right: str, kind: str, name: str = "", *, begins: str = ""
) -> KafkaRightsError:
    """The error of a right that is missing.

    Args:
        cluster: With the login that lacks it.
        saw: By what it was noticed.
        right: Kafka's name of the operation.
        kind: Kafka's name of the kind of resource.
        name: The resource's, if its kind has names.
        begins: What the names of all resources begin with that the job needs the right on; "" for this one alone.
    """
    resource = f"{kind} {begins} (prefixed)" if begins else f"{kind} {name}".rstrip()
    return KafkaRightsError(
        f"{saw}: this user lacks {right} on {resource}",
        harmless="always for the data: rights are looked at before the job writes",
        cause=f"no ACL allows {right} on {resource} to {principal(cluster)}",
        action=f"{command(cluster, right, kind, begins or name, prefixed=bool(begins))}; see 'Kafka rights' in "
        "docs/security.md for all that a job needs",
        right=right,
        resource=resource,
    )
