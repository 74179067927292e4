"""An error of a source that has lost records, and what a person chooses."""

import contextlib

from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.resolution import resolve
from onceflow.options.checkpointing import Checkpointing


def operator(job):
    return contextlib.closing(Operator(Checkpointing(job.folder), "onceflow", [job.sink]))


def choose(job, command, choice):
    """What ``onceflow txn resolve`` does, when a message names it with an epoch."""
    epoch = int(command.partition("onceflow txn resolve <job file> ")[2].split("`")[0].split()[0])
    with operator(job) as looking:
        resolve(looking, epoch, choice, who="a test", why="the message says so")
