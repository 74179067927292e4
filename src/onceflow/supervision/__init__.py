"""What keeps a job going, and what ends it: signals, restarts.

Must not know: what a job is made of, how an epoch commits.
"""
