"""Savepoints: a checkpoint's newest epoch, kept apart; and new runs that go on from one.

Must not know: any particular sink or source, how a command line looks.
"""
