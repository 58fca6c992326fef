"""Events in sentences and as rows: every kind of the market's has one, and its fields are all there."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from gpu_tasks.client.units.events import NAMED, SENTENCES, ToldEvent, UntoldBlocks, accounts_of, is_of_market
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.courts.courts import Courts
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as units
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.leaf_checks.leaf_checks import LeafChecks
from gpu_tasks.market.leaf_disputes.leaf_disputes import LeafDisputes
from gpu_tasks.market.training import events as tasks
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Milestone
from gpu_tasks.market.training.training_market import TrainingMarket
from runtime.cryptography import ss58
from runtime.pallets.balances import Balances

PALLETS = (InferenceMarket, TrainingMarket, Courts, LeafChecks, LeafDisputes, Devices, Attestations)
EVENTS = [event for pallet in PALLETS for event in pallet.events]
INTERVAL_AND_END = (TaskOutcome.INTERVAL_PAID, TaskOutcome.TIME_OVER)
ALICE, TASK = b"a" * 31 + b"\xff", b"\x12" * 32


def sample(kind: Any) -> Any:
    """Some value of a declared type."""
    if get_origin(kind) is Annotated:
        return bytes(range(32)) if get_args(kind)[0] is bytes else sample(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return (sample(get_args(kind)[0]),) * 2
    if kind is int:
        return 7
    if kind is bytes:
        return b"\x01text"
    if kind is bool:
        return True
    if isinstance(kind, type) and issubclass(kind, IntEnum):
        return next(iter(kind))
    if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"):
        hints = get_type_hints(kind, include_extras=True)
        return kind(**{each.name: sample(hints[each.name]) for each in fields(kind)})
    return sample(next(each for each in get_args(kind) if each is not type(None)))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_every_event_has_a_sentence_and_a_row(event: type[Any]) -> None:
    told = ToldEvent(9, bytes(32), 2, sample(event))
    row = json.loads(json.dumps(told.row()))
    assert set(row["fields"]) == {each.name for each in fields(event)}
    assert (row["block"], row["index"], row["event"]) == (9, 2, event.__name__)
    said = told.says()
    assert "{" not in said
    named = {name.partition(".")[0] for name in NAMED.findall(SENTENCES[event.__name__])}
    assert named <= set(row["fields"]), "the sentence names fields that are there"
    assert " - " not in said, "and each has a value"
    assert is_of_market(told.event)


def test_sentences_are_of_events_that_there_are() -> None:
    assert {name.partition(":")[0] for name in SENTENCES} <= {event.__name__ for event in EVENTS}


def test_an_interval_that_is_paid_is_no_end_of_its_slot() -> None:
    settled = sample(tasks.SlotSettled)
    said = [ToldEvent(9, bytes(32), 2, replace(settled, outcome=outcome)).says() for outcome in INTERVAL_AND_END]
    assert said[0].startswith("an interval of slot 7 of task 0x")
    assert "is paid" in said[0]
    assert "has ended (time over)" in said[1]


def test_a_sentence_is_short_and_a_row_whole() -> None:
    told = ToldEvent(9, bytes(32), 2, tasks.TaskAwarded(TASK, 0, ALICE, b"\xff" * 32, 150_000_000, 40))
    who = ss58.encode(ALICE)
    assert told.says() == f"{who[:8]} wins slot 0 of task 0x12121212 for 1.5 oGPU, and starts before block 40"
    assert told.row()["fields"]["provider"] == who
    assert told.row()["fields"]["price"] == {"grains": "150000000", "ogpu": "1.5"}


def test_records_inside_are_told_by_their_parts() -> None:
    told = ToldEvent(9, bytes(32), 2, tasks.MilestoneReported(TASK, 1, Milestone(3, bytes(32), 55, bytes(32))))
    assert told.says() == "slot 1 of task 0x12121212 states milestone 3, metric 55"
    assert told.row()["fields"]["milestone"]["metric"] == 55


def test_what_has_no_value_is_a_dash_and_nothing_commands_the_terminal() -> None:
    settled = units.UnitSettled(TASK, bytes(32), bytes(32), ALICE, 1, None, 1)
    assert ToldEvent(1, bytes(32), 0, settled).row()["fields"]["witness"] is None
    created = units.ServiceCreated(1, ALICE, b"\x1b[2J", bytes(32), bytes(32))
    assert "\x1b" not in ToldEvent(1, bytes(32), 0, created).says()


def test_an_event_without_a_sentence_is_told_by_its_pallet_s_words() -> None:
    @dataclass(frozen=True)
    class Brightened:
        """A lamp is brighter. It stays so."""

        lamp: int
        by: bytes

    assert (
        ToldEvent(1, bytes(32), 0, Brightened(4, b"\xff")).says() == "A lamp is brighter. It stays so: lamp 4, by 0xff"
    )
    assert not is_of_market(Brightened(4, b""))
    assert not any(is_of_market(sample(event)) for event in Balances.events)


def test_all_accounts_of_an_event_are_its() -> None:
    matched = units.UnitMatched(TASK, 1, 5, (ALICE, b"b" * 32))
    assert accounts_of(matched) == {ALICE, b"b" * 32}
    assert accounts_of(units.ServiceClosed(1)) == set()


def test_a_gap_is_told() -> None:
    assert UntoldBlocks(3, 3).says().startswith("block 3: the node cannot show these events")
    assert UntoldBlocks(3, 9).row() == {"kind": "gap", "from": 3, "to": 9, "says": UntoldBlocks(3, 9).says()}
