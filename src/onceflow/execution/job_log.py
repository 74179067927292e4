"""A job's log: every line begins with the job's name, since a process may run several.

Must not know: what the lines say.
"""

from __future__ import annotations

import logging
from typing import Any


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """A module's logger, for the lines of one job.

    Args:
        logger: The module's.
        name: The job's; "" for lines as they are.
    """

    def __init__(self, logger: logging.Logger, name: str) -> None:
        super().__init__(logger)
        self._name = name

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a line."""
        if self._name:
            msg, args = "%s: %s", (self._name, str(msg) % args if args else str(msg))
        self.logger.log(level, msg, *args, stacklevel=2, **kwargs)
