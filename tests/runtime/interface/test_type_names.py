"""The real chain's metadata has no two types under one path that clients could confuse."""

from collections import defaultdict

import pytest

from genesis.chain import apis_for
from runtime.interface.metadata import metadata
from runtime.interface.metadata_schema import METADATA_V14, METADATA_V15, TypeEntry

APIS = apis_for("devnet", is_development=True)
TYPES = {
    14: METADATA_V14.decode(metadata(APIS, 14)[5:]).types,
    15: METADATA_V15.decode(metadata(APIS, 15)[5:]).types,
}


def named(types: tuple[TypeEntry, ...]) -> dict[str, list[TypeEntry]]:
    """Return the types with a path, by path."""
    by_path = defaultdict(list)
    for entry in types:
        if entry.path:
            by_path["::".join(entry.path)].append(entry)
    return by_path


def confusable(types: tuple[TypeEntry, ...]) -> list[str]:
    """Return the paths of two types with equal parameters, which polkadot-js takes for one."""
    return [path for path, entries in named(types).items() if len({entry.params for entry in entries}) != len(entries)]


@pytest.mark.parametrize("version", [14, 15])
def test_types_of_one_path_differ_in_their_parameters(version: int) -> None:
    assert confusable(TYPES[version]) == []


@pytest.mark.parametrize("version", [14, 15])
def test_a_class_name_of_ours_means_one_thing(version: int) -> None:
    ours = {path: entries for path, entries in named(TYPES[version]).items() if path.startswith("ogpu::")}
    assert len(ours) > 20
    assert [path for path, entries in ours.items() if len(entries) > 1] == []
    assert all(path.count("::") == 1 for path in ours)


def test_a_name_that_is_there_twice_is_found() -> None:
    types = TYPES[14]
    twin = next(entry for entry in types if entry.path == ("ogpu", "Seat"))
    assert confusable((*types, twin)) == ["ogpu::Seat"]
