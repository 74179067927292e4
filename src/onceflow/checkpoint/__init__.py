"""What is durable: the journal, the job's identity, and what Spark keeps beside them.

Must not know: Kafka, sinks' transactions, how a query runs.
"""
