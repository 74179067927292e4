"""Databases: rows staged in tables of their own, and shown by one local transaction that writes a ledger first.

Must not know: Kafka, the journal, the driver, jobs.
"""
