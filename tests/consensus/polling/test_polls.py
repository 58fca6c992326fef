"""Polls, samples and fetches: the asked validators, the end of a poll, the bounds."""

from dataclasses import replace
from random import Random

import pytest

from consensus.fetches import REJECTED_MAX, Fetches
from consensus.parameters import DEVNET, full_poll_thresholds, sampled_thresholds
from consensus.polling import sampling
from consensus.polling.polls import RTT_WEIGHT, Polls
from consensus_parts import members

FOUR = full_poll_thresholds(4)
VOTERS = {bytes([number]): bytes([100 + number]) for number in range(4)}
WEIGHTS = dict.fromkeys(VOTERS, 1)
VOTE = (b"tip", b"at height")


def test_full_poll_asks_everybody_with_its_stake() -> None:
    of = members(4, weights=(1, 2, 3, 4))
    drawn = sampling.draw(DEVNET, of, Random(0).randrange)
    assert list(drawn.values()) == [1, 2, 3, 4]
    assert sampling.compute_thresholds(DEVNET, of) == full_poll_thresholds(10)


@pytest.mark.parametrize(("count", "forced"), [(26, False), (4, True)])
def test_sample_is_of_units_of_stake(count: int, forced: bool) -> None:
    parameters = replace(DEVNET, force_sampling=forced)
    of = members(count, weights=(1_000,) + (10,) * (count - 1))
    randbelow = Random(1).randrange
    total = dict.fromkeys((member.session for member in of.members), 0)
    for _ in range(200):
        drawn = sampling.draw(parameters, of, randbelow)
        assert sum(drawn.values()) == 20
        for session, units in drawn.items():
            assert 1 <= units <= of.weight_of(session)
            total[session] += units
    share = total[of.members[0].session] / 4_000
    assert abs(share - 1_000 / of.total) < 0.05


def test_stake_smaller_than_the_sample_is_asked_whole() -> None:
    parameters = replace(DEVNET, force_sampling=True)
    of = members(4)
    assert sampling.draw(parameters, of, Random(2).randrange) == {member.session: 1 for member in of.members}
    assert sampling.compute_thresholds(parameters, of) == full_poll_thresholds(4)
    rich = members(4, weights=(1_000,) * 4)
    assert sampling.compute_thresholds(parameters, rich) == sampled_thresholds(parameters.sample_units)


def test_poll_ends_when_all_have_answered() -> None:
    polls = Polls(DEVNET)
    poll = polls.start(WEIGHTS, VOTERS, 0)
    for voter in VOTERS:
        assert not polls.is_due(poll, 10)
        assert polls.answer(poll.request, voter, VOTE, 10)
    assert polls.is_due(poll, 10)
    assert polls.is_over(poll, 0, FOUR, 10)


def test_the_time_of_a_poll_is_when_two_thirds_of_the_weight_had_answered() -> None:
    """At half of the weight, a fast half would shorten deadlines, and a slow one lengthen them."""
    polls = Polls(DEVNET)
    before = polls._rtt_ms
    poll = polls.start(WEIGHTS, VOTERS, 0)
    for number, (voter, at_ms) in enumerate(zip(VOTERS, (10, 20, 6_400), strict=False)):
        assert polls.answer(poll.request, voter, VOTE, at_ms)
        assert (polls._rtt_ms != before) == (number == 2)
    assert polls._rtt_ms == before + (6_400 - before) // RTT_WEIGHT


def test_answers_that_nobody_asked_for() -> None:
    polls = Polls(DEVNET)
    poll = polls.start({b"\0": 1, b"\1": 1}, VOTERS, 0)
    assert not polls.answer(poll.request + 1, b"\0", VOTE, 1)
    assert not polls.answer(poll.request, b"\3", VOTE, 1)
    assert polls.answer(poll.request, b"\0", VOTE, 1)
    assert not polls.answer(poll.request, b"\0", VOTE, 1)
    polls.close(poll, 10_000)
    assert not polls.answer(poll.request, b"\1", VOTE, 1)


@pytest.mark.parametrize(("support", "at_ms", "over"), [(3, 200, True), (2, 200, False), (2, 1_000, True)])
def test_soft_and_hard_deadline(support: int, at_ms: int, over: bool) -> None:
    polls = Polls(DEVNET)
    poll = polls.start(WEIGHTS, VOTERS, 0)
    assert polls.is_due(poll, at_ms)
    assert polls.is_over(poll, support, FOUR, at_ms) == over
    assert polls.is_due(poll, at_ms + 1) == over


@pytest.mark.parametrize(("count", "slow"), [(4, 1), (16, 5), (25, 8)])
def test_slow_answers_of_less_than_a_third_move_no_deadline(count: int, slow: int) -> None:
    """Each slow one answers just before the deadline. If every answer counted as a sample, polls took 1,053,103 s."""
    polls = Polls(DEVNET)
    voters = {bytes([number]): bytes([100 + number]) for number in range(count)}
    now = 0
    for _ in range(60):
        poll = polls.start(dict.fromkeys(voters, 1), voters, now)
        assert poll.deadline_ms <= now + DEVNET.poll_soft_ms
        for place, voter in enumerate(voters):
            polls.answer(poll.request, voter, VOTE, now + 10 if place < count - slow else poll.deadline_ms - 1)
        now = poll.deadline_ms
        polls.close(poll, now)


def test_links_that_are_slow_for_everybody_get_time_but_never_more_than_the_limit() -> None:
    for delay, soft in ((300, 600), (100_000, DEVNET.poll_timeout_ms)):
        polls = Polls(DEVNET)
        for number in range(200):
            poll = polls.start(WEIGHTS, VOTERS, now := number * 200_000)
            for voter in VOTERS:
                polls.answer(poll.request, voter, VOTE, now + delay)
            polls.close(poll, now + delay)
        last = polls.start(WEIGHTS, VOTERS, 0)
        assert soft - 20 <= last.deadline_ms <= soft


def test_who_was_given_no_time_has_not_failed() -> None:
    polls = Polls(DEVNET)
    for _ in range(10):
        polls.close(polls.start(WEIGHTS, VOTERS, 0), 5)
    assert polls.start(WEIGHTS, VOTERS, 0).awaited == set(VOTERS)


def test_silent_voters_are_not_waited_for_until_they_answer() -> None:
    polls = Polls(DEVNET)
    for _ in range(DEVNET.poll_failures_max):
        poll = polls.start(WEIGHTS, VOTERS, 0)
        assert b"\0" in poll.awaited
        for voter in list(VOTERS)[1:]:
            polls.answer(poll.request, voter, VOTE, 1)
        polls.close(poll, 10_000)
    poll = polls.start(WEIGHTS, VOTERS, 0)
    assert b"\0" not in poll.awaited
    polls.answer(poll.request, b"\0", VOTE, 1)
    polls.close(poll, 10_000)
    assert b"\0" in polls.start(WEIGHTS, VOTERS, 0).awaited


def test_no_more_polls_than_allowed_and_not_faster() -> None:
    polls = Polls(DEVNET)
    assert polls.may_start(0)
    polls.start(WEIGHTS, VOTERS, 0)
    assert not polls.may_start(29)
    assert polls.may_start(30)
    polls.start(WEIGHTS, VOTERS, 30)
    assert not polls.may_start(1_000)


def test_fruitless_polls_become_rarer() -> None:
    polls = Polls(DEVNET)
    for _ in range(50):
        polls.learn(successful=False)
    poll = polls.start(WEIGHTS, VOTERS, 0)
    polls.close(poll, 10_000)
    assert polls.deadline_ms(wanted=True) == DEVNET.poll_idle_interval_ms
    polls.learn(successful=True)
    polls.start(WEIGHTS, VOTERS, 1_000)
    assert polls.deadline_ms(wanted=True) == 1_030


def test_blocks_are_asked_from_one_peer_after_another() -> None:
    fetches = Fetches(DEVNET)
    peers = [b"p", b"q", b"r"]
    fetches.want(b"block", b"q", 0, is_voter=True)
    assert fetches.due(peers, 5, 0) == []  # it may come by itself
    asked = []
    for attempt in range(10):
        asked += [fetch.peer for fetch in fetches.due(peers, 5, 40 + 500 * attempt)]
    assert asked == [b"q", b"r", b"p", b"q", b"r", b"p"]
    assert not fetches.is_wanted(b"block")


def test_one_peer_cannot_fill_the_list() -> None:
    fetches = Fetches(DEVNET)
    for number in range(1_000):
        fetches.want(b"lie %d" % number, b"liar", 0, is_voter=False)
    fetches.want(b"block", b"honest", 0, is_voter=False)
    fetches.need(b"certified", 0)
    asked = fetches.due([b"liar", b"honest"], 0, 100)
    assert len(asked) == DEVNET.fetches_per_peer_max + 2


def test_any_number_of_strangers_leaves_room_for_members_and_for_the_gadget() -> None:
    fetches = Fetches(DEVNET)
    for number in range(10_000):
        fetches.want(b"lie %d" % number, b"stranger %d" % (number % 64), 0, is_voter=False)
    assert len(fetches.due([b"p"], 0, 40)) == DEVNET.fetches_by_strangers_max
    fetches.want(b"named", b"member", 40, is_voter=True)
    fetches.need(b"certified", 40)
    assert {fetch.block for fetch in fetches.due([b"p"], 0, 80)} == {b"named", b"certified"}


@pytest.mark.parametrize("is_voter", [True, False])
def test_where_a_part_is_full_whoever_has_most_yields(is_voter: bool) -> None:
    fetches = Fetches(DEVNET)
    for number in range(10_000):
        fetches.want(b"lie %d" % number, b"liar %d" % (number % 20), 0, is_voter=is_voter)
    fetches.want(b"block", b"honest", 0, is_voter=is_voter)
    assert fetches.is_wanted(b"block")


def test_invalid_blocks_are_not_asked_for_again() -> None:
    fetches = Fetches(DEVNET)
    fetches.reject(b"bad")
    fetches.need(b"bad", 0)
    assert not fetches.is_wanted(b"bad")
    for number in range(REJECTED_MAX):
        fetches.reject(b"%d" % number)
    fetches.need(b"bad", 0)  # forgotten after many others
    assert fetches.is_wanted(b"bad")
