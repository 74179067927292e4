"""What an operator can see and do from outside of a job: list, describe, abort and resolve its transactions.

Must not know: Spark (it starts none), how a command line prints. It reads the job's sinks, checkpoint and clusters, and
changes something only after it has fenced the job or refused.
"""
