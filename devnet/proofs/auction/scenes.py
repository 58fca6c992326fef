"""The courses that a task may take in this proof: which file, who is killed when, what has to come of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from devnet.demo.task_sale import EXAMPLES, RELAY

NOT_SERVED = EXAMPLES / "gang.yaml"
"""Asks for two devices of a class that no provider here has."""
STRUCK_AT = 3
"""The milestone that has to count before anybody is killed: of six, so that it is midway."""


@dataclass(frozen=True, slots=True)
class TaskScene:
    """A task and its course."""

    name: str
    title: str
    file: Path
    kills_winner: bool = False
    kills_standby: bool = False
    auctions: int = 1
    legs: tuple[str, ...] = ("ON_TIME",)
    """How each slot that was ever awarded ends, in the order of the blocks; LATE may stand for ON_TIME."""


SCENES = (
    TaskScene("undisturbed", "Sold, run, accepted, paid", RELAY),
    TaskScene(
        "standby",
        "The winner is killed midway: the standby goes on",
        RELAY,
        kills_winner=True,
        legs=("DIED", "ON_TIME"),
    ),
    TaskScene(
        "auctioned-again",
        "Winner and standby are killed: the rest is auctioned again",
        RELAY,
        kills_winner=True,
        kills_standby=True,
        auctions=2,
        legs=("DIED", "ON_TIME"),
    ),
    TaskScene("gang", "Two compute the same run", EXAMPLES / "pair.yaml", legs=("ON_TIME", "ON_TIME")),
)
