"""Timings made in code: what workers would have measured."""

import random

from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.record.model import (
    Arm,
    Conditions,
    Environment,
    Gpu,
    Record,
    Row,
    Run,
    Timing,
    Toolchain,
    WorkerConditions,
    WorkerSamples,
)

FAMILY = "hgemm/hopper"
CUBE = Shape(4096, 4096, 4096, 132)
CONDITIONS = Conditions(1755, 3201, 690.0, 61, ("sw_power_cap",))


def square(size):
    return Shape(size, size, size, 132)


def timing(us, cublas_us=180.0, *, launched=CUBE, workers=12, rounds=5, slow=(), noise=0.001):
    """Return a timing around these times; cuBLAS is 8 % slower in the workers `slow`."""
    chance = random.Random(f"{us} {cublas_us} {workers} {noise}")

    def samples(worker, level_us):
        own = level_us * chance.gauss(1, noise)
        return WorkerSamples(
            worker, tuple(1000 * own * chance.gauss(1, noise) for _ in range(rounds))
        )

    cublas = [cublas_us * (1.08 if worker in slow else 1.0) for worker in range(workers)]
    return Timing(
        method="graph-events",
        cache="cold",
        launched=launched,
        floor_ns=1000.0,
        peak_flops=989.4e12,
        arms=(
            Arm("kernel", "a" * 64, tuple(samples(worker, us) for worker in range(workers))),
            Arm("cublas", None, tuple(samples(*each) for each in enumerate(cublas))),
        ),
        conditions=tuple(
            WorkerConditions(worker, CONDITIONS, CONDITIONS, True) for worker in range(workers)
        ),
    )


def row(step, shape=CUBE, timed=None, reason=Reason.OK, message=""):
    return Row(
        id=f"{step}-{shape}-timing",
        kernel=f"{FAMILY}/{step}",
        target="sm_90a",
        problem=Problem(shape, "normal"),
        check="timing",
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=f"rungwatch bench --artifacts artifacts --kernel {FAMILY}/{step}",
        timing=timed,
    )


def record(*rows):
    verdict, reason = decide_run(row.reason for row in rows)
    return Record(
        run=Run("rungwatch bench --artifacts a", "2026-01-05T10:00:00+00:00", 41.0, "cuda", "0f3c"),
        environment=Environment("m-1", "Linux", 16, "3.12.3", Gpu("NVIDIA H200", "580.1")),
        toolchain=Toolchain("0.1.0", None, None, "2.5", None),
        rows=rows,
        verdict=verdict,
        reason=reason,
    )
