"""What an operator can see and do from outside of a job: list, describe, abort and resolve its transactions.

Must not know: Spark, any particular sink, any particular source, how a command line prints. It starts no Spark; it
reads the job's checkpoint, looks at its sinks' systems as far as their connectors let it, and changes something only
after it has fenced the job or refused.
"""
