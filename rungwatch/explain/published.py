"""What others published of the same ladder on another GPU: for orientation, never for a verdict."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Times of one GPU at one problem, by the name of the kernel; `source` says whose they are."""

    gpu: str
    problem: tuple[int, int, int]
    source: str
    microseconds: dict[str, float]
    cublas_us: float


# Steps that the source gives no time of are absent. Its step 1 works through the whole matrix
# tile after tile, as step1-matrix does.
B200_LADDER = Published(
    gpu="B200",
    problem=(4096, 4096, 4096),
    source='the public nine-step TIRx GEMM ladder ("Modern GPU programming for MLSys", MLC/TVM)',
    microseconds={
        "step1-matrix": 70_000.0,
        "step3": 53_600.0,
        "step4": 490.0,
        "step7": 230.0,
        "step8": 104.0,
        "step9": 94.0,
    },
    cublas_us=94.0,
)
