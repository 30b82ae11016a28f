"""Guard bands, poison and inputs are found again bit for bit."""

import subprocess
import sys

import numpy as np
import pytest

from rungwatch.declare.problem import Shape
from rungwatch.trusted import buffers

SHAPE = Shape(8, 12, 16, 1)
GUARD = buffers.GUARD_ELEMENTS


@pytest.fixture
def arrays():
    return buffers.make(SHAPE, "normal", 0)


def test_patterns_are_distinct_nans_that_conversion_does_not_give():
    patterns = np.array([buffers.GUARD_BITS, buffers.POISON_BITS], np.uint16)
    assert np.isnan(patterns.view(np.float16)).all()
    canonical = {0x7FFF, 0x7E00, 0xFE00, 0xFFFF}
    assert len({*patterns.tolist()} | canonical) == 6


def test_fresh_buffers_have_no_fault(arrays):
    assert buffers.malformed(arrays, SHAPE) is None
    assert buffers.guard_breach(arrays) is None
    assert buffers.changed_input(arrays, arrays, SHAPE) is None
    assert buffers.unwritten(buffers.view(arrays["D"], 8, 12)).all()
    assert not np.isnan(buffers.view(arrays["A"], 8, 16)).any()


def test_view_shares_memory_and_keeps_row_order(arrays):
    d = buffers.view(arrays["D"], 8, 12)
    d[1, 2] = 1.0
    assert arrays["D"][GUARD + 12 + 2] == 0x3C00


def test_view_aligns_as_the_array_does(arrays):
    start = arrays["D"].__array_interface__["data"][0]
    assert (buffers.view(arrays["D"], 8, 12).__array_interface__["data"][0] - start) % 4096 == 0


@pytest.mark.parametrize("rows", [7, 9])
def test_view_refuses_another_size(arrays, rows):
    with pytest.raises(ValueError, match="no guarded"):
        buffers.view(arrays["D"], rows, 12)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (0, "element 4096 before its start"),
        (GUARD - 1, "element 1 before its start"),
        (-GUARD, "element 1 past its end"),
        (-1, "element 4096 past its end"),
    ],
)
@pytest.mark.parametrize("name", ["A", "B", "D"])
def test_every_guard_element_counts(arrays, name, index, words):
    arrays[name][index] = 0x3C00
    message = buffers.guard_breach(arrays)
    assert f"next to {name} " in message
    assert words in message
    assert "was 0x7ea5 and is 0x3c00" in message


def test_negated_zero_is_a_changed_input(arrays):
    after = {name: flat.copy() for name, flat in arrays.items()}
    arrays["B"][GUARD + 16 + 3] = 0x0000
    after["B"][GUARD + 16 + 3] = 0x8000
    assert "B[1, 3], was 0.0 and is -0.0" in buffers.changed_input(after, arrays, SHAPE)


def test_another_nan_is_not_the_poison():
    d = np.array([0x7E57, 0x7FFF, 0x7E00, 0xFE57], np.uint16).view(np.float16)
    assert buffers.unwritten(d).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays.pop("D"), "D is missing"),
        (lambda arrays: arrays.update(D=arrays["D"][:-1]), "array D"),
        (lambda arrays: arrays.update(A=arrays["A"].view(np.float16)), "array A"),
    ],
)
def test_malformed_arrays_are_named(arrays, change, words):
    change(arrays)
    assert words in buffers.malformed(arrays, SHAPE)


def test_module_imports_numpy_alone():
    code = (
        "import sys; import rungwatch.trusted.buffers;"
        "print([m for m in ('msgspec', 'click', 'rich', 'tvm') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"
