"""Formats: how the bytes of a Kafka key or value become columns, and columns bytes.

Sources decode and sinks encode with the same objects. Must not know: Kafka, topics, sources, sinks.
"""
