"""Deterministic simulation of a whole network: the real consensus machine, virtual time, planned faults."""
