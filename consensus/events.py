"""What goes into the consensus machine and what comes out: the boundary to every shell.

The node and the simulator run the same `machine.Machine`:

    machine = Machine(parameters, genesis_hash, epochs, verify, session_of, randbelow)
    effects = machine.restore(recovery, now_ms)    # once, with what the shell kept
    effects = machine.step(event, now_ms)          # for each event; execute effects in order
    machine.deadline_ms                            # call step(Tick(), now) at this time

`now_ms` is Unix time in milliseconds and never goes back. Always: a shell executes the effects
of one step in order, before it passes the next event in; effects that name a block id refer to a
block which the shell has.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from consensus.certificates import Certificate
from consensus.signstate import EMPTY, SignedRecord, SignState
from consensus.wire import Message
from runtime.blocks.evidence import DoubleBallot, DoubleProposal


@dataclass(frozen=True, slots=True)
class CertifiedRef:
    """A final block that a header names, and the finalise-certificate that it carries."""

    height: int
    block: bytes
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """What consensus knows of a block; epoch and boundary follow from the height.

    `author` is the session key. `referenced_height` is that of the newest final block named on the
    ancestry, this block included (the runtime's `final_height` after it); `final_ref` is the one in
    its own digest, None if there is none.
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
    """What a shell kept of the machine's last life; of a new chain the genesis block alone."""

    final: BlockFacts
    """The newest final block."""
    certificate: Certificate | None = None
    """What made it final; None for the genesis block."""
    blocks: Iterable[BlockFacts] = ()
    """Those above it, parents first."""
    sign_state: SignState = EMPTY
    preference: bytes | None = None
    """The preferred tip (`PersistPreference`)."""
    boundaries: Iterable[Certificate] = ()
    """Of the ends of past epochs, for peers that are behind."""
    open_rounds: Iterable[Certificate] = ()
    """Those of `PersistCertificate` that no later round has settled."""
    silent_below: int = 0
    """The shell signs nothing before this height is final: it knows that its key has seen it final."""


# --- events


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; the shell sends one at `machine.deadline_ms` at the latest."""


@dataclass(frozen=True, slots=True)
class PeerConnected:
    """A connection is up, or its peer proved others. `keys` are the session keys that it proved."""

    peer: bytes
    keys: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A connection ended."""

    peer: bytes


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A decoded consensus message came from a connected peer."""

    peer: bytes
    message: Message


@dataclass(frozen=True, slots=True)
class BlockImported:
    """A block passed `headers.check_header` and was executed; its parent was imported before."""

    facts: BlockFacts


@dataclass(frozen=True, slots=True)
class BlockRejected:
    """A block is invalid: do not ask for it again."""

    block: bytes


@dataclass(frozen=True, slots=True)
class BlockWanted:
    """The shell met a block id that it lacks, such as the unknown parent of a block it received."""

    block: bytes
    peer: bytes


@dataclass(frozen=True, slots=True)
class BlockBuilt:
    """The answer to `Build`: own block, recorded as `HeaderRecord`, sealed, stored and executed.

    The record is checked with `signstate.after` and fsynced before the seal is made.
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
    """Send the bytes of this block to every connected peer (own block, first time)."""

    block: bytes


@dataclass(frozen=True, slots=True)
class Build:
    """Build a block for `slot` on `parent`; `final_ref`, if given, goes into its digest.

    It is sealed with the key of its epoch. Without `heartbeat` an empty block may be left out; then nothing is
    answered, or `BlockBuilt` comes later in the slot, when there is something to put in.
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

    The key is that of the record's epoch; the signed bytes are `signstate.record_payload(genesis, record)`. For a
    notarise ballot, the bytes of the block are synced first. If the sign-state refuses: alarm, and answer nothing.
    """

    record: SignedRecord


@dataclass(frozen=True, slots=True)
class PersistCertificate:
    """Keep a notarise or skip certificate until a later round is final, and give it to `restore`.

    It must be on disk (synced) before any later record is signed. A node that finalised a round
    cannot skip it, and one that skipped it cannot finalise it: should the only node that holds the
    round's certificate forget it, and Byzantine votes were part of it, nobody could ever go on.
    """

    certificate: Certificate


@dataclass(frozen=True, slots=True)
class PersistPreference:
    """Write the preferred tip (no sync needed) before the effects that follow."""

    tip: bytes


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask `peer` for `block` and its ancestors above height `above`, oldest first, a bounded number.

    Import what comes. The machine asks again, elsewhere, if nothing comes.
    """

    block: bytes
    peer: bytes
    above: int


@dataclass(frozen=True, slots=True)
class SendBoundary:
    """Send a peer the certificate of the last block of an epoch long past, kept with that block for ever.

    Nothing is sent if this node has none.
    """

    peer: bytes
    epoch: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """Snowflake accepted a block: soft, local; only `AcceptedReverted` takes it back."""

    block: bytes
    height: int


@dataclass(frozen=True, slots=True)
class AcceptedReverted:
    """Finality overruled an acceptance: blocks above their fork are no longer accepted. An alarm."""

    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class PreferenceChanged:
    """The tip to build on and to read pending state from is now another block."""

    tip: bytes


@dataclass(frozen=True, slots=True)
class Finalise:
    """These blocks, oldest first, are final; the certificate is for the last of them.

    Blocks that do not descend from it are dead and may be dropped. Keep the certificate with the
    block, and raise the floor of the sign-state file to its (epoch, round).
    """

    blocks: tuple[bytes, ...]
    certificate: Certificate


@dataclass(frozen=True, slots=True)
class ReportEvidence:
    """Two votes prove an offence (E2 to E4)."""

    evidence: DoubleProposal | DoubleBallot


@dataclass(frozen=True, slots=True)
class ReportDoubleHeader:
    """Two imported headers of one author and slot (E1); the shell has their bytes."""

    author: bytes
    slot: int
    first: bytes
    second: bytes


@dataclass(frozen=True, slots=True)
class Penalise:
    """A peer sent what no honest peer sends, such as a bad signature."""

    peer: bytes
    reason: str


Effect = (
    SendTo | Broadcast | Announce | Build | PersistThenSign | PersistCertificate | PersistPreference | Fetch
    | SendBoundary | Accepted | AcceptedReverted | PreferenceChanged | Finalise | ReportEvidence
    | ReportDoubleHeader | Penalise
)  # fmt: skip
