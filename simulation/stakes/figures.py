"""What a run of stakes has shown, what it lacks to show anything, and how that is told."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from simulation.stakes.crowds import Backed, Compared, compared
from simulation.stakes.season import KINDS
from simulation.stakes.seasons import Told

APART_PERCENT_MAX = 10.0
"""Of what a step costs with few and with many delegators behind a validator."""
LIVELY_FROM_STEPS = 20_000
"""A shorter run is asked for what it compares alone."""
HAPPENING = ("EraStarted", "SlashHeld", "SlashTaken", "SlashRaised", "SlashCancelled", "TombstoneLifted", "Tombstoned")
"""What happens by itself, or by another's call."""


def lacks(told: Told) -> list[str]:
    """Kinds of steps that a run of random steps did not show; nothing where it is too short to be asked."""
    if told.steps < LIVELY_FROM_STEPS:
        return []
    missing = [f"{name} never succeeds" for name in KINDS if not told.done[name]]
    missing += [f"{name} is never refused" for name in KINDS if not told.refused[name] and name != "bond_extra"]
    return missing + [f"{name} never happens" for name in HAPPENING if not told.happened[name]]


def lacks_leaving(told: Told, ways: Sequence[str]) -> list[str]:
    """Ways of leaving that nobody got through, or of which no slash found anybody."""
    return [f"nobody left: {way}" for way in ways if not told.done[way]] + [
        f"no slash was {name}" for name in ("taken", "raised") if not told.done[name]
    ]


def too_far_apart(steps: Sequence[Compared]) -> list[str]:
    """Steps that cost more with many delegators than with few."""
    return [
        f"{one.step} costs {one.apart_percent:.1f} % more with some crowds than with others"
        for one in steps
        if one.apart_percent > APART_PERCENT_MAX
    ]


def summary(told: Told, leaving: Told, crowds: Sequence[Backed], *, holds: bool) -> str:
    """One line of figures."""
    parts = [f"stakes {'hold' if holds else 'DO NOT HOLD'}:"]
    if told.chains:
        parts.append(
            f"{told.steps:,} steps on {told.chains} chains ({told.refused.total():,} refused with {len(told.errors)}"
            f" kinds of errors; {told.happened['EraStarted']:,} eras, {told.happened['SlashTaken']:,} slashes),"
            f" {told.comparisons:,} comparisons with the naive rule: {'' if told.problems else 'nobody above it, '}"
            f"{told.furthest} grains below at most;"
        )
    if leaving.chains:
        parts.append(
            f"{leaving.chains:,} interleavings of leaving and offending, {leaving.done['taken']:,} slashes"
            f" ({leaving.done['raised']:,} raises): {'none escapes' if not leaving.problems else 'ESCAPED'};"
        )
    if crowds:
        worst = max(compared(crowds), key=lambda one: one.apart_percent)
        counts = ", ".join(f"{crowd.count:,}" for crowd in crowds)
        parts.append(
            f"with {counts} delegators behind a validator a step costs the same within {worst.apart_percent:.1f} %"
            f" ({worst.step}), {crowds[-1].bytes_each:.0f} bytes of state each;"
        )
    return " ".join([*parts, f"{1_000 * told.seconds / max(1, told.steps):.2f} ms a step"])


def report(
    seed: int, told: Told, leaving: Told, crowds: Sequence[Backed], alone: Sequence[Backed], problems: list[str]
) -> dict[str, Any]:
    """What out/stakes.json holds; times in microseconds."""
    return {
        "seed": seed,
        "random_steps": _counted(told),
        "leaving": _counted(leaving),
        "crowds": _measured(crowds),
        "crowd_alone": _measured(alone),
        "problems": problems,
    }


def _measured(crowds: Sequence[Backed]) -> dict[str, Any]:
    steps = compared(crowds) if crowds else []
    return {
        "delegators": [crowd.count for crowd in crowds],
        "delegators_of_the_chain": [crowd.total for crowd in crowds],
        "entries_of_the_state": [len(crowd.chain.state.values) for crowd in crowds],
        "bytes_each": [round(crowd.bytes_each, 1) for crowd in crowds],
        "steps": [{**asdict(one), "apart_percent": round(one.apart_percent, 1)} for one in steps],
    }


def _counted(told: Told) -> dict[str, Any]:
    return {**told.told(), "seconds": round(told.seconds, 1)}
