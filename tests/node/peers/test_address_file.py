"""Addresses of peers survive a restart, and damage to their file."""

from pathlib import Path

import pytest

from node.p2p.addresses import Address
from node.p2p.identity import identity_from_seed
from node.peers import network

PEER = identity_from_seed(bytes(32)).peer_id


def test_the_file_survives_damage_and_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "network" / "peers"
    assert network.load(path) == []
    assert caplog.records == [], "no file is no fault"
    kept = [Address(PEER, f"9.9.{number >> 8}.{number & 255}", 1) for number in range(network.MAX_KEPT + 50)]
    network.save(path, kept)
    assert len(path.read_bytes().splitlines()) == network.MAX_KEPT
    assert network.load(path) == kept[: network.MAX_KEPT]
    data = bytearray(path.read_bytes())
    data[3:9] = b"\xff\0\n\xfe//"
    path.write_bytes(bytes(data) * 50)
    assert len(network.load(path)) == network.MAX_KEPT
    path.unlink()
    path.mkdir()
    assert network.load(path) == []
    network.save(path, kept)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
