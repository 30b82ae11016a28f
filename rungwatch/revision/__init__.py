"""Any commit of a project: its kernels, its lock file and its settings, read without a checkout."""
