"""How many positions the published model has, read from its file's header without NumPy, for customers' programs."""

from functools import cache
from importlib.resources import files

_CONTEXT_AT = 16  # after the magic and four of the five sizes: see model.py


@cache
def context_length() -> int:
    """Prompt and completion together have at most this many bytes."""
    with files("gpu_tasks.workloads.textgen_int8").joinpath("model.bin").open("rb") as file:
        header = file.read(_CONTEXT_AT + 2)
    return int.from_bytes(header[_CONTEXT_AT:], "little")
