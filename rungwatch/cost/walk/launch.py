"""Running the counting function for a whole grid: once for all threads and CTAs that are alike.

Two threads are alike where all that the counts need of their indices is the same, and so are two
CTAs. No thread's counts depend on what another does, since nobody waits.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.walk.emit import MOST_ROUNDS, Counting, EndlessError, emit
from rungwatch.cost.walk.program import Program, Site, Unit
from rungwatch.cost.work import UnwalkableError, Work

THREAD_NAMES = ("thread", "thread_x", "thread_y", "thread_z")
CTA_NAMES = ("block_x", "block_y", "block_z", "rank_x", "rank_y", "rank_z")
# The fields of `Work` that no site adds to.
OF_CTAS = ("ctas", "flops_per_cta_max", "accumulators_per_cta_min", "accumulators_per_cta_max")
Row = tuple[Any, ...]


def _threads(plan: LaunchPlan) -> list[Row]:
    """Return a row of `THREAD_NAMES` for every thread of a CTA, in the order of warps."""
    x, y, z = plan.block
    places = ((i, j, k) for k, j, i in product(range(z), range(y), range(x)))
    return [(number, *place) for number, place in enumerate(places)]


def _ctas(plan: LaunchPlan) -> list[Row]:
    """Return a row of `CTA_NAMES` for every CTA: clusters one by one, by rank in each."""
    if any(extent % size for extent, size in zip(plan.grid, plan.cluster, strict=True)):
        raise UnwalkableError(f"a grid of {plan.grid} is not whole clusters of {plan.cluster}")
    (x, y, z), (a, b, c) = plan.grid, plan.cluster
    return [
        (i + p, j + q, k + r, p, q, r)
        for k, j, i in product(range(0, z, c), range(0, y, b), range(0, x, a))
        for r, q, p in product(range(c), range(b), range(a))
    ]


def _atoms(sources: Iterable[str], names: Sequence[str], rows: Iterable[Row]) -> list[Row]:
    inside = "".join(f"{source}, " for source in sources)
    function = eval(f"lambda {', '.join(names)}: ({inside})", {})
    return [function(*row) for row in rows]


def _kinds(rows: Iterable[Row]) -> tuple[list[Row], list[int]]:
    """Return the different rows, and the number of its kind for every row."""
    numbers: dict[Row, int] = {}
    kinds = [numbers.setdefault(row, len(numbers)) for row in rows]
    return list(numbers), kinds


def _groups(kinds: Sequence[int]) -> dict[Unit, Counter[frozenset[int]]]:
    """Return, for every unit, which kinds of threads make up one, and how many such there are."""
    return {
        unit: Counter(
            frozenset(kinds[first : first + unit]) for first in range(0, len(kinds), unit)
        )
        for unit in Unit
    }


def _executions(
    number: int, site: Site, groups: Counter[frozenset[int]], counts: Sequence[tuple[int, ...]]
) -> int:
    """Return how often a CTA executes a site, its unit's threads together counting once."""
    total = 0
    for group, members in groups.items():
        times = {counts[kind][number] for kind in group}
        if len(times) > 1:
            raise UnwalkableError(
                f"'{site.name}' is executed by some threads of a {site.unit.name.lower()} and not"
                f" by others ({min(times)} and {max(times)} times)"
            )
        total += members * times.pop()
    return total


def _count(counter: Counting, atoms: Row) -> tuple[int, ...]:
    try:
        return counter(*atoms)
    except EndlessError:
        raise UnwalkableError(
            f"a while loop goes on for more than {MOST_ROUNDS:,} rounds"
        ) from None
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError) as error:
        raise UnwalkableError(
            f"control flow depends on a local that is not set, or divides by zero ({error})"
        ) from None


def run(program: Program, plan: LaunchPlan, collapse: bool) -> Work:
    """Count the work of a whole grid.

    Without `collapse` every thread and every round of a loop is run by itself: slow, the same.

    Raises:
        UnwalkableError: counts depend on data, a loop does not end, or an instruction of a whole
            warp or warpgroup is not executed by all of it.
    """
    counter, thread_names, cta_names = emit(program, collapse)
    threads, ctas = _threads(plan), _ctas(plan)
    for warp in range(0, len(threads), Unit.WARP):
        lanes = threads[warp : warp + Unit.WARP]
        if len(set(_atoms(sorted(program.uniform), THREAD_NAMES, lanes))) > 1:
            raise UnwalkableError("a warp shuffle of what differs between the lanes")
    thread_atoms = _atoms((program.thread_atoms[n] for n in thread_names), THREAD_NAMES, threads)
    cta_atoms = _atoms((program.cta_atoms[n] for n in cta_names), CTA_NAMES, ctas)
    if collapse:
        thread_kinds, kind_of_thread = _kinds(thread_atoms)
        cta_kinds, kind_of_cta = _kinds(cta_atoms)
    else:
        thread_kinds, kind_of_thread = thread_atoms, list(range(len(threads)))
        cta_kinds, kind_of_cta = cta_atoms, list(range(len(ctas)))
    groups = _groups(kind_of_thread)
    peers = kind_of_cta
    if any(site.pair for site in program.sites):
        if plan.cluster_ctas % 2:
            raise UnwalkableError(f"instructions for two CTAs in clusters of {plan.cluster_ctas}")
        # The two CTAs of a pair follow each other: their ranks differ in the last bit.
        peers = [kind_of_cta[number ^ 1] for number in range(len(ctas))]
    alike = Counter(kind_of_cta)
    totals: Counter[str] = Counter()
    own: list[Counter[str]] = []
    halves: list[Counter[str]] = []
    for kind, cta in enumerate(cta_kinds):
        counts = [_count(counter, (*thread, *cta)) for thread in thread_kinds]
        single: Counter[str] = Counter()
        paired: Counter[str] = Counter()
        for number, site in enumerate(program.sites):
            times = _executions(number, site, groups[site.unit], counts)
            for field, amount in site.adds.items():
                (paired if site.pair else single)[field] += times * amount
        for field, amount in (single + paired).items():
            totals[field] += alike[kind] * amount
        own.append(single)
        halves.append(paired)
    shares = {
        field: [
            own[kind][field] + (halves[kind][field] + halves[peer][field]) // 2
            for kind, peer in zip(kind_of_cta, peers, strict=True)
        ]
        for field in ("flops", "accumulators")
    }
    return Work(
        ctas=len(ctas),
        flops_per_cta_max=max(shares["flops"]),
        accumulators_per_cta_min=min(shares["accumulators"]),
        accumulators_per_cta_max=max(shares["accumulators"]),
        **{field: totals[field] for field in Work.__struct_fields__ if field not in OF_CTAS},
    )
