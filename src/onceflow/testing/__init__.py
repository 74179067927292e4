"""For users' own tests: crash points of the real driver, ending process trees, and whether a sink keeps its contract.

Must not know: the rules. Everything here is off unless a test arms it.
"""

from onceflow.crash_points import ARM, MARK, POINTS
from onceflow.processes import descendants, kill_tree
from onceflow.testing import conformance
from onceflow.testing.transactions import OpenTransactions
from onceflow.testing.trial import World

__all__ = ["ARM", "MARK", "POINTS", "OpenTransactions", "World", "conformance", "descendants", "kill_tree"]
