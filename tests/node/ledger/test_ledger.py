"""Consensus data after a restart: everything that was stored, and nothing that does not verify."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import SPEC, Maker
from consensus.signstate import EMPTY
from node.clock import Clock
from node.config import Paths
from node.errors import BadInputError
from node.ledger.ledger import Ledger, RoundLog, open_ledger
from node.ledger.trusted_point import TrustedPoint
from runtime.cryptography import signatures


def ledger_of(maker: Maker, folder: Path) -> Ledger:
    trusted = TrustedPoint(maker.chain, SPEC)
    return Ledger(
        chain=maker.chain, trusted=trusted, rounds=RoundLog(folder / "rounds"), preference=folder / "preference"
    )


def test_a_new_chain_gives_its_genesis_block_alone(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    recovery = ledger_of(maker, tmp_path).recovery(EMPTY)
    assert (recovery.final, recovery.certificate) == (maker.chain.final.facts, None)
    assert (list(recovery.blocks), recovery.sign_state, recovery.preference) == ([], EMPTY, None)
    assert list(recovery.boundaries) == list(recovery.open_rounds) == []


def test_what_was_kept_is_given_and_what_does_not_verify_is_not(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    ledger = ledger_of(maker, tmp_path)
    first = maker.make()
    second = maker.make(first.facts.id)
    certificate = maker.certify(first)
    maker.chain.finalise((first.facts.id,), certificate)
    ledger.remember_preference(second.facts.id)
    good = maker.certify(second, round_=2)
    ledger.rounds.add(good)
    ledger.rounds.add(replace(maker.certify(second, round_=3), signatures=(bytes(64),)))
    recovery = ledger.recovery(EMPTY)
    assert (recovery.final, recovery.certificate) == (first.facts, certificate)
    assert (list(recovery.blocks), recovery.preference) == ([second.facts], second.facts.id)
    assert list(recovery.open_rounds) == [good]


def test_the_ends_of_past_epochs_are_given(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    ledger = ledger_of(maker, tmp_path)
    last = maker.chain.parameters.boundary(0)
    while maker.chain.final.facts.height < last:
        block = maker.make()
        maker.chain.finalise((block.facts.id,), maker.certify(block))
    assert list(ledger.recovery(EMPTY).boundaries) == [maker.chain.final_certificate]


def test_a_specification_that_makes_no_genesis_is_bad_input(tmp_path: Path) -> None:
    spec = replace(SPEC, patch={"nonsense": {}})
    with pytest.raises(BadInputError):
        open_ledger(Paths(tmp_path, spec.id), spec, signatures.verify, Clock())
