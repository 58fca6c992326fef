"""A chain of one author with real signatures, in memory. Every block is executed again and compared."""

from dataclasses import dataclass
from typing import Any

from runtime.blocks.block import Block, Header, block_id, genesis_header
from runtime.blocks.digest import Digest, FinalRef, PreDigest, author_item, consensus_item, pre_digest_item, seal_item
from runtime.blocks.era import IMMORTAL, Era
from runtime.blocks.extrinsic import Extra, MultiSignature
from runtime.cryptography.hashing import blake2_256
from runtime.cryptography.signatures import Scheme, VerifySignature, keypair_from_seed, sign, verify
from runtime.encoding.types import GRAINS_PER_OGPU, RuntimeVersion
from runtime.execution.block_builder import Authoring, BuiltBlock
from runtime.execution.executive import execute_block
from runtime.frame.api import Apis, with_apis
from runtime.frame.call import Call
from runtime.frame.runtime import Bound, Runtime
from runtime.interface.standard_apis import STANDARD_APIS
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.sudo import Sudo
from runtime.pallets.system import EventRecord, System
from runtime.pallets.timestamp import Timestamp
from runtime.pallets.transaction_payment import TransactionPayment
from runtime.pallets.utility import Utility
from runtime.state.overlay import Changes, Memory
from runtime.state.trie import Trie
from simulation.chains.extrinsics import signed_extrinsic

VERSION = with_apis(RuntimeVersion("small", "test", 1, 1, 1, (), 1, 2), STANDARD_APIS)
PALLETS = (System, Timestamp, Balances, TransactionPayment, Utility, Beacon, Sudo)
SLOT_MS = 1_000
FIRST_SLOT = 1_700_000_000
ENDOWMENT = 1_000 * GRAINS_PER_OGPU


@dataclass(frozen=True)
class Person:
    """A key pair."""

    name: str
    scheme: Scheme

    @property
    def keys(self) -> tuple[bytes, bytes]:
        return keypair_from_seed(self.scheme, blake2_256(self.name.encode()))

    @property
    def account(self) -> bytes:
        return self.keys[0]

    def sign(self, message: bytes) -> MultiSignature:
        return MultiSignature(self.scheme, sign(self.scheme, *self.keys, message))


ALICE = Person("alice", Scheme.SR25519)
BOB = Person("bob", Scheme.ED25519)
CHARLIE = Person("charlie", Scheme.SR25519)
AUTHOR = Person("author", Scheme.ED25519)
PEOPLE = (ALICE, BOB, CHARLIE)


def runtime_of(*more: Any, **constants: Any) -> Runtime:
    return Runtime((*PALLETS, *more), VERSION, constants)


RUNTIME = runtime_of()
APIS = Apis(RUNTIME, STANDARD_APIS)


class SmallChain:
    """A chain that grows by `author`. `state` and `trie` are those after the head, `changes` those of the head."""

    changes: Changes = {}  # noqa: RUF012  # never changed, replaced by each block

    def __init__(self, runtime: Runtime = RUNTIME, config: dict[str, Any] | None = None) -> None:
        balances = [["0x" + person.account.hex(), ENDOWMENT] for person in (*PEOPLE, AUTHOR)]
        genesis = {"Balances": {"balances": balances}, "Sudo": {"key": "0x" + ALICE.account.hex()}, **(config or {})}
        self.runtime = runtime
        self.state = Memory().updated(runtime.genesis(genesis))
        self.trie = Trie(self.state.values)
        self.head: Header = genesis_header(self.trie.root)
        self.genesis_hash = block_id(self.head)
        self.events: tuple[EventRecord, ...] = ()

    @property
    def bound(self) -> Bound:
        return self.runtime.at(self.state)

    def nonce(self, person: Person) -> int:
        return self.bound[System].account[person.account].nonce

    def balance(self, person: Person) -> int:
        return self.bound[Balances].free_balance(person.account)

    def signed(
        self, person: Person, call: Call, *, nonce: int | None = None, tip: int = 0, era: Era = IMMORTAL
    ) -> bytes:
        """A valid extrinsic, ready to offer."""
        height = self.head.number
        birth = self.genesis_hash if era == IMMORTAL or era.birth(height) == 0 else self._hash_at(era.birth(height))
        extra = Extra(era, self.nonce(person) if nonce is None else nonce, tip)
        return signed_extrinsic(self.runtime, self.genesis_hash, call, extra, person.account, person.sign, birth)

    def _hash_at(self, height: int) -> bytes:
        return block_id(self.head) if height == self.head.number else self.bound[System].block_hash[height]

    def digest(self, *, final: tuple[int, bytes] | None = None) -> Digest:
        number = self.head.number + 1
        slot, epoch = FIRST_SLOT + number, (number - 1) // 60
        pre = PreDigest(slot, epoch, blake2_256(number.to_bytes(4, "little")), bytes(80))
        items: list[Any] = [author_item(AUTHOR.account), pre_digest_item(pre)]
        if final is not None:
            items.append(consensus_item(FinalRef(*final, b"certificate")))
        return tuple(items)

    def begin(self, **options: Any) -> Authoring:
        """A block under construction on the head, with its inherent."""
        made = Authoring(self.runtime, self.state, self.trie, block_id(self.head), self.digest(**options))
        made.inherent(Timestamp.set(now=(FIRST_SLOT + made.number) * SLOT_MS))
        return made

    def author(self, *raws: bytes, verifier: VerifySignature = verify, **options: Any) -> Block:
        """Build a block of these extrinsics, execute it again from its bytes, and make it the head."""
        authoring = self.begin(**options)
        for raw in raws:
            authoring.offer(raw, verifier)
        return self.adopt(authoring.finish(), verifier)

    def adopt(self, built: BuiltBlock, verifier: VerifySignature = verify) -> Block:
        block = Block(sealed(built.header), built.extrinsics)
        executed = execute_block(self.runtime, self.state, self.trie, block, verifier)
        assert executed.changes == built.executed.changes
        self.changes = executed.changes
        self.state = self.state.updated(executed.changes)
        self.trie = executed.trie
        self.head = block.header
        self.events = self.bound[System].event_records.get()
        return block

    def happened(self) -> list[Any]:
        return [record.event for record in self.events]


def sealed(header: Header) -> Header:
    """Return a header with a seal of the right form. The runtime does not check seals."""
    digest = (*header.digest, seal_item(bytes(64)))
    return Header(header.parent_hash, header.number, header.state_root, header.extrinsics_root, digest)
