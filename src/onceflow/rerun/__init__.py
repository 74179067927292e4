"""Decided epochs, run again over what they have read: for the audit, and for a system that has lost them.

Must not know: the journal, who asks for it, any particular sink or source.
"""
