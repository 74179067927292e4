"""From outside of a running job: what an operator sees and does.

Must not know: Spark, the driver, how a command line looks.
"""
