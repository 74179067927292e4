"""For users' own tests: crash points of the real driver, and ending whole process trees.

Must not know: the rules. Everything here is off unless a test arms it.
"""

from onceflow.crash_points import POINTS
from onceflow.processes import descendants, kill_tree

__all__ = ["POINTS", "descendants", "kill_tree"]
