"""A small kernel file for the tests of the worker: one warp, D = A[:, 0] + B[:, 0]^T."""

from pathlib import Path

from rungwatch.declare.problem import Shape

SHAPE = Shape(32, 8, 8, 1)
TINY = """
import tvm
from tvm.script import tirx as T

def get_kernel(M, N, K):
    @T.prim_func
    def tiny(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"),
             D: T.Buffer((M, N), "float16")):
        T.device_entry()
        T.cta_id([1])
        warp = T.warp_id([1])
        row = T.lane_id([32])
        for column in T.serial(N):
            D[row, column] = A[row, 0] + B[column, 0]
    return tiny
"""


def write(folder: Path, code: str, name: str = "fake.py") -> str:
    path = folder / name
    path.write_text(code)
    return str(path)


def tiny(replacements: dict[str, str] | None = None) -> str:
    """Return the source of the small kernel with parts of it replaced (old text: new text)."""
    code = TINY
    for old, new in (replacements or {}).items():
        assert old in code
        code = code.replace(old, new)
    return code
