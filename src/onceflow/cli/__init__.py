"""The command line: one file for each group of commands, thin.

Must not know: anything below the public names of the package and of ``runtime``.
"""
