"""Floods by one stranger on a live devnet, and whether the network holds."""
