"""Transformers in exact integers: the arithmetic that `decoder-int8` and `embed-int8` share, and its backends."""
