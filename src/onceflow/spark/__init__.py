"""Spark's inside: the only room that touches what PySpark keeps private, Spark's class names and Spark's sentences.

Must not know: sinks, the journal, the rules.
"""
