"""Lake tables (Iceberg, Delta): Parquet files written beside the table, and shown by one snapshot for each epoch.

Must not know: Kafka, the journal, the driver, jobs.
"""
