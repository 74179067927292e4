"""Where durable files are: three file systems behind one port, and what is written once above it.

Must not know: what the files hold, the journal, Spark, Kafka.
"""
