"""Functions that the statements of the corpus name."""


def double(number: int) -> int:
    """Twice as much."""
    return 2 * number
