"""What must have become of each device at a roll call, judged from the events of final blocks.

Always: a device is judged by its part alone; each thing that is not as it must be is one sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.devices.events import DeviceAssigned
from runtime.pallets.system import ExtrinsicFailed

OBJECTIONS_LEAST = 2
COUNTED: Mapping[type[Any], str] = {
    ev.DeviceEnrolled: "enrolled",
    ev.CapacityCommitted: "committed",
    ev.RowsOpened: "opened",
    ev.RowsObjected: "objections",
    ev.DeviceUnenrolled: "left",
    DeviceAssigned: "assigned",
}
"""Events of a device, each with the counter of `RollCallTrace` that counts them."""


class RollCallPart(Enum):
    """What a provider does at the roll call."""

    HONEST = "answers"
    KILLED = "is killed with -9 after its commit, and comes back"
    LIAR = "commits to rows that nobody computed"
    WEAK = "proves less than its class claims"

    @property
    def may_work(self) -> bool:
        """Whether the device is given work after it."""
        return self in {RollCallPart.HONEST, RollCallPart.KILLED}


@dataclass(slots=True)
class RollCallTrace:
    """What final blocks say of the devices at a roll call."""

    is_called: bool = False
    enrolled: Counter[bytes] = field(default_factory=Counter)
    committed: Counter[bytes] = field(default_factory=Counter)
    rates: dict[bytes, int] = field(default_factory=dict)
    opened: Counter[bytes] = field(default_factory=Counter)
    objections: Counter[bytes] = field(default_factory=Counter)
    lost: Counter[bytes] = field(default_factory=Counter)
    """Grains of roll-call bonds."""
    left: Counter[bytes] = field(default_factory=Counter)
    assigned: Counter[bytes] = field(default_factory=Counter)
    """To units, by device."""
    failed: int = 0
    """Extrinsics that cost their fee, and did nothing."""

    def take(self, events: Iterable[object]) -> None:
        """What happened in one more block."""
        for event in events:
            for kind, name in COUNTED.items():
                if isinstance(event, kind):
                    getattr(self, name)[event.device] += 1
            self._take(event)

    def _take(self, event: object) -> None:
        match event:
            case ev.RollCalled():
                self.is_called = True
            case ev.CapacityCommitted(device, _, rate):
                self.rates[device] = rate
            case ev.RollCallBondLost(device, _, amount):
                self.lost[device] += amount
            case ExtrinsicFailed():
                self.failed += 1
            case _:
                pass


@dataclass(frozen=True, slots=True)
class CalledProvider:
    """One provider at the roll call, and what its programs said after it."""

    name: str
    part: RollCallPart
    device: bytes
    begun: int
    """How often its daemon began to compute the chain of this roll call."""
    why_no_work: str | None
    """As `ogpu-provider status` says it."""
    diagnosis: str | None
    """Of `ogpu-provider doctor` about its device at roll calls; None where it was not asked, or has nothing to say."""


def judge(trace: RollCallTrace, providers: Iterable[CalledProvider], bonds: Mapping[bytes, int]) -> list[str]:
    """What is not as it must be; `bonds` are the grains that were held for each device."""
    found = [] if trace.is_called else ["there was no roll call"]
    if trace.failed:
        found.append(f"{trace.failed} calls cost their fee, and did nothing")
    for provider in providers:
        found += [f"{provider.name}: {words}" for words in _of(trace, provider, bonds.get(provider.device, 0))]
    return found


def _of(trace: RollCallTrace, provider: CalledProvider, bond: int) -> list[str]:
    device, part = provider.device, provider.part
    times = {"enrolled": trace.enrolled, "committed": trace.committed, "shown": trace.opened, "withdrawn": trace.left}
    found = [f"{word} {counter[device]} times, not once" for word, counter in times.items() if counter[device] != 1]
    if provider.begun != 1:
        found.append(f"its chain was computed {provider.begun} times, not once")
    objections = trace.objections[device]
    if (objections >= OBJECTIONS_LEAST) != (part is RollCallPart.LIAR) or (objections and part.may_work):
        found.append(f"{objections} inspectors object")
    wanted = bond if part is RollCallPart.LIAR else 0
    if not bond or trace.lost[device] != wanted:
        found.append(f"it lost {trace.lost[device]} of {bond} grains, not {wanted}")
    if bool(trace.assigned[device]) != part.may_work:
        found.append(f"it was drawn for {trace.assigned[device]} units")
    for word, said in (("status", provider.why_no_work), ("doctor", provider.diagnosis)):
        if bool(said) == part.may_work or (said and "has proven" not in said):
            found.append(f"{word} says of it: {said}")
    return found
