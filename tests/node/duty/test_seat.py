"""Who may start as a validator, and what a sign-state must be like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from block_maker import Maker, open_at
from genesis import dev_accounts
from node.config import Config, Paths
from node.duty.keystore import SESSION, VRF, Keystore
from node.duty.seat import take_seat
from node.errors import BadInputError

STASH = dev_accounts.stash("Alice")


def config(base: Path, *, account: str | None = None, is_validator: bool = True) -> Config:
    return Config("dev", base, "test", is_validator=is_validator, dev_account=account, prometheus_port=None)


def test_well_known_keys_take_their_seat_and_begin_a_sign_state(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    validator = take_seat(config(tmp_path, account="Alice"), paths, chain)
    assert validator is not None
    assert (validator.stash, validator.session) == (STASH, dev_accounts.key("Alice", dev_accounts.SESSION))
    assert paths.sign_state.exists()
    again = take_seat(config(tmp_path, account="Alice"), paths, chain)
    assert again is not None
    assert again.file.state == validator.file.state


def test_others_only_follow(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    assert take_seat(config(tmp_path, is_validator=False), paths, chain) is None
    assert take_seat(config(tmp_path, account="Bob"), paths, chain) is None
    assert not paths.sign_state.exists()


def test_keys_come_from_the_keystore(tmp_path: Path) -> None:
    paths, chain = Paths(tmp_path, "dev"), open_at(tmp_path)
    with pytest.raises(BadInputError, match="--key-type ogpu"):
        take_seat(config(tmp_path), paths, chain)
    store = Keystore(paths.keystore)
    store.insert(SESSION, dev_accounts.key_seed("Alice", dev_accounts.SESSION))
    with pytest.raises(BadInputError, match="--key-type ogvr"):
        take_seat(config(tmp_path), paths, chain)
    store.insert(VRF, dev_accounts.key_seed("Alice", dev_accounts.VRF))
    validator = take_seat(config(tmp_path), paths, chain)
    assert validator is not None
    assert validator.stash == STASH


def test_a_chain_that_has_begun_needs_its_sign_state(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "maker")
    block = maker.make()
    maker.chain.finalise((block.facts.id,), maker.certify(block))
    paths, settings = Paths(tmp_path / "elsewhere", "dev"), config(tmp_path, account="Alice")
    with pytest.raises(BadInputError, match="--init-sign-state"):
        take_seat(settings, paths, maker.chain)
    validator = take_seat(replace(settings, init_sign_state=True), paths, maker.chain)
    assert validator is not None
    assert validator.final_height == 1
