"""As much of torch as is used, on the memory of the host; cuBLAS is the fake driver's."""

import ctypes
from types import SimpleNamespace

import numpy as np

float16, uint8 = np.float16, np.uint8


class OutOfMemoryError(RuntimeError):
    pass


class Tensor(np.ndarray):
    def data_ptr(self):
        return self.ctypes.data

    def normal_(self, generator):
        self[...] = generator.random.standard_normal(self.shape)

    def zero_(self):
        self[...] = 0

    def fill_(self, value):
        self[...] = value

    def t(self):
        return self.T

    def abs(self):
        return np.abs(self)

    def float(self):
        return self.astype(np.float32)

    def byte(self):
        return self.astype(np.uint8)

    def isfinite(self):
        return np.isfinite(self)

    def numel(self):
        return self.size


class Generator:
    def __init__(self, device):
        assert device == "cuda"

    def manual_seed(self, seed):
        self.random = np.random.default_rng(seed)


def empty(shape, dtype, device):
    assert device == "cuda"
    if np.prod(shape) > 2**30:
        raise OutOfMemoryError("CUDA out of memory.\nmany lines")
    return np.full(shape, 7, dtype).view(Tensor)


def matmul(a, b, out=None):
    with np.errstate(all="ignore"):
        if out is None:
            return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16).view(Tensor)
    b = b.T
    assert a.flags.c_contiguous
    assert b.flags.c_contiguous
    assert out.flags.c_contiguous
    assert out.shape == (a.shape[0], b.shape[0])
    pointers = [ctypes.c_void_p(matrix.data_ptr()) for matrix in (a, b, out)]
    error = ctypes.CDLL("libcuda.so.1").stand_in_gemm(*pointers, *out.shape, a.shape[1])
    if error:
        raise RuntimeError(f"CUDA error {error}")
    return out


class _Cuda:
    OutOfMemoryError = OutOfMemoryError

    def init(self):
        pass

    def Stream(self):
        return SimpleNamespace(cuda_stream=7)

    def set_stream(self, stream):
        assert stream.cuda_stream == 7

    def empty_cache(self):
        pass


cuda = _Cuda()
backends = SimpleNamespace(
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_fp16_reduced_precision_reduction=True))
)
