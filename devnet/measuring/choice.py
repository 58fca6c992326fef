"""Some names out of a catalogue, on a command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def chosen_from(catalogue: Mapping[str, T], kind: str) -> Callable[[str], list[T]]:
    """What makes `name,name` into the entries, for `argparse`; it refuses a name that none of that `kind` has."""

    def chosen(text: str) -> list[T]:
        names = text.split(",")
        unknown = [name for name in names if name not in catalogue]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"no {kind} is called {', '.join(unknown)}: there are {', '.join(catalogue)}"
            )
        return [catalogue[name] for name in names]

    return chosen
