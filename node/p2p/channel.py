"""A TCP connection as bytes, then as encrypted records.

Invariants:

* The bytes read before the peer has proved its identity are bounded.
* Every end of the connection, from either side, is one exception, `ChannelClosed`.
* At most one Noise record is in memory beyond the bytes that the caller requested.

Reads go through one 64 KiB buffer (the library reads a 2-byte length and a body in two system calls each), and one
write carries all of the caller's data.
"""

from typing import Final, Protocol

import trio
from libp2p.io.abc import ReadWriteCloser

READ_BYTES: Final = 64 * 1024
MAX_RECORD_PLAINTEXT_BYTES: Final = 65_535 - 16
"""Noise: a record is at most 65,535 bytes, 16 of them the tag."""
_RECORD_LENGTH_BYTES: Final = 2


class ChannelClosed(Exception):
    """The connection has ended."""


class Cipher(Protocol):
    """The result of a Noise handshake: a stateful pair of encrypt and decrypt."""

    def encrypt(self, data: bytes) -> bytes:
        """Return one record's ciphertext."""

    def decrypt(self, data: bytes) -> bytes:
        """Return one record's plaintext. Raise an exception if the record was modified."""


class BufferedTcp(ReadWriteCloser):
    """A socket stream with a read buffer, and a cap on the bytes that may be read before `lift_cap`."""

    def __init__(self, stream: trio.SocketStream, cap_bytes: int) -> None:
        self._stream = stream
        self._read_buffer = bytearray()
        self._cap_bytes: int | None = cap_bytes
        self._write_lock = trio.Lock()

    def lift_cap(self) -> None:
        """End the cap: the peer is known, and other code limits its rate."""
        self._cap_bytes = None

    def unread(self, data: bytes) -> None:
        """Put back bytes that belong to the next reader."""
        self._read_buffer[:0] = data

    async def exactly(self, size_bytes: int) -> bytes:
        """Return the next `size_bytes` bytes. Raise `ChannelClosed` if the connection ends first."""
        while len(self._read_buffer) < size_bytes:
            await self._fill_buffer()
        taken_bytes = bytes(self._read_buffer[:size_bytes])
        del self._read_buffer[:size_bytes]
        return taken_bytes

    async def some(self) -> bytes:
        """Return the next bytes, at least one. Raise `ChannelClosed` at the end."""
        if not self._read_buffer:
            await self._fill_buffer()
        taken_bytes = bytes(self._read_buffer)
        self._read_buffer.clear()
        return taken_bytes

    async def _fill_buffer(self) -> None:
        # One large read: the library reads the length and the body of a record in two system calls each.
        try:
            data = await self._stream.receive_some(READ_BYTES)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ChannelClosed("connection lost") from error
        if not data:
            raise ChannelClosed("connection closed by peer")
        if self._cap_bytes is not None:
            # A stranger costs 16 KiB at most. An honest handshake takes about 500 bytes.
            self._cap_bytes -= len(data)
            if self._cap_bytes < 0:
                raise ChannelClosed("too many bytes before the handshake")
        self._read_buffer += data

    async def read(self, n: int | None = None) -> bytes:
        """Return up to `n` bytes, for py-libp2p's handshake."""
        if n is None:
            return await self.some()
        return await self.exactly(n) if n else b""

    async def write(self, data: bytes) -> None:
        """Write all of `data` in one piece. Raise `ChannelClosed` if the connection has ended."""
        async with self._write_lock:
            try:
                await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise ChannelClosed("connection lost") from error

    async def close(self) -> None:
        """Close the socket; a second call does nothing."""
        await trio.aclose_forcefully(self._stream)

    def get_remote_address(self) -> tuple[str, int] | None:
        """Return the peer's address and port in py-libp2p's form."""
        try:
            address = self._stream.socket.getpeername()
        except OSError:
            return None
        return str(address[0]), int(address[1])


class SecureChannel:
    """Noise records over TCP."""

    def __init__(self, tcp: BufferedTcp, cipher: Cipher) -> None:
        self._tcp = tcp
        self._cipher = cipher
        self._lock = trio.Lock()
        self._unread_bytes = b""

    def unread(self, data: bytes) -> None:
        """Put back bytes that belong to the next reader."""
        self._unread_bytes = data + self._unread_bytes

    async def some(self) -> bytes:
        """Return the plaintext of the next record. Raise `ChannelClosed`, also if the record is not authentic."""
        if self._unread_bytes:
            unread_bytes, self._unread_bytes = self._unread_bytes, b""
            return unread_bytes
        record_bytes = int.from_bytes(await self._tcp.exactly(_RECORD_LENGTH_BYTES), "big")
        record = await self._tcp.exactly(record_bytes)
        try:
            return self._cipher.decrypt(record)
        except Exception as error:
            raise ChannelClosed("record does not authenticate") from error

    async def write(self, data: bytes) -> None:
        """Write `data` in as few records as possible and one system call. Raise `ChannelClosed` at the end."""
        async with self._lock:
            records = bytearray()
            for start in range(0, len(data), MAX_RECORD_PLAINTEXT_BYTES):
                # Under the lock: Noise numbers its records, so they must be written in the order of their encryption.
                record = self._cipher.encrypt(data[start : start + MAX_RECORD_PLAINTEXT_BYTES])
                records += len(record).to_bytes(_RECORD_LENGTH_BYTES, "big") + record
            await self._tcp.write(bytes(records))

    async def close(self) -> None:
        """Close the connection."""
        await self._tcp.close()
