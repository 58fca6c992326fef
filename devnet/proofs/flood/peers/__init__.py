"""Attacks of an authenticated stranger on the peer-to-peer port."""
