"""Barriers: who waits, who signals, how often, in which phase and of which CTA."""

import ast
from collections.abc import Callable, Iterator

from ..mutant import Kernel, Operator, Site, is_named, keyword, word

_SYNCS = ("cta_sync", "cluster_sync", "warpgroup_sync", "warp_sync")


def _drop(chosen: Callable[[Kernel, ast.Call], bool]) -> Operator:
    def operator(kernel: Kernel) -> Iterator[Site]:
        for step in kernel.steps():
            assert isinstance(step.value, ast.Call)
            if chosen(kernel, step.value):
                yield Site(step.lineno, (kernel.drop(step),))

    return operator


def _is_wait(kernel: Kernel, call: ast.Call) -> bool:
    return is_named(call, ("wait",)) and kernel.barrier_class(call) is not None


def _is_plain_arrive(kernel: Kernel, call: ast.Call) -> bool:
    return is_named(call, ("arrive",)) and kernel.barrier_class(call) in ("MBarrier", "TMABar")


def _is_commit(kernel: Kernel, call: ast.Call) -> bool:
    commits = is_named(call, ("arrive",)) and kernel.barrier_class(call) == "TCGen05Bar"
    return commits or is_named(call, ("commit_group",))


def _drop_fence(kernel: Kernel) -> Iterator[Site]:
    """Leave out a proxy fence, or a fence of the set-up, where barriers are initialised."""
    for step in kernel.steps():
        if word(step.value).startswith("T.ptx.fence."):
            block = kernel.block(step)
            here = block[block.index(step) : block.index(step) + 2]
            set_up = any("mbarrier_init" in ast.unparse(node) for node in here)
            yield Site(step.lineno, (kernel.drop(step),), "set-up" if set_up else "")


def _is_tcgen05_fence(kernel: Kernel, call: ast.Call) -> bool:
    return word(call).startswith("T.ptx.tcgen05.fence__")


def _narrow_barrier(kernel: Kernel) -> Iterator[Site]:
    """Let fewer threads meet: the CTA for the cluster, a warp for the CTA or the warpgroup."""
    for call in kernel.calls("cluster_sync"):
        yield Site(call.lineno, (kernel.replace(call, "T.cuda.cta_sync()"),))
    for call in kernel.calls("cta_sync", "warpgroup_sync"):
        yield Site(call.lineno, (kernel.replace(call, "T.cuda.warp_sync()"),))


def _barrier_in_role(kernel: Kernel) -> Iterator[Site]:
    """Ask for the whole CTA inside the branch of one role."""
    for call in kernel.calls("warpgroup_sync", "warp_sync"):
        yield Site(call.lineno, (kernel.replace(call, "T.cuda.cta_sync()"),))


def _named_barrier(kernel: Kernel) -> Iterator[Site]:
    """Use another named barrier at one place, or one for both warpgroups."""
    for call in kernel.calls("warpgroup_sync"):
        yield Site(call.lineno, (kernel.replace(call.args[0], "0"),), "cta")
        yield Site(
            call.lineno, (kernel.replace(call.args[0], f"{kernel.text_of(call.args[0])} + 1"),)
        )
    for node in kernel.nodes(ast.BinOp):
        if ast.unparse(node) == "WRITEBACK_BARRIER + wg_id":
            yield Site(node.lineno, (kernel.replace(node, "WRITEBACK_BARRIER"),), "shared")


def _plain_arrive(kernel: Kernel) -> Iterator[Site]:
    """Signal by an ordinary arrive where the tensor core's commit is needed."""
    [imports] = [
        node
        for node in kernel.module.body
        if isinstance(node, ast.ImportFrom) and str(node.module).endswith("lang.pipeline")
    ]
    names = sorted({"MBarrier", *(alias.name for alias in imports.names)})
    for node in kernel.nodes(ast.Assign):
        if not (isinstance(node.value, ast.Call) and word(node.value) == "TCGen05Bar"):
            continue
        barrier = ast.unparse(node.targets[0])
        edits = [
            kernel.replace(imports, f"from {imports.module} import {', '.join(names)}"),
            kernel.replace(node.value.func, "MBarrier"),
        ]
        for call in kernel.calls("arrive"):
            if word(call) == f"{barrier}.arrive":
                stage = kernel.text_of(call.args[0])
                edits.append(kernel.replace(call, f"{barrier}.arrive({stage})"))
        yield Site(node.lineno, tuple(edits))


def _init_phase(kernel: Kernel) -> Iterator[Site]:
    """Start in the other phase."""
    for call in kernel.calls("PipelineState"):
        phase = keyword(call, "phase")
        if phase is not None:
            other = "0" if kernel.text_of(phase) == "1" else "1"
            yield Site(call.lineno, (kernel.replace(phase, other),))
    for node in kernel.nodes(ast.Assign):
        if ast.unparse(node).endswith("phase = 0"):
            yield Site(node.lineno, (kernel.replace(node.value, "1"),))


def _drop_flip(kernel: Kernel) -> Iterator[Site]:
    """Stay in one phase, or at one stage of a ring."""
    for node in kernel.nodes(ast.Assign):
        if ast.unparse(node).endswith("phase ^ 1"):
            yield Site(node.lineno, (kernel.drop(node),))
    for step in kernel.steps():
        if is_named(step.value, ("advance",)):  # type: ignore[arg-type]
            yield Site(step.lineno, (kernel.drop(step),))


def _arrival_count(kernel: Kernel) -> Iterator[Site]:
    """Expect one arrival more, or half of them."""
    for call in kernel.calls("init"):
        if kernel.barrier_class(call) is None:
            continue
        count = kernel.text_of(call.args[0])
        yield Site(call.lineno, (kernel.replace(call.args[0], f"{count} + 1"),), "more")
        if count != "1":
            yield Site(call.lineno, (kernel.replace(call.args[0], f"{count} // 2"),), "fewer")


def _expected_bytes(kernel: Kernel) -> Iterator[Site]:
    """Wait for half the bytes of a stage, for twice as many, or for none."""
    for call in kernel.calls("arrive"):
        if kernel.barrier_class(call) == "TMABar":
            count = call.args[1]
            text = kernel.text_of(count)
            yield Site(call.lineno, (kernel.replace(count, f"{text} // 2"),), "fewer")
            yield Site(call.lineno, (kernel.replace(count, f"{text} * 2"),), "more")
            yield Site(call.lineno, (kernel.replace(count, "None"),), "none")


def _remote_barrier(kernel: Kernel) -> Iterator[Site]:
    """Signal this CTA's barrier, or CTA 1's, where CTA 0's counts."""
    for call in kernel.calls("arrive"):
        remote = keyword(call, "remote")
        if remote is not None:
            yield Site(call.lineno, (kernel.replace(remote, "None"),), "own")
            yield Site(call.lineno, (kernel.replace(remote, "1"),), "other")
    for call in kernel.calls("remote_view"):
        yield Site(call.lineno, (kernel.replace(call.args[0], "1"),), "view")
    for node in kernel.nodes(ast.Dict):
        for value in node.values:
            if ast.unparse(value).startswith("tma2mma_cta0."):
                own = kernel.text_of(value).replace("_cta0", "")
                yield Site(value.lineno, (kernel.replace(value, own),), "load")


def _cta_mask(kernel: Kernel) -> Iterator[Site]:
    """Commit to one CTA of the two."""
    for call in kernel.calls("arrive"):
        mask = keyword(call, "cta_mask")
        if mask is not None:
            yield Site(call.lineno, (kernel.replace(mask, "1"),), "1")
            yield Site(call.lineno, (kernel.replace(mask, "2"),), "2")


def _cta_group(kernel: Kernel) -> Iterator[Site]:
    """Work on one CTA where there are two, and the reverse."""
    values = [
        value
        for call in kernel.nodes(ast.Call)
        if (value := keyword(call, "cta_group")) is not None
    ]
    for node in kernel.nodes(ast.Dict):
        values += [
            value
            for name, value in zip(node.keys, node.values, strict=True)
            if isinstance(name, ast.Constant) and name.value == "cta_group"
        ]
    for value in values:
        other = "2" if kernel.text_of(value) == "1" else "1"
        yield Site(value.lineno, (kernel.replace(value, other),))


def _rank_guard(kernel: Kernel) -> Iterator[Site]:
    """Let both CTAs do what one of them does for the two, or the wrong one."""
    for node in kernel.nodes(ast.Compare):
        if ast.unparse(node) == "rank == 0":
            yield Site(node.lineno, (kernel.replace(node, "rank < 2"),), "both")
            yield Site(node.lineno, (kernel.replace(node, "rank == 1"),), "other")


OPERATORS: dict[str, Operator] = {
    "drop-wait": _drop(_is_wait),
    "drop-arrive": _drop(_is_plain_arrive),
    "drop-commit": _drop(_is_commit),
    "drop-fence": _drop_fence,
    "drop-tcgen05-fence": _drop(_is_tcgen05_fence),
    "drop-wait-ld": _drop(lambda kernel, call: is_named(call, ("wait__ld.sync.aligned",))),
    "drop-wait-group": _drop(
        lambda kernel, call: is_named(call, ("bulk.wait_group", "bulk.wait_group.read"))
    ),
    "drop-barrier": _drop(lambda kernel, call: is_named(call, _SYNCS)),
    "narrow-barrier": _narrow_barrier,
    "barrier-in-role": _barrier_in_role,
    "named-barrier": _named_barrier,
    "plain-arrive": _plain_arrive,
    "init-phase": _init_phase,
    "drop-flip": _drop_flip,
    "arrival-count": _arrival_count,
    "expected-bytes": _expected_bytes,
    "remote-barrier": _remote_barrier,
    "cta-mask": _cta_mask,
    "cta-group": _cta_group,
    "rank-guard": _rank_guard,
}
