"""Is this machine fit to check, build and measure? Facts are collected, then judged."""
