"""One target under libFuzzer, by atheris: ``python -m tests.fuzz.child NAME …``, in a process that ends with it.

Must not know: what is reported of it. Finds are written as they come, since libFuzzer ends the process; what it counts
it says on its standard error.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["onceflow"]):
    from tests.fuzz.mutations import Mutator
    from tests.fuzz.target import Target
    from tests.fuzz.targets import TARGETS
    from tests.fuzz.watch import LONGEST, Find, Watch, bounded_memory
with atheris.instrument_imports(include=["tests.fuzz.plants"]):  # behind the others: what these load is not ours
    from tests.fuzz import plants

_OWN = 0.75
"""So many mutations are ours; of the others libFuzzer knows which bytes were compared with what."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.child", description=__doc__)
    parser.add_argument("target")
    parser.add_argument("--folder", type=Path, required=True, help="for the corpus, the reader's files, and the finds")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--executions", type=int, default=-1)
    parser.add_argument("--plant", help="with this fault planted, until it is found")
    asked = parser.parse_args()
    logging.disable()
    if asked.plant is None:
        _fuzz(asked, TARGETS[asked.target])
    else:
        plant = plants.PLANTS[asked.plant]
        with plant.planted():
            _fuzz(asked, plant.target, plant.is_found)


def _fuzz(asked: argparse.Namespace, target: Target, until: Callable[[Find], bool] = lambda _: False) -> None:
    seeds = target.seeds()
    corpus = asked.folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number:03d}").write_bytes(seed)
    watch = Watch(target.name, target.read, target.promised, asked.folder / "files")
    watch.warm_up(seeds)
    mutator, found = Mutator(seeds, LONGEST), dict[tuple[str, ...], Find]()

    def one(data: bytes) -> None:
        find = watch.find(data)
        if find is not None and (find.key not in found or len(data) < len(found[find.key].data)):
            found[find.key] = find
            told = [each.told() for each in found.values()]
            (asked.folder / "finds.json").write_text(json.dumps(told))
            if until(find):
                os._exit(0)  # as libFuzzer ends a process, too

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        if random.Random(seed).random() < _OWN:
            return mutator.mutated(data, seed)[:most]
        return bytes(atheris.Mutate(data, most))

    options = [
        f"-seed={asked.seed}", f"-runs={asked.executions}", f"-max_total_time={asked.seconds}", f"-max_len={LONGEST}",
        "-len_control=0", "-timeout=60", "-rss_limit_mb=0", "-print_final_stats=1", "-use_value_profile=1",
        f"-artifact_prefix={asked.folder}/died-", str(corpus),
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutated)
    with bounded_memory():
        atheris.Fuzz()


if __name__ == "__main__":
    main()
