"""Artifacts: a kernel of any commit as data (machine code and a launch plan), and no host code."""
