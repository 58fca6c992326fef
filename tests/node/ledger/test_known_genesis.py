"""Block 0 is computed once for a database. All its sources are compared at every start (P5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from genesis.chain import GENESIS_KEYS, VERSION, genesis_state
from genesis.presets import load_spec, raw_spec
from genesis.spec import ChainSpec
from node.errors import DatabaseError
from node.ledger import ledger
from node.ledger.chain import STORED_PROOF
from node.ledger.ledger import genesis_digest, open_noted_chain
from node.ledger.storage import Storage
from runtime.cryptography import signatures
from runtime.state.trie import Trie

SPEC = load_spec("local")


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[ChainSpec]:
    """Record the specifications whose genesis is computed, except the probe's."""
    found: list[ChainSpec] = []

    def counted(spec: ChainSpec) -> dict[bytes, bytes]:
        if spec.id != ledger.PROBE:
            found.append(spec)
        return genesis_state(spec)

    monkeypatch.setattr(ledger, "genesis_state", counted)
    return found


def started(path: Path, spec: ChainSpec = SPEC) -> bytes:
    """Start over this database and stop again. Return the genesis id."""
    chain = open_noted_chain(path, spec, signatures.verify)
    chain.storage.close()
    return chain.genesis


def richer(spec: ChainSpec) -> ChainSpec:
    """Return the same specification with one grain moved between two accounts."""
    patch = {**(spec.patch or {})}
    first, second, *others = patch["balances"]["balances"]
    moved = [[first[0], first[1] - 1], [second[0], second[1] + 1], *others]
    return replace(spec, patch={**patch, "balances": {"balances": moved}})


def test_a_restart_works_nothing_out_again(tmp_path: Path, worked_out: list[ChainSpec]) -> None:
    first = started(tmp_path / "db")
    assert worked_out == [SPEC]
    assert started(tmp_path / "db") == first
    assert started(tmp_path / "db", replace(SPEC, name="Another", boot_nodes=("/ip4/127.0.0.1",))) == first
    assert worked_out == [SPEC]


def test_a_changed_specification_is_refused_as_ever(tmp_path: Path, worked_out: list[ChainSpec]) -> None:
    genesis = started(tmp_path / "db")
    with pytest.raises(DatabaseError, match=genesis.hex()) as refused:
        started(tmp_path / "db", richer(SPEC))
    assert refused.tb is not None, "its frames are alive, and with them all that was left open"
    assert len(worked_out) == 2
    assert started(tmp_path / "db") == genesis, "neither locked nor noted for the other one"
    assert len(worked_out) == 2


def test_the_same_genesis_in_other_words_is_worked_out_once(tmp_path: Path, worked_out: list[ChainSpec]) -> None:
    raw = raw_spec(SPEC)
    genesis = started(tmp_path / "db")
    assert started(tmp_path / "db", raw) == started(tmp_path / "db", raw) == genesis
    assert worked_out == [SPEC, raw]


def test_a_database_without_the_note_gets_it(tmp_path: Path, worked_out: list[ChainSpec]) -> None:
    genesis = started(tmp_path / "db")
    storage = Storage(tmp_path / "db")
    storage.note_genesis_for(b"")
    storage.close()
    assert started(tmp_path / "db") == started(tmp_path / "db") == genesis
    assert len(worked_out) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(ledger, "VERSION", replace(VERSION, spec_version=VERSION.spec_version + 1)),
        lambda patch: patch.setattr(ledger, "load_spec", lambda _: richer(load_spec(ledger.PROBE))),
    ],
    ids=["another version", "another block 0 of the same small specification"],
)
def test_other_rules_work_it_out_again(
    tmp_path: Path,
    worked_out: list[ChainSpec],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch], None],
) -> None:
    genesis = started(tmp_path / "db")
    change(monkeypatch)
    assert started(tmp_path / "db") == genesis
    assert len(worked_out) == 2


def test_a_database_of_an_older_layout_works_block_0_out_once_more(
    tmp_path: Path, worked_out: list[ChainSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stored block 0 in another form, and has no state of block 0 for a proof."""
    keep = Storage.keep_genesis_proof
    with monkeypatch.context() as older:
        older.setattr(ledger, "DIGEST_LAYOUT", ledger.DIGEST_LAYOUT - 1)
        older.setattr(Storage, "keep_genesis_proof", lambda storage, _: keep(storage, b"\0"))
        genesis = started(tmp_path / "db")
    for _ in range(2):
        chain = open_noted_chain(tmp_path / "db", SPEC, signatures.verify)
        kept = chain.storage.genesis_proof()
        chain.storage.close()
        assert chain.genesis == genesis
        assert kept == STORED_PROOF.encode(tuple(Trie(genesis_state(SPEC)).prove(list(GENESIS_KEYS))))
    assert worked_out == [SPEC, SPEC]


def test_all_that_block_0_follows_from_is_in_the_digest() -> None:
    raw = raw_spec(SPEC)
    assert raw.raw is not None
    others = [
        richer(SPEC),
        replace(SPEC, chain_type="Live"),
        replace(SPEC, parameters="mainnet"),
        raw,
        replace(raw, raw={**raw.raw, b"key": b"value"}),
    ]
    assert len({genesis_digest(spec) for spec in (SPEC, *others)}) == 1 + len(others)


def test_the_order_of_a_specifications_words_changes_no_digest() -> None:
    assert SPEC.patch is not None
    turned = replace(SPEC, patch=dict(reversed(SPEC.patch.items())))
    assert list(turned.patch or {}) != list(SPEC.patch)
    assert genesis_digest(turned) == genesis_digest(SPEC)
