"""What onceflow knows about Kafka itself: how to reach a cluster and how to speak to its transactions.

Must not know: the journal, the driver, jobs.
"""
