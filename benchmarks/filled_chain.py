"""Full blocks on a benchmark's chain, made as its one validator makes them, but without waiting for slots."""

from benchmarks.ledger import Ledger
from consensus.events import BlockFacts, CertifiedRef
from consensus.headers import final_ref_log, vrf_input
from node.pool.verifier import Claim
from runtime.blocks.digest import Digest, PreDigest, author_item, consensus_item, pre_digest_item
from runtime.blocks.extrinsic import decode_extrinsic
from runtime.cryptography.signatures import Scheme
from runtime.execution.block_builder import Authoring
from runtime.pallets.timestamp import Timestamp

FIRST_EPOCH = 0


def fill(ledger: Ledger, blocks: int, transfers: int) -> list[Claim]:
    """Add so many blocks of so many transfers; each is final before the next one, which names it so.

    Gives the signatures of all transfers; they were made a moment ago, and are for the importer to verify.
    """
    claims: list[Claim] = []
    final: CertifiedRef | None = None
    for _ in range(blocks):
        facts = _block(ledger, ledger.transfers(transfers), final, claims)
        final = CertifiedRef(facts.height, facts.id, ledger.finalise(facts))
    return claims


def _block(ledger: Ledger, raws: list[bytes], final: CertifiedRef | None, claims: list[Claim]) -> BlockFacts:
    def note(scheme: Scheme, signer: bytes, payload: bytes, signature: bytes) -> bool:
        claims.append(Claim(scheme, signer, payload, signature))
        return True

    chain, now_ms = ledger.chain, ledger.next_slot_ms()
    parent = chain.final
    authoring = Authoring(chain.runtime, parent.state, parent.trie, parent.facts.id, _digest(ledger, final))
    authoring.inherent(Timestamp.set(now=now_ms))
    for raw in raws:
        authoring.offer(decode_extrinsic(chain.runtime, raw), note)
    built = authoring.finish()
    header = ledger.validator.seal(FIRST_EPOCH, ledger.slot, built.header)
    return chain.add_own(header, built, final, ledger.slot, ledger.seat.session)


def _digest(ledger: Ledger, final: CertifiedRef | None) -> Digest:
    epoch = ledger.chain.epochs(FIRST_EPOCH)
    if epoch is None:
        raise RuntimeError("the first epoch is always determined")
    output, proof = ledger.validator.prove_vrf(FIRST_EPOCH, vrf_input(ledger.chain.genesis, epoch.seed, ledger.slot))
    pre_digest = pre_digest_item(PreDigest(ledger.slot, FIRST_EPOCH, output, proof))
    items: Digest = (author_item(ledger.seat.stash), pre_digest)
    return items if final is None else (*items, consensus_item(final_ref_log(final)))
