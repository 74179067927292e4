"""The places where onceflow reads what others may have made, by name.

Must not know: how they are fuzzed.
"""

from tests.fuzz import durable, kafka, talking, words

TARGETS = {each.name: each for each in (*durable.TARGETS, *kafka.TARGETS, *words.TARGETS, *talking.TARGETS)}
