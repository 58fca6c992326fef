"""Blob store addresses on the chain: exactly those that programs parse (B9)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_tasks.data.endpoint import EndpointError, parse_endpoint
from gpu_tasks.market.devices.devices import is_store_address

GOOD = (
    "http://gpu.example.org:9750", "https://GPU.Example.org", "http://203.0.113.7:80", "http://localhost:1",
    "http://[2001:DB8::1]:9750", "http://[::1]", "http://[::ffff:127.0.0.1]:1", "http://[1:2:3:4:5:6:7:8]",
    "http://[::]", "http://[1::]", "http://[1:2:3:4:5:6:1.2.3.4]", "http://x:00080", "http://0x7f.org",
)  # fmt: skip
BAD = (
    "http://127.0.0.1:8200/admin/shutdown#", "http://169.254.169.254/latest/meta-data/iam?x=", "http://eve/",
    "http://user:pass@127.0.0.1:9750", "http://user@gpu.example.org", "http://gpu.example.org?x", "http://eve#x",
    "http://gpu.example.org:9750\r\nX: y", "http://gpu.example.org\\@evil", "http://gpu example.org", "http://eve:",
    "http://eve:0", "http://eve:65536", "http://eve:000001", "http://eve:+1", "http://eve:1:2", "http://gpu..org",
    "http://.example.org", "http://example.org.", "http://-gpu.org", "http://gpu-.org", "http://g_u.org",
    "http://0x7f000001", "http://0x", "http://2130706433", "http://127.1", "http://127.0.0.01", "http://256.1.1.1",
    "http://gpu.example.0x7f", "http://[::1", "http://[::1]x", "http://[::1]:", "http://[gg::1]", "http://[]",
    "http://[fe80::1%25eth0]", "http://[1::2::3]", "http://[:::]", "http://[:1]", "http://[1:]", "http://[1.2.3.4]",
    "http://[1:2:3:4:5:6:7]", "http://[1:2:3:4:5:6:7:8:9]", "http://[1:2:3:4:5:6:7::8]", "http://[12345::]",
    "http://[1.2.3.4::]", "http://[::1.2.3.4:5]", "http://[::1.2.3.04]", "ftp://eve", "HTTP://eve", "http:/eve",
    "http://", "https://:1", "eve", "", "http://gpu.ex\u00e4mple.org", "http://" + "a" * 64,
    "http://" + "a." * 127 + "a",
)  # fmt: skip


def is_read_by_programs(text: str) -> bool:
    try:
        parse_endpoint(text)
    except EndpointError:
        return False
    return True


@pytest.mark.parametrize("text", GOOD)
def test_host_and_port_may_stand_there(text: str) -> None:
    assert is_store_address(text.encode())


@pytest.mark.parametrize("text", BAD)
def test_nothing_else_may(text: str) -> None:
    assert not is_store_address(text.encode())


parts = st.sampled_from((
    "http://", "https://", "[", "]", ":", "::", ".", "-", "/", "@", "#", "%", "0", "1", "255", "256", "01", "0x",
    "0x7f", "fe80", "12345", "a", "G", "eve", "org", "127.0.0.1", "65535", "65536", " ", "_", "\u00e4", "a" * 63,
))  # fmt: skip


@given(st.lists(parts, max_size=12).map("".join) | st.text(max_size=40).map("http://".__add__))
@example("http://\u0661")
def test_chain_and_programs_have_one_rule(text: str) -> None:
    assert is_store_address(text.encode()) == is_read_by_programs(text)


@given(st.lists(parts, min_size=1, max_size=10).map("".join), st.sampled_from(("", ":1")))
def test_chain_and_programs_have_one_rule_for_ip_6(text: str, port: str) -> None:
    whole = f"http://[{text}]{port}"
    assert is_store_address(whole.encode()) == is_read_by_programs(whole)
