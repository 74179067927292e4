"""The command line: one file for each group of commands, thin.

Must not know: anything below public names and what the commands are for: the demo, local Kafka, ``operations``.
"""
