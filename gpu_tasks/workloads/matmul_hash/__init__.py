"""A chain of integer matrix products and the hash of its end: the smallest workload, the same bits on every machine."""
