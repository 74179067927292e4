"""Names that end up in what outlives a process: transactions, journals, groups. What they may look like.

Must not know: who uses them. Every part of a transactional id is of these letters; a broker allows no others in topics.
"""

from __future__ import annotations

import re

SINK_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
PREFIX = re.compile(r"[A-Za-z0-9._-]{1,64}")
JOB_ID = re.compile(r"[a-z0-9]{8,32}")

DEFAULT_PREFIX = "onceflow"
"""What transactional ids begin with where a job names nothing else."""
