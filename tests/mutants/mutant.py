"""A kernel's source as a tree with positions, and a mutant of it: text edits at one site."""

import ast
import difflib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "hgemm" / "blackwell"
RUNGS = ("step1", "step1_matrix", *(f"step{step}" for step in range(2, 10)))
BARRIER_CLASSES = ("MBarrier", "TMABar", "TCGen05Bar")


@dataclass(frozen=True, order=True)
class Edit:
    """Replace the bytes from `start` to `end` of a source by `new`."""

    start: int
    end: int
    new: str


@dataclass(frozen=True)
class Site:
    """One place where an operator fits: its line, what is done there, and the edits.

    `variant` tells several changes at one place apart.
    """

    line: int
    edits: tuple[Edit, ...]
    variant: str = ""


type Operator = Callable[["Kernel"], Iterator[Site]]


@dataclass(frozen=True)
class Mutant:
    """One mutated kernel. Its key does not change with comments, nor with the lines above it."""

    rung: str
    operator: str
    line: int
    variant: str
    original: str
    source: str

    @property
    def kind(self) -> str:
        """Return the name without the line: step7:init-phase."""
        return f"{self.rung}:{self.operator}{f'-{self.variant}' if self.variant else ''}"

    @property
    def name(self) -> str:
        """Return the name that people use, as in step7:init-phase@120."""
        variant = f"-{self.variant}" if self.variant else ""
        return f"{self.rung}:{self.operator}@{self.line}{variant}"

    @cached_property
    def key(self) -> str:
        """Return a hash of the rung and of the mutated program."""
        return program_hash(self.rung, self.source)

    @property
    def diff(self) -> str:
        """Return the lines of code that differ, "-" and "+" before each, with one line around."""
        lines = difflib.unified_diff(_code(self.original), _code(self.source), n=1, lineterm="")
        changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        return "\n".join(f"{line[0]} {line[1:].strip()}" for line in changes)


def _code(source: str) -> list[str]:
    """Return the lines of a source without those that hold a comment alone, or nothing."""
    return [line for line in source.splitlines() if line.strip() and line.strip()[0] != "#"]


def program_hash(rung: str, source: str) -> str:
    """Return a hash of the program in `source`, which comments and layout don't change."""
    tree = ast.dump(ast.parse(source), include_attributes=False)
    return hashlib.sha256(f"{rung}\n{tree}".encode()).hexdigest()[:16]


class Kernel:
    """The source of one rung, and what operators ask of it."""

    def __init__(self, rung: str, text: str) -> None:
        self.rung = rung
        self.text = text
        self._bytes = text.encode()
        lines = self._bytes.splitlines(keepends=True)
        self._line_starts = [0]
        for line in lines:
            self._line_starts.append(self._line_starts[-1] + len(line))
        tree = ast.parse(text)
        self.module = tree
        [self.factory] = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and node.name == "get_kernel"
        ]
        [self.function] = [
            node
            for node in self.factory.body
            if isinstance(node, ast.FunctionDef)
            and any(ast.unparse(word) == "T.prim_func" for word in node.decorator_list)
        ]
        self._parents = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self.barriers = {
            node.targets[0].id: word(node.value)
            for node in ast.walk(self.function)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and word(node.value) in BARRIER_CLASSES
        }

    # ---- reading ----

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first byte of a node and the one after its last."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._line_starts[node.lineno - 1] + node.col_offset,
            self._line_starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        """Return a node as it is written."""
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def nodes[N: ast.AST](self, kind: type[N]) -> list[N]:
        """Return the nodes of one kind in the kernel's function, from top to bottom."""
        found = [node for node in ast.walk(self.function) if isinstance(node, kind)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))  # type: ignore[attr-defined]

    def calls(self, *endings: str) -> list[ast.Call]:
        """Return the calls whose dotted name is, or ends in, one of `endings`."""
        return [call for call in self.nodes(ast.Call) if is_named(call, endings)]

    def steps(self) -> list[ast.Expr]:
        """Return the statements that are a call."""
        return [node for node in self.nodes(ast.Expr) if isinstance(node.value, ast.Call)]

    def parent(self, node: ast.AST) -> ast.AST:
        """Return what holds a node."""
        return self._parents[node]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements among which one stands."""
        parent = self._parents[statement]
        for field in ("body", "orelse"):
            block = getattr(parent, field, [])
            if statement in block:
                return list(block)
        raise ValueError("a statement stands in no block")

    def within(self, node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> bool:
        """Say whether a node is inside one of `kinds` below the kernel's function."""
        while node is not self.function:
            node = self._parents[node]
            if isinstance(node, kinds):
                return True
        return False

    def barrier_class(self, call: ast.Call) -> str | None:
        """Return the class of the barrier that a call is a method of."""
        base = call.func.value if isinstance(call.func, ast.Attribute) else None
        return self.barriers.get(base.id) if isinstance(base, ast.Name) else None

    # ---- changing ----

    def replace(self, node: ast.expr | ast.stmt, new: str) -> Edit:
        """Write `new` in a node's place."""
        return Edit(*self.span(node), new)

    def drop(self, statement: ast.stmt) -> Edit:
        """Leave a statement out."""
        return self.replace(statement, "pass")

    def before(self, statement: ast.stmt, text: str) -> Edit:
        """Write a line before a statement."""
        start, _ = self.span(statement)
        return Edit(start, start, f"{text}\n{' ' * statement.col_offset}")

    def after(self, statement: ast.stmt, text: str) -> Edit:
        """Write a line after a statement."""
        _, end = self.span(statement)
        return Edit(end, end, f"\n{' ' * statement.col_offset}{text}")

    def mutate(self, operator: str, site: Site) -> Mutant:
        """Return the mutant of one site.

        Raises:
            ValueError: two edits overlap.
        """
        data = self._bytes
        last = len(data)
        for edit in sorted(site.edits, reverse=True):
            if edit.end > last:
                raise ValueError(f"{operator}@{site.line}: edits overlap")
            data = data[: edit.start] + edit.new.encode() + data[edit.end :]
            last = edit.start
        return Mutant(self.rung, operator, site.line, site.variant, self.text, data.decode())


def read_kernel(rung: str) -> Kernel:
    """Read the kernel of one rung."""
    return Kernel(rung, (KERNELS / f"{rung}.py").read_text(encoding="utf-8"))


def word(node: ast.AST) -> str:
    """Return the dotted name of a call or an attribute: T.cuda.cta_sync."""
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)


def is_named(call: ast.Call, endings: tuple[str, ...]) -> bool:
    """Say whether a call's dotted name is, or ends in, one of `endings`."""
    name = word(call)
    return any(name == ending or name.endswith(f".{ending}") for ending in endings)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)
