"""`rpc_*`: what this server offers."""

from __future__ import annotations

from node.rpc.jsonrpc import Json
from node.rpc.registry import Registry, method


class Rpc:
    """The list of methods."""

    def __init__(self) -> None:
        """`registry` is set once every method is known, this one included."""
        self.registry: Registry

    @method("rpc_methods")
    def methods(self) -> Json:
        """Every method that may be called."""
        return {"methods": self.registry.names()}
