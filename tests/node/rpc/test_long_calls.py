"""Long calls: one at a time, and outside of the thread whose loop answers all clients."""

import asyncio
import threading
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import pytest

from certified_blocks import DevAlice
from genesis.chain import apis_for
from node.rpc.callers import RpcCaller
from node.rpc.long_calls import LONG_BYTES, LONG_CALLS, LongCalls
from node.rpc.questions import ASKING
from played_node import DevChain
from runtime.cryptography.signatures import Scheme
from runtime.encoding.marks import Fixed, UInt
from runtime.encoding.types import Weight
from runtime.frame.holds import Hold
from runtime.pallets.system import System
from runtime.pallets.utility import Utility

FUNCTION = "TransactionPaymentApi_query_info"
APIS = apis_for("devnet", is_development=True)


class Slow:
    """A call that ends at a test's command."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.at_once = self.most = 0
        self.go = threading.Event()

    def call(self) -> str:
        self.threads.append(threading.current_thread().name)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        if threading.current_thread() is not threading.main_thread():
            assert self.go.wait(30)
        self.at_once -= 1
        return "done"


def run(calls: LongCalls, slow: Slow, caller: RpcCaller) -> asyncio.Task[str]:
    async def ask() -> str:
        ASKING.set(caller)
        return await calls.run(FUNCTION, LONG_BYTES, slow.call)

    return asyncio.create_task(ask())


def test_a_short_one_is_worked_out_at_once_and_a_long_one_elsewhere() -> None:
    async def scenario() -> None:
        calls, slow = LongCalls(), Slow()
        assert await calls.run(FUNCTION, LONG_BYTES - 1, slow.call) == "done"
        assert await calls.run("GpuTasksApi_devices_of", LONG_BYTES, slow.call) == "done", "it walks over the state"
        task = run(calls, slow, RpcCaller())
        while len(slow.threads) < 3:
            await asyncio.sleep(0.001)  # the loop continues meanwhile
        slow.go.set()
        assert await task == "done"
        assert slow.threads[:2] == [threading.main_thread().name] * 2
        assert slow.threads[2] != threading.main_thread().name

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_one_at_a_time_in_turn_by_caller_and_who_leaves_keeps_its_turn_to_the_end() -> None:
    async def scenario() -> None:
        calls, slow, greedy = LongCalls(), Slow(), RpcCaller()
        tasks = [run(calls, slow, greedy) for _ in range(5)]
        while not slow.threads:
            await asyncio.sleep(0.001)
        honest = run(calls, slow, RpcCaller())
        tasks[0].cancel()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(slow.threads) == 1, "it left, and its work goes on"
        slow.go.set()
        assert await honest == "done"
        assert not all(task.done() for task in tasks), "the other caller's four were not before it"
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert await asyncio.gather(*tasks[1:]) == ["done"] * 4
        assert slow.most == 1

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_who_leaves_again_and_again_puts_nothing_before_others() -> None:
    async def scenario() -> None:
        calls, slow, greedy = LongCalls(), Slow(), RpcCaller()
        tasks = [run(calls, slow, greedy) for _ in range(5)]
        while not slow.threads:
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
            await asyncio.sleep(0.001)
        honest = run(calls, slow, RpcCaller())
        slow.go.set()
        assert await honest == "done"
        assert len(slow.threads) == 2, "the one under way, and the honest one's"

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_a_call_raises_is_raised() -> None:
    async def scenario() -> None:
        def wrong() -> None:
            raise ValueError("wrong")

        with pytest.raises(ValueError, match="wrong"):
            await LongCalls().run(FUNCTION, LONG_BYTES, wrong)

    asyncio.run(scenario())


def is_short(hint: object) -> bool:
    """Return True for numbers, bytes of a fixed length, pairs of these, and None."""
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return all(choice is NoneType or is_short(choice) for choice in get_args(hint))
    marks = getattr(hint, "__metadata__", ())
    return hint in (Weight, Hold) or any(isinstance(mark, UInt | Fixed) for mark in marks)


def test_no_other_runtime_api_takes_long_arguments() -> None:
    for name, method in APIS.methods.items():
        hints = get_type_hints(method.function, include_extras=True)
        del hints["return"]
        assert (name in LONG_CALLS) == any(not is_short(hint) for hint in hints.values()), name
    assert set(APIS.methods) >= LONG_CALLS


class SingleKeys:
    """A state that may change during a walk, so that its values never existed together."""

    def __init__(self, values: dict[bytes, bytes]) -> None:
        self._values = values
        self.reads = 0

    def get(self, key: bytes, /) -> bytes | None:
        self.reads += 1
        return self._values.get(key)

    def keys(self, prefix: bytes, start: bytes = b"", /) -> Iterator[bytes]:
        raise AssertionError(f"it walks over {prefix.hex()} in another thread, after {start.hex()}")


@pytest.mark.parametrize("function", sorted(LONG_CALLS))
def test_what_is_worked_out_elsewhere_reads_single_keys(function: str) -> None:
    chain = DevChain()
    raw = chain.signed(DevAlice("Alice", Scheme.SR25519), Utility.batch(calls=(System.remark(remark=b"xx"),) * 1_000))
    assert len(raw) > LONG_BYTES
    takes = [name for name, _ in APIS.methods[function].inputs]
    rest = len(raw).to_bytes(4, "little") if takes == ["uxt", "len"] else chain.genesis_hash
    arguments = raw + rest if takes[0] == "uxt" else b"\2" + raw + rest
    state = SingleKeys(chain.state.values)
    assert APIS.call(state, chain.genesis_hash, function, arguments)
    assert state.reads > 0
