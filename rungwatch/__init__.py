"""Regression tests and CI performance verdicts for GPU kernels written in TIRx."""

__version__ = "0.1.0"
