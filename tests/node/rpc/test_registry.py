"""The available methods, for each kind of caller."""

import pytest

from node.rpc.jsonrpc import METHOD_NOT_FOUND, JsonRpcError
from node.rpc.registry import Registry, Safety, method


class Methods:
    """One of each kind."""

    @method("open")
    def open(self) -> int:
        """For all callers."""
        return 1

    @method("closed", safety=Safety.UNSAFE)
    def closed(self) -> int:
        """For the operator."""
        return 2


def test_what_is_unsafe_does_not_exist_for_whom_it_is_not_for() -> None:
    registry = Registry([Methods()])
    assert registry.find("open", unsafe_allowed=False).handler() == 1
    assert registry.find("closed", unsafe_allowed=True).handler() == 2
    messages = []
    for name in ("closed", "none"):
        with pytest.raises(JsonRpcError) as refused:
            registry.find(name, unsafe_allowed=False)
        messages.append((refused.value.code, refused.value.message))
    assert messages == [(METHOD_NOT_FOUND, "Method not found")] * 2
