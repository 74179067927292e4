"""The process between a dev cluster and its broker: when the cluster's process dies, the broker dies.

Must not know: onceflow. It is run as a bare file (``python -I -S watch.py PARENT COMMAND…``), so that it starts in
a few milliseconds and imports nothing but the standard library.

A parent that is killed by SIGKILL can clean up nothing, so somebody else must notice. This process is its
child: when the parent is gone, the kernel gives it another parent (on every POSIX system), and it kills the
broker, its own child. It prints the broker's process id as its first and only line.
"""

import os
import subprocess
import sys

_LOOK_EVERY = 0.2  # seconds


def main() -> int:
    """Run the command; end with its exit code, or with 1 after the parent's death."""
    parent = int(sys.argv[1])  # not getppid(): it may be dead already
    # close_fds=False: the broker inherits the data directory's lock, so it stays locked while the broker lives
    command = subprocess.Popen(sys.argv[2:], close_fds=False)
    sys.stdout.write(f"{command.pid}\n")
    sys.stdout.flush()
    while True:
        try:
            return command.wait(_LOOK_EVERY)
        except subprocess.TimeoutExpired:
            if os.getppid() != parent:
                command.kill()
                command.wait()
                return 1


if __name__ == "__main__":
    sys.exit(main())
