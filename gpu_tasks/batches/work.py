"""The work of a unit: its tokens in one measure, by which prices, asks and payments compare.

A price of a service and an ask of a device are grains per thousand output tokens; an input token counts for a share of
one, which the service names. Work is in millionths of an output token, so every figure is a whole number:

    work = tokens in * input share + tokens out * 1,000,000

Always: an ask is met by a price exactly if what the ask comes to is the price at most; nothing that was paid for less
work than was allowed comes to more than the price.
"""

TOKEN = 1_000_000
"""An output token, in work."""
PRICED = 1_000 * TOKEN
"""What prices and asks are for: a thousand output tokens."""


def work_of(input_share: int, tokens_in: int, tokens_out: int) -> int:
    """What so many tokens come to; `input_share` in millionths."""
    return tokens_in * input_share + tokens_out * TOKEN


def price_of(per_thousand: int, work: int) -> int:
    """Grains for so much work at a price per thousand output tokens, rounded up."""
    return -(-per_thousand * work // PRICED)


def rate_of(price: int, work: int) -> int:
    """The highest ask that a price for so much work meets, in grains per thousand output tokens."""
    return price * PRICED // work


def due_of(price: int, done: int, allowed: int) -> int:
    """What of the price for `allowed` work is due for what was `done` of it, rounded down."""
    assert 0 <= done <= allowed, "nobody reveals more work than a unit allows"
    return price * done // allowed
