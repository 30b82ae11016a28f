"""Order: what comes too early, too late, or in the wrong order."""

import ast
from collections.abc import Iterator

from ..mutant import Kernel, Operator, Site, is_named, word

_SYNCS = ("cta_sync", "cluster_sync", "warpgroup_sync")


def _signals(kernel: Kernel) -> Iterator[ast.Expr]:
    for step in kernel.steps():
        assert isinstance(step.value, ast.Call)
        if is_named(step.value, ("arrive",)) and kernel.barrier_class(step.value) is not None:
            yield step


def _early_signal(kernel: Kernel) -> Iterator[Site]:
    """Signal at the start of the block, before what the signal is about."""
    for step in _signals(kernel):
        block = kernel.block(step)
        place = block.index(step)
        if place:
            moved = kernel.before(block[0], kernel.text_of(step))
            yield Site(step.lineno, (moved, kernel.drop(step)))
        parent = kernel.parent(step)
        if isinstance(parent, ast.If) and "chunk ==" in ast.unparse(parent.test):
            yield Site(step.lineno, (kernel.replace(parent.test, "chunk == 0"),), "first-chunk")


def _late_signal(kernel: Kernel) -> Iterator[Site]:
    """Signal at the end of the block: a stage or an accumulator is freed late."""
    for step in _signals(kernel):
        block = kernel.block(step)
        if block[-1] is not step:
            moved = kernel.after(block[-1], kernel.text_of(step))
            yield Site(step.lineno, (kernel.drop(step), moved))


def _early_free(kernel: Kernel) -> Iterator[Site]:
    """Free TMEM before the barrier that says that all have read it."""
    [free] = [step for step in kernel.steps() if word(step.value) == "tmem_pool.dealloc"]
    block = kernel.block(free)
    barriers = [
        node
        for node in block[: block.index(free)]
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and is_named(node.value, _SYNCS)
    ]
    moved = kernel.before(barriers[-1], kernel.text_of(free))
    yield Site(free.lineno, (moved, kernel.drop(free)))
    yield Site(free.lineno, (kernel.drop(free),), "never")


def _weaker_wait_group(kernel: Kernel) -> Iterator[Site]:
    """Let one bulk store stay under way, or wait only until it has read SMEM."""
    for call in kernel.calls("bulk.wait_group", "bulk.wait_group.read"):
        yield Site(call.lineno, (kernel.replace(call.args[0], "1"),), "one-left")
        if is_named(call, ("bulk.wait_group",)):
            yield Site(call.lineno, (kernel.replace(call.func, f"{word(call)}.read"),), "read")


def _is_event(kernel: Kernel, statement: ast.stmt) -> bool:
    """Say whether a statement moves data or synchronises (tcgen05 fences have an operator)."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    name = word(statement.value)
    return (
        name.startswith(("Tx.", "T.ptx.fence.", "T.ptx.cp.", "T.cuda."))
        or name == "T.ptx.tcgen05.wait__ld.sync.aligned"
        or (kernel.barrier_class(statement.value) is not None and not name.endswith(".init"))
        or name in ("ring.advance", "tiles.next_tile")
    )


def _swap_neighbours(kernel: Kernel) -> Iterator[Site]:
    """Do two steps in the other order, where one of them synchronises."""
    for first in kernel.steps():
        block = kernel.block(first)
        place = block.index(first)
        if place + 1 == len(block):
            continue
        second = block[place + 1]
        if not (_is_event(kernel, first) and _is_event(kernel, second)):
            continue
        texts = kernel.text_of(first), kernel.text_of(second)
        if all(text.startswith("Tx.") for text in texts) or texts[0] == texts[1]:
            continue
        yield Site(
            first.lineno, (kernel.replace(first, texts[1]), kernel.replace(second, texts[0]))
        )


OPERATORS: dict[str, Operator] = {
    "early-signal": _early_signal,
    "late-signal": _late_signal,
    "early-free": _early_free,
    "weaker-wait-group": _weaker_wait_group,
    "swap-neighbours": _swap_neighbours,
}
