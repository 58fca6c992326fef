"""SS58, the text form of accounts: base58 of network prefix, public key and checksum, as in all Substrate wallets.

Format: https://docs.polkadot.com/polkadot-protocol/parachain-basics/accounts/ (prefix of one or two bytes, 32-byte
account, the first two bytes of BLAKE2b-512 over `SS58PRE` and the rest).
"""

import hashlib

from runtime.encoding.codec import DecodeError

DEFAULT_PREFIX = 42
MAX_PREFIX = 0x3FFF
ACCOUNT_BYTES = 32
MAX_TEXT_LENGTH = 50  # the longest address of a 32-byte account has 49 characters

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {character: value for value, character in enumerate(_ALPHABET)}
_CHECKSUM_BYTES = 2


class InvalidAddress(DecodeError):
    """The text is no address of this network. The message gives the reason to the person who typed it."""

    def __str__(self) -> str:
        return self.code


def encode(account: bytes, prefix: int = DEFAULT_PREFIX) -> str:
    """Return the address of a 32-byte account on the network `prefix` (0 to 16383)."""
    if len(account) != ACCOUNT_BYTES:
        raise ValueError(f"an account has {ACCOUNT_BYTES} bytes, not {len(account)}")
    body = _prefix_bytes(prefix) + account
    return _base58(body + _checksum(body))


def decode(address: str, prefix: int | None = DEFAULT_PREFIX) -> bytes:
    """Return the account of an address of network `prefix`, or of any network if None.

    Raise InvalidAddress with the reason.
    """
    address_bytes = _unbase58(address)
    # In the SS58 format, bit 6 of the first byte marks a prefix of two bytes.
    prefix_width = 2 if address_bytes and address_bytes[0] & 0x40 else 1
    if len(address_bytes) != prefix_width + ACCOUNT_BYTES + _CHECKSUM_BYTES:
        raise InvalidAddress("characters are missing or extra, or the address belongs to another kind of chain")
    body, checksum = address_bytes[:-_CHECKSUM_BYTES], address_bytes[-_CHECKSUM_BYTES:]
    if checksum != _checksum(body):
        raise InvalidAddress("wrong checksum of the address: a character is mistyped")
    found_prefix = _parse_prefix(body[:prefix_width])
    if prefix is not None and found_prefix != prefix:
        raise InvalidAddress(f"the address is for network {found_prefix}, not {prefix}")
    return body[prefix_width:]


def account_from_text(account_text: str, prefix: int | None = DEFAULT_PREFIX) -> bytes:
    """Return the account in a user's or a specification's text: an address, or `0x` and 64 hex digits."""
    if not account_text.startswith("0x"):
        return decode(account_text, prefix)
    try:
        account = bytes.fromhex(account_text[2:])
    except ValueError:
        raise InvalidAddress("not hex digits") from None
    if len(account) != ACCOUNT_BYTES:
        raise InvalidAddress(f"an account has {ACCOUNT_BYTES} bytes, not {len(account)}")
    return account


def _prefix_bytes(prefix: int) -> bytes:
    """Return one byte below 64, else two, as the registry defines.

    The first is `01` and bits 2 to 7 of the prefix, the second its bits 0 and 1 above its bits 8 to 13.
    """
    if not 0 <= prefix <= MAX_PREFIX:
        raise ValueError(f"a network prefix is 0 to {MAX_PREFIX}, not {prefix}")
    if prefix < 0x40:
        return bytes([prefix])
    return bytes([(prefix & 0xFC) >> 2 | 0x40, prefix >> 8 | (prefix & 0x03) << 6])


def _parse_prefix(prefix_bytes: bytes) -> int:
    if prefix_bytes[0] & 0x80:
        raise InvalidAddress("the network prefix of the address is reserved")
    if len(prefix_bytes) == 1:
        return prefix_bytes[0]
    prefix = (prefix_bytes[0] & 0x3F) << 2 | prefix_bytes[1] >> 6 | (prefix_bytes[1] & 0x3F) << 8
    if prefix < 0x40:
        # A second form of a short prefix would give one account two addresses.
        raise InvalidAddress("the network prefix of the address is longer than it needs to be")
    return prefix


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(b"SS58PRE" + body).digest()[:_CHECKSUM_BYTES]


def _base58(byte_string: bytes) -> str:
    number = int.from_bytes(byte_string, "big")
    characters = ""
    while number:
        number, base58_digit = divmod(number, 58)
        characters = _ALPHABET[base58_digit] + characters
    return "1" * (len(byte_string) - len(byte_string.lstrip(b"\0"))) + characters


def _unbase58(address: str) -> bytes:
    # Before the loop, whose cost grows with the square of the length.
    if len(address) > MAX_TEXT_LENGTH:
        raise InvalidAddress("an address has at most 50 characters")
    number = 0
    for character in address:
        if character not in _VALUES:
            raise InvalidAddress(f"{character!r} is not a character of an address")
        number = number * 58 + _VALUES[character]
    leading_zeros = len(address) - len(address.lstrip("1"))
    return bytes(leading_zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
