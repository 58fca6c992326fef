import os
import socket
from itertools import islice, pairwise

from devnet.launcher import free_ports


def test_no_port_is_one_that_the_system_gives_to_outgoing_connections() -> None:
    given = [free_ports.one_free_port() for _ in range(200)]
    assert len(set(given)) == 200
    assert min(given) >= 1_024
    assert max(given) < 32_768, "Linux gives these to whoever connects (net.ipv4.ip_local_port_range)"


def test_a_port_in_use_is_not_given() -> None:
    preferred = list(islice(free_ports.free_ports(), 3))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", preferred[0]))
        taken.listen()
        assert list(islice(free_ports.free_ports(preferred), 2)) == preferred[1:]


def test_two_processes_begin_far_apart() -> None:
    here = os.getpid()
    firsts = sorted((pid * free_ports.APART) % free_ports.PORTS for pid in range(here, here + 16))
    assert min(b - a for a, b in pairwise(firsts)) > 500
