"""The CPU simulator for Blackwell kernels, and its synchronisation and race checkers."""
