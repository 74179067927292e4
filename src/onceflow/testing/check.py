"""One fact about a sink, looked at in a world of it; and what is raised where it does not hold.

Must not know: which facts there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from unittest import SkipTest

from onceflow.connectors.contract import Guarantee
from onceflow.testing.trial import Trial, World


class Broken(AssertionError):  # noqa: N818 - it is said of a sink
    """A sink does not keep its contract.

    Args:
        name: The check's name.
        why: What was seen.
    """

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(f"{name}: {why}")


@dataclass(frozen=True, slots=True)
class Check:
    """One fact about a sink; call it with a world.

    Attributes:
        name: The fact, as a name.
        proves: The fact, as a sentence.
        of: Sinks of which guarantees must hold it.
    """

    name: str
    proves: str
    of: frozenset[Guarantee]
    body: Callable[[Trial], None]

    def __str__(self) -> str:
        return self.name

    def __call__(self, world: World) -> None:
        """Look whether it holds.

        Raises:
            Broken: It does not.
            unittest.SkipTest: It cannot be asked of this sink, or of this world; pytest shows the reason.
        """
        try:
            sink = world.sink()
            if not isinstance(sink.guarantee, Guarantee):
                raise TypeError(f"the sink's guarantee is {sink.guarantee!r}; it must be one of onceflow.Guarantee")
            if sink.guarantee not in self.of:
                raise SkipTest(
                    f"it is asked of sinks that are {' or '.join(sorted(self.of))}; this is {sink.guarantee}"
                )
            with Trial(world) as trial:
                self.body(trial)
        except AssertionError as error:
            raise Broken(self.name, str(error)) from error
        except SkipTest:
            raise
        except Exception as error:
            raise Broken(self.name, f"{type(error).__name__}: {error}") from error


FOUND: list[Check] = []
"""All checks, in the order in which their files are read."""


def asks(*of: Guarantee) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    """Make a function a check, of sinks with one of these guarantees."""

    def add(body: Callable[[Trial], None]) -> Callable[[Trial], None]:
        FOUND.append(Check(body.__name__, (body.__doc__ or "").strip(), frozenset(of), body))
        return body

    return add


IN_TWO_PHASES = asks(Guarantee.EXACTLY_ONCE)
