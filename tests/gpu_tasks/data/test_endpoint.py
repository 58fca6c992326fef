"""Addresses of blob stores are host and port, and lead nowhere else."""

import asyncio
import socket

import pytest

from gpu_tasks.data.blob_client import BlobClient, BlobError
from gpu_tasks.data.endpoint import EndpointError, is_public, parse_endpoint, public_socket, reachable_endpoint


@pytest.mark.parametrize(
    ("text", "url", "port"),
    [
        ("http://gpu.example.org:9750", "http://gpu.example.org:9750", 9750),
        ("https://GPU.Example.org", "https://gpu.example.org", 443),
        ("http://203.0.113.7:80", "http://203.0.113.7", 80),
        ("http://[2001:DB8::1]:9750", "http://[2001:db8::1]:9750", 9750),
    ],
)
def test_an_address_is_written_in_one_way(text: str, url: str, port: int) -> None:
    assert parse_endpoint(text).url == url
    assert parse_endpoint(text).port == port


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8200/admin/shutdown#",
        "http://169.254.169.254/latest/meta-data/iam?x=",
        "http://user:pass@127.0.0.1:9750",
        "http://user@gpu.example.org",
        "http://gpu.example.org/",
        "http://gpu.example.org?x",
        "http://gpu.example.org#x",
        "http://gpu.example.org:9750\r\nX: y",
        "http://gpu.example.org\\@evil",
        "http://gpu example.org",
        "http://gpu.example.org:0",
        "http://gpu.example.org:65536",
        "http://gpu..example.org",
        "http://.example.org",
        "http://-gpu.org",
        "http://0x7f000001",
        "http://2130706433",
        "http://127.1",
        "http://gpu.example.0x7f",
        "http://[::1",
        "http://[gg::1]",
        "http://[fe80::1%25eth0]",
        "ftp://gpu.example.org",
        "HTTP://gpu.example.org",
        "http://",
        "gpu.example.org",
        "http://gpu.exämple.org",
        "http://g_u.org",
        "http://127.0.0.01",
        "http://[1::2::3]",
        "http://[1.2.3.4]",
        "http://" + "a" * 64,
        "",
    ],
)
def test_whatever_else_is_refused(text: str) -> None:
    with pytest.raises(EndpointError):
        parse_endpoint(text)


PRIVATE = [
    "127.0.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
    "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::1", "2001:0:7f00:1::1",
    "2001:db8::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_known_however_they_are_wrapped(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1", "::ffff:1.1.1.1", "64:ff9b::101:101"])
def test_public_ones_pass(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "text", ["http://127.0.0.1:9750", "http://localhost:9750", "http://a.localhost", "http://[::ffff:127.0.0.1]"]
)
def test_own_networks_are_for_development_only(text: str) -> None:
    assert reachable_endpoint(text, is_private_allowed=True).url == parse_endpoint(text).url
    with pytest.raises(EndpointError, match="a public address"):
        reachable_endpoint(text, is_private_allowed=False)


async def test_what_is_connected_to_is_looked_at_and_not_what_the_name_said_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name may resolve to one address when it is checked and to another when it is used."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append("connected")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def rebound(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)  # a lying resolver
    async with BlobClient() as blobs:
        with pytest.raises(BlobError, match="cannot be reached"):
            await blobs.get(bytes(32), [f"http://gpu.example.org:{port}"])
        for literal in (f"http://127.0.0.1:{port}", f"http://[::ffff:7f00:1]:{port}", f"http://localhost:{port}"):
            with pytest.raises(BlobError, match="a public address"):
                await blobs.get(bytes(32), [literal])
    server.close()
    assert asked == ["gpu.example.org"]


def test_a_socket_is_made_for_public_addresses_only() -> None:
    with pytest.raises(OSError, match="a public address"):
        public_socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::ffff:7f00:1", 80, 0, 0)))
    public_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("1.1.1.1", 80))).close()
