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

TMEM_COLUMNS = 512
_BARRIERS = ("MBarrier", "TMABar", "TCGen05Bar")
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
    tree = ast.parse(source)
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    found: set[Broken] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            _name(decorator) == "T.prim_func" for decorator in node.decorator_list
        ):
            kernel = _Kernel(node, constants)
            for rule in _RULES:
                found.update(rule(kernel))
    return tuple(sorted(found))


class _Kernel:
    """A kernel's function with the names of its barriers and of its TMEM buffers."""

    def __init__(self, function: ast.FunctionDef, constants: dict[str, ast.expr]) -> None:
        self.function = function
        self.constants = constants
        self.calls = sorted(
            (node for node in ast.walk(function) if isinstance(node, ast.Call)),
            key=lambda call: (call.lineno, call.col_offset),
        )
        self.barriers: dict[str, str] = {}
        self.tmem: set[str] = set()
        pools: set[str] = set()
        for node in function.body:
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
                continue
            name, made_by = ast.unparse(node.targets[0]), _name(node.value)
            if made_by == "T.TMEMPool":
                pools.add(name)
            elif made_by in _BARRIERS:
                self.barriers[name] = made_by
            elif made_by in {f"{pool}.alloc" for pool in pools}:
                self.tmem.add(name)
        self.pools = pools

    def named(self, *names: str) -> list[ast.Call]:
        return [call for call in self.calls if _name(call) in names]

    def barrier_class(self, call: ast.Call, method: str) -> str | None:
        """Return the class of the barrier whose `method` is called, if it is that of one."""
        name, _, called = _name(call).rpartition(".")
        return self.barriers.get(name) if called == method else None

    def next_call(self, statement: ast.stmt) -> ast.Call | None:
        """Return the call that follows `statement` in its block, if a call follows it."""
        for node in ast.walk(self.function):
            for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
                if isinstance(block, list) and statement in block[:-1]:
                    following = block[block.index(statement) + 1]
                    value = following.value if isinstance(following, ast.Expr) else None
                    return value if isinstance(value, ast.Call) else None
        return None

    def uses_tmem(self, call: ast.Call) -> bool:
        return any(
            isinstance(argument, ast.Subscript) and ast.unparse(argument.value) in self.tmem
            for argument in call.args
        )


# ---- a tcgen05 fence on both sides of each hand-over of TMEM ----


@dataclass(frozen=True)
class _State:
    """What is known of TMEM at one place, for the thread that comes there.

    `used`: it used TMEM and has not fenced since. `given`: it fenced, and no barrier came since.
    `mma_done`, `taken`: others used TMEM, by an MMA alone or at all, and it has not fenced since.
    """

    used: bool = False
    given: bool = False
    mma_done: bool = False
    taken: bool = False

    def __or__(self, other: "_State") -> "_State":
        return _State(
            self.used or other.used,
            self.given or other.given,
            self.mma_done or other.mma_done,
            self.taken or other.taken,
        )


def _fences(kernel: _Kernel) -> Iterator[Broken]:
    found: list[Broken] = []
    _walk(kernel, kernel.function.body, _State(), found)
    yield from found


def _walk(kernel: _Kernel, block: list[ast.stmt], state: _State, found: list[Broken]) -> _State:
    for node in block:
        match node:
            case ast.If():
                taken = _walk(kernel, node.body, state, found)
                state = taken | _walk(kernel, node.orelse, state, found)
            case ast.For() | ast.While():
                once = _walk(kernel, node.body, state, found) | state
                state = _walk(kernel, node.body, once, found) | once
            case ast.Expr(value=ast.Call() as call):
                state = _step(kernel, call, state, found)
            case _:
                pass
    return state


def _step(kernel: _Kernel, call: ast.Call, state: _State, found: list[Broken]) -> _State:
    name = _name(call)
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


def _free(kernel: _Kernel) -> Iterator[Broken]:
    """What was allocated is freed, or the next CTA on the SM waits for ever."""
    for pool in kernel.pools:
        if not kernel.named(f"{pool}.dealloc"):
            yield Broken(kernel.function.lineno, "tmem-free", f"{pool} is never freed")


def _commits(kernel: _Kernel) -> Iterator[Broken]:
    """Only a tcgen05 commit waits for MMAs: who issues them signals by nothing else."""
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.If) and _name(node.test) == "T.cuda.elect_sync"):
            continue
        calls = [
            inner for part in node.body for inner in ast.walk(part) if isinstance(inner, ast.Call)
        ]
        first_mma = min(
            (call.lineno for call in calls if _name(call) == "Tx.gemm_async"), default=None
        )
        for call in calls:
            arrives = kernel.barrier_class(call, "arrive") == "MBarrier"
            if arrives and first_mma is not None and call.lineno > first_mma:
                what = "signals after an MMA by a plain arrive: only a commit waits for it"
                yield Broken(call.lineno, "commit", what)


def _loads(kernel: _Kernel) -> Iterator[Broken]:
    """A load from TMEM is asynchronous: its registers are not there before wait::ld."""
    for node in ast.walk(kernel.function):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
            continue
        if kernel.uses_tmem(node.value) and _name(node.value) != "Tx.gemm_async":
            following = kernel.next_call(node)
            if following is None or not _name(following).startswith("T.ptx.tcgen05.wait__ld"):
                what = "no tcgen05.wait::ld follows the load from TMEM"
                yield Broken(node.lineno, "wait-ld", what)


def _columns(kernel: _Kernel) -> Iterator[Broken]:
    """TMEMPool numbers columns from 0, so CTAs that share an SM must not share TMEM."""
    for call in kernel.named("T.TMEMPool"):
        for word in call.keywords:
            if word.arg == "total_cols" and _value(kernel, word.value) != TMEM_COLUMNS:
                what = f"allocates other than all {TMEM_COLUMNS} TMEM columns, numbered from 0"
                yield Broken(call.lineno, "tmem-columns", what)


def _value(kernel: _Kernel, node: ast.expr) -> object:
    """Return the value of a plain constant or of the name of one; None for anything else."""
    if isinstance(node, ast.Name):
        node = kernel.constants.get(node.id, node)
    return node.value if isinstance(node, ast.Constant) else None


def _stores(kernel: _Kernel) -> Iterator[Broken]:
    """A CTA that leaves takes its SMEM along: it waits for all of its bulk stores first."""
    commits = kernel.named("T.ptx.cp.async_.bulk.commit_group")
    waits = [
        call.lineno
        for call in kernel.named(
            "T.ptx.cp.async_.bulk.wait_group", "T.ptx.cp.async_.bulk.wait_group.read"
        )
        if _value(kernel, call.args[0]) == 0
    ]
    if commits and max(waits, default=0) < commits[-1].lineno:
        what = "no wait_group(0) follows the last bulk store: the CTA may end before it has read"
        yield Broken(commits[-1].lineno, "last-store", what)


def _set_up(kernel: _Kernel) -> Iterator[Broken]:
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


def _end(kernel: _Kernel) -> Iterator[Broken]:
    """A CTA of a cluster stays until its peer can no longer signal it."""
    if not kernel.named("T.cta_id_in_cluster"):
        return
    barriers = kernel.named(*_CTA_BARRIERS)
    if not barriers or _name(barriers[-1]) != "T.cuda.cluster_sync":
        line = barriers[-1].lineno if barriers else kernel.function.lineno
        yield Broken(line, "cluster-end", "the last barrier of a cluster's CTA is not cluster_sync")


def _roles(kernel: _Kernel) -> Iterator[Broken]:
    """A warp of which one thread had a role meets again before the CTA's barrier."""
    for node in ast.walk(kernel.function):
        if not (isinstance(node, ast.If) and _name(node.test) == "T.cuda.elect_sync"):
            continue
        is_role = any(isinstance(inner, ast.While) for inner in ast.walk(node))
        following = kernel.next_call(node)
        if is_role and (following is None or _name(following) != "T.cuda.warp_sync"):
            what = "no warp_sync follows the role of one elected thread"
            yield Broken(node.lineno, "role-end", what)


_RULES = (_fences, _free, _commits, _loads, _columns, _stores, _set_up, _end, _roles)


def _name(node: ast.AST) -> str:
    """Return the dotted name of a call, or of an expression as it stands."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)
