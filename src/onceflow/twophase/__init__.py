"""The rules of the two-phase commit, and nothing else.

Must not know: Spark, Kafka, databases, files, clocks, threads, logging. Only the standard library is imported
here (a test keeps it so). Every value is frozen; the coordinator takes events and answers with actions, so a
test can drive it through every order of crashes and answers without starting anything.
"""
