"""Read a kernel's function from its syntax tree: its calls, barriers and buffers. Runs nothing.

It knows the idiom of `T.prim_func`, `T.TMEMPool` and the barrier classes of TVM's pipeline module.
"""

import ast
from collections.abc import Iterator

BARRIERS = ("MBarrier", "TMABar", "TCGen05Bar")
THREAD_COPIES = ("Tx.cta.copy", "Tx.wg.copy")


def kernels_in(source: str) -> Iterator["KernelCode"]:
    """Yield every kernel function in `source`.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    constants = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            name_of(decorator) == "T.prim_func" for decorator in node.decorator_list
        ):
            yield KernelCode(node, constants)


class KernelCode:
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
        self.smem: set[str] = set()
        pools: set[str] = set()
        for node in function.body:
            if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
                continue
            name, made_by = ast.unparse(node.targets[0]), name_of(node.value)
            if made_by == "T.TMEMPool":
                pools.add(name)
            elif made_by in BARRIERS:
                self.barriers[name] = made_by
            elif made_by in {f"{pool}.alloc" for pool in pools}:
                self.tmem.add(name)
            elif made_by.endswith(".alloc_tcgen05_mma_AB"):
                self.smem.add(name)
        self.pools = pools

    def named(self, *names: str) -> list[ast.Call]:
        """Return the calls of these dotted names, from top to bottom."""
        return [call for call in self.calls if name_of(call) in names]

    def barrier_class(self, call: ast.Call, method: str) -> str | None:
        """Return the class of the barrier whose `method` is called, if it is that of one."""
        name, _, called = name_of(call).rpartition(".")
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
        """Say whether a part of a TMEM buffer is an argument."""
        return any(_buffer(call, place) in self.tmem for place in range(len(call.args)))

    def stores_to_smem(self, call: ast.Call) -> bool:
        """Say whether threads write a tile to SMEM by ordinary stores."""
        return name_of(call) in THREAD_COPIES and _buffer(call, 0) in self.smem

    def is_bulk_store(self, call: ast.Call) -> bool:
        """Say whether the TMA engine is asked to read a tile from SMEM."""
        return name_of(call) == "Tx.copy_async" and _buffer(call, 1) in self.smem

    def is_bulk_load(self, call: ast.Call) -> bool:
        """Say whether the TMA engine is asked to write a tile to SMEM."""
        return name_of(call) == "Tx.copy_async" and _buffer(call, 0) in self.smem

    def value(self, node: ast.expr) -> object:
        """Return the value of a plain constant or of the name of one; None for anything else."""
        if isinstance(node, ast.Name):
            node = self.constants.get(node.id, node)
        return node.value if isinstance(node, ast.Constant) else None


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Return every call below a node."""
    return [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]


def _buffer(call: ast.Call, place: int) -> str:
    """Return the name of the buffer of which an argument is a part, or ""."""
    node = call.args[place] if place < len(call.args) else None
    return ast.unparse(node.value) if isinstance(node, ast.Subscript) else ""


def name_of(node: ast.AST) -> str:
    """Return the dotted name of a call, or of an expression as it stands."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)
