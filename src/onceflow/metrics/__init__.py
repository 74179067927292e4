"""A running job's figures and health, for Prometheus and for who asks whether it is ready: off unless a port is named.

Must not know: how an epoch commits, Spark, Kafka. It is told what happens, and decides nothing.
"""
