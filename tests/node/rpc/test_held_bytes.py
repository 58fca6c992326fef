"""Memory held for clients: bounded in total, and taken back from the client that holds most."""

from node.rpc.held_bytes import HeldBytes


class PlayedClient:
    """A client that the server may drop."""

    def __init__(self) -> None:
        self.is_dropped = False

    def drop(self) -> None:
        """Record the drop."""
        self.is_dropped = True


def test_whoever_holds_most_is_dropped_and_not_whoever_came_last() -> None:
    held = HeldBytes(100)
    greedy, modest, newcomer = PlayedClient(), PlayedClient(), PlayedClient()
    held.change(greedy, 70)
    held.change(modest, 20)
    assert held.total == 90
    held.change(newcomer, 15)
    assert [client.is_dropped for client in (greedy, modest, newcomer)] == [True, False, False]
    assert held.total == 35


def test_what_is_read_or_gone_is_held_no_more() -> None:
    held = HeldBytes(100)
    for _ in range(10):
        client = PlayedClient()
        held.change(client, 60)
        held.change(client, -20)
        assert (held.total, held.of(client)) == (40, 40)
        held.forget(client)
        assert not client.is_dropped
    assert held.total == 0
