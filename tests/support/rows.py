"""A sink of which nothing is written: what a plan gives for it is looked at in the plan's own rows."""

from onceflow.connectors.contract import Guarantee, Sink
from onceflow.formats.contract import column_named


class Rows(Sink):
    """A sink that takes all columns as they are."""

    guarantee = Guarantee.EXACTLY_ONCE

    def __init__(self, name):
        self.name = self.destination = name

    def connect(self):
        raise NotImplementedError

    def columns(self, fields):
        return [column_named(name) for name in fields.names]
