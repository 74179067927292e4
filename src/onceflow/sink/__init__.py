"""Sinks: where a record leaves the job."""
