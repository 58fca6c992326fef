"""The token bucket: a rate on average, a burst at once, and debts that are paid."""

from node.p2p.meter import TokenBucket


def test_a_debt_is_paid_back_by_waiting() -> None:
    bucket = TokenBucket(10.0, 20.0, 0.0)
    assert bucket.spend(20.0, 0.0) == 0.0
    assert bucket.spend(30.0, 0.0) == 3.0
    assert bucket.available(1.0) == -20.0
    assert bucket.wait(1.0) == 2.0
    assert bucket.available(3.0) == 0.0


def test_quiet_saves_up_a_burst_and_no_more() -> None:
    bucket = TokenBucket(10.0, 20.0, 0.0)
    bucket.spend(15.0, 0.0)
    assert bucket.available(1.0) == 15.0
    assert bucket.available(3_600.0) == 20.0


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10.0, 20.0, 100.0)
    bucket.spend(20.0, 100.0)
    assert bucket.available(50.0) == 0.0
    assert bucket.available(101.0) == 10.0
