"""The limit of open files is raised at the start, with a message if that fails."""

import resource

import pytest

from gpu_tasks.provider.blobs.server import CONNECTIONS
from gpu_tasks.provider.open_files import OPEN_FILES_NEEDED, OPEN_FILES_WANTED, raise_limit


@pytest.mark.parametrize(
    ("soft", "hard", "becomes", "is_said"),
    [
        (256, resource.RLIM_INFINITY, OPEN_FILES_WANTED, False),
        (256, 2_048, 2_048, False),
        (256, 512, 512, True),
        (20_000, 20_000, 20_000, False),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY, False),
    ],
)
def test_the_limit(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, becomes: int, *, is_said: bool) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    said = raise_limit()
    assert limits[-1] == (becomes, hard)
    assert (said is not None) is is_said


def test_it_covers_every_connection_of_the_store() -> None:
    assert CONNECTIONS.total + 128 < OPEN_FILES_NEEDED
