"""A start: from a checkpoint's location to a query that runs, as one list of steps.

Must not know: the rules of the commit, any particular sink or source beyond the contract.
"""
