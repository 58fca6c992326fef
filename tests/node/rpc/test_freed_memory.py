"""Memory that clients needed for a while returns to the system."""

import asyncio
import subprocess
import sys

from node.rpc.freed_memory import FREED_BYTES_MIN, LOOKS_AFTER, give_back_freed
from node.rpc.held_bytes import HeldBytes


class Client:
    """Holds memory."""

    def drop(self) -> None:
        """Nothing to end."""


def test_free_memory_is_given_back_after_much_was_held() -> None:
    async def scenario() -> None:
        held, client, given_back = HeldBytes(), Client(), 0

        def release() -> None:
            nonlocal given_back
            given_back += 1

        async def looked() -> int:
            for _ in range(10 + LOOKS_AFTER):
                await asyncio.sleep(0)
            return given_back

        looking = asyncio.create_task(give_back_freed(held, release, 0))
        held.change(client, FREED_BYTES_MIN - 1)
        held.forget(client)
        assert await looked() == 0
        held.change(client, FREED_BYTES_MIN)
        assert await looked() == 0
        held.forget(client)
        assert await looked() == 1 + LOOKS_AFTER
        assert await looked() == 1 + LOOKS_AFTER
        looking.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_what_came_and_went_between_two_looks_is_seen() -> None:
    held, client = HeldBytes(), Client()
    held.change(client, 100)
    held.change(client, -90)
    assert held.take_peak() == 100
    assert held.take_peak() == 10


MAPPED = """
import sys
from node.rpc.freed_memory import LARGE_BYTES, map_large_pieces

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

if sys.argv[1] == "mapped":
    map_large_pieces()
for _ in range(2):  # the allocator learns from what is freed
    pieces = [bytes(LARGE_BYTES) for _ in range(64)]
    del pieces
pieces, between = [], []
for _ in range(64):
    pieces.append(b"x" * LARGE_BYTES)
    between.append(b"y" * 40_000)
full = resident()
del pieces
print((full - resident()) // LARGE_BYTES)
"""


def test_large_pieces_go_back_whatever_lies_between() -> None:
    def freed(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", MAPPED, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert freed("mapped") >= 60
    assert freed("as it is") < 30, "else nobody needs it"
