"""Errors of containers in three parts: the intended action, the reason of its failure, and the remedy."""

from __future__ import annotations

from wallet.errors import CodedError


class ContainerError(CodedError):
    """The engine did not do something, because of the machine or the engine."""

    def __init__(self, what: str, why: str, then: str = "", *, code: str | None = None) -> None:
        """`what` is the intended action, `why` the reason of its failure, `then` the remedy."""
        super().__init__(f"{what}: {why}" + (f"; {then}" if then else ""), code=code)
        self.what = what
        self.why = why
        self.then = then


class ContainerRefusedError(ContainerError):
    """The provider refuses a customer's request or data. The provider itself is unharmed."""
