"""The chain for sync benchmarks: another node's chain accepts its blocks from their bytes, with all signatures."""

import random
from pathlib import Path

import pytest

from benchmarks.funded import funded
from benchmarks.ledger import Ledger
from benchmarks.sync import fill
from consensus.certificates import CERTIFICATE
from consensus.headers import read_header
from genesis.chain import genesis_state, runtime_of
from node.pool.verifier import Verifier
from runtime.blocks.block import BLOCK, block_id
from runtime.cryptography import signatures
from runtime.pallets.system import System


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "made", random.Random(1), accounts=30, senders=10)


def test_a_fresh_chain_imports_and_finalises_what_was_filled(ledger: Ledger, tmp_path: Path) -> None:
    claims = fill(ledger, blocks=3, transfers=10)
    assert len(claims) == 30
    assert all(signatures.verify(*claim) for claim in claims)

    ledger.verifier = Verifier()
    fresh = ledger.open(tmp_path / "fresh")
    for height in range(1, 4):
        stored = ledger.chain.stored(ledger.chain.storage.id_at(height) or b"")
        assert stored is not None
        block = BLOCK.decode(stored.header + stored.body)
        reference = read_header(block.header).final_ref
        assert (reference.block if reference is not None else None) == (fresh.final.facts.id if height > 1 else None)
        if reference is not None:
            assert reference.certificate == fresh.final_certificate
        facts = fresh.import_block(block, ledger.slot_ms)
        found = ledger.chain.storage.certificate_at(height)
        assert found is not None
        fresh.finalise((facts.id,), CERTIFICATE.decode(found[1]))
    assert fresh.final.facts.id == ledger.chain.final.facts.id
    assert fresh.final.header.state_root == ledger.chain.final.header.state_root


def test_the_same_seed_makes_the_same_chain(ledger: Ledger, tmp_path: Path) -> None:
    again = Ledger(tmp_path / "again", random.Random(1), accounts=30, senders=10)
    for made in (ledger, again):
        fill(made, blocks=1, transfers=5)
    assert block_id(again.chain.final.header) == block_id(ledger.chain.final.header)


def test_funded_accounts_are_paid_out_of_the_reserve() -> None:
    accounts = [bytes([number]) * 32 for number in range(3)]
    spec = funded(accounts, 1_000_000)  # genesis_state refuses a state that does not add up to the cap
    state = genesis_state(spec)
    account = runtime_of(spec).item(System.account)
    assert [account.decode(state[account.key(who)]).data.free for who in accounts] == [1_000_000] * 3
