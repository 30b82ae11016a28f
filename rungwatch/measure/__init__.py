"""Measuring: kernels and cuBLAS timed in turn, in forked workers, on this machine's GPU."""
