"""The packages of each extra: what an activity needs beside the tool itself."""

from collections.abc import Mapping

# As in pyproject.toml, without the versions.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "sim": ("apache-tvm", "tirx-harness"),
    "build": (
        "apache-tvm",
        "cuda-bindings",
        "nvidia-cuda-cccl",
        "nvidia-cuda-crt",
        "nvidia-cuda-nvdisasm",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "uv",
    ),
    "gpu": ("cuda-bindings", "nvidia-ml-py", "torch"),
    "report": ("matplotlib",),
}


def split(extra: str, installed: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the packages of `extra` that are there, with versions, and those that are not."""
    there = [f"{name} {installed[name]}" for name in EXTRAS[extra] if name in installed]
    return there, [name for name in EXTRAS[extra] if name not in installed]
