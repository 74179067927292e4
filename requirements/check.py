"""What `make` needs of this machine, in one line and before anything is fetched: Python; with --java, Java too.

Must not know: onceflow, which may not be there yet. So Java's rule stands here a second time (``local/jars.py`` has it
first; a test holds them together), and what is written here an old Python must be able to read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


def wrong_python() -> str | None:
    """What is wrong with the Python that runs this, or None."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return None
    has = ".".join(map(str, sys.version_info[:2]))
    return f"onceflow needs Python 3.11 or newer, and {sys.executable} is {has}. Name another one: make PYTHON=..."


def wrong_java() -> str | None:
    """What is wrong with Java, or None."""
    action = ". Install one (Debian: openjdk-17-jre-headless) and put it on PATH, or set JAVA_HOME to it."
    home = os.environ.get("JAVA_HOME", "")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        found = f"JAVA_HOME={home} has no bin/java that can be run" if home else "no java is on PATH"
    else:
        told = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False).stdout
        version = re.search(rb'version "(?:1\.)?(\d+)', told)
        if version is not None and int(version.group(1)) >= OLDEST_JAVA:
            return None
        found = f"{java} is Java {version.group(1).decode()}" if version else f"{java} did not tell its version"
    return f"onceflow needs Java {OLDEST_JAVA} or 21, and {found}{action}"


if __name__ == "__main__":
    sys.exit(wrong_python() or (wrong_java() if "--java" in sys.argv else None))
