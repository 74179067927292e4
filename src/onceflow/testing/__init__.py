"""For users' own tests: crash points of the real driver, and ending whole process trees.

Must not know: the rules. Everything here is off unless a test arms it.
"""

from onceflow.crash_points import ARM, MARK, POINTS
from onceflow.processes import descendants, kill_tree
from onceflow.testing.transactions import OpenTransactions

__all__ = ["ARM", "MARK", "POINTS", "OpenTransactions", "descendants", "kill_tree"]
