"""What a kernel costs before it runs: deterministic counts, comparable on any machine."""
