"""Lower one kernel and count its TIR, in a process of its own: this runs foreign code.

    python -P -m rungwatch.cost.worker FOLDER FILE TARGET M N K SM_COUNT

Source of the pass order: `tvm.tirx.compilation_pipeline.tirx_pipeline`, up to the last pass that
leaves loops and vectors as they were written.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rungwatch.backends.job import KernelSource, Stage
from rungwatch.backends.simulator.failures import JobError, describe
from rungwatch.backends.simulator.loading import build_kernel
from rungwatch.backends.supervise import WorkerFiles
from rungwatch.cost.tir_cost import ANSWER_FILE, Answer, CostError, TirCost
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import FACTORY

# Which intrinsics count as what, by the start of their name in the lowered TIR.
KINDS: Mapping[str, tuple[str, ...]] = {
    "mma_calls": ("tirx.ptx.tcgen05_mma",),
    "tma_calls": ("tirx.ptx.cp_async_bulk_tensor_g2s", "tirx.ptx.cp_async_bulk_tensor_s2g"),
    "barrier_waits": (
        "tirx.cuda.mbarrier_wait",
        "tirx.ptx.mbarrier_try_wait",
        "tirx.ptx.mbarrier_test_wait",
    ),
    "barrier_arrivals": ("tirx.ptx.mbarrier_arrive", "tirx.ptx.tcgen05_commit"),
    "syncs": (
        "tirx.cuda.cta_sync",
        "tirx.cuda.cluster_sync",
        "tirx.cuda.warpgroup_sync",
        "tirx.cuda.warp_sync",
        "tirx.ptx.bar_",
        "tirx.ptx.barrier_",
    ),
}


def lower(function: Any, target: str) -> Any:
    """Lower a TIRx `PrimFunc` for `target` (sm_100a) to plain TIR, still one device function."""
    import tvm
    from tvm import s_tir, tirx

    device = tvm.target.Target({"kind": "cuda", "arch": target})
    passes = tvm.ir.transform.Sequential(
        [
            tirx.transform.LowerTIRx(),
            s_tir.transform.UnifyThreadBinding(),
            tirx.transform.StmtSimplify(),
            tirx.transform.LowerTIRxOpaque(),
            tirx.transform.FlattenBuffer(),
        ]
    )
    with device:
        return passes(tvm.IRModule({"main": function.with_attr("target", device)}))["main"]


def count(function: Any) -> TirCost:
    """Count the statements and calls of a lowered `PrimFunc`.

    Raises:
        CostError: it declares no CTA size, or several of it or of dynamic SMEM, or calls no
            known MMA: the counts would not mean what they say.
    """
    import tvm
    import tvm_ffi
    from tvm import tirx

    calls: Counter[str] = Counter()
    statements: Counter[str] = Counter()
    threads: set[int] = set()
    shared: set[int] = set()

    def see_call(call: Any) -> None:
        calls[call.op.name] += 1

    def see_statement(statement: Any) -> None:
        statements[type(statement).__name__] += 1

    def see_attribute(attribute: Any) -> None:
        if attribute.attr_key == "tirx.dyn_smem_bytes":
            shared.add(int(attribute.value))
        elif attribute.attr_key == "thread_extent" and attribute.node.thread_tag == "threadIdx.x":
            threads.add(int(attribute.value))

    for node_type, see in (
        (tvm.ir.Call, see_call),
        (tirx.Stmt, see_statement),
        (tirx.AttrStmt, see_attribute),
    ):
        tvm_ffi.structural_walk(function.body, (node_type, see))
    if len(threads) != 1 or len(shared) > 1:
        raise CostError(f"declares CTA sizes {sorted(threads)} and SMEM sizes {sorted(shared)}")
    kinds = {
        kind: sum(number for name, number in calls.items() if name.startswith(prefixes))
        for kind, prefixes in KINDS.items()
    }
    if kinds["mma_calls"] == 0:
        raise CostError("calls no MMA that this version knows")
    return TirCost(
        statements=statements.total(),
        threads=threads.pop(),
        shared_memory_bytes=shared.pop() if shared else 0,
        **kinds,
    )


def answer_for(path: str, target: str, shape: Shape, files: WorkerFiles) -> Answer:
    """Build, lower and count the kernel in `path`; whatever goes wrong becomes words."""
    try:
        kernel = build_kernel(KernelSource(FACTORY, path=path), shape, files.enter)
        return Answer(cost=count(lower(kernel.func, target)))
    except JobError as error:
        return Answer(error=error.failure.message)
    except Exception as error:
        return Answer(error=describe(error, path))


def main(arguments: list[str]) -> None:
    """Answer, in the folder, for the kernel and the shape that the arguments name."""
    folder, path, target, m, n, k, sm_count = arguments
    files = WorkerFiles(Path(folder))
    files.enter(Stage.START)
    answer = answer_for(path, target, Shape(int(m), int(n), int(k), int(sm_count)), files)
    (files.folder / ANSWER_FILE).write_bytes(msgspec.json.encode(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
