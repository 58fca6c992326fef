"""Who waits for a seat, or to leave one: whoever has waited longest goes first, whatever others do meanwhile."""

from election_chain import EPOCH_BLOCKS, NEW, OTHER, SAVER, Step, chain_of, heard, offers, stashes, until_epoch
from runtime.pallets.staking.stakers import Waiter
from runtime.pallets.staking.trust_stake import TrustStake
from simulation.chains.market_chain import BOND, Keys, MarketChain, named_keys, signed, validates


def test_a_small_validator_leaves_though_larger_ones_leave_and_come_again_in_every_era() -> None:
    """Two with an eighth and more each, who chill by turns: the heaviest of those who leave went first, and V never."""
    names_ = named_keys(12)
    chain = MarketChain(names_, epoch_blocks=EPOCH_BLOCKS, bonds=(4 * BOND, 4 * BOND, *[BOND] * 10))
    first, second, leaver = chain.validators[:3]
    chain.block(signed(leaver.stash, TrustStake.chill()))
    for era in range(8):
        away, back = (first, second) if era % 2 == 0 else (second, first)
        steps: list[Step] = [signed(away.stash, TrustStake.chill())]
        if chain.now()[TrustStake].candidates[back.stash] is None:
            steps = [signed(back.stash, validates(back)), heard(back), *steps]
        chain.block(*steps)
        stake = until_epoch(chain, era + 1)
        seats = stashes(stake.validators(era + 2))
        if leaver.stash not in seats:
            break
        assert stake.leaving_since[leaver.stash] == 2
    else:
        raise AssertionError("it still sits")
    assert stake.leaving_since[leaver.stash] == 0


def test_a_newcomer_sits_and_a_leaver_leaves_though_two_heavier_ones_take_turns() -> None:
    """Each of the two is on line only in the epochs in which it sits, and not in jail: one goes, the other comes."""
    chain = MarketChain(
        named_keys(8), [NEW, OTHER, SAVER], {"TrustStake.validator_seats": 12}, epoch_blocks=EPOCH_BLOCKS
    )
    steady, leaver, swingers = chain.validators, chain.validators[2], (OTHER, SAVER)
    chain.block(*offers(OTHER, 2 * BOND), *offers(SAVER, 2 * BOND))
    for epoch in range(12):
        away = swingers[epoch % 2]
        chain.absent = frozenset([away.stash])
        there = [*steady, swingers[1 - epoch % 2], NEW]
        if epoch == 4:
            chain.block(*offers(NEW), signed(leaver.stash, TrustStake.chill()), author=steady[0])
        chain.block(heard(*there), author=steady[0])
        while chain.height <= (epoch + 1) * EPOCH_BLOCKS:
            chain.block(author=steady[0])
        stake = chain.now()[TrustStake]
        seats = stashes(stake.validators(epoch + 2))
        if NEW.stash in seats and leaver.stash not in seats:
            break
    assert 4 < epoch < 9, "it would go on for ever"


def test_who_is_elected_and_has_no_room_waits_since_the_first_time() -> None:
    chain = chain_of(8)
    chain.block(*offers(NEW, 2 * BOND), *offers(OTHER, BOND), heard(NEW, OTHER))
    stake = until_epoch(chain, 1)
    assert NEW.stash in stashes(stake.validators(2))
    assert stake.waiting.get() == (Waiter(OTHER.stash, 2),)
    chain.block(*offers(SAVER, 3 * BOND), heard(OTHER, SAVER))
    stake = until_epoch(chain, 2)
    assert OTHER.stash in stashes(stake.validators(3)), "before the heavier one, which came later"
    assert stake.waiting.get() == (Waiter(SAVER.stash, 3),)
    stake = until_epoch(chain, 3)
    assert stake.waiting.get() == (), "who is not elected, for it gave no sign of life, waits for nothing"


def test_of_two_that_wait_the_one_that_began_earlier_comes_first_though_both_have_waited() -> None:
    late = Keys("late")
    chain = MarketChain(named_keys(8), [NEW, OTHER, SAVER, late], epoch_blocks=EPOCH_BLOCKS)
    people = (NEW, OTHER, SAVER, late)
    chain.block(*offers(NEW, 3 * BOND), *offers(OTHER, BOND), *offers(SAVER, 2 * BOND), heard(*people))
    stake = until_epoch(chain, 1)
    assert {waiter.stash for waiter in stake.waiting.get()} == {OTHER.stash, SAVER.stash}
    chain.block(*offers(late, 4 * BOND), heard(*people))
    stake = until_epoch(chain, 2)
    assert set(stake.waiting.get()) == {Waiter(OTHER.stash, 2), Waiter(late.stash, 3)}, "of two alike the heavier came"
    chain.block(heard(*people))
    assert OTHER.stash in stashes(until_epoch(chain, 3).validators(4))


def test_who_offers_itself_again_waits_no_more() -> None:
    chain = chain_of()
    one, two, three = chain.validators[:3]
    chain.block(*(signed(each.stash, TrustStake.chill()) for each in (one, two, three)))
    stake = until_epoch(chain, 1)
    waiting = [each for each in (one, two, three) if stake.leaving_since[each.stash]]
    assert len(waiting) == 2
    assert {stake.leaving_since[each.stash] for each in waiting} == {2}
    chain.block(signed(waiting[1].stash, validates(waiting[1])), heard(waiting[1]))
    stake = until_epoch(chain, 2)
    assert [stake.leaving_since[each.stash] for each in waiting] == [0, 0], "one has left, one stays"
    assert waiting[1].stash in stashes(stake.validators(3))
