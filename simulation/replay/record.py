"""Records a chain of random extrinsics with real keys.

Invariant: the recording is a valid chain, authored as on a node, with enough validators for disputes of nine voters.
Every call of every pallet occurs. Slots are missed, finality lags and catches up, and epochs and eras change.
"""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from genesis.chain import genesis_block_header, genesis_state, runtime_of
from genesis.presets import preset, validator_names
from genesis.spec import to_json
from gpu_tasks.market.attestations.attestations import Attestations
from gpu_tasks.market.attestations.kinds import order_key
from runtime.blocks.block import BLOCK, Block, Header, block_id, seal_payload
from runtime.blocks.digest import Digest, seal_item
from runtime.blocks.era import IMMORTAL, mortal
from runtime.blocks.extrinsic import (
    Extra,
    MultiSignature,
    decode_extrinsic,
)
from runtime.cryptography.signatures import verify
from runtime.execution.block_builder import Authoring, BuiltBlock
from runtime.frame.call import Call
from runtime.frame.errors import ErrorValue, InvalidTransaction
from runtime.frame.runtime import Bound, Runtime
from runtime.pallets.balances import Balances
from runtime.pallets.system import ExtrinsicFailed, System
from runtime.pallets.timestamp import Timestamp
from runtime.state.overlay import Memory
from runtime.state.trie import Trie
from simulation.actors import ACTORS, OGPU, OUTSIDERS, VALIDATORS, Deed, World
from simulation.chains.extrinsics import signed_extrinsic
from simulation.chains.presence import digest_of
from simulation.replay.calls import draw
from simulation.replay.duties import deeds
from simulation.replay.play import Tape
from simulation.replay.roll_deeds import with_numbers, with_roll_calls
from wallet.keypair import Keypair

FIRST_SLOT = 1_800_000_000
SLOT_MS = 1_000
EXTRINSICS_PER_BLOCK = 8
SEATED = validator_names(13)
"""Nine voters, beside provider, checker, customer and another racer."""
CHECKED = {"ResultClaims.check_rate": 500_000}
LIARS = ("Charlie", "Ferdie", "Node7")
RICH = VALIDATORS + OUTSIDERS


@dataclass
class Recording:
    """The chain so far, and its counts."""

    seed: int
    calls: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Make block 0."""
        self.chance = random.Random(self.seed)
        self.spec = with_numbers(with_roll_calls(preset("Replay", "replay", "Local", SEATED)), CHECKED)
        self.runtime: Runtime = runtime_of(self.spec)
        self.state = Memory(genesis_state(self.spec))
        self.trie = Trie(self.state.values)
        self.ids = [block_id(genesis_block_header(self.state.values))]
        self.slot = FIRST_SLOT
        self.final = 0
        self.blocks: list[bytes] = []

    @property
    def tape(self) -> Tape:
        """The recording's tape."""
        return Tape(to_json(self.spec).encode(), tuple(self.blocks))

    @property
    def count(self) -> int:
        """The number of signed extrinsics."""
        return self.calls.total()

    def missing(self) -> list[str]:
        """Return the calls that no extrinsic made."""
        methods = [method for pallet in self.runtime.pallets for method in pallet.methods if not method.is_inherent]
        return [name for method in methods if (name := f"{method.pallet.__name__}.{method.name}") not in self.calls]

    def block(self) -> None:
        """Author one block."""
        author = self.chance.choice([actor for actor in ACTORS if actor.name in SEATED])
        digest = self.next_digest(author.stash.account)
        authoring = Authoring(self.runtime, self.state, self.trie, self.ids[-1], digest)
        authoring.inherent(Timestamp.set(now=self.slot * SLOT_MS))
        world = World(authoring.bound, self.chance, self.ids[0], LIARS)
        owed = list(deeds(world))
        attached = attached_of(authoring.bound, owed)
        if attached is not None:
            authoring.inherent(attached)
        for duty in owed:
            if duty.call is not None:
                self.offer(authoring, duty.keys, duty.call)
        for _ in range(self.chance.randrange(2 * EXTRINSICS_PER_BLOCK)):
            self._random(authoring, world)
        built = authoring.finish()
        self.adopt(built, author.session.sign(seal_payload(self.ids[0], built.header)))

    def next_digest(self, author: bytes) -> Digest:
        """Return the digest of the next block without a seal. Time and finality advance."""
        number, bound = len(self.ids), self.runtime.at(self.state)
        self.slot += self.chance.choice((1, 1, 1, 1, 2, 3))
        output, final = self.chance.randbytes(32), None
        if (number - 1) % 60 == 0 or self.chance.random() < 0.8:
            reached = max(self.final, number - 1 - self.chance.choice((0, 1, 1, 2, 5)))
            if reached > self.final:
                self.final, final = reached, (reached, self.ids[reached])
        return digest_of(bound, number, author, self.slot, output, final)

    def _random(self, authoring: Authoring, world: World) -> None:
        """Make a random call, or let a rich account give money to a poor one, so that all can continue."""
        who = self.chance.choice(ACTORS)
        keys = who.provider if self.chance.random() < 0.1 else who.stash
        if authoring.bound[Balances].spendable_balance(keys.account) < OGPU:
            self.offer(authoring, *gift(self.chance, keys))
        else:
            self.offer(authoring, keys, draw(world, who))

    def offer(self, authoring: Authoring, keys: Keypair, call: Call) -> bool:
        """Sign a call and add it to a block. Return False if no author would include it."""
        name = f"{call.method.pallet.__name__}.{call.method.name}"
        try:
            succeeded = authoring.offer(self._signed(authoring, keys, call), verify)
        except InvalidTransaction:
            return False
        self.calls[name] += 1
        if not succeeded:
            failed = authoring.bound.overlay.events[-1][1]
            assert isinstance(failed, ExtrinsicFailed)
            self.failures[error_name(self.runtime, failed.dispatch_error)] += 1
        return True

    def _signed(self, authoring: Authoring, keys: Keypair, call: Call) -> bytes:
        height = authoring.number
        is_mortal = height > 2 and self.chance.random() < 0.5
        era = mortal(64, height - 1) if is_mortal else IMMORTAL
        birth = self.ids[era.birth(height - 1)] if is_mortal else self.ids[0]
        nonce = authoring.bound[System].account[keys.account].nonce
        extra = Extra(era, nonce, self.chance.choice((0, 0, 0, 1, 5_000)))

        def signer(payload: bytes) -> MultiSignature:
            return MultiSignature(keys.scheme, keys.sign(payload))

        return signed_extrinsic(self.runtime, self.ids[0], call, extra, keys.account, signer, birth)

    def adopt(self, built: BuiltBlock, seal: bytes) -> None:
        """Make a finished block the head."""
        header = sealed(built.header, seal)
        self.blocks.append(BLOCK.encode(Block(header, built.extrinsics)))
        self.ids.append(block_id(header))
        self.trie = built.executed.trie
        self.state = self.state.updated(built.executed.changes)
        self._count_events()

    def extrinsics(self) -> list[bytes]:
        """Return all signed extrinsics of the chain."""
        raws = [raw for block in self.blocks for raw in BLOCK.decode(block).extrinsics]
        return [raw for raw in raws if decode_extrinsic(self.runtime, raw).authorization is not None]

    def _count_events(self) -> None:
        happened = self.runtime.at(self.state)[System].event_records.get()
        self.events.update(type(record.event).__name__ for record in happened)


def record(seed: int, extrinsics: int) -> Recording:
    """Return a chain with at least `extrinsics` signed extrinsics."""
    recording = Recording(seed)
    while recording.count < extrinsics:
        recording.block()
    return recording


def sealed(header: Header, seal: bytes) -> Header:
    """Return the header with its author's seal."""
    return replace(header, digest=(*header.digest, seal_item(seal)))


def attached_of(bound: Bound, owed: Iterable[Deed]) -> Call | None:
    """Return the inherent with the admissible attestations of the deeds, or None if there are none."""
    found = [deed.attestation for deed in owed if deed.attestation is not None]
    admissible = [each for each in found if not bound[Attestations].problem(each)]
    return Attestations.attach(attestations=tuple(sorted(admissible, key=order_key))) if admissible else None


def gift(chance: random.Random, to: Keypair) -> tuple[Keypair, Call]:
    """Return a rich account's transfer to this account."""
    giver = chance.choice([actor for actor in ACTORS if actor.name in RICH])
    return giver.stash, Balances.transfer_keep_alive(dest=to.account, value=chance.randrange(OGPU, 100 * OGPU))


def error_name(runtime: Runtime, value: ErrorValue) -> str:
    """Return a dispatch error's name."""
    if value.name != "Module":
        return value.name
    pallet = next(pallet for pallet in runtime.pallets if pallet.index == value.detail[0])
    return f"{pallet.__name__}.{pallet.errors[value.detail[1]].__name__}"
