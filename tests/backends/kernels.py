"""Small kernel files for the tests of the worker: one warp, 32 x 8 x 8, D = A[:, 0] + B[:, 0]^T."""

import textwrap
from pathlib import Path

from rungwatch.declare.problem import Shape

SHAPE = Shape(32, 8, 8, 1)
TINY = '''
import tvm
from tvm.script import tirx as T

def get_kernel(M, N, K):
    @T.prim_func
    def tiny(replacements: dict[str, str] | None = None) -> str:
    """Return the source of the tiny kernel with parts of it replaced (old text: new text)."""
    code = TINY
    for old, new in (replacements or {}).items():
        assert old in code
        code = code.replace(old, new)
    return code
