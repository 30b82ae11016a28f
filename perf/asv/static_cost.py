"""Static cost of every kernel at the published problem: exact numbers, no GPU."""

import os
from pathlib import Path

from rungwatch.artifact.build import Case, Progress, build
from rungwatch.artifact.costs import Costs, CostUnknownError, WorkMismatchError
from rungwatch.artifact.store import Store
from rungwatch.artifact.toolchain import installed
from rungwatch.cache import cache_dir
from rungwatch.cost.static_cost import TRACKED_BY_ASV
from rungwatch.cost.targets import SM_FACTS
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import KernelFile, discover
from rungwatch.declare.subject import from_file

# M, N and K of the published B200 times; a kernel that cannot take it gets its nearest.
PUBLISHED = 4096


def kernels_root() -> Path:
    """Return the kernels of the commit that is measured.

    asv checks it out below the environment that it made; an environment that was there before
    measures the checkout that this file is part of.
    """
    made_by_asv = os.environ.get("ASV_ENV_DIR")
    if made_by_asv:
        return Path(made_by_asv) / "project" / "kernels"
    return Path(__file__).parents[2] / "kernels"


def case(kernel: KernelFile) -> Case:
    """Return the published problem of one kernel on its first target."""
    if kernel.declaration is None:
        raise CostUnknownError(kernel.error)
    target = kernel.declaration.targets[0]
    published = Shape(PUBLISHED, PUBLISHED, PUBLISHED, SM_FACTS[target].sm_count)
    return Case(from_file(kernel), kernel.declaration.rules.nearest(published), target)


class StaticCosts:
    """One number a kernel and metric. Lower is better, as everywhere in asv."""

    params = ([kernel.key for kernel in discover(kernels_root())], list(TRACKED_BY_ASV))
    param_names = ("kernel", "metric")
    version = "1"  # raise it when a metric counts something else
    unit = "count"
    timeout = 60

    def setup_cache(self) -> dict[str, dict[str, float] | str]:
        """Build and read each kernel once; one that fails must not hide the others."""
        store = Store(cache_dir() / "artifacts")
        costs = Costs(store, cache_dir() / "costs")
        found: dict[str, dict[str, float] | str] = {}
        cases = {}
        for kernel in discover(kernels_root()):
            try:
                cases[kernel.key] = case(kernel)
            except CostUnknownError as error:
                found[kernel.key] = str(error)
        for key, built in zip(
            cases, build(list(cases.values()), installed(), store, Progress()), strict=True
        ):
            try:
                found[key] = costs(built).cost if built.entry is not None else built.message
            except (CostUnknownError, WorkMismatchError) as error:
                found[key] = str(error)
        return found

    setup_cache.timeout = 1200  # type: ignore[attr-defined]

    def track_cost(self, found: dict[str, dict[str, float] | str], key: str, metric: str) -> float:
        """Return a number, or raise: asv takes NaN and None for a result and says nothing."""
        counted = found[key]
        if isinstance(counted, str):
            raise CostUnknownError(counted)
        return counted[metric]
