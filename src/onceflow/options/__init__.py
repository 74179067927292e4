"""Settings: what a user may set, with types, defaults and docs.

Must not know: what is done with them.
"""
