"""Static cost of every kernel at the published problem: exact counts, no GPU."""

import os
from pathlib import Path

from rungwatch.cost.tir_cost import METRICS, CostError, TirCost, cost_of
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import KernelFile, discover

# The problem of the published B200 times; a kernel that cannot take it gets its nearest.
PUBLISHED = Shape(4096, 4096, 4096, sm_count=148)


def kernels_root() -> Path:
    """Return the kernels of the commit that is measured.

    asv checks it out below the environment that it made; an environment that was there before
    measures the checkout that this file is part of.
    """
    made_by_asv = os.environ.get("ASV_ENV_DIR")
    if made_by_asv:
        return Path(made_by_asv) / "project" / "kernels"
    return Path(__file__).parents[2] / "kernels"


def cost(kernel: KernelFile) -> TirCost:
    """Return the counts of one kernel.

    Raises:
        CostError: it declares nothing, or cannot be lowered.
    """
    if kernel.declaration is None:
        raise CostError(kernel.error)
    rules = kernel.declaration.rules
    shape = Shape(
        rules.M.nearest(PUBLISHED.m),
        rules.N.nearest(PUBLISHED.n),
        rules.K.nearest(PUBLISHED.k),
        rules.sm_count.nearest(PUBLISHED.sm_count),
    )
    return cost_of(kernel.path, shape, kernel.declaration.targets[0])


class TirCosts:
    """One number a kernel and metric. Lower is better, as everywhere in asv."""

    params = ([kernel.key for kernel in discover(kernels_root())], list(METRICS))
    param_names = ("kernel", "metric")
    version = "1"  # raise it when a metric counts something else
    unit = "count"
    timeout = 60

    def setup_cache(self) -> dict[str, TirCost | str]:
        """Count each kernel once; one that cannot be counted must not hide the others."""
        found: dict[str, TirCost | str] = {}
        for kernel in discover(kernels_root()):
            try:
                found[kernel.key] = cost(kernel)
            except CostError as error:
                found[kernel.key] = str(error)
        return found

    setup_cache.timeout = 1200  # type: ignore[attr-defined]

    def track_cost(self, found: dict[str, TirCost | str], key: str, metric: str) -> int:
        """Return a count, or raise: asv takes NaN and None for a result and says nothing."""
        counted = found[key]
        if isinstance(counted, str):
            raise CostError(counted)
        return int(getattr(counted, metric))
