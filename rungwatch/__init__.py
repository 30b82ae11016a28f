"""Correctness verdicts, on a CPU, for GPU kernels written in TIRx."""

__version__ = "0.1.0"
