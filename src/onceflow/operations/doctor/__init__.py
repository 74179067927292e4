"""``onceflow doctor``: what can be found out about a job, and about the machine, before it fails.

Must not know: any particular sink, any particular source, how a command line looks. It changes nothing.
"""
