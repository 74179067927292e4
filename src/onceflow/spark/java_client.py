"""Whether the Java client by which Spark reads reaches a Kafka cluster, tried without Spark: in under a second.

Must not know: sinks, the journal. What the client is told comes as settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError

from onceflow.errors import SetupError
from onceflow.local.jars import java_executable, spark_home_jars, spark_jars

_WITHIN_MS = "10000"


def tried(clusters: Sequence[Mapping[str, str]]) -> list[str]:
    """What the client says of each cluster that it does not reach; "" of one that it does.

    Args:
        clusters: The client's settings for each.

    Raises:
        SetupError: Java or a jar is missing.
    """
    theirs = spark_home_jars()
    of_py4j = next((jar for jar in theirs if jar.name.startswith("py4j-")), None)
    if of_py4j is None:
        raise SetupError(
            "PySpark's own jars lack py4j",
            cause="Spark is not the one that pip installs (SPARK_HOME), or a jar was deleted",
            action="install pyspark with pip",
        )
    # As in a session: the connector's jars, and behind them Spark's, of which logins need some.
    class_path = [str(jar) for jar in spark_jars()] + [f"{of_py4j.parent}/*"]
    port, token, process = launch_gateway(  # it listens on 127.0.0.1
        jarpath=str(of_py4j),
        classpath=":".join(class_path),
        java_path=java_executable(),
        javaopts=["-Xmx128m"],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
        create_new_process_group=True,
    )
    gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        return [_tried(gateway.jvm, settings) for settings in clusters]
    finally:
        gateway.shutdown()
        process.stdin.close()  # it ends with its input
        process.wait()


def _tried(jvm: Any, settings: Mapping[str, str]) -> str:
    told = jvm.java.util.Properties()
    for name, value in {**settings, "default.api.timeout.ms": _WITHIN_MS, "request.timeout.ms": _WITHIN_MS}.items():
        told.setProperty(name, value)
    client = None
    try:
        client = jvm.org.apache.kafka.clients.admin.AdminClient.create(told)
        client.describeCluster().nodes().get()
    except Py4JJavaError as error:
        cause = error.java_exception.getCause() or error.java_exception
        return f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
    except Py4JError as error:
        return str(error).splitlines()[0]
    finally:
        if client is not None:
            client.close()
    return ""
