"""Errors of the devnet programs: each says what is wrong, why, and what to do next."""

from __future__ import annotations


class DevnetError(Exception):
    """Something that the person at the terminal can put right; the message says how."""
