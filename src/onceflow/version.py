"""Which onceflow this is: the driver compares it with what its executors have.

Must not know: anything.
"""

VERSION = "0.1.0"
