"""The winner of a race depends on heights and draw order, not on the order of transactions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_tasks.market.inference import race_results
from gpu_tasks.market.inference.race_results import RevealsRead
from gpu_tasks.market.inference.units import Racer, Reveal

RIGHT, WRONG = b"R" * 32, b"W" * 32


def racer(name: str, at: int = 0, root: bytes | None = None, *, declined: bool = False) -> Racer:
    reveal = Reveal(root, bytes(32), 5, at + 4) if root else None
    commitment = b"c" * 32 if at else None
    return Racer(name.encode().ljust(32), bytes(32), 1, commitment, at, reveal, declined)


@pytest.mark.parametrize(
    ("racers", "verdict"),
    [
        ((racer("a"),), RevealsRead.NOTHING),
        ((racer("a", 3), racer("b")), RevealsRead.NOTHING),
        ((racer("a", 3, RIGHT),), RevealsRead.AGREED),
        ((racer("a", 3, RIGHT), racer("b", 4, RIGHT)), RevealsRead.AGREED),
        ((racer("a", 3, RIGHT), racer("b", 4, WRONG)), RevealsRead.DISPUTED),
        ((racer("a", 3, WRONG), racer("b")), RevealsRead.AGREED),
        ((racer("a", 3, WRONG), racer("b", 4)), RevealsRead.AGREED),
        ((racer("a", 3, RIGHT), racer("b", declined=True)), RevealsRead.AGREED),
        ((racer("a", 3, RIGHT), racer("b", 4, RIGHT), racer("c")), RevealsRead.AGREED),
    ],
)
def test_what_the_reveals_say(racers: tuple[Racer, ...], verdict: RevealsRead) -> None:
    assert race_results.read_reveals(racers) is verdict


@pytest.mark.parametrize(
    ("commits", "order"),
    [
        ((7, 5), "ba"),
        ((6, 5), "ab"),  # the next block counts as simultaneous: draw order decides
        ((5, 5), "ab"),
        ((9, 6, 5), "bca"),
        ((8, 7, 5), "cba"),
    ],
)
def test_earliest_commit_wins(commits: tuple[int, ...], order: str) -> None:
    racers = tuple(racer(name, at, RIGHT) for name, at in zip("abc", commits, strict=False))
    assert "".join(one.owner.decode().strip() for one in race_results.ranked(racers, RIGHT)) == order


def test_a_garbage_commit_shifts_nobody() -> None:
    racers = (racer("a", 6, RIGHT), racer("b", 5, RIGHT), racer("c", 4))
    found = race_results.result(racers, RIGHT)
    assert found is not None
    assert found.winner == racers[0], "b's block is the earliest of the valid ones, a's the next"
    assert found.witness == racers[1]


def test_who_said_nothing() -> None:
    racers = (racer("a", 3, RIGHT), racer("b", 3, WRONG), racer("c", 4), racer("d"), racer("e", declined=True))
    assert race_results.silent(racers) == [racers[2]]
    assert race_results.result(racers, b"X" * 32) is None
    assert race_results.is_last_to_commit(racers, racers[3].owner)
    assert not race_results.is_last_to_commit(racers, racers[0].owner)
    out = replace(racers[3], is_out=True)
    assert race_results.is_last_to_commit((*racers[:3], out), racers[0].owner)
    assert not race_results.is_last_to_reveal(racers)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([RIGHT, WRONG, None])), min_size=1, max_size=8))
def test_every_racer_has_one_role(drawn: list[tuple[int, bytes | None]]) -> None:
    racers = tuple(racer(str(place), at, root) for place, (at, root) in enumerate(drawn))
    right, wrong, silent = (
        race_results.ranked(racers, RIGHT),
        race_results.ranked(racers, WRONG),
        race_results.silent(racers),
    )
    assert sorted([*right, *wrong, *silent], key=lambda one: one.owner) == list(racers)
    found = race_results.result(racers, RIGHT)
    assert (found is None) == (not right)
    if found:
        earliest = min(one.committed_at for one in right)
        assert found.winner.committed_at <= earliest + 1
        assert found.witness != found.winner
