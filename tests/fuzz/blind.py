"""Fuzzing without guidance and without a library: mutations of the seeds, so many executions, the same for one seed.

Must not know: coverage. Where atheris is installed ``child.py`` finds more.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.mutations import Mutator
from tests.fuzz.target import Target
from tests.fuzz.watch import LONGEST, Find, Watch, bounded_memory


def fuzz(target: Target, executions: int, seed: int, *, until: Callable[[Find], bool] = lambda _: False) -> list[Find]:
    """The finds of so many executions, each once.

    Args:
        target: What is fuzzed.
        executions: How many, beside the seeds themselves.
        seed: Of the inputs.
        until: Behind a find of which this holds no more is looked for.
    """
    seeds, chance = target.seeds(), random.Random(seed)
    mutator = Mutator(seeds, LONGEST)
    found: dict[tuple[str, ...], Find] = {}
    with tempfile.TemporaryDirectory() as folder:
        watch = Watch(target.name, target.read, target.promised, Path(folder))
        watch.warm_up(
            seeds
        )  # libraries take room of their own (Arrow's pool some GB of addresses), before it is bounded
        inputs = (mutator.mutated(chance.choice(seeds), chance.randrange(1 << 62)) for _ in range(executions))
        with bounded_memory():
            for data in (*seeds, *inputs):
                find = watch.find(data)
                if find is not None:
                    found.setdefault(find.key, find)
                    if until(find):
                        break
    return list(found.values())
