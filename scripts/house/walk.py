"""The walk of a unit through the market: from each entry, every call in the order of the text, each function once.

Counted: calls that stay in their file, and calls that lead back into a file that the walk had left. Fewer of the second
kind means less leafing to and fro for a reader who follows one unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scripts.house.calls import Calls, Place
from scripts.house.tree import Module

MARKET = "gpu_tasks.market"
ENTRIES = ("on_initialize", "post", "commit_result", "carry_out")
PALLET = "InferenceMarket"


@dataclass(slots=True)
class Walk:
    """What was met on the way."""

    calls: int = 0
    stays: int = 0
    returns: int = 0
    files: int = 0

    def __add__(self, other: "Walk") -> "Walk":
        """Both walks, one after the other."""
        return Walk(
            self.calls + other.calls, self.stays + other.stays, self.returns + other.returns, self.files + other.files
        )


def unit_walks(modules: Mapping[str, Module]) -> dict[str, Walk]:
    """The walk from each entry of the inference market: its hook, and the calls of a unit's life."""
    inside = {name: module for name, module in modules.items() if name.startswith(MARKET)}
    calls = Calls(inside)
    home = next(name for name in inside if calls.function(Place(name, PALLET, "on_initialize")))
    return {entry: walk(calls, Place(home, PALLET, entry)) for entry in ENTRIES}


def walk(calls: Calls, entry: Place) -> Walk:
    """Follow the calls from `entry` depth first."""
    found = Walk()
    visited = [entry.module]
    expanded: set[Place] = set()
    waiting = [iter((entry,))]
    path = [entry.module]
    while waiting:
        place = next(waiting[-1], None)
        if place is None:
            waiting.pop()
            path.pop()
            continue
        here = path[-1]
        if place != entry or expanded:
            found.calls += 1
            if place.module == here:
                found.stays += 1
            elif place.module in visited:
                found.returns += 1
        if place.module not in visited:
            visited.append(place.module)
        if place not in expanded:
            expanded.add(place)
            waiting.append(calls.made_by(place))
            path.append(place.module)
    found.files = len(visited)
    return found
