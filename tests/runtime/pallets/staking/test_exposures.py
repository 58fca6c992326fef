"""Exposures: election by stake, rewards and slashes by share, no grain made or lost."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.pallets.staking.exposures import Backing, elect, exposure, reward_shares, slash_parts
from runtime.pallets.staking.slashing import Share

VALIDATOR, ALICE, BOB = b"V" * 32, b"A" * 32, b"B" * 32
accounts = st.binary(min_size=32, max_size=32).filter(lambda account: account != VALIDATOR)
delegations = st.dictionaries(accounts, st.integers(1, 10**15), max_size=8)


def test_the_election_takes_the_largest_and_breaks_ties_by_account() -> None:
    assert elect([(BOB, 5), (ALICE, 5), (VALIDATOR, 9)], 2) == ((VALIDATOR, 9), (ALICE, 5))


def test_commission_comes_first_and_dust_goes_to_the_validator() -> None:
    exposed = exposure(50, [(BOB, 25), (ALICE, 25)], 100_000)
    assert exposed.others == (Backing(ALICE, 25), Backing(BOB, 25))
    assert reward_shares(1_003, VALIDATOR, exposed) == (
        Share(VALIDATOR, 553),
        Share(ALICE, 225),
        Share(BOB, 225),
    )


@given(st.integers(0, 10**15), delegations, st.integers(0, 10**14), st.integers(0, 10**6))
def test_rewards_add_up(own: int, others: dict[bytes, int], reward: int, commission: int) -> None:
    exposed = exposure(own, list(others.items()), commission)
    shares = reward_shares(reward, VALIDATOR, exposed)
    assert sum(share.amount for share in shares) == reward
    assert all(share.amount > 0 for share in shares)


@given(st.integers(0, 10**15), delegations, st.integers(0, 10**6))
def test_a_slash_takes_no_more_than_there_is(own: int, others: dict[bytes, int], ppm: int) -> None:
    exposed = exposure(own, list(others.items()))
    parts = slash_parts(VALIDATOR, exposed, ppm)
    assert sum(part.value for part in parts) <= exposed.total * ppm // 10**6
    stakes = [own, *(backing.value for backing in exposed.others)]
    assert all(part.value <= stake for part, stake in zip(parts, stakes, strict=True))
