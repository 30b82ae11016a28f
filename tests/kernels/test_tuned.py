"""How the tuned Hopper kernel cuts D into tiles."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rungwatch.artifact.host_plan import read_plan
from rungwatch.artifact.plan import TensorMap
from rungwatch.backends.job import KernelSource
from rungwatch.declare.problem import Shape
from rungwatch.load.kernel import build_kernel
from rungwatch.load.lower import cuda_target, lower
from rungwatch.trusted.matrix import MODEL_SHAPES, SQUARE_SIZES

PATH = Path(__file__).parents[2] / "kernels" / "hgemm" / "hopper" / "tuned.py"
H200_SMS = 132
SHAPES = [
    *((size, size, size) for size in SQUARE_SIZES),
    *((-(-m // 64) * 64, n, k) for m, n, k in MODEL_SHAPES),
    *((m, n, 64) for m in (64, 128, 192, 256, 384, 2304) for n in (64, 192, 256, 320, 4096)),
]


@pytest.fixture(scope="module")
def tuned() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tuned_under_test", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tile_rows(tuned: ModuleType, m: int) -> int:
    return tuned.consumers_of(m) * tuned.WGMMA_M


@pytest.mark.parametrize(("m", "rows"), [(64, 64), (128, 128), (192, 64), (256, 128)])
def test_a_tile_has_128_rows_where_they_fill_m(tuned: ModuleType, m: int, rows: int) -> None:
    assert tile_rows(tuned, m) == rows


@pytest.mark.parametrize("sm_count", [2, 6, H200_SMS])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_a_row_of_tiles_is_n_columns(tuned: ModuleType, shape: tuple, sm_count: int) -> None:
    m, n, k = shape
    found = tuned.divide(m, n, k, sm_count)
    assert found.per_row * found.columns - found.narrow * tuned.STEP_N == n
    assert 0 <= found.narrow <= found.per_row
    assert tuned.NARROWEST - tuned.STEP_N < found.columns <= tuned.WIDEST
    assert found.columns % tuned.STEP_N == 0
    assert m % (tile_rows(tuned, m) * found.cluster) == 0
    assert sm_count % found.cluster == 0


def test_no_sm_idles_in_the_last_wave_of_8192(tuned: ModuleType) -> None:
    found = tuned.divide(8192, 8192, 8192, H200_SMS)
    tiles = 8192 // (tile_rows(tuned, 8192) * found.cluster) * found.per_row
    assert tiles % (H200_SMS // found.cluster) == 0


def test_a_small_problem_uses_nearly_all_sms(tuned: ModuleType) -> None:
    found = tuned.divide(1024, 1024, 1024, H200_SMS)
    assert 1024 // tile_rows(tuned, 1024) * found.per_row > 0.9 * H200_SMS


@pytest.mark.parametrize(("size", "most"), [(1024, 3), (2048, 3), (4096, 4)])
def test_a_shape_has_no_tensor_map_that_it_never_uses(size: int, most: int) -> None:
    """14 in place of 3 cost 5 % at 1024 and 2 % at 2048: each is fetched before the first load."""
    shape = Shape(size, size, size, H200_SMS)
    kernel = build_kernel(KernelSource("get_kernel", path=str(PATH)), shape, lambda stage: None)
    plan = read_plan(lower(kernel.func, cuda_target("sm_90a")).host)
    assert sum(isinstance(parameter, TensorMap) for parameter in plan.parameters) <= most
