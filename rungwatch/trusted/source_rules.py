"""Rules that a kernel's source must keep and that no simulator run can show to be broken.

The simulator accepts `tcgen05.fence` without enforcing it, gives each CTA TMEM of its own, models
no CTA that has left and no bulk store that outlives its CTA. Right kernels and these faults look
the same there, so the source is read instead: its syntax tree, nothing of it is run. The rules
know the idiom of `T.prim_func`, `T.TMEMPool` and the barrier classes of TVM's pipeline module;
where a source does not use these they have nothing to say.

Source of the rules: PTX ISA, chapters on tcgen05 (memory consistency, allocation), mbarrier and
cp.async.bulk.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rungwatch.trusted.kernel_source import KernelCode, calls_in, kernels_in, name_of

TMEM_COLUMNS = 512
_CTA_BARRIERS = ("T.cuda.cta_sync", "T.cuda.cluster_sync")


@dataclass(frozen=True, order=True)
class Broken:
    """A rule that a line of the source breaks, in words for a person."""

    line: int
    rule: str
    message: str


def broken_rules(source: str) -> tuple[Broken, ...]:
    """Return what in `source` breaks a rule, from top to bottom, each once.

    Raises:
        SyntaxError: it is not Python.
    """
    return tuple(
        sorted(
            {broken for kernel in kernels_in(source) for rule in _RULES for broken in rule(kernel)}
        )
    )


# ---- fences and barriers where TMEM, or a tile in SMEM, changes hands ----


@dataclass(frozen=True)
class _State:
    """What is known at one place, for the thread that comes there.

    `used`: it used TMEM and has not fenced since. `given`: it fenced, and no barrier came since.
    `mma_done`, `taken`: others used TMEM, by an MMA alone or at all, and it has not fenced since.
    `stored`: threads stored to SMEM, and no proxy fence came since. `flushed`: no barrier since.
    """

    used: bool = False
    given: bool = False
    mma_done: bool = False
    taken: bool = False
    stored: bool = False
    flushed: bool = False

    def __or__(self, other: "_State") -> "_State":
        return _State(
            self.used or other.used,
            self.given or other.given,
            self.mma_done or other.mma_done,
            self.taken or other.taken,
            self.stored or other.stored,
            self.flushed or other.flushed,
        )


def _fences(kernel: KernelCode) -> Iterator[Broken]:
    found: list[Broken] = []
    _walk(kernel, kernel.function.body, _State(), found)
    yield from found


def _walk(kernel: KernelCode, block: list[ast.stmt], state: _State, found: list[Broken]) -> _State:
    for node in block:
        match node:
            case ast.If():
                taken = _walk(kernel, node.body, state, found)
                state = taken | _walk(kernel, node.orelse, state, found)
            case ast.For() | ast.While():
                once = _walk(kernel, node.body, state, found) | state
                state = _walk(kernel, node.body, once, found) | once
            case ast.Expr(value=ast.Call() as call):
                state = _smem_step(kernel, call, state, found)
                state = _tmem_step(kernel, call, state, found)
            case _:
                pass
    return state


def _smem_step(kernel: KernelCode, call: ast.Call, state: _State, found: list[Broken]) -> _State:
    name = name_of(call)
    if kernel.stores_to_smem(call):
        return replace(state, stored=True)
    if name == "T.ptx.fence.proxy.async_.shared__cta":
        return replace(state, stored=False, flushed=state.flushed or state.stored)
    if name in (*_CTA_BARRIERS, "T.cuda.warpgroup_sync"):
        return replace(state, flushed=False)
    reads = name == "Tx.gemm_async" or kernel.is_bulk_store(call)
    if reads and (state.stored or state.flushed):
        what = "reads SMEM that other threads stored: no proxy fence and barrier in between"
        found.append(Broken(call.lineno, "smem-handover", what))
    return state


def _tmem_step(kernel: KernelCode, call: ast.Call, state: _State, found: list[Broken]) -> _State:
    name = name_of(call)
    pool, _, method = name.rpartition(".")
    loads = kernel.uses_tmem(call) and name != "Tx.gemm_async"
    if name == "T.ptx.tcgen05.fence__before_thread_sync":
        return replace(state, used=False, given=state.given or state.used)
    if name == "T.ptx.tcgen05.fence__after_thread_sync":
        return replace(state, mma_done=False, taken=False)
    frees = pool in kernel.pools and method == "dealloc"
    if frees and (state.used or state.given):
        what = "frees TMEM with no CTA barrier since it was used: other warps may still read it"
        found.append(Broken(call.lineno, "tmem-free", what))
    if loads or frees or name == "Tx.gemm_async":
        if state.taken or (state.mma_done and loads):
            what = "uses TMEM after a barrier without tcgen05.fence::after_thread_sync"
            found.append(Broken(call.lineno, "tcgen05-fence", what))
        return replace(state, used=state.used or loads)
    if pool in kernel.pools and method == "commit":
        return replace(state, used=True)
    arrives = kernel.barrier_class(call, "arrive") == "MBarrier"
    if name in _CTA_BARRIERS or arrives:
        if state.used:
            what = "hands TMEM over without tcgen05.fence::before_thread_sync"
            found.append(Broken(call.lineno, "tcgen05-fence", what))
        if not arrives:
            return replace(state, given=False, taken=state.taken or state.given)
    match kernel.barrier_class(call, "wait"):
        case "TCGen05Bar":
            return replace(state, mma_done=True)
        case "MBarrier":
            return replace(state, taken=True)
    return state


# ---- the other rules ----


def _free(kernel: KernelCode) -> Iterator[Broken]:
    """What was allocated is freed, or the next CTA on the SM waits for ever."""
    for pool in kernel.pools:
        if not kernel.named(f"{pool}.dealloc"):
            yield Broken(kernel.function.lineno, "tmem-free", f"{pool} is never freed")


def _commits(kernel: KernelCode) -> Iterator[Broken]:
    """Only a tcgen05 commit waits for MMAs: who issues them signals by nothing else."""
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.If) and name_of(node.test) == "T.cuda.elect_sync"):
            continue
        calls = [
            inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call)
        ]
        first_mma = min(
            (call.lineno for call in calls if name_of(call) == "Tx.gemm_async"), default=None
        )
        for call in calls:
            arrives = kernel.barrier_class(call, "arrive") == "MBarrier"
            if arrives and first_mma is not None and call.lineno > first_mma:
                what = "signals after an MMA by a plain arrive: only a commit waits for it"
                yield Broken(call.lineno, "commit", what)


def _loads(kernel: KernelCode) -> Iterator[Broken]:
    """A load from TMEM is asynchronous: its registers are not there before wait::ld."""
    for node in ast.walk(kernel.function):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        if kernel.uses_tmem(node.value) and name_of(node.value) != "Tx.gemm_async":
            following = kernel.next_call(node)
            if following is None or not name_of(following).startswith("T.ptx.tcgen05.wait__ld"):
                what = "no tcgen05.wait::ld follows the load from TMEM"
                yield Broken(node.lineno, "wait-ld", what)


def _columns(kernel: KernelCode) -> Iterator[Broken]:
    """TMEMPool numbers columns from 0, so CTAs that share an SM must not share TMEM."""
    for call in kernel.named("T.TMEMPool"):
        for word in call.keywords:
            if word.arg == "total_cols" and kernel.value(word.value) != TMEM_COLUMNS:
                what = f"allocates other than all {TMEM_COLUMNS} TMEM columns, numbered from 0"
                yield Broken(call.lineno, "tmem-columns", what)


def _stores(kernel: KernelCode) -> Iterator[Broken]:
    """A CTA that leaves takes its SMEM along: it waits for all of its bulk stores first."""
    commits = kernel.named("T.ptx.cp.async_.bulk.commit_group")
    waits = [
        call.lineno
        for call in kernel.named(
            "T.ptx.cp.async_.bulk.wait_group", "T.ptx.cp.async_.bulk.wait_group.read"
        )
        if call.args and kernel.value(call.args[0]) == 0
    ]
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        following = kernel.next_call(node) if kernel.is_bulk_store(node.value) else None
        if kernel.is_bulk_store(node.value) and (following is None or following not in commits):
            yield Broken(node.lineno, "last-store", "no commit_group follows the bulk store")
    if commits and max(waits, default=0) < commits[-1].lineno:
        what = "no wait_group(0) follows the last bulk store: the CTA may end before it has read"
        yield Broken(commits[-1].lineno, "last-store", what)


def _set_up(kernel: KernelCode) -> Iterator[Broken]:
    """Barriers are initialised by one thread: a fence makes that visible to the async proxy."""
    inits = [call for call in kernel.calls if kernel.barrier_class(call, "init")]
    fences = [call.lineno for call in kernel.named("T.ptx.fence.mbarrier_init.release.cluster")]
    barriers = [call.lineno for call in kernel.named(*_CTA_BARRIERS)]
    if inits:
        last = inits[-1].lineno
        first_barrier = next((line for line in barriers if line > last), last)
        if not any(last < line < first_barrier for line in fences):
            what = "no fence.mbarrier_init between the barriers' init and the next CTA barrier"
            yield Broken(last, "mbarrier-init", what)


def _end(kernel: KernelCode) -> Iterator[Broken]:
    """A CTA of a cluster stays until its peer can no longer signal it."""
    if not kernel.named("T.cta_id_in_cluster"):
        return
    barriers = kernel.named(*_CTA_BARRIERS)
    if not barriers or name_of(barriers[-1]) != "T.cuda.cluster_sync":
        line = barriers[-1].lineno if barriers else kernel.function.lineno
        yield Broken(line, "cluster-end", "the last barrier of a cluster's CTA is not cluster_sync")


def _drains(kernel: KernelCode) -> Iterator[Broken]:
    """In a cluster, commits arrive from the peer: who waits for them waits for the last as well.

    A barrier at the end orders the MMAs, not the arrivals that their commits cause elsewhere.
    """
    if not kernel.named("T.cta_id_in_cluster"):
        return
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.If) and name_of(node.test) == "T.cuda.elect_sync"):
            continue
        loads = any(kernel.is_bulk_load(call) for call in calls_in(node))
        rings = {
            ast.unparse(inner.targets[0]): ast.unparse(inner.value.args[0])
            for inner in node.body
            if isinstance(inner, ast.Assign)
            and isinstance(inner.value, ast.Call)
            and name_of(inner.value) == "PipelineState"
        }
        for place, inner in enumerate(node.body):
            if not (loads and isinstance(inner, ast.While)):
                continue
            waited = {
                name_of(call)
                for call in calls_in(inner)
                if kernel.barrier_class(call, "wait") == "TCGen05Bar"
            }
            after = [ast.unparse(statement) for statement in node.body[place + 1 :]]
            for wait in sorted(waited):
                drains = (
                    f"for _ in T.serial({depth}):\n    {wait}({ring}.stage, {ring}.phase)"
                    f"\n    {ring}.advance()"
                    for ring, depth in rings.items()
                )
                if not any(drain in after for drain in drains):
                    what = f"no loop over the whole ring follows, of {wait} and advance"
                    yield Broken(inner.lineno, "cluster-drain", what)


def _roles(kernel: KernelCode) -> Iterator[Broken]:
    """A warp of which one thread had a role meets again before the CTA's barrier."""
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.If) and name_of(node.test) == "T.cuda.elect_sync"):
            continue
        is_role = any(isinstance(inner, ast.While) for inner in ast.walk(node))
        following = kernel.next_call(node)
        if is_role and (following is None or name_of(following) != "T.cuda.warp_sync"):
            what = "no warp_sync follows the role of one elected thread"
            yield Broken(node.lineno, "role-end", what)


_RULES = (_fences, _free, _commits, _loads, _columns, _stores, _set_up, _end, _drains, _roles)
