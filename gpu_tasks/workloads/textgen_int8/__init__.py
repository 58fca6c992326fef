"""Byte-level text generation by an integer transformer, the same bits on every machine."""
