"""Looking again until time is over."""

from onceflow.waiting import turns


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += seconds


def looked_at(within_s: float, every_s: float) -> list[tuple[float, bool]]:
    clock = Clock()
    return [(clock.time, last) for last in turns(within_s, every_s, now=clock.now, pause=clock.pause)]


def test_the_last_turn_begins_when_time_is_over():
    assert looked_at(1.0, 0.4) == [(0.0, False), (0.4, False), (0.8, False), (1.2000000000000002, True)]


def test_there_is_a_turn_where_there_is_no_time():
    """Else a question with no time left would be taken for one that was refused."""
    assert looked_at(0.0, 1.0) == looked_at(-5.0, 1.0) == [(0.0, True)]
