"""Base against head: what changed, whether head is right, and what it costs. No GPU."""
