"""The bars of the roll call over real nodes fail where they should: each with a record that breaks it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from devnet.proofs.roll_call import CalledProvider, RollCallPart, judge_roll_call
from devnet.stage.measuring.ledger import EventTrace
from gpu_tasks.market.capacity import events as ev
from gpu_tasks.market.capacity.proofs import WorkShape
from gpu_tasks.market.devices.events import DeviceAssigned
from gpu_tasks.provider.doctor.chain import NOT_ENROLLED, PROVED_TOO_LITTLE
from runtime.encoding.types import DispatchClass, DispatchInfo, Pays, Weight
from runtime.pallets.system import ExtrinsicFailed

ALICE, BOB, CHARLIE, DAVE = (bytes([number]) * 32 for number in range(1, 5))
BOND = 10
BONDS = dict.fromkeys((ALICE, BOB, CHARLIE, DAVE), BOND)
WHY = "it has proven 0 of the 1"
PROVIDERS = (
    CalledProvider("Alice", RollCallPart.KILLED, ALICE, 1, None, None),
    CalledProvider("Bob", RollCallPart.HONEST, BOB, 1, None, None),
    CalledProvider("Charlie", RollCallPart.LIAR, CHARLIE, 1, WHY, PROVED_TOO_LITTLE),
    CalledProvider("Dave", RollCallPart.WEAK, DAVE, 1, WHY, PROVED_TOO_LITTLE),
)


def events() -> list[object]:
    found: list[object] = [ev.RollCalled(1, bytes(32))]
    for device in (ALICE, BOB, CHARLIE, DAVE):
        found += [
            ev.DeviceEnrolled(device, WorkShape(256, 4096, 1)), ev.CapacityCommitted(device, 1, 6),
            ev.RowsOpened(device, 1), ev.DeviceUnenrolled(device),
        ]  # fmt: skip
    found += [ev.RowsObjected(CHARLIE, 1, who) for who in (ALICE, BOB)]
    return [*found, ev.RollCallBondLost(CHARLIE, 1, BOND), DeviceAssigned(ALICE, b"u"), DeviceAssigned(BOB, b"u")]


def judged(happened: list[object], providers: tuple[CalledProvider, ...] = PROVIDERS) -> list[str]:
    return judge_roll_call(EventTrace([(1, event) for event in happened]), providers, BONDS)


def test_a_roll_call_as_it_should_be_breaks_no_bar() -> None:
    assert judged(events()) == []


FAILED = ExtrinsicFailed(None, DispatchInfo(Weight(0, 0), DispatchClass.Normal, Pays.Yes))  # type: ignore[arg-type]  # what failed is not looked at


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda found: found[1:], "there was no roll call"),
        (lambda found: [*found, ev.CapacityCommitted(ALICE, 1, 6)], "Alice: committed 2 times, not once"),
        (lambda found: [*found, ev.RowsOpened(BOB, 1)], "Bob: shown 2 times"),
        (lambda found: [each for each in found if each != ev.RowsOpened(ALICE, 1)], "Alice: shown 0 times"),
        (lambda found: [*found, FAILED], "1 calls cost their fee"),
        (lambda found: [*found, ev.RowsObjected(ALICE, 1, BOB)], "Alice: 1 inspectors object"),
        (lambda found: [each for each in found if each != ev.RowsObjected(CHARLIE, 1, BOB)], "Charlie: 1 inspectors"),
        (lambda found: [*found, DeviceAssigned(CHARLIE, b"u")], "Charlie: it was drawn for 1 units"),
        (lambda found: [*found, DeviceAssigned(DAVE, b"u")], "Dave: it was drawn for 1 units"),
        (lambda found: [each for each in found if each != DeviceAssigned(BOB, b"u")], "Bob: it was drawn for 0 units"),
        (lambda found: [*found, ev.RollCallBondLost(ALICE, 1, 1)], "Alice: it lost 1 of 10 grains, not 0"),
        (
            lambda found: [each for each in found if not isinstance(each, ev.RollCallBondLost)],
            "Charlie: it lost 0 of 10 grains, not 10",
        ),
    ],
)
def test_what_is_not_as_it_must_be_is_named(change: Callable[[list[object]], list[object]], says: str) -> None:
    failures = judged(change(events()))
    assert any(says in failure for failure in failures), failures


@pytest.mark.parametrize(
    ("place", "changed", "says"),
    [
        (0, {"begun_count": 2}, "Alice: its chain was computed 2 times, not once"),
        (1, {"why_no_work": WHY}, "Bob: status says of it"),
        (2, {"why_no_work": None}, "Charlie: status says of it: None"),
        (3, {"diagnosis": None}, "Dave: doctor says of it: None"),
        (3, {"diagnosis": NOT_ENROLLED}, "Dave: doctor says of it: not_enrolled"),
    ],
)
def test_what_a_providers_programs_say_is_judged_too(place: int, changed: dict[str, object], says: str) -> None:
    providers = list(PROVIDERS)
    providers[place] = replace(providers[place], **changed)  # type: ignore[arg-type]  # by name
    assert any(says in failure for failure in judged(events(), tuple(providers)))
