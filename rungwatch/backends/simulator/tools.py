"""The simulator's three tools on a built kernel, in the worker.

Private entry points are used where the public ones hide what is needed: the thread count, and the
compiled module of a checker. tirx-harness is pinned to one version for that reason.
"""

import os
import subprocess
from typing import Any, Literal

from tirx_harness.numsim import Engine, transpile
from tirx_harness.numsim.checker_report import RaceReport, SyncCheckReport
from tirx_harness.numsim.checker_runner import (
    run_native_checker,
    transpile_native_checker_artifact,
)
from tirx_harness.numsim.errors import (
    NumSimBuildError,
    NumSimExecutionError,
    UnsupportedTIRxError,
)
from tirx_harness.numsim.transpiler.build import _dependency_key

from rungwatch.backends.exchange import Arrays
from rungwatch.backends.job import CheckerReport, Failure, JobFailure, Stage, Tool
from rungwatch.backends.simulator.findings import ran_out_of_time, report_of, source_line
from rungwatch.declare.problem import Shape
from rungwatch.load.failures import (
    JobError,
    describe,
    describe_execution,
    shorten,
    without_folders,
)
from rungwatch.load.kernel import Kernel
from rungwatch.trusted.buffers import extents, view

type Checker = Literal["synccheck", "racecheck"]

_CHECKERS: dict[Tool, tuple[Checker, Any]] = {
    Tool.SYNCCHECK: ("synccheck", SyncCheckReport),
    Tool.RACECHECK: ("racecheck", RaceReport),
}
TARGET = "sm_100a"  # the one that is simulated
# The two ways in which the simulator says during a run that it, not the kernel, is at fault.
_SIMULATOR_AT_FAULT = ("unsupported ", "panicked while being polled")
_CARGO_AT_FAULT = "Rust dependency build failed"


def compile_kernel(tool: Tool, kernel: Kernel) -> Any:
    """Translate `kernel` to Rust and compile it for `tool`; the result is cached on disk.

    Raises:
        JobError: the simulator does not model it, or cannot build anything here.
    """
    try:
        if tool is Tool.NUMERICS:
            return transpile(kernel.func)
        return transpile_native_checker_artifact(_CHECKERS[tool][0], kernel.func)
    except UnsupportedTIRxError as error:
        raise _unmodelled(error) from error
    except NumSimBuildError as error:
        raise _not_built(error) from error
    except (OSError, subprocess.SubprocessError) as error:
        message = f"the simulator's compiler or cache cannot be used: {error}"
        raise JobError(Failure.BACKEND_UNAVAILABLE, Stage.TRANSPILE, message) from error
    except Exception as error:
        raise JobError(Failure.KERNEL_BUILD, Stage.TRANSPILE, describe(error, None)) from error


def engine_of(module: Any) -> str:
    """Return the name of the engine that a compiled kernel uses, and mark the kernel as used."""
    os.utime(module.artifact.directory)
    return str(_dependency_key(module.artifact.manifest["build_identity"]))


def run_numerics(
    module: Any, kernel: Kernel, arrays: Arrays, shape: Shape, threads: int
) -> JobFailure | None:
    """Run a compiled kernel once on `arrays`, in place; return why it could not end, if so."""
    try:
        Engine(max_workers=threads).run(module, _bindings(kernel, arrays, shape))
    except NumSimExecutionError as error:
        message = describe_execution(error)
        ours = any(mark in message for mark in _SIMULATOR_AT_FAULT)
        return JobFailure(Failure.UNMODELLED if ours else Failure.EXECUTION, Stage.RUN, message)
    return None


def run_checker(
    tool: Tool, kernel: Kernel, arrays: Arrays, shape: Shape, threads: int
) -> CheckerReport:
    """Run synccheck or racecheck, with the simulator's own default bounds.

    Raises:
        JobError: CHECKER_BUDGET where the wall clock stopped it.
    """
    name, report_class = _CHECKERS[tool]
    run = run_native_checker(
        name, kernel.func, inputs=_bindings(kernel, arrays, shape), max_workers=threads
    )
    if ran_out_of_time(run.payload):
        message = f"{name} ran out of its time budget before it had seen every schedule"
        raise JobError(Failure.CHECKER_BUDGET, Stage.RUN, message)
    report = report_class.from_native(run.payload)
    return report_of(report.verdict, report.findings)


def _bindings(kernel: Kernel, arrays: Arrays, shape: Shape) -> dict[str, Any]:
    """Return the matrices inside the guarded arrays, under the names that the kernel gives them."""
    return {
        buffer: view(arrays[name], *extent)
        for buffer, (name, extent) in zip(kernel.buffers, extents(shape).items(), strict=True)
    }


def _unmodelled(error: UnsupportedTIRxError) -> JobError:
    from tirx_harness.numsim.transpiler.source_map import serialize_source_span

    line = source_line(serialize_source_span(error.source_span))
    what = shorten(without_folders(str(error)), 400)
    return JobError(Failure.UNMODELLED, Stage.TRANSPILE, f"{line}: {what}" if line else what)


def _not_built(error: NumSimBuildError) -> JobError:
    text = str(error)
    if _CARGO_AT_FAULT in text:
        why = "; ".join(_error_lines(text)) or "cargo gave no message"
        message = f"cargo could not build the simulator's engine: {why}"
        return JobError(Failure.BACKEND_UNAVAILABLE, Stage.TRANSPILE, message)
    why = "; ".join(_error_lines(text)) or text
    message = f"the simulator could not translate the kernel: {without_folders(why)}"
    return JobError(Failure.UNMODELLED, Stage.TRANSPILE, message)


def _error_lines(log: str, most: int = 2) -> list[str]:
    """Return the lines of a compiler's log that state an error."""
    lines = (line.strip() for line in log.splitlines())
    return [line for line in lines if line.startswith("error")][:most]
