"""What goes wrong in each scene, and what the customer's program has to say of it."""

from __future__ import annotations

from dataclasses import dataclass

SHORT_STEPS = 6_000
LONG_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class TelemetryScene:
    """One task, and what befalls its broker once the task is heard of."""

    name: str
    title: str
    says: str | None
    """What has to stand in some sentence about the broker; None: there is to be none."""
    hears_all: bool
    """Whether every milestone has to be heard of."""
    steps: int = SHORT_STEPS


HONEST = TelemetryScene("honest", "Nothing goes wrong", None, hears_all=True)
DOWN = TelemetryScene("down", "The broker is killed, and started again after a while", "is gone", hears_all=False)
SLOW = TelemetryScene("slow", "Each part of what goes to and from the broker takes half a second", "", hears_all=True)
FORGED = TelemetryScene("forged", "A stranger publishes what no provider told", "forged", hears_all=True)
REPLAYED = TelemetryScene("replayed", "A stranger publishes again what was told", "replayed", hears_all=True)
FLOODED = TelemetryScene("flooded", "A stranger floods the task's topic", "floods", hears_all=False)
WITHHELD = TelemetryScene(
    "withheld", "The broker takes all, and hands nothing on", "nothing is heard, but the provider answers",
    hears_all=False, steps=LONG_STEPS,
)  # fmt: skip
SCENES = (HONEST, DOWN, SLOW, FORGED, REPLAYED, FLOODED, WITHHELD)
