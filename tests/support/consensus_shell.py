"""A shell around one consensus machine for tests: signs and builds at once, collects all effects."""

from collections import deque
from random import Random

from consensus import events as ev
from consensus.certificates import Certificate
from consensus.events import BlockFacts
from consensus.finality.relay import LINKS_DELAY_MS
from consensus.machine import Machine
from consensus.parameters import DEVNET
from consensus.signstate import EMPTY, SignedRecord, SignState, after, record_payload
from consensus.validators import Epochs
from consensus.wire import Chits, Message, PullQuery, Vote
from consensus_parts import GENESIS, GENESIS_BLOCK, block, cast, epochs_of, signers
from devnet.simulation.keys import Signer, verify_fake
from runtime.blocks.votes import Ballot, Proposal, SignedProposal, proposal_payload

START_MS = 1_000_000
SLOT = START_MS // DEVNET.slot_ms
KEYS = signers(4)


class Shell:
    """A shell that executes local effects at once (signing, building), and collects all effects."""

    def __init__(
        self, count: int = 4, me: int | None = 0, *, builds: bool = False, epochs: Epochs | None = None,
        later: Signer | None = None,
    ) -> None:  # fmt: skip
        """Take `epochs` of `count` lasting members, and in `later` another key from epoch 1 on."""
        self.count = count
        self.signer: Signer | None = None if me is None else KEYS[me]
        self.later = later or self.signer
        epochs = epochs or epochs_of(count)
        self.machine = Machine(DEVNET, GENESIS, epochs, verify_fake, self.session_of, Random(0).randrange)
        self.builds = builds
        self.sign_state = EMPTY
        self.effects: list[ev.Effect] = []
        self.now_ms = START_MS

    def session_of(self, epoch: int) -> bytes | None:
        signer = self.signer_of(epoch)
        return None if signer is None else signer.public

    def signer_of(self, epoch: int) -> Signer | None:
        return self.later if epoch else self.signer

    def start(
        self, final: BlockFacts = GENESIS_BLOCK, sign_state: SignState = EMPTY, blocks: tuple[BlockFacts, ...] = ()
    ) -> "Shell":
        self.restore(final, None, blocks, sign_state)
        self.connect()
        self.tick(LINKS_DELAY_MS)  # then all know the connections
        self.effects.clear()
        return self

    def restore(
        self, final: BlockFacts, certificate: Certificate | None, blocks: tuple[BlockFacts, ...], sign_state: SignState
    ) -> None:
        """Restore the contents of a disk, before any peer connects."""
        self.sign_state = sign_state
        recovery = ev.Recovery(final=final, certificate=certificate, blocks=blocks, sign_state=sign_state)
        self.run(self.machine.restore(recovery, self.now_ms))

    def connect(self) -> None:
        """Connect all other members."""
        for number in range(self.count):
            if self.signer is None or KEYS[number] != self.signer:
                self.feed(ev.PeerConnected(bytes([number]), (KEYS[number].public,)))

    def feed(self, event: ev.Event) -> list[ev.Effect]:
        first = len(self.effects)
        self.run(self.machine.step(event, self.now_ms))
        return self.effects[first:]

    def say(self, number: int, message: Message) -> list[ev.Effect]:
        return self.feed(ev.MessageReceived(bytes([number]), message))

    def tick(self, passed_ms: int) -> list[ev.Effect]:
        """Let time pass, waking the machine when it asked for it."""
        end, first = self.now_ms + passed_ms, len(self.effects)
        while self.machine.deadline_ms <= end:
            self.now_ms = max(self.now_ms, self.machine.deadline_ms)
            self.run(self.machine.step(ev.Tick(), self.now_ms))
        self.now_ms = end
        return self.effects[first:]

    def run(self, effects: list[ev.Effect]) -> None:
        answers: deque[ev.Event] = deque()
        self._execute(effects, answers)
        while answers:
            self._execute(self.machine.step(answers.popleft(), self.now_ms), answers)

    def _execute(self, effects: list[ev.Effect], answers: deque[ev.Event]) -> None:
        self.effects.extend(effects)
        for effect in effects:
            match effect:
                case ev.PersistThenSign(record) if self.signer is not None:
                    assert isinstance(record, Proposal | Ballot)
                    self.sign_state = after(self.sign_state, record)
                    signer = self.signer_of(record.epoch)
                    assert signer is not None  # it has one in every epoch
                    answers.append(ev.RecordSigned(record, signer.sign(record_payload(GENESIS, record))))
                case ev.Build() if self.builds and self.signer is not None:
                    parent, author = self.machine.facts_of(effect.parent), self.session_of(effect.epoch)
                    assert parent is not None
                    assert author is not None  # as above
                    answers.append(ev.BlockBuilt(block(parent, effect.slot, author, effect.final_ref)))
                case _:
                    pass

    def signed(self) -> list[SignedRecord]:
        return [effect.record for effect in self.effects if isinstance(effect, ev.PersistThenSign)]


ONE = block(GENESIS_BLOCK, SLOT)
TWO = block(GENESIS_BLOCK, SLOT, b"b" * 32)


def proposal(on: BlockFacts, number: int = 0, round_: int = 1, parent: int = 0) -> SignedProposal:
    content = Proposal(0, round_, parent, on.height, on.id)
    return SignedProposal(content, KEYS[number].sign(proposal_payload(GENESIS, content)))


def vote(number: int, content: Ballot) -> Vote:
    return Vote(cast(KEYS[number], content), None)


def accept(shell: Shell, facts: BlockFacts) -> None:
    """Answer every poll in favour of a block until it is accepted."""
    done = 0
    while shell.machine.best != facts:
        for effect in shell.effects[done:]:
            if isinstance(effect, ev.SendTo) and isinstance(effect.message, PullQuery):
                request = effect.message.request
                answer = Chits(request, facts.id, facts.id, facts.id, facts.height, 0)
                shell.feed(ev.MessageReceived(effect.peer, answer))
        done = len(shell.effects)
        shell.tick(10)
