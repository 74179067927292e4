"""For all tests: a property has no time limit of its own, since a busy machine proves nothing against it."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
