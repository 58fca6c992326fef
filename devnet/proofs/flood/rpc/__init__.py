"""Attacks of a client on JSON-RPC."""
