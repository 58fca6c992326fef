"""A node's loop on a stage: a clock set by the test, a scripted transport, recording listeners."""

from __future__ import annotations

import secrets
from pathlib import Path

from block_maker import FIRST_SLOT, SPEC, Maker, now_of, open_at
from consensus import events as ev
from consensus.headers import TrustedBlock
from consensus.machine import Machine
from consensus.signstate import EMPTY
from genesis.spec import ChainSpec
from node.clock import Clock
from node.duty.duty import ValidatorDuty
from node.duty.validator_keys import follow_only
from node.ledger.chain import Chain, ExecutedBlock
from node.ledger.ledger import Ledger, RoundLog
from node.ledger.listener import Listener
from node.ledger.trusted_point import TrustedPoint
from node.loop import Loop
from node.monitoring.metrics import Metrics
from node.monitoring.poll_log import PollLog
from node.p2p.frames import FrameKind
from node.p2p.inbox import InboxMessage as Arrived
from node.peers.peers import Peers
from node.sync.status import NodeStanding
from node.sync.sync import Sync
from played_transport import PlayedTransport
from runtime.cryptography import signatures


class Heard(Listener):
    """The messages to listeners."""

    def __init__(self) -> None:
        self.final: list[ExecutedBlock] = []
        self.imported: list[ExecutedBlock] = []

    def on_final(self, blocks: list[ExecutedBlock]) -> None:
        self.final += blocks

    def on_imported(self, block: ExecutedBlock) -> None:
        self.imported.append(block)


class SetClock(Clock):
    """A clock that the test sets."""

    def __init__(self, now_ms: int) -> None:
        super().__init__()
        self.set_ms = now_ms

    def now_ms(self) -> int:
        return self.set_ms


class Stage:
    """A node without a network: Alice's, or one that only follows."""

    def __init__(
        self,
        chain: Chain,
        duty: ValidatorDuty | None,
        folder: Path,
        spec: ChainSpec = SPEC,
        checkpoint: TrustedBlock | None = None,
    ) -> None:
        self.clock, self.heard, self.transport = SetClock(now_of(FIRST_SLOT + 100)), Heard(), PlayedTransport("peer")
        self.chain = chain
        session_of = duty.keys.session_of if duty else follow_only
        self.machine = Machine(
            chain.parameters, chain.genesis, chain.epochs, signatures.verify_ed25519, session_of, secrets.randbelow
        )
        self.peers = Peers(self.transport)
        self.sync = Sync(chain, self.peers, self.clock.now_ms, self.machine.is_welcome, lambda _: None)
        self.trusted = TrustedPoint(chain, spec, checkpoint)
        ledger = Ledger(
            chain=chain, trusted=self.trusted, rounds=RoundLog(folder / "rounds"), preference=folder / "preference"
        )
        self.loop = Loop(
            machine=self.machine,
            ledger=ledger,
            sync=self.sync,
            standing=NodeStanding(self.machine, self.peers),
            peers=self.peers,
            clock=self.clock,
            duty=duty,
            metrics=Metrics("test", "test", "0", is_validator=True),
            polls=PollLog(lambda _: {}),
            listeners=[self.heard],
        )
        state = duty.keys.sign_state(0) if duty else EMPTY
        self.loop.restore(self.machine.restore(ledger.recovery(state), self.clock.now_ms()))

    def pass_seconds(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(int(seconds * 50)):
            self.clock.set_ms += 20
            if self.clock.set_ms >= self.machine.deadline_ms:
                self.loop.feed(ev.Tick())

    def hear(self, kind: FrameKind, payload: bytes, peer: str = "peer") -> None:
        """Deliver a message."""
        self.loop._take_message(Arrived(peer, kind, payload))


def about_to_import(folder: Path) -> tuple[Stage, ExecutedBlock]:
    """Return a node that only follows, and the next block, which a peer has sent to it."""
    maker = Maker(folder / "maker")
    stage = Stage(open_at(folder / "other"), None, folder)
    block = maker.make()
    stage.hear(FrameKind.BLOCK, block.stored.header + block.stored.body, "leader")
    return stage, block
