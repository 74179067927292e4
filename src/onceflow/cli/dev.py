"""``onceflow dev up|down|status``: a Kafka on this machine that stays until it is told to go; topics and records of it.

Must not know: jobs. Errors go to whoever runs the command line, which prints them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceflow.cli.help import PLAIN, Group
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.errors import ConfigurationError
from onceflow.local.jars import broker_jars, java_executable, on_one_line, registry_home
from onceflow.masking import in_one_line

if TYPE_CHECKING:
    from onceflow.local.devcluster.broker import Broker
    from onceflow.local.devcluster.login import Login

app = typer.Typer(help="A Kafka on this machine, for development.", cls=Group, **PLAIN)


DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="ONCEFLOW_DEV_DIR", help="Where its data, ports and logs lie.")
]

DEFAULT_DIR = Path("~/.local/share/onceflow/dev")
DEFAULT_PORT = 9092
REGISTRY_PORT = 8081


@app.command()
def up(
    brokers: Annotated[
        int | None, typer.Option(help="1 or 3.  [default: as many as it has, else 1]", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"The first broker's port; others take free ones.  [default: the one it has, else {DEFAULT_PORT}]",
            show_default=False,
        ),
    ] = None,
    sasl_ssl: Annotated[
        bool, typer.Option("--sasl-ssl", help="With a second listener that has TLS and a password; it keeps it.")
    ] = False,
    mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None,
        typer.Option(
            help="How the printed lines log in there; it takes each.  [default: the one of before, else PLAIN]",
            show_default=False,
        ),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="With a schema registry beside it, which keeps its schemas until it ends."),
    ] = False,
    data_dir: DataDir = DEFAULT_DIR,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Start Kafka in the background and wait until it answers. Its data is there again after down and up."""
    from onceflow.local.devcluster import DevCluster, brokers_of  # noqa: PLC0415 - it loads Kafka's client
    from onceflow.local.devcluster.login import LISTENER, USER, Mechanism  # noqa: PLC0415
    from onceflow.local.devcluster.scram import make_user  # noqa: PLC0415
    from onceflow.local.devregistry import DevRegistry, running  # noqa: PLC0415

    directory = data_dir.expanduser().absolute()
    there = brokers_of(directory)
    if registry and running(directory) is None:
        registry_home(on_one_line(sys.stderr))
        DevRegistry(directory, REGISTRY_PORT, detached=True).start()
    if mechanism is not None and not (sasl_ssl or _has_login(there)):
        raise typer.BadParameter("--mechanism is of a listener with a password: give --sasl-ssl, too")
    login, told = _login(directory), None if mechanism is None else Mechanism(mechanism)
    if there and all(broker.running_pid() for broker in there):
        _require_same(there, brokers, port, sasl_ssl)
        if _has_login(there):
            login.make(told)
        if output is OutputForm.TEXT:
            typer.echo("it runs already", err=True)
        _tell(directory, output)
        return
    java_executable()
    broker_jars(on_one_line(sys.stderr))
    settings = {}
    if sasl_ssl or _has_login(there):
        login.make(told)
        settings = login.settings()
    cluster = DevCluster(
        directory,
        brokers or len(there) or 1,
        settings,
        extra_listeners={LISTENER: "SASL_SSL"} if settings else {},
        port=port or (None if there else DEFAULT_PORT),
        detached=True,
    ).start()
    if settings:
        make_user(cluster.bootstrap_servers, USER, login.password.read_text())
    _tell(directory, output)


@app.command()
def down(data_dir: DataDir = DEFAULT_DIR, output: OutputOption = OutputForm.TEXT) -> None:
    """Stop Kafka. Its data stays. Good too if nothing runs."""
    from onceflow.local.devcluster import stop_detached  # noqa: PLC0415 - it loads Kafka's client
    from onceflow.local.devregistry import stop_detached as stop_registry  # noqa: PLC0415

    stopped = stop_detached(data_dir.expanduser())
    stop_registry(data_dir.expanduser())
    if output is OutputForm.JSON:
        tell_json({"stopped": stopped})
    else:
        typer.echo(f"stopped {len(stopped)} broker(s)" if stopped else "no broker was running")


@app.command()
def status(data_dir: DataDir = DEFAULT_DIR, output: OutputOption = OutputForm.TEXT) -> None:
    """Tell where Kafka listens and which brokers run. Exit code 1 if not all of them do."""
    if not _tell(data_dir.expanduser().absolute(), output):
        raise typer.Exit(1)


@app.command()
def topic(
    name: Annotated[str, typer.Argument(help="Its name.")],
    partitions: Annotated[int, typer.Option(help="How many.", min=1)] = 4,
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Make a topic there."""
    from onceflow.local.devcluster.records import make_topic  # noqa: PLC0415 - it loads Kafka's client

    make_topic(_servers(data_dir), name, partitions)
    typer.echo(f"topic {name} with {partitions} partitions")


@app.command()
def produce(
    to: Annotated[str, typer.Argument(metavar="TOPIC", help="Which topic.")],
    key: Annotated[
        str, typer.Option("--key-before", metavar="TEXT", help="A line's key is what stands before this.")
    ] = "",
    data_dir: DataDir = DEFAULT_DIR,
) -> None:
    """Write a record for each line of stdin."""
    from onceflow.local.devcluster import records  # noqa: PLC0415 - it loads Kafka's client

    def record(line: bytes) -> tuple[bytes | None, bytes]:
        before, found, behind = line.partition(key.encode()) if key else (b"", b"", line)
        return (before, behind) if found else (None, line)

    lines = (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    typer.echo(f"{records.produce(_servers(data_dir), to, map(record, lines))} records", err=True)


@app.command()
def consume(
    of: Annotated[str, typer.Argument(metavar="TOPIC", help="Which topic.")],
    follow: Annotated[bool, typer.Option("--follow", help="Wait for further ones, until Ctrl-C.")] = False,
    data_dir: DataDir = DEFAULT_DIR,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Print the records that readers of committed ones see: key, a tab, value, from the beginning."""
    from onceflow.local.devcluster import records  # noqa: PLC0415 - it loads Kafka's client

    for partition, offset, key, value in records.consume(_servers(data_dir), of, follow=follow):
        told_key, told = (None if each is None else each.decode(errors="backslashreplace") for each in (key, value))
        if output is OutputForm.JSON:
            tell_json({"partition": partition, "offset": offset, "key": told_key, "value": told})
        else:
            typer.echo(f"{in_one_line(told_key or '')}\t{in_one_line(told or '')}")


def _servers(data_dir: Path) -> str:
    """Where the Kafka there listens."""
    from onceflow.local.devcluster import brokers_of  # noqa: PLC0415 - it loads Kafka's client
    from onceflow.local.devcluster.config import PLAINTEXT  # noqa: PLC0415

    running = [broker for broker in brokers_of(data_dir.expanduser().absolute()) if broker.running_pid()]
    if not running:
        raise ConfigurationError(
            f"no Kafka of {data_dir} runs",
            harmless="always: nothing was done",
            cause="it was not started, or was stopped",
            action="start it: onceflow dev up",
        )
    return ",".join(f"127.0.0.1:{broker.node.ports[PLAINTEXT]}" for broker in running)


def _login(directory: Path) -> Login:
    from onceflow.local.devcluster.login import Login  # noqa: PLC0415 - it loads what makes certificates

    return Login(directory / "login")


def _has_login(brokers: list[Broker]) -> bool:
    from onceflow.local.devcluster.login import LISTENER  # noqa: PLC0415

    return any(LISTENER in broker.node.ports for broker in brokers)


def _require_same(there: list[Broker], brokers: int | None, port: int | None, sasl_ssl: bool) -> None:
    """Refuse to call it up already when what runs is not what was asked for."""
    from onceflow.local.devcluster.config import PLAINTEXT  # noqa: PLC0415

    has_port = there[0].node.ports[PLAINTEXT]
    differs = [
        f"it has {len(there)} broker(s), not {brokers}" if brokers not in (None, len(there)) else "",
        f"its port is {has_port}, not {port}" if port not in (None, has_port) else "",
        "it has no listener with a login" if sasl_ssl and not _has_login(there) else "",
    ]
    if any(differs):
        raise ConfigurationError(
            f"the dev cluster runs already, and not as asked: {'; '.join(filter(None, differs))}",
            action="stop it first (`onceflow dev down`), or use another --data-dir",
        )


def _tell(directory: Path, output: OutputForm) -> bool:
    """Print the state; True if all brokers run."""
    from onceflow.local.devcluster import brokers_of  # noqa: PLC0415 - it loads Kafka's client
    from onceflow.local.devcluster.config import PLAINTEXT  # noqa: PLC0415
    from onceflow.local.devcluster.login import LISTENER  # noqa: PLC0415
    from onceflow.local.devregistry import running as registry_of  # noqa: PLC0415

    brokers, registry = brokers_of(directory), registry_of(directory)
    state: list[dict[str, Any]] = [
        {
            "id": broker.node.id,
            "address": _address(broker, PLAINTEXT),
            "pid": broker.running_pid(),
            "log": str(broker.node.log),
        }
        for broker in brokers
    ]
    running = bool(state) and all(broker["pid"] for broker in state)
    servers = ",".join(broker["address"] for broker in state)
    login = _login(directory) if _has_login(brokers) else None
    secured = ",".join(_address(broker, LISTENER) for broker in brokers) if login else ""
    if output is OutputForm.JSON:
        told = {
            "running": running,
            "bootstrap_servers": servers,
            "data_dir": str(directory),
            "brokers": state,
            "registry": registry,
        }
        tell_json(told | {"login": dict(login.described(secured))} if login else told)
        return running
    typer.echo(f"Kafka {'runs' if running else 'does not run'}: {servers or 'none was made'} (data: {directory})")
    for broker in state:
        how = f"pid {broker['pid']}" if broker["pid"] else "not running"
        typer.echo(f"  broker {broker['id']}  {broker['address']}  {how}  log {broker['log']}")
    if registry is not None:
        typer.echo(f"schema registry: {registry}")
    if login:
        typer.echo(f"with TLS and a password: {secured}")
        for line in (*login.python(secured), login.console(secured)):
            typer.echo(f"  {line}")
    return running


def _address(broker: Broker, listener: str) -> str:
    from onceflow.local.devcluster.config import HOST  # noqa: PLC0415

    return f"{HOST}:{broker.node.ports[listener]}"
