"""Errors of containers in three parts: the intended action, the reason of its failure, and the remedy."""

from __future__ import annotations

from wallet.errors import CodedError


class ContainerError(CodedError):
    """The engine did not do something, because of the machine or the engine."""

    def __init__(self, action_text: str, reason: str, remedy: str = "", *, code: str | None = None) -> None:
        """`action_text` is the intended action, `reason` the reason of its failure, `remedy` the remedy."""
        super().__init__(f"{action_text}: {reason}" + (f"; {remedy}" if remedy else ""), code=code)
        self.what = action_text
        self.why = reason
        self.then = remedy


class ContainerRefusedError(ContainerError):
    """The provider refuses a customer's request or data. The provider itself is unharmed."""
