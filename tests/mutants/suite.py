"""All mutants of all rungs, and the seeded sample of them that is run."""

import ast
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .mutant import RUNGS, Kernel, Mutant, program_hash, read_kernel
from .operators import OPERATORS


def mutants_of(kernel: Kernel) -> list[Mutant]:
    """Return every mutant of one kernel, each program once and none that is the kernel itself."""
    seen = {program_hash(kernel.rung, kernel.text)}
    found = []
    names: Counter[str] = Counter()
    for operator, sites in OPERATORS.items():
        for site in sites(kernel):
            mutant = kernel.mutate(operator, site)
            ast.parse(mutant.source)
            if mutant.key in seen:
                continue
            seen.add(mutant.key)
            names[mutant.name] += 1
            if names[mutant.name] > 1:
                mutant = replace(mutant, variant=f"{mutant.variant}{names[mutant.name]}")
            found.append(mutant)
    return found


def all_mutants() -> list[Mutant]:
    """Return every mutant of every rung, in the order of the ladder."""
    return [mutant for rung in RUNGS for mutant in mutants_of(read_kernel(rung))]


def sample(mutants: Sequence[Mutant], per_operator: int, seed: int) -> list[Mutant]:
    """Return at most `per_operator` mutants of each operator, in the order given.

    Each is from another rung until every rung has one. Which ones depends on the seed and on the
    programs, not on their lines.
    """
    chosen: set[str] = set()
    for operator in sorted({mutant.operator for mutant in mutants}):
        by_rung: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            if mutant.operator == operator:
                by_rung.setdefault(mutant.rung, []).append(mutant)
        generator = random.Random(f"{seed} {operator}")
        rungs = sorted(by_rung)
        generator.shuffle(rungs)
        queues = []
        for rung in rungs:
            group = sorted(by_rung[rung], key=lambda mutant: mutant.key)
            generator.shuffle(group)
            queues.append(group)
        rounds = itertools.zip_longest(*queues)
        order = [mutant for turn in rounds for mutant in turn if mutant is not None]
        chosen |= {mutant.key for mutant in order[:per_operator]}
    return [mutant for mutant in mutants if mutant.key in chosen]
