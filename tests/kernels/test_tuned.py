"""How the tuned Hopper kernel cuts D into tiles."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rungwatch.trusted.matrix import MODEL_SHAPES, SQUARE_SIZES

PATH = Path(__file__).parents[2] / "kernels" / "hgemm" / "hopper" / "tuned.py"
H200_SMS = 132
SHAPES = [
    *((size, size, size) for size in SQUARE_SIZES),
    *((-(-m // 128) * 128, n, k) for m, n, k in MODEL_SHAPES),
    *((m, n, 64) for m in (128, 256, 384, 2304) for n in (64, 192, 256, 320, 4096)),
]


@pytest.fixture(scope="module")
def tuned() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tuned_under_test", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("sm_count", [2, 6, H200_SMS])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_a_row_of_tiles_is_n_columns(tuned: ModuleType, shape: tuple, sm_count: int) -> None:
    m, n, k = shape
    found = tuned.divide(m, n, k, sm_count)
    assert found.per_row * found.columns - found.narrow * tuned.STEP_N == n
    assert 0 <= found.narrow <= found.per_row
    assert tuned.NARROWEST - tuned.STEP_N < found.columns <= tuned.WIDEST
    assert found.columns % tuned.STEP_N == 0
    assert m % (tuned.BLK_M * found.cluster) == 0
    assert sm_count % found.cluster == 0


def test_no_sm_idles_in_the_last_wave_of_8192(tuned: ModuleType) -> None:
    found = tuned.divide(8192, 8192, 8192, H200_SMS)
    tiles = 8192 // (tuned.BLK_M * found.cluster) * found.per_row
    assert tiles % (H200_SMS // found.cluster) == 0


def test_a_small_problem_uses_nearly_all_sms(tuned: ModuleType) -> None:
    found = tuned.divide(1024, 1024, 1024, H200_SMS)
    assert 1024 // tuned.BLK_M * found.per_row > 0.9 * H200_SMS
