"""What one machine needs to run everything itself: pinned jars, a real Kafka in child processes, a class archive.

Must not know: jobs, the journal, the rules.
"""
