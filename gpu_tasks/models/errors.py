"""The error of a model, with a code for each cause. Programs import this module at start, so it imports nothing."""


class ModelError(Exception):
    """A model or its file cannot be used. The text says what happened, why, and what to do next."""

    def __init__(self, text: str, *, code: str) -> None:
        """`code`: a stable name of the cause, which programs and tests compare."""
        super().__init__(text)
        self.code = code
