"""What goes wrong with containers, said in three parts: what was wanted, why it does not go, what to do next."""

from __future__ import annotations


class ContainerError(Exception):
    """The engine did not do something; the machine or the engine is the reason."""

    def __init__(self, what: str, why: str, then: str = "") -> None:
        """`what` was wanted, `why` it did not go, `then` is what to do about it."""
        super().__init__(f"{what}: {why}" + (f"; {then}" if then else ""))
        self.what = what
        self.why = why
        self.then = then


class ContainerRefusedError(ContainerError):
    """What a customer asked for, or handed over, is not run; the provider is unharmed."""
