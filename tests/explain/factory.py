"""Records made in code, for the tests of every rendering."""

from msgspec import structs

from rungwatch.backends.job import CheckerReport, Finding
from rungwatch.decide.exit_code import decide_run
from rungwatch.decide.settings import DEFAULT_STATIC, Settings
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.declare.problem import Problem, Shape
from rungwatch.record.model import (
    Comparison,
    Element,
    Environment,
    Record,
    Row,
    Run,
    Side,
    Toolchain,
)

FAMILY = "hgemm/blackwell"
PROBLEM = Problem(Shape(512, 768, 320, 4), "normal")


def row(
    step="step7",
    check="numerics",
    reason=Reason.OK,
    *,
    problem=PROBLEM,
    message="",
    kernel=None,
    row_id=None,
    **fields,
):
    kernel = kernel or f"{FAMILY}/{step}"
    if row_id is None:
        what = problem.distribution if check == "numerics" and problem else check
        row_id = f"{kernel.rpartition('/')[2]}-{problem.shape if problem else 'file'}-{what}"
    return Row(
        id=row_id,
        kernel=kernel,
        target="sm_100a",
        problem=problem,
        check=check,
        verdict=verdict_of(reason),
        reason=reason,
        message=message,
        rerun=fields.pop("rerun", None) or _rerun(kernel, check, problem),
        **fields,
    )


def _rerun(kernel, check, problem):
    if problem is None:
        return f"rungwatch check --kernel {kernel}"
    shape = problem.shape
    words = f"--shape {shape.m}x{shape.n}x{shape.k} --sms {shape.sm_count} --only {check}"
    return f"rungwatch check --kernel {kernel} {words} --no-cache"


def record(*rows, seconds=41.2):
    verdict, reason = decide_run(row.reason for row in rows)
    return Record(
        run=Run("rungwatch check", "2026-01-05T10:00:00Z", seconds, "sim", "0123abc"),
        environment=Environment("m-1", "Linux", 2, "3.12.11"),
        toolchain=Toolchain("0.1.0", "0.27", "0.1.2", "2.5", "1.89"),
        rows=rows,
        verdict=verdict,
        reason=reason,
    )


COST = {
    "registers": 128.0,
    "local_store_bytes": 4.0,
    "local_load_bytes": 8.0,
    "smem_bytes": 99328.0,
    "instructions": 700.0,
    "tensor_core_instructions": 16.0,
    "resident_ctas": 2.0,
    "waves": 7.0,
    "last_wave_fill": 0.865,
}


def side(limited_by="latency; tensor core 0.76 of it", **cost):
    values = {**COST, **{name: float(value) for name, value in cost.items()}}
    return Side(f"a{sorted(values.items())}", "c0de", values, limited_by)


def static_row(size, head, step="step7", base=None, reason=Reason.STATIC_WORSE, **fields):
    """A case of the gate whose machine code changed."""
    problem = Problem(Shape(size, size, size, 148), "normal")
    base = base or side()
    return row(step, "static", reason, problem=problem, base=base, head=head, **fields)


def compared(*rows, static=None):
    """The record of a gate: no GPU, settings of base, a revision on each side."""
    made = record(*rows)
    run = structs.replace(made.run, backend="none", base="b" * 40, revision="c" * 40)
    settings = Settings(static=DEFAULT_STATIC if static is None else static)
    return structs.replace(made, run=run, settings=settings)


def gate_rows():
    """What a gate finds of seven kernels, one of each kind."""
    return [
        *(
            row(f"step{i}", "identity", Reason.IDENTICAL, problem=None, message="9 of 9 problems")
            for i in range(1, 5)
        ),
        *(
            static_row(size, side(smem_bytes=165888), message="smem_bytes 99,328 -> 165,888 B")
            for size in (1024, 2048)
        ),
        *(row("step7", "numerics", row_id=f"n{i}", cached=i < 6) for i in range(12)),
        *(row("step7", check) for check in ("source", "synccheck", "racecheck")),
        row("step7", "timing", Reason.NOT_TIMED, problem=None, message="nothing was timed"),
        row("step8", "numerics", Reason.NUMERICS, message="wrong"),
        row("step9", "identity", Reason.NO_BASELINE, problem=None, message="added"),
    ]


def comparison(wrong_tiles, *, elements=512 * 768, tile=(128, 128), worst=None, worst_ulp=301):
    worst = worst or Element(131, 260, "1.5", "1.25", "1.2", "1.3")
    wrong = sum(map(sum, wrong_tiles))
    return Comparison(elements, wrong, worst, worst_ulp, tile, wrong_tiles)


def stripe():
    """Two tile columns wrong: one wholly, one by a third, and a few elements elsewhere."""
    return comparison(
        (
            (0, 0, 16384, 5461, 0, 0),
            (0, 0, 16384, 5461, 0, 0),
            (0, 0, 16384, 5461, 0, 3),
            (0, 0, 16384, 5461, 0, 0),
        )
    )


def race(message="write by WG1 and read by WG0 of D_smem are not ordered"):
    return CheckerReport("error", (Finding("error", "data-race", message, "step7.py:131"),))


def example():
    """A run of three kernels with one of everything that the terminal shows."""
    small = Problem(Shape(128, 128, 64, 1), "normal")
    rows = [
        row(step, check, problem=Problem(shape, distribution), seconds=1.5, cached=step == "step4")
        for step in ("step4", "step7")
        for check in ("numerics", "synccheck")
        for shape in (Shape(256, 384, 128, 4), Shape(512, 768, 320, 4))
        for distribution in (("normal", "integers") if check == "numerics" else ("normal",))
        if (step, check, str(shape)) != ("step7", "numerics", "512x768x320-sm4")
    ]
    rows += [
        row("step4", "racecheck", seconds=0.1, cached=True),
        row(
            reason=Reason.NUMERICS,
            seconds=2.5,
            message="87383 of 393216 elements are wrong, in 9 of 24 tiles; the worst, D[131, 260],"
            " is 1.5 and must lie in [1.2, 1.3] (reference 1.25): 301 fp16 steps off",
            comparison=stripe(),
        ),
        row(
            "step7",
            "racecheck",
            Reason.RACECHECK,
            seconds=6.0,
            message=f"error: data-race: {race().findings[0].message}",
            report=race(),
        ),
        row(
            "step9",
            reason=Reason.PROBLEM_REFUSED,
            problem=small,
            message="M must be a multiple of 512, not 128. Nearest valid: --shape 512x256x64"
            " --sms 2",
        ),
    ]
    return record(*rows)
