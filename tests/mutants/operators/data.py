"""Data: the ring, the sum over k, the MMA and the way of its result to memory."""

import ast
from collections.abc import Iterator

from ..mutant import Kernel, Operator, Site, is_named, keyword, word

_STAGES = ("stage", "ring.stage")
_PARTS = ("consumer", "wg_id", "c")


def _indices(kernel: Kernel, names: tuple[str, ...]) -> Iterator[ast.expr]:
    """Yield where one of `names` chooses a part of a tile buffer, a barrier or a load."""
    for node in kernel.nodes(ast.Subscript):
        if ast.unparse(node.value).endswith("_smem") and isinstance(node.slice, ast.Tuple):
            yield from (item for item in node.slice.elts if ast.unparse(item) in names)
    for call in kernel.calls("wait", "arrive"):
        if kernel.barrier_class(call) and call.args and ast.unparse(call.args[0]) in names:
            yield call.args[0]
    for call in kernel.calls("ptr_to"):
        items = call.args[0]
        if isinstance(items, ast.List) and ast.unparse(items.elts[0]) in names:
            yield items.elts[0]
    for call in kernel.calls("load_stage"):
        if ast.unparse(call.args[0]) in names:
            yield call.args[0]


def _stage_index(kernel: Kernel) -> Iterator[Site]:
    """Use stage 0, or the next stage, at one place."""
    for node in _indices(kernel, _STAGES):
        text = kernel.text_of(node)
        following = f"({text} + 1) % PIPE_DEPTH"
        yield Site(node.lineno, (kernel.replace(node, "0"),), "zero")
        yield Site(node.lineno, (kernel.replace(node, following),), "next")


def _consumer_index(kernel: Kernel) -> Iterator[Site]:
    """Use the first consumer's part at one place."""
    for node in _indices(kernel, _PARTS):
        yield Site(node.lineno, (kernel.replace(node, "0"),))


def _ring_depth(kernel: Kernel) -> Iterator[Site]:
    """Take the ring for one stage shorter, or longer, at one place."""
    for node in kernel.nodes(ast.Name):
        if node.id == "PIPE_DEPTH":
            for variant, new in (("shorter", "(PIPE_DEPTH - 1)"), ("longer", "(PIPE_DEPTH + 1)")):
                yield Site(node.lineno, (kernel.replace(node, new),), variant)


def _accumulate(kernel: Kernel) -> Iterator[Site]:
    """Add on the first k tile, never add, or forget the second k tile."""
    for call in kernel.calls("gemm_async"):
        flag = keyword(call, "accum")
        assert flag is not None
        yield Site(flag.lineno, (kernel.replace(flag, "True"),), "always")
        if kernel.text_of(flag) != "False":
            yield Site(flag.lineno, (kernel.replace(flag, "False"),), "never")
            yield Site(flag.lineno, (kernel.replace(flag, "k_tile > 1"),), "late")


def _k_offset(kernel: Kernel) -> Iterator[Site]:
    """Load A, B or both from another k."""
    for node in kernel.nodes(ast.Assign):
        if ast.unparse(node) == "k = T.meta_var(k_tile * BLK_K)":
            value = node.value
            for variant, new in (
                ("next", "T.meta_var((k_tile + 1) * BLK_K)"),
                ("half", "T.meta_var(k_tile * (BLK_K // 2))"),
                ("pairs", "T.meta_var(k_tile // 2 * 2 * BLK_K)"),
            ):
                yield Site(node.lineno, (kernel.replace(value, new),), variant)
    for node in kernel.nodes(ast.Slice):
        if node.lower is not None and ast.unparse(node.lower) == "k":
            operand = ast.unparse(kernel.parent(kernel.parent(node)))[:1]
            yield Site(node.lineno, (kernel.replace(node, "0:BLK_K"),), f"{operand}-first")
    for call in kernel.calls("load_stage"):
        which = call.args[3]
        new = f"{kernel.text_of(which)} - 1"
        yield Site(call.lineno, (kernel.replace(which, new),), "load")


def _loop_bound(kernel: Kernel) -> Iterator[Site]:
    """Leave out the last round of a loop, or the first."""
    for node in kernel.nodes(ast.For):
        assert isinstance(node.iter, ast.Call)
        bound = node.iter.args[0]
        text = kernel.text_of(bound)
        start, end = f"0, {text} - 1", f"1, {text}"
        yield Site(node.lineno, (kernel.replace(bound, start),), "no-last")
        yield Site(node.lineno, (kernel.replace(bound, end),), "no-first")


def _k_tiles(kernel: Kernel) -> Iterator[Site]:
    """Leave out the last k tile everywhere."""
    for node in kernel.factory.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "K_TILES":
            text = kernel.text_of(node.value)
            yield Site(node.lineno, (kernel.replace(node.value, f"{text} - 1"),))


def _mma_n(kernel: Kernel) -> Iterator[Site]:
    """Multiply half of the columns, or read the operands the wrong way round."""
    for call in kernel.calls("gemm_async"):
        acc, a, b = call.args[:3]
        assert isinstance(acc, ast.Subscript)
        assert isinstance(b, ast.Subscript)
        swapped = (
            kernel.replace(a, kernel.text_of(b).replace("consumer, ", "")),
            kernel.replace(b, kernel.text_of(a).replace("consumer, ", "0, ")),
        )
        yield Site(call.lineno, swapped, "swapped")
        first = "acc_col" if "acc_col" in kernel.text_of(acc) else "0"
        width = "MMA_N" if kernel.rung in ("step8", "step9") else "BLK_N"
        stage = kernel.text_of(b).partition("[")[2].rpartition(":, :")[0]
        half = (
            kernel.replace(acc, f"acc[:, {first} : {first} + {width} // 2]"),
            kernel.replace(b, f"B_smem[{stage}0 : BLK_N // 2, :]"),
        )
        yield Site(call.lineno, half, "half")


def _tmem_columns(kernel: Kernel) -> Iterator[Site]:
    """Allocate a quarter of TMEM, or half where more is needed."""
    for call in kernel.calls("TMEMPool"):
        columns = keyword(call, "total_cols")
        assert columns is not None
        part = 2 if kernel.rung in ("step8", "step9") else 4
        new = f"{kernel.text_of(columns)} // {part}"
        yield Site(columns.lineno, (kernel.replace(columns, new),))


def _cast_rounding(kernel: Kernel) -> Iterator[Site]:
    """Round to bfloat16 first, or take the wrong registers' width."""
    for step in kernel.steps():
        call = step.value
        if not (isinstance(call, ast.Call) and is_named(call, ("wg.cast",))):
            continue
        width = "CHUNK_N" if kernel.rung in ("step8", "step9") else "BLK_N"
        text = (
            f'bf16_regs = T.wg_reg_tile({width}, dtype="bfloat16"); '
            "Tx.wg.cast(bf16_regs, acc_regs); Tx.wg.cast(acc_regs, bf16_regs); "
            "Tx.wg.cast(out_regs, acc_regs)"
        )
        yield Site(step.lineno, (kernel.replace(step, text),), "bf16")


def _drop_data(kernel: Kernel) -> Iterator[Site]:
    """Leave out a copy, an MMA or a cast."""
    for step in kernel.steps():
        if word(step.value).startswith("Tx."):
            yield Site(step.lineno, (kernel.drop(step),))


OPERATORS: dict[str, Operator] = {
    "stage-index": _stage_index,
    "consumer-index": _consumer_index,
    "ring-depth": _ring_depth,
    "accumulate": _accumulate,
    "k-offset": _k_offset,
    "loop-bound": _loop_bound,
    "k-tiles": _k_tiles,
    "mma-n": _mma_n,
    "tmem-columns": _tmem_columns,
    "cast-rounding": _cast_rounding,
    "drop-data": _drop_data,
}
