"""Stake and what it answers for: bonds, eras, rewards, offences, slashes."""
