"""Blocks to and from peers, and those that wait for their parents."""
