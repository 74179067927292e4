"""Process trees, on real processes."""

import os
import subprocess
import sys

from onceflow.processes import command_line, descendants, kill_tree
from tests.integration.harness import wait_until

# A child in a process group of its own, as PySpark's worker daemon makes one, with a child of its own.
TREE = """
import subprocess, sys
inner = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])"
subprocess.run([sys.executable, "-c", inner], start_new_session=True)
"""


def test_a_tree_is_killed_with_those_that_left_its_group():
    """All three generations are found, the parent before its child, and none is left."""
    top = subprocess.Popen([sys.executable, "-c", TREE])
    try:
        wait_until(lambda: len(descendants(top.pid)) == 2, 30, "the whole tree")
        child, grandchild = descendants(top.pid)
        assert descendants(child) == [grandchild]
    finally:
        kill_tree(top.pid)
    assert top.wait(30) == -9
    wait_until(lambda: not command_line(child) and not command_line(grandchild), 30, "the end of the others")


def test_a_process_that_is_gone_has_no_tree():
    """Nothing is below it, nothing is killed, and nothing is raised."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    assert descendants(gone.pid) == []
    assert command_line(gone.pid) == ""
    kill_tree(gone.pid)


def test_a_command_line_is_that_of_the_process():
    """What a broker is told by: the argument that names its own file."""
    assert command_line(os.getpid()).startswith(sys.executable)
