"""The simulation can fail: each broken rule is noticed by the invariant that is named for it."""

import pytest

from tests.simulation.checks import INVARIANTS
from tests.simulation.explore import run_seed
from tests.simulation.mutants import MUTANTS
from tests.simulation.sim_driver import simulated

SEEDS = 4_000


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name.replace(" ", "-"))
def test_a_broken_rule_is_noticed(mutant):
    """Some seed shows the mutant, and what speaks up is an invariant that the mutant's author had named."""
    seen = set()
    with simulated(), mutant.broken():
        for seed in range(SEEDS):
            violation = run_seed(seed, focus=mutant.focus, **mutant.fixed).violation
            if violation is not None:
                seen.add(violation.name)
                if violation.name in mutant.caught_by:
                    return
    pytest.fail(f"{mutant.name}: not noticed in {SEEDS} seeds by {mutant.caught_by}; seen: {seen or 'nothing'}")


def test_every_mutant_names_invariants_that_exist():
    """A misspelt name would be noticed by nobody."""
    assert {name for mutant in MUTANTS for name in mutant.caught_by} <= set(INVARIANTS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
