"""``python -m tests.examples NAME``: an example by whoever runs it.

Must not know: how any is run.
"""

import sys

from tests.examples import cdc, stateful

if __name__ == "__main__":
    name, *more = sys.argv[1:] or ["all"]
    if name == "cdc_to_postgres":
        sys.exit(cdc.main(more))
    sys.exit(stateful.main([name, *more]))
