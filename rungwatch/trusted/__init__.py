"""What judges a kernel: inputs, references, error bounds, comparison, the required matrix.

Nothing here is ever taken from the code under test.
"""
