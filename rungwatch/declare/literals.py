"""Evaluate the plain data of a module from its syntax tree: literals, and constants by name.

This is `ast.literal_eval` with two things more, so that a kernel states each number once: names
of earlier top-level constants, and whole-number arithmetic. It runs none of the module's code.
"""

import ast
import operator

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_LARGEST = 2**63


def top_level_constants(source: bytes, filename: str) -> dict[str, object]:
    """Return the value of every top-level assignment that is plain data.

    Raises:
        SyntaxError, ValueError: the source does not parse (ValueError: it holds a NUL byte).
    """
    constants: dict[str, object] = {}
    for statement in ast.parse(source, filename).body:
        match statement:
            case ast.Assign(targets=[target], value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pass
            case _:
                continue
        names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
        try:
            evaluated = ast.literal_eval(_Substitute(constants).visit(value))
        except (ValueError, ArithmeticError, RecursionError):
            for name in names:  # it no longer holds what it held
                constants.pop(name, None)
            continue
        match target:
            case ast.Name(id=name):
                constants[name] = evaluated
            case ast.Tuple() if isinstance(evaluated, tuple) and len(names) == len(evaluated):
                constants |= zip(names, evaluated, strict=True)
    return constants


class _Substitute(ast.NodeTransformer):
    def __init__(self, constants: dict[str, object]) -> None:
        self.constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.constants.get(node.id)
        if isinstance(value, int | str | float):
            return ast.copy_location(ast.Constant(value), node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        operation = _ARITHMETIC.get(type(node.op))
        match left, right:
            case ast.Constant(value=int(x)), ast.Constant(value=int(y)) if operation is not None:
                value = operation(x, y)
                if abs(value) < _LARGEST:
                    return ast.copy_location(ast.Constant(value), node)
        return node
