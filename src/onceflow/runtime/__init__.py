"""Where the rules meet Spark and the sinks: sessions, the epoch's plan, and the driver.

Must not know: any particular sink or source beyond their contracts.
"""
