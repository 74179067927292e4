"""What a message must say: used by the tests that then do what it says.

Must not know: any one error.
"""

from onceflow.errors import OnceflowError


def parts_of(error: object, kind: type[OnceflowError], *facts: str) -> OnceflowError:
    """Hold that an error is of a class, has all four parts and names these facts; the error as it came."""
    assert isinstance(error, OnceflowError), error
    assert type(error) is kind, error
    for name in ("what", "harmless", "cause", "action"):
        assert getattr(error, name).strip(), f"{kind.__name__} says nothing of {name}: {error}"
        assert getattr(error, name) in str(error)
    for fact in facts:
        assert fact in str(error), fact
    return error
