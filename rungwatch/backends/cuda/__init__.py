"""The CUDA backend: artifacts run on this machine's GPU, without TVM and without a compiler."""
