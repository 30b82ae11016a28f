"""From a program to one Python function that counts, for one thread, how often it hits each site.

What no count depends on is left out, and a loop whose rounds are all alike is run once and
multiplied. Both are exact: a statement is dropped only where neither control flow nor a site
reads what it writes, a loop is multiplied only where its rounds write nothing that is kept and
read no loop variable.
"""

from collections.abc import Callable, Iterator

from rungwatch.cost.walk.program import (
    Assign,
    Branch,
    Hit,
    Leave,
    Program,
    Repeat,
    Statement,
    Value,
    While,
)
from rungwatch.cost.work import UnwalkableError

# A while loop of a GEMM runs once a tile: this is a loop that does not end.
MOST_ROUNDS = 10_000_000
# From the atoms of a thread and of its CTA to the executions of every site.
Counting = Callable[..., tuple[int, ...]]


class EndlessError(RuntimeError):
    """Raised by the emitted function: a while loop has no end."""


def _read(value: Value, names: set[str]) -> None:
    if value.unknown is not None:
        raise UnwalkableError(f"control flow depends on {value.unknown}")
    names |= value.reads


def _controls(statement: Statement) -> tuple[Value, ...]:
    """Return what a live statement reads, its own statements aside."""
    match statement:
        case Assign(_, index, value):
            return (value,) if index is None else (index, value)
        case Branch(condition) | While(condition):
            return (condition,)
        case Repeat(_, first, extent, step):
            return (first, extent, step)
        case _:
            return ()


def _inner(statement: Statement) -> tuple[list[Statement], ...]:
    match statement:
        case Branch(_, then, otherwise):
            return (then, otherwise)
        case Repeat(_, _, _, _, body) | While(_, body):
            return (body,)
        case _:
            return ()


class Slice:
    """The statements of a program that its counts depend on."""

    def __init__(self, body: list[Statement]) -> None:
        self.names: set[str] = set()
        self._live: set[int] = set()
        known = -1
        while known != len(self.names):
            known = len(self.names)
            self._visit(body)

    def _visit(self, body: list[Statement]) -> bool:
        found = False
        for statement in body:
            inner = [self._visit(part) for part in _inner(statement)]
            if (
                isinstance(statement, Hit | Leave)
                or any(inner)
                or (isinstance(statement, Assign) and statement.target in self.names)
            ):
                found = True
                self._live.add(id(statement))
                for value in _controls(statement):
                    _read(value, self.names)
        return found

    def of(self, body: list[Statement]) -> list[Statement]:
        """Return the live statements of one block."""
        return [statement for statement in body if id(statement) in self._live]

    def all_of(self, body: list[Statement]) -> Iterator[Statement]:
        """Yield the live statements of one block and of the blocks inside it."""
        for statement in self.of(body):
            yield statement
            for part in _inner(statement):
                yield from self.all_of(part)

    def rounds_alike(self, loop: Repeat) -> bool:
        """Whether every round of the loop hits the same sites equally often."""
        for statement in self.all_of(loop.body):
            if isinstance(statement, Assign | While | Leave):
                return False
            if any(loop.variable in value.reads for value in _controls(statement)):
                return False
        return True


class _Writer:
    def __init__(self, live: Slice, collapse: bool) -> None:
        self._live = live
        self._collapse = collapse
        self._loops = 0
        self.lines: list[str] = []

    def write(self, body: list[Statement], depth: int, rounds: str) -> None:
        """Write one block; `rounds` is how often each execution of it counts."""
        pad = " " * depth
        statements = self._live.of(body)
        if not statements:
            self.lines.append(f"{pad}pass")
        for statement in statements:
            match statement:
                case Hit(site):
                    self.lines.append(f"{pad}site_{site} += {rounds}")
                case Assign(target, index, value):
                    place = target if index is None else f"{target}[{index.source}]"
                    self.lines.append(f"{pad}{place} = {value.source}")
                case Branch(condition, then, otherwise):
                    self.lines.append(f"{pad}if {condition.source}:")
                    self.write(then, depth + 1, rounds)
                    if self._live.of(otherwise):
                        self.lines.append(f"{pad}else:")
                        self.write(otherwise, depth + 1, rounds)
                case Repeat():
                    self._write_repeat(statement, depth, rounds)
                case While(condition, inner):
                    self._loops += 1
                    left = f"left_{self._loops}"
                    self.lines.append(f"{pad}{left} = {MOST_ROUNDS}")
                    self.lines.append(f"{pad}while {condition.source}:")
                    self.lines.append(f"{pad} {left} -= 1")
                    self.lines.append(f"{pad} if {left} < 0: raise EndlessError")
                    self.write(inner, depth + 1, rounds)
                case Leave("return"):
                    self.lines.append(f"{pad}return RESULT")
                case Leave(keyword):
                    self.lines.append(f"{pad}{keyword}")

    def _write_repeat(self, loop: Repeat, depth: int, rounds: str) -> None:
        pad = " " * depth
        first, extent, step = (v.source for v in (loop.first, loop.extent, loop.step))
        span = f"range({first}, {first} + {extent} * {step}, {step})"
        if self._collapse and self._live.rounds_alike(loop):
            self._loops += 1
            name = f"rounds_{self._loops}"
            self.lines.append(f"{pad}{name} = {rounds} * len({span})")
            self.lines.append(f"{pad}if {name}:")
            self.write(loop.body, depth + 1, name)
            return
        self.lines.append(f"{pad}for {loop.variable} in {span}:")
        self.write(loop.body, depth + 1, rounds)


def emit(program: Program, collapse: bool) -> tuple[Counting, list[str], list[str]]:
    """Compile `program` to a function of the thread atoms and CTA atoms that it needs.

    Returns the function and the names of the two groups of atoms, its arguments in that order.

    Raises:
        UnwalkableError: counts depend on a value that is not known.
    """
    live = Slice(program.body)
    threads = [name for name in program.thread_atoms if name in live.names]
    ctas = [name for name in program.cta_atoms if name in live.names]
    counters = [f"site_{number}" for number in range(len(program.sites))]
    writer = _Writer(live, collapse)
    writer.lines.append(f"def count({', '.join(threads + ctas)}):")
    writer.lines += [f" {name} = 0" for name in counters]
    writer.lines += [
        f" {name} = [None] * {length}"
        for name, length in program.arrays.items()
        if name in live.names
    ]
    writer.write(program.body, 1, "1")
    result = f"({', '.join(counters)}{',' if counters else ''})"
    writer.lines.append(" return RESULT")
    source = "\n".join(writer.lines).replace("return RESULT", f"return {result}")
    scope: dict[str, object] = {"EndlessError": EndlessError}
    try:
        exec(compile(source, "<walk>", "exec"), scope)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise UnwalkableError(f"loops or expressions are nested too deeply ({error})") from None
    counter = scope["count"]
    assert callable(counter)
    return counter, threads, ctas
