"""What a person sees of a checkpoint from outside of its job: the epochs that it has kept statistics of.

Must not know: Spark, sinks, sources, how a command line prints. It only reads.
"""
