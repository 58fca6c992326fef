"""Why a program is not run here."""

from __future__ import annotations


class UnfitProgramError(Exception):
    """This provider does not run it; the text says why."""


class ProgramError(Exception):
    """It cannot be run now; the text says why."""
