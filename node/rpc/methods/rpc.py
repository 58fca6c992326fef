"""`rpc_*`: what this server offers."""

from __future__ import annotations

from node.rpc.jsonrpc import Json
from node.rpc.registry import Registry, method


class Rpc:
    """The list of methods."""

    def __init__(self, registry: Registry) -> None:
        """`registry` knows every method; it is asked anew for each call, so this one is listed too."""
        self.registry = registry

    @method("rpc_methods")
    def methods(self) -> Json:
        """Every method that may be called."""
        return {"methods": self.registry.names()}
