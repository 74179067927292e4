"""``onceflow dev up|down|status``: a Kafka on this machine that stays until it is told to go.

Must not know: jobs. Errors go to whoever runs the command line, which prints them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onceflow.cli.output import Output, OutputOption, tell_json
from onceflow.local.devcluster import DevCluster, brokers_of, stop_detached
from onceflow.local.devcluster.config import HOST, PLAINTEXT
from onceflow.local.jars import broker_jars

app = typer.Typer(
    help="A Kafka on this machine, for development.", no_args_is_help=True, pretty_exceptions_enable=False
)


DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="ONCEFLOW_DEV_DIR", help="Where its data, ports and logs lie.")
]

DEFAULT_DIR = Path("~/.local/share/onceflow/dev")


@app.command()
def up(
    brokers: Annotated[int, typer.Option(help="1 or 3.")] = 1,
    port: Annotated[int, typer.Option(help="The first broker's port; others take free ones.")] = 9092,
    data_dir: DataDir = DEFAULT_DIR,
    output: OutputOption = Output.TEXT,
) -> None:
    """Start Kafka in the background and wait until it answers. Its data is there again after down and up."""

    def show(done: int, total: int) -> None:
        typer.echo(f"fetching jars: {done} of {total}", err=True)

    broker_jars(show)
    directory = data_dir.expanduser()
    DevCluster(directory, brokers, port=port, detached=True).start()
    _tell(directory, output)


@app.command()
def down(data_dir: DataDir = DEFAULT_DIR, output: OutputOption = Output.TEXT) -> None:
    """Stop Kafka. Its data stays. Good too if nothing runs."""
    stopped = stop_detached(data_dir.expanduser())
    if output is Output.JSON:
        tell_json({"stopped": stopped})
    else:
        typer.echo(f"stopped {len(stopped)} broker(s)" if stopped else "no broker was running")


@app.command()
def status(data_dir: DataDir = DEFAULT_DIR, output: OutputOption = Output.TEXT) -> None:
    """Tell where Kafka listens and which brokers run. Exit code 1 if not all of them do."""
    if not _tell(data_dir.expanduser(), output):
        raise typer.Exit(1)


def _tell(directory: Path, output: Output) -> bool:
    """Print the state; True if all brokers run."""
    state: list[dict[str, Any]] = [
        {
            "id": broker.node.id,
            "address": f"{HOST}:{broker.node.ports[PLAINTEXT]}",
            "pid": broker.running_pid(),
            "log": str(broker.node.log),
        }
        for broker in brokers_of(directory)
    ]
    running = bool(state) and all(broker["pid"] for broker in state)
    servers = ",".join(broker["address"] for broker in state)
    if output is Output.JSON:
        tell_json(
            {
                "running": running,
                "bootstrap_servers": servers,
                "data_dir": str(directory.absolute()),
                "brokers": state,
            }
        )
        return running
    typer.echo(f"Kafka {'runs' if running else 'does not run'}: {servers or 'none was made'} (data: {directory})")
    for broker in state:
        how = f"pid {broker['pid']}" if broker["pid"] else "not running"
        typer.echo(f"  broker {broker['id']}  {broker['address']}  {how}  log {broker['log']}")
    return running
