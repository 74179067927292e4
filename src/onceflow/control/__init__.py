"""The jobs of this user on this machine: each can be found and asked from another shell.

Must not know: what a job does, Spark, how a command line prints.
"""
