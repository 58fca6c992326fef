"""The events and effects of the consensus machine: the contract with every shell.

The node and the simulator run the same `machine.Machine`:

    machine = Machine(parameters, genesis_hash, epochs, verify, session_of, randbelow)
    effects = machine.restore(recovery, now_ms)    # once, with the shell's saved data
    effects = machine.step(event, now_ms)          # for each event; execute effects in order
    machine.deadline_ms                            # call step(Tick(), now) at this time

`now_ms` is Unix time in milliseconds and never decreases. Invariant: a shell executes the effects of one step in order,
before it passes the next event in. The shell has every block that an effect names.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from consensus.certificates import Certificate
from consensus.signstate import EMPTY, SignedRecord, SignState
from consensus.wire import Message
from runtime.blocks.evidence import DoubleBallot, DoubleProposal


@dataclass(frozen=True, slots=True)
class CertifiedRef:
    """A final block that a header names, and its finalise certificate."""

    height: int
    block: bytes
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """The facts about a block that consensus uses. Its epoch and boundary follow from the height.

    `author` is the session key. `final_ref` is the final block that the block's own digest names, None if it names
    none. `referenced_height` is the greatest final height that the block or an ancestor names (the runtime's
    `final_height` after this block).
    """

    id: bytes
    parent: bytes
    height: int
    slot: int
    author: bytes
    referenced_height: int
    final_ref: CertifiedRef | None = None


# --- the start


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The saved data of the machine's last run. For a new chain: the genesis block alone."""

    final: BlockFacts
    """The newest final block."""
    certificate: Certificate | None = None
    """The certificate of `final`, None for the genesis block."""
    blocks: Iterable[BlockFacts] = ()
    """The blocks above `final`, parents first."""
    sign_state: SignState = EMPTY
    preference: bytes | None = None
    """The preferred tip (`PersistPreference`)."""
    boundaries: Iterable[Certificate] = ()
    """The certificates of past epochs' last blocks, for peers that are behind."""
    open_rounds: Iterable[Certificate] = ()
    """The certificates of `PersistCertificate` that no later round has settled."""
    silent_below: int = 0
    """The height below which nothing is signed: an earlier run saw it final, or the operator trusts it."""


# --- events


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. The shell sends a tick at `machine.deadline_ms` at the latest."""


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A connection opened, or its peer proved other keys. `keys` are all session keys that the peer proved."""

    peer: bytes
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A connection ended."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A connected peer sent a consensus message, which the shell decoded."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class BlockImported:
    """A block passed `headers.check_header` and was executed. Its parent was imported earlier."""

    facts: BlockFacts


@dataclass(frozen=True, slots=True)
class BlockRejected:
    """A block is invalid: do not request it again."""

    block: bytes


@dataclass(frozen=True, slots=True)
class BlockWanted:
    """The shell found a block id that it lacks, such as the unknown parent of a received block."""

    block: bytes
    peer: bytes


@dataclass(frozen=True, slots=True)
class BlockBuilt:
    """The answer to `Build`: an own block, recorded as `HeaderRecord`, sealed, stored and executed.

    The shell checks the record with `signstate.after` and fsyncs it before it makes the seal.
    """

    facts: BlockFacts


@dataclass(frozen=True, slots=True)
class RecordSigned:
    """The answer to `PersistThenSign`."""

    record: SignedRecord
    signature: bytes


Event = (
    Tick | PeerConnected | PeerLost | MessageReceived | BlockImported | BlockRejected
    | BlockWanted | BlockBuilt | RecordSigned
)  # fmt: skip


# --- effects


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send a message to one peer."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send a message to every connected peer."""

    message: Message


@dataclass(frozen=True, slots=True)
class Announce:
    """Send the bytes of this own, new block to every connected peer."""

    block: bytes


@dataclass(frozen=True, slots=True)
class Build:
    """Build a block for `slot` on `parent`. A `final_ref` that is not None goes into its digest.

    The key of the block's epoch seals it. Without `heartbeat` the shell may leave out an empty block: then it answers
    nothing, or sends `BlockBuilt` later in the slot, once it has a transaction.
    """

    slot: int
    parent: bytes
    height: int
    epoch: int
    final_ref: CertifiedRef | None
    heartbeat: bool


@dataclass(frozen=True, slots=True)
class PersistThenSign:
    """Check the record with `signstate.after`, write and fsync the new state, sign, answer `RecordSigned`.

    Sign `signstate.record_payload(genesis, record)` with the key of the record's epoch. For a notarise ballot, sync the
    bytes of the block first. If the sign-state refuses the record, raise an alarm and answer nothing.
    """

    record: SignedRecord


@dataclass(frozen=True, slots=True)
class PersistCertificate:
    """Keep a notarise or skip certificate until a later round is final, and pass it to `restore`.

    Sync it to disk before signing any later record. A node that finalised a round cannot skip it, and a node that
    skipped it cannot finalise it. Suppose the only holder of the round's certificate forgets it, and it contained
    Byzantine votes. Then no node could ever leave the round.
    """

    certificate: Certificate


@dataclass(frozen=True, slots=True)
class PersistPreference:
    """Write the preferred tip before the following effects. No sync is needed."""

    tip: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Request `block` and its ancestors above height `above` from `peer`, oldest first, a bounded number.

    Import the blocks that arrive. Without an answer the machine asks another peer.
    """

    block: bytes
    peer: bytes
    above: int


@dataclass(frozen=True, slots=True)
class SendBoundary:
    """Send a peer the certificate of the last block of a long past epoch.

    The shell keeps the certificate with that block for ever. It sends nothing if it has none.
    """

    peer: bytes
    epoch: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Snowflake accepted a block: a soft, local decision, which only `AcceptedReverted` revokes."""

    block: bytes
    height: int


@dataclass(frozen=True, slots=True)
class AcceptedReverted:
    """Finality overruled an acceptance: blocks above the fork are no longer accepted. The shell raises an alarm."""

    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class PreferenceChanged:
    """The preferred tip changed: the block to build on and to read pending state from."""

    tip: bytes


@dataclass(frozen=True, slots=True)
class Finalise:
    """These blocks, oldest first, are final. The certificate is for the last of them.

    Blocks that do not descend from it are dead and may be dropped. Keep the certificate with the block, and raise the
    floor of the sign-state file to its (epoch, round).
    """

    blocks: tuple[bytes, ...]
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class ReportEvidence:
    """Two votes prove an offence (E2 to E4)."""

    evidence: DoubleProposal | DoubleBallot


@dataclass(frozen=True, slots=True)
class ReportDoubleHeader:
    """One author sealed two imported headers in one slot (E1). The shell has their bytes."""

    author: bytes
    slot: int
    first: bytes
    second: bytes


@dataclass(frozen=True, slots=True)
class Penalise:
    """A peer sent a message that no honest peer sends, such as one with a bad signature."""

    peer: bytes
    reason: str


Effect = (
    SendTo | Broadcast | Announce | Build | PersistThenSign | PersistCertificate | PersistPreference | Fetch
    | SendBoundary | Accepted | AcceptedReverted | PreferenceChanged | Finalise | ReportEvidence
    | ReportDoubleHeader | Penalise
)  # fmt: skip
