"""This node's version, as the installed package says it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("ogpu")
except PackageNotFoundError:  # a source tree that nobody installed
    VERSION = "0.0.0"
