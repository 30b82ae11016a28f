"""In a worker: load a kernel file and call its factory. This runs foreign code."""
