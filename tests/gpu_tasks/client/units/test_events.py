"""The market's events: each once, in order, in sentences and rows, for those whom they concern."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Self, cast, get_args, get_origin, get_type_hints

import pytest
from click.testing import CliRunner, Result

from between import spoiled
from gpu_tasks.client.cli import main
from gpu_tasks.client.units import events
from gpu_tasks.client.units import events as following
from gpu_tasks.client.units.events import (
    BLOCKS_PROVED,
    NAMED,
    SENTENCES,
    EventFilter,
    EventStream,
    ToldEvent,
    UntoldBlocks,
    accounts_of,
    is_of_market,
)
from gpu_tasks.data import market_reads, training_reads
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.inference import events as units
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.training import events as tasks
from gpu_tasks.market.training.events import StandbyReleased, TaskRunning
from gpu_tasks.market.training.money import TaskOutcome
from gpu_tasks.market.training.tasks import Milestone, Task, TaskState, slot_case
from gpu_tasks.market.training.training_market import TrainingMarket
from planted_state import chain_with
from planted_tasks import ALICE, PlantedTask
from priced_tasks import a_task
from runtime.cryptography import ss58
from runtime.pallets.balances import Balances
from runtime.pallets.system import EventRecord
from wallet.client import ChainClient
from wallet.rpc import NodeUnreachableError, RpcError
from wallet.suri import keypair_from_suri
from wallet_runner import answer, chain

# Events in sentences and as rows: every kind of the market's has one, and its fields are all there.


PALLETS = (
    InferenceMarket, TrainingMarket, ResultClaims, Disputes, Devices, Attestations,
)  # fmt: skip
EVENTS = [event for pallet in PALLETS for event in pallet.events]
INTERVAL_AND_END = (TaskOutcome.INTERVAL_PAID, TaskOutcome.TIME_OVER)
OWNER, TASK_ID = b"a" * 31 + b"\xff", b"\x12" * 32


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
    told = ToldEvent(9, bytes(32), 2, tasks.TaskAwarded(TASK_ID, 0, OWNER, b"\xff" * 32, 150_000_000, 40))
    who = ss58.encode(OWNER)
    said = told.says()
    assert said.startswith(f"{who[:8]} wins slot 0 of task 0x12121212 ")
    assert "1.5 oGPU" in said
    assert said.endswith("block 40")
    assert told.row()["fields"]["provider"] == who
    assert told.row()["fields"]["price"] == {"grains": "150000000", "ogpu": "1.5"}


def test_records_inside_are_told_by_their_parts() -> None:
    told = ToldEvent(9, bytes(32), 2, tasks.MilestoneReported(TASK_ID, 1, Milestone(3, bytes(32), 55, bytes(32))))
    said = told.says()
    assert said.startswith("slot 1 of task 0x12121212 ")
    assert said.endswith("milestone 3, metric 55")
    assert told.row()["fields"]["milestone"]["metric"] == 55


def test_what_has_no_value_is_a_dash_and_nothing_commands_the_terminal() -> None:
    settled = units.UnitSettled(TASK_ID, bytes(32), bytes(32), OWNER, 1, None, 1)
    assert ToldEvent(1, bytes(32), 0, settled).row()["fields"]["witness"] is None
    created = units.ServiceCreated(1, OWNER, b"\x1b[2J", bytes(32), bytes(32))
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
    matched = units.UnitMatched(TASK_ID, 1, 5, (OWNER, b"b" * 32))
    assert accounts_of(matched) == {OWNER, b"b" * 32}
    assert accounts_of(units.ServiceClosed(1)) == set()


def test_a_gap_is_told() -> None:
    assert UntoldBlocks(3, 3).says().startswith("block 3: the node cannot show these events")
    assert UntoldBlocks(3, 9).row() == {"kind": "gap", "from": 3, "to": 9, "says": UntoldBlocks(3, 9).says()}


# Whose events are: of an account, of the stash that a key works for, of what one has posted.


KEY, STASH, OTHER, TASK = b"k" * 32, b"s" * 32, b"o" * 32, b"t" * 32
CLIENT = cast("ChainClient", None)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Task]:
    """The tasks that the chain knows; the key is that of the stash."""
    found: dict[bytes, Task] = {}

    async def stash_of(_client: Any, account: bytes, _at: bytes) -> bytes | None:
        return STASH if account == KEY else None

    async def units(*_: Any) -> list[None]:
        return [None]

    async def task(_client: Any, name: bytes, _at: bytes) -> Task | None:
        return found.get(name)

    monkeypatch.setattr(market_reads, "stash_of", stash_of)
    monkeypatch.setattr(market_reads, "units", units)
    monkeypatch.setattr(training_reads, "task", task)
    monkeypatch.setattr(events, "sells_tasks", lambda _: True)
    return found


def wants(wanted: EventFilter, event: Any) -> bool:
    return asyncio.run(wanted.wants(CLIENT, event, bytes(32)))


@pytest.mark.usefixtures("known")
def test_what_names_the_stash_is_its_key_s_too() -> None:
    released = StandbyReleased(TASK, STASH)
    for account, is_wanted in ((KEY, True), (STASH, True), (OTHER, False)):
        assert wants(EventFilter(account), released) is is_wanted


def test_a_task_that_was_not_known_is_looked_up_again(known: dict[bytes, Task]) -> None:
    mine = EventFilter(OTHER)
    assert not wants(mine, TaskRunning(TASK))
    known[TASK] = a_task(customer=OTHER)
    assert wants(mine, TaskRunning(TASK))
    assert not wants(EventFilter(STASH), TaskRunning(TASK))


@pytest.mark.parametrize("is_open", [True, False])
def test_a_claim_of_a_slot_belongs_to_the_customer_of_its_task(
    known: dict[bytes, Task], monkeypatch: pytest.MonkeyPatch, *, is_open: bool
) -> None:
    known[TASK] = a_task(customer=OTHER)

    async def read(_item: Any, claim: bytes, *, at: bytes) -> bytes | None:
        return TASK if is_open and claim == slot_case(TASK, 1) else None

    async def tasks_of(_client: Any, account: bytes, _at: bytes) -> list[tuple[bytes, Task]]:
        return [(TASK, known[TASK])] if account == OTHER else []

    monkeypatch.setattr(training_reads, "tasks_of", tasks_of)
    client = cast("ChainClient", SimpleNamespace(read=read))
    ended = ClaimEnded(slot_case(TASK, 1), ClaimOutcome.PASSED)
    for account, is_wanted in ((OTHER, True), (STASH, False)):
        assert asyncio.run(EventFilter(account).wants(client, ended, bytes(32))) is is_wanted
    assert wants(EventFilter(about=[TASK]), ended)
    assert not wants(EventFilter(about=[OTHER]), ended)


# Events are told once each, in order, whatever becomes of the connection; and whose they are is known.


CUSTOMER = b"c" * 32


@dataclass
class EventfulChain:
    """Three events in each block; a node that is lost when told so, and prunes."""

    height: int = 5
    lost_at: list[int] = field(default_factory=list)
    """At which of its questions for events the connection breaks, once each."""
    pruned_below: int = 0
    busy_once: set[int] = field(default_factory=set)
    asked: int = 0
    connections: int = 0

    genesis_hash = b"g" * 32
    runtime = None

    async def finalized(self) -> bytes:
        return self.height.to_bytes(32, "big")

    async def block_id(self, height: int) -> bytes:
        return height.to_bytes(32, "big")

    async def events(self, block: bytes) -> tuple[EventRecord, ...]:
        self.asked += 1
        number = int.from_bytes(block, "big")
        if self.asked in self.lost_at:
            raise NodeUnreachableError("the cable is cut")
        if number < self.pruned_below:
            raise RpcError(4003, "the state is gone")
        if number in self.busy_once:
            self.busy_once.discard(number)
            raise RpcError(-32000, "busy")
        told = [units.ServiceClosed(number * 10 + place) for place in range(3)]
        return tuple(EventRecord(cast("Any", None), cast("Any", event)) for event in told)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "RETRY_SECONDS", (0.0,) * 3)


def stream_of(chain: EventfulChain, first: int | None, *, is_followed: bool, said: list[str]) -> EventStream:
    class Client:
        def __getattr__(self, name: str) -> Any:
            return getattr(chain, name)

        async def height(self, at: bytes) -> int:
            return int.from_bytes(at, "big")

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

    async def connect() -> ChainClient:
        chain.connections += 1
        return cast("ChainClient", Client())

    return EventStream(connect, EventFilter(), first, is_followed, said.append)


def told(
    chain: EventfulChain, first: int | None, *, until: int | None = None,
    grow: Callable[[EventfulChain], None] | None = None,
) -> tuple[list[ToldEvent | UntoldBlocks], list[str], EventStream]:  # fmt: skip
    """All that is told; with `until` while it is followed, up to so many."""
    said: list[str] = []
    stream = stream_of(chain, first, is_followed=until is not None, said=said)

    async def heads(_: ChainClient) -> AsyncIterator[None]:
        while True:
            if grow is not None:
                grow(chain)
            await asyncio.sleep(0)
            yield

    async def main() -> list[ToldEvent | UntoldBlocks]:
        found = []
        async with contextlib.aclosing(cast("Any", stream.told())) as each:
            async for one in each:
                found.append(one)
                if until is not None and len(found) == until:
                    break
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "moments", heads)
        return asyncio.run(asyncio.wait_for(main(), 20)), said, stream


def numbers(found: list[ToldEvent | UntoldBlocks]) -> list[int]:
    return [each.event.service for each in found if isinstance(each, ToldEvent)]


def of_blocks(first: int, last: int) -> list[int]:
    return [block * 10 + place for block in range(first, last + 1) for place in range(3)]


def test_events_up_to_now_are_told_in_order() -> None:
    found, said, stream = told(EventfulChain(), 3)
    assert (numbers(found), said, stream.next_block) == (of_blocks(3, 5), [], 6)
    assert numbers(told(EventfulChain(), None)[0]) == of_blocks(1, 5)
    assert numbers(told(EventfulChain(height=100), None)[0]) == of_blocks(100 - BLOCKS_PROVED + 1, 100)
    assert told(EventfulChain(), 9)[0] == []


@pytest.mark.parametrize("lost_at", [[1], [2], [1, 2, 3], [2, 4]])
def test_over_broken_connections_nothing_is_lost_or_told_twice(lost_at: list[int]) -> None:
    chain = EventfulChain(lost_at=lost_at)
    found, said, _ = told(chain, 2)
    assert numbers(found) == of_blocks(2, 5)
    assert chain.connections == 1 + len(lost_at)
    assert len(said) == len(lost_at)
    assert "the cable is cut" in said[0]
    assert "is next" in said[0]


def test_a_connection_that_breaks_within_a_block_goes_on_behind_what_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = EventfulChain(height=2)
    broke: list[bool] = []

    async def wants(self: EventFilter, client: ChainClient, event: units.ServiceClosed, at: bytes) -> bool:
        if event.service == 11 and not broke:
            broke.append(True)
            raise NodeUnreachableError("the cable is cut")
        return True

    monkeypatch.setattr(EventFilter, "wants", wants)
    assert numbers(told(chain, 1)[0]) == of_blocks(1, 2)
    assert broke


def test_what_comes_is_told_while_it_comes() -> None:
    def grow(chain: EventfulChain) -> None:
        chain.height += 2

    assert numbers(told(EventfulChain(), None, until=12, grow=grow)[0]) == of_blocks(6, 9)


def test_blocks_that_were_missed_meanwhile_are_caught_up() -> None:
    chain = EventfulChain(lost_at=[2])

    def grow(chain: EventfulChain) -> None:
        chain.height += 10

    assert numbers(told(chain, 4, until=30, grow=grow)[0]) == of_blocks(4, 13)


def test_blocks_that_the_node_keeps_no_more_are_named() -> None:
    chain = EventfulChain(height=200, pruned_below=137)
    found, said, _ = told(chain, 10)
    assert [each for each in found if isinstance(each, UntoldBlocks)] == [UntoldBlocks(10, 136)]
    assert (numbers(found), said) == (of_blocks(137, 200), [])
    assert numbers(told(EventfulChain(height=200), 100)[0]) == of_blocks(100, 200), "an archive shows all"


def test_a_block_that_goes_while_it_is_asked_for_is_named_and_no_broken_connection() -> None:
    class Pruning(EventfulChain):
        async def events(self, block: bytes) -> tuple[EventRecord, ...]:
            if self.asked == 0:
                self.height, self.pruned_below = self.height + 2, self.height + 2 - BLOCKS_PROVED + 1
            return await super().events(block)

    found, said, _ = told(Pruning(height=200), None)
    assert found[0] == UntoldBlocks(137, 138)
    assert (numbers(found), said) == (of_blocks(139, 202), [])


def test_a_node_that_is_busy_is_asked_again_and_no_block_left_out() -> None:
    chain = EventfulChain(height=100, busy_once={90})
    found, said, _ = told(chain, 80)
    assert numbers(found) == of_blocks(80, 100)
    assert "busy" in said[0]


def test_a_node_that_never_answers_is_an_error() -> None:
    async def refused() -> ChainClient:
        raise NodeUnreachableError("nobody there")

    async def main() -> None:
        async for _ in EventStream(refused, EventFilter(), 0, True, print).told():
            pass

    with pytest.raises(NodeUnreachableError, match="nobody there"):
        asyncio.run(main())


def test_without_watching_a_node_that_stays_broken_is_an_error() -> None:
    with pytest.raises(NodeUnreachableError, match="cable"):
        told(EventfulChain(lost_at=list(range(1, 50))), 2)


# `ogpu events` against a real RPC server: whose events are told, and that a broken connection loses none.


BOB = ss58.encode(keypair_from_suri("//Bob").account)
pytestmark = pytest.mark.usefixtures("stored_nowhere")


def ogpu(folder: Path, url: str, *words: str, as_json: bool = True) -> Result:
    options = ["--url", url, "--keyring", str(folder / "keys"), *(["--json"] if as_json else [])]
    return CliRunner().invoke(main, [*options, *words])


def post(folder: Path, url: str, key: str = "//Bob") -> str:
    (folder / "prompts").write_text("def f():\n")
    words = ["unit", "post", str(folder / "prompts"), "--key", key, "--racers", "3", "--anyway", "--yes"]
    (row,) = answer(ogpu(folder, url, *words, "--postings", str(folder / "postings")))
    unit: str = row["unit"]
    return unit


def lines(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_market_s_events_are_told_of_who_asks(tmp_path: Path) -> None:
    with chain(tmp_path) as url:
        unit = post(tmp_path, url)
        answer(ogpu(tmp_path, url, "unit", "cancel", unit, "--key", "//Bob", "--yes"))
        told = lines(ogpu(tmp_path, url, "events"))
        assert [row["event"] for row in told] == ["UnitPosted", "UnitRefunded"]
        assert told[0]["fields"]["customer"] == BOB
        assert told[0]["fields"]["unit"] == unit
        assert f"unit {unit[:10]} " in told[1]["says"]
        assert "(cancelled)" in told[1]["says"]

        assert lines(ogpu(tmp_path, url, "events", "--key", "//Bob")) == told, "also those that do not name it"
        assert lines(ogpu(tmp_path, url, "events", "--key", BOB)) == told
        assert lines(ogpu(tmp_path, url, "events", "--key", "//Charlie")) == []
        assert lines(ogpu(tmp_path, url, "events", "--unit", unit)) == told
        nothing = ogpu(tmp_path, url, "events", "--task", "0x" + "ee" * 32)
        assert lines(nothing) == []
        assert "no such event" in nothing.stderr

        later = ogpu(tmp_path, url, "events", "--from", str(told[1]["block"]))
        assert lines(later) == told[1:]
        assert f"--from {told[1]['block'] + 1}" in later.stderr
        text = ogpu(tmp_path, url, "events", as_json=False).stdout
        assert re.search(rf"unit {unit[:10]} of service 0 .*0\.0033 oGPU.* 3 racers", text)

        for words, why in (
            (["--task", "0x12"], "'0x12'"),
            (["--key", "Nobody"], "is not an account"),
            (["--from", "-1"], "not in the range"),
        ):
            refused = ogpu(tmp_path, url, "events", *words)
            assert (refused.exit_code, why in refused.stderr) == (2, True), refused.output


def test_a_task_s_events_are_its_customer_s_and_its_provider_s(tmp_path: Path) -> None:
    planted = PlantedTask(state=TaskState.RUNNING, milestone=2)
    with chain_with(tmp_path, planted) as url:
        answer(ogpu(tmp_path, url, "task", "stop", planted.name, "--key", "//Bob", "--yes"))
        told = lines(ogpu(tmp_path, url, "events", "--task", planted.name))
        assert "TaskEnded" in [row["event"] for row in told]
        assert {row["fields"]["task"] for row in told if "task" in row["fields"]} == {planted.name}
        mine = lines(ogpu(tmp_path, url, "events", "--key", "//Bob"))
        assert [row["event"] for row in mine if "task" in row["fields"]] == [row["event"] for row in told]
        theirs = lines(ogpu(tmp_path, url, "events", "--key", ss58.encode(ALICE)))
        assert "SlotSettled" in [row["event"] for row in theirs]
        assert "TaskEnded" not in [row["event"] for row in theirs]


def test_a_connection_that_breaks_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "RETRY_SECONDS", (0.0, 0.0, 0.0))
    broken: list[str] = []

    async def cut(direction: str, message: dict[str, Any], wallet_side: Any, _: Any) -> bool:
        if direction == "ask" and message["method"] == "chain_getBlockHash" and message["params"] == [2] and not broken:
            broken.append("cut")
            await wallet_side.close()
            return True
        return False

    with chain(tmp_path) as node:
        unit = post(tmp_path, node)
        answer(ogpu(tmp_path, node, "unit", "cancel", unit, "--key", "//Bob", "--yes"))
        with spoiled(node, cut) as (url, _):
            told = ogpu(tmp_path, url, "events", "--from", "0")
        assert [row["event"] for row in lines(told)] == ["UnitPosted", "UnitRefunded"]
        assert broken
        assert "trying again; block 2 is next" in told.stderr
