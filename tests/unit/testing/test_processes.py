"""Process trees, on real processes."""

import os
import signal
import subprocess
import sys

from onceflow.processes import children_with, command_line, descendants, kill_tree, stands_still
from tests.support.harness import wait_until

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


# Kills its own tree, unless another thread sees a child end before. There are enough of them for it to have the time.
OWN = """
import os, subprocess, threading
from onceflow.processes import kill_tree
children = [subprocess.Popen(["tail", "-f", os.devnull]) for _ in range(50)]
print(*(child.pid for child in children), flush=True)
for child in children:
    threading.Thread(target=lambda child=child: (child.wait(), os._exit(7)), daemon=True).start()
kill_tree(os.getpid())
"""


def test_who_kills_its_own_tree_sees_no_other_end():
    """It ends by the signal, and not by what a thread of it does when a child is gone; nothing is left."""
    ended = subprocess.run([sys.executable, "-c", OWN], check=False, stdout=subprocess.PIPE, timeout=60)
    assert ended.returncode == -9
    children = [int(pid) for pid in ended.stdout.split()]
    wait_until(lambda: not any(map(command_line, children)), 30, "the end of all children")


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


def test_a_child_is_told_by_its_environment():
    """Of two children the one that was started with the variable of this value, and no grandchild."""
    wait = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]
    started = [
        subprocess.Popen(wait, env=os.environ | {"WHOSE": whose}, stdout=subprocess.PIPE) for whose in ("mine", "other")
    ]
    try:
        for each in started:
            each.stdout.readline()
        assert children_with("WHOSE", "mine") == [started[0].pid]
        assert children_with("WHOSE", "nobody's") == []
    finally:
        for each in started:
            each.kill()
            each.communicate()


BUSY = """
import threading
for _ in range(5):
    threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()
print(flush=True)
"""


def test_a_process_stands_still_when_all_its_threads_do():
    """After SIGSTOP, and no longer after SIGCONT; one that is gone does nothing either."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        assert not stands_still(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: stands_still(process.pid), 30, "SIGSTOP")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: not stands_still(process.pid), 30, "SIGCONT")
    finally:
        process.kill()
        process.communicate()
    assert stands_still(process.pid)
