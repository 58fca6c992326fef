"""The clock of this process's CPU time, and its shares on a core that other processes use too."""

from __future__ import annotations

import pytest
import trio

from node.p2p.frames import FrameKind, MessageClass
from node.p2p.inbox import Inbox, InboxMessage
from node.p2p.meter import CoreTime
from node.p2p.work import BURST_SECONDS, STRANGERS_SHARES


class Machine:
    """One core that this process shares. Its times are scripted."""

    def __init__(self, part: float) -> None:
        self.part = part
        self.wall = self.cpu = 0.0
        self.time = CoreTime(lambda: self.cpu, lambda: self.wall)

    def work(self, cpu: float) -> None:
        """Use some CPU time, which takes longer where the process gets less than the core."""
        self.cpu += cpu
        self.wall += cpu / self.part

    def rest(self, wall: float) -> None:
        """Wait for events."""
        self.time.before_io_wait(wall)
        self.wall += wall
        self.time.after_io_wait(wall)


def test_it_goes_on_with_the_cpu_that_the_process_gets_and_with_its_rests() -> None:
    machine = Machine(part=0.25)
    machine.work(1.0)
    assert (machine.time.seconds(), machine.wall) == (1.0, 4.0)
    machine.rest(2.0)
    assert machine.time.seconds() == 3.0


def test_a_look_at_events_without_waiting_is_no_rest() -> None:
    """The process may be suspended in it for as long as others use the core."""
    machine = Machine(part=0.25)
    machine.time.before_io_wait(0.0)
    machine.wall += 5.0
    machine.time.after_io_wait(0.0)
    assert machine.time.seconds() == 0.0


@pytest.mark.trio
async def test_trio_tells_it_of_its_rests() -> None:
    ticks = iter(range(1_000))
    time = CoreTime(lambda: 0.0, lambda: float(next(ticks)))
    trio.lowlevel.add_instrument(time)
    await trio.sleep(0.001)
    trio.lowlevel.remove_instrument(time)
    assert time.seconds() > 0


@pytest.mark.trio
@pytest.mark.parametrize("part", [1.0, 0.2, 0.05])
async def test_strangers_get_their_share_of_what_the_process_has(part: float) -> None:
    """A permanent flood of gossip takes the same share of a process with little CPU as of one with a whole core."""
    machine = Machine(part)
    inbox = Inbox(seconds=machine.time.seconds)
    spent = own = 0.0
    while machine.cpu < 100.0:
        for peer in ("a", "b", "c"):
            await inbox.put(InboxMessage(peer, FrameKind.HEARTBEAT, b""))
        message = inbox.receive_nowait()
        machine.work(0.01)
        if message is None:
            own += 0.01
        else:
            spent += 0.01
            inbox.charge(message, 0.01)
    share = STRANGERS_SHARES[MessageClass.GOSSIP]
    assert share * 100 - 0.1 <= spent <= share * (100 + BURST_SECONDS) + 0.1
    assert own >= (1 - share) * 100 - share * BURST_SECONDS - 0.1


@pytest.mark.trio
async def test_gossip_and_sync_wait_where_only_consensus_is_asked_for() -> None:
    inbox = Inbox()
    for kind in (FrameKind.HEARTBEAT, FrameKind.GET_BLOCKS, FrameKind.VOTE):
        await inbox.put(InboxMessage("a", kind, b""))
    first = inbox.receive_nowait(consensus_only=True)
    assert first is not None
    assert first.kind is FrameKind.VOTE
    assert inbox.receive_nowait(consensus_only=True) is None
    rest = [inbox.receive_nowait(), inbox.receive_nowait()]
    assert [message and message.kind for message in rest] == [FrameKind.HEARTBEAT, FrameKind.GET_BLOCKS]
