"""One running job: where the rules meet Spark and the connectors. An epoch, an epoch's run, its end.

Must not know: any particular sink or source beyond their contracts.
"""
