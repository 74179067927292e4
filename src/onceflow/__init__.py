"""onceflow: end-to-end exactly-once for PySpark."""
