"""The systems that records come from and go to, each behind the contract; and the formats of records.

Must not know: the journal, the driver, how an epoch is decided.
"""
