"""Tiles: which part of D a CTA computes, from which rows of A and B, in which order."""

import ast
from collections.abc import Iterator

from ..mutant import Kernel, Operator, Site, keyword, word

_GLOBALS = ("A", "B", "D")


def _swap_coordinates(kernel: Kernel) -> Iterator[Site]:
    """Swap m and n of a tile; or use one of them for both."""
    found: dict[str, ast.expr] = {}
    for node in kernel.nodes(ast.Assign):
        name = ast.unparse(node.targets[0])
        if name not in ("m", "n") or not isinstance(node.value, ast.Call):
            continue
        factor = node.value.args[0]
        while isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Add | ast.Mult):
            factor = factor.left
        found[name] = factor
    if len(found) < 2:
        return
    m, n = found["m"], found["n"]
    m_text, n_text = kernel.text_of(m), kernel.text_of(n)
    yield Site(m.lineno, (kernel.replace(m, n_text), kernel.replace(n, m_text)), "both")
    yield Site(m.lineno, (kernel.replace(m, n_text),), "m")
    yield Site(n.lineno, (kernel.replace(n, m_text),), "n")


def _drop_offset(kernel: Kernel) -> Iterator[Site]:
    """Leave out what tells the CTAs, the consumers or the chunks of a tile apart."""
    for node in kernel.nodes(ast.Assign):
        if not (isinstance(node.value, ast.Call) and word(node.value) == "T.meta_var"):
            continue
        value = node.value.args[0]
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            name = ast.unparse(node.targets[0])
            left = kernel.text_of(value.left)
            yield Site(node.lineno, (kernel.replace(value, left),), name)


def _tile_origin(kernel: Kernel) -> Iterator[Site]:
    """Read or write the first rows, or columns, of a matrix or of the accumulator."""
    for node in kernel.nodes(ast.Subscript):
        base = ast.unparse(node.value)
        if base not in (*_GLOBALS, "acc") or not isinstance(node.slice, ast.Tuple):
            continue
        for part in node.slice.elts:
            if not (isinstance(part, ast.Slice) and isinstance(part.lower, ast.Name)):
                continue
            if part.lower.id == "k" or part.upper is None:
                continue
            assert isinstance(part.upper, ast.BinOp)
            width = kernel.text_of(part.upper.right)
            yield Site(
                part.lineno, (kernel.replace(part, f"0:{width}"),), f"{base}-{part.lower.id}"
            )


def _stride(kernel: Kernel) -> Iterator[Site]:
    """Walk the tiles by another stride, or start at another tile."""
    for call in kernel.calls("ClusterPersistentScheduler2D"):
        clusters = keyword(call, "num_clusters")
        assert clusters is not None
        text = kernel.text_of(clusters)
        for variant, new in (("twice", f"({text}) * 2"), ("one-more", f"{text} + 1")):
            yield Site(clusters.lineno, (kernel.replace(clusters, new),), variant)
        if isinstance(clusters, ast.BinOp):
            left = kernel.text_of(clusters.left)
            yield Site(clusters.lineno, (kernel.replace(clusters, left),), "all-sms")
    for call in kernel.calls("tiles.init"):
        first = call.args[0]
        yield Site(first.lineno, (kernel.replace(first, "0"),), "one-start")
        if isinstance(first, ast.BinOp):
            left = kernel.text_of(first.left)
            yield Site(first.lineno, (kernel.replace(first, left),), "start-by-cta")
    for step in kernel.steps():
        if word(step.value) == "tiles.next_tile":
            yield Site(step.lineno, (kernel.drop(step),), "no-next")


def _tile_count(kernel: Kernel) -> Iterator[Site]:
    """Take the grid of tiles for smaller, larger or turned round."""
    for call in kernel.calls("ClusterPersistentScheduler2D"):
        rows, columns = keyword(call, "num_m_tiles"), keyword(call, "num_n_tiles")
        group = keyword(call, "l2_group_size")
        assert rows is not None
        assert columns is not None
        assert group is not None
        texts = kernel.text_of(rows), kernel.text_of(columns)
        swapped = (kernel.replace(rows, texts[1]), kernel.replace(columns, texts[0]))
        yield Site(rows.lineno, swapped, "turned")
        for node, text in zip((rows, columns), texts, strict=True):
            for variant, sign in (("smaller", "-"), ("larger", "+")):
                yield Site(node.lineno, (kernel.replace(node, f"{text} {sign} 1"),), variant)
        yield Site(group.lineno, (kernel.replace(group, "1"),), "l2-group")
    for call in kernel.calls("cta_id"):
        sizes = call.args[0]
        if isinstance(sizes, ast.List) and len(sizes.elts) == 2:
            first, second = map(kernel.text_of, sizes.elts)
            new = f"[{second}, {first}]"
            yield Site(sizes.lineno, (kernel.replace(sizes, new),), "turned")
            for place, text in enumerate((first, second)):
                edit = kernel.replace(sizes.elts[place], f"{text} + 1")
                yield Site(sizes.lineno, (edit,), f"larger-{'mn'[place]}")


def _grid(kernel: Kernel) -> Iterator[Site]:
    """Start one CTA, or one cluster, more or less than the schedule is made for."""
    for call in kernel.calls("cta_id"):
        if ast.unparse(call.args[0]) == "[sm_count]":
            step = "CTA_GROUP" if kernel.rung in ("step8", "step9") else "1"
            for variant, sign in (("larger", "+"), ("smaller", "-")):
                new = f"[sm_count {sign} {step}]"
                yield Site(call.lineno, (kernel.replace(call.args[0], new),), variant)


OPERATORS: dict[str, Operator] = {
    "swap-coordinates": _swap_coordinates,
    "drop-offset": _drop_offset,
    "tile-origin": _tile_origin,
    "stride": _stride,
    "tile-count": _tile_count,
    "grid": _grid,
}
