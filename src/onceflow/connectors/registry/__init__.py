"""All that is known of schema registries: their client, and what its failures mean.

Must not know: the journal, the driver, jobs, how bytes are read.
"""
