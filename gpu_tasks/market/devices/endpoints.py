"""Where a provider's blob store may be said to answer: scheme, host and port, and nothing else.

Every provider and customer connects to what stands on the chain, so it must not aim at anything on that host: no user,
path, query or fragment. The rule is the one by which programs read an address (`gpu_tasks/data/endpoint.py`), which
also look where it leads; written out here, byte by byte, since libraries change their minds between versions.
"""

PORT_DIGITS_MAX, PORT_MAX = 5, 65_535
NAME_BYTES_MAX, LABEL_BYTES_MAX = 253, 63
GROUPS_OF_SIX = 8

DIGITS = frozenset(b"0123456789")
HEX = DIGITS | frozenset(b"abcdef")
LETTERS = DIGITS | frozenset(b"abcdefghijklmnopqrstuvwxyz")


def is_store_address(endpoint: bytes) -> bool:
    """Whether this is `http://HOST`, `https://HOST`, or one of them with `:PORT`; in ASCII."""
    scheme, mark, rest = endpoint.partition(b"://")
    if scheme not in (b"http", b"https") or not mark:
        return False
    if rest.startswith(b"["):
        literal, closed, port = rest[1:].partition(b"]")
        return bool(closed) and _is_six(literal.lower()) and _is_port_part(port)
    host, colon, digits = rest.partition(b":")
    return _is_host(host.lower()) and _is_port_part(colon + digits)


def _is_port_part(text: bytes) -> bool:
    """Nothing, or a colon and a port."""
    if not text:
        return True
    digits = text[1:]
    is_short = text[:1] == b":" and 1 <= len(digits) <= PORT_DIGITS_MAX
    return is_short and DIGITS.issuperset(digits) and 1 <= int(digits) <= PORT_MAX


def _is_host(name: bytes) -> bool:
    if len(name) > NAME_BYTES_MAX:
        return False
    labels = name.split(b".")
    # resolvers take 0x7f000001, 2130706433 and 127.1 for addresses: one way of writing is enough
    if _is_number(labels[-1]):
        return _is_four(name)
    return all(_is_label(label) for label in labels)


def _is_label(label: bytes) -> bool:
    has_ends = 1 <= len(label) <= LABEL_BYTES_MAX and label[0] in LETTERS and label[-1] in LETTERS
    return has_ends and all(byte in LETTERS or byte == ord("-") for byte in label)


def _is_number(label: bytes) -> bool:
    return bool(label) and (DIGITS.issuperset(label) or (label.startswith(b"0x") and HEX.issuperset(label[2:])))


def _is_four(text: bytes) -> bool:
    """Four decimal numbers without zeros before them."""
    parts = text.split(b".")
    return len(parts) == 4 and all(
        1 <= len(part) <= 3 and DIGITS.issuperset(part) and int(part) <= 255 and (part[:1] != b"0" or len(part) == 1)
        for part in parts
    )


def _is_six(text: bytes) -> bool:
    """Eight groups of hexadecimal digits, some left out once; the last two may be written as an IPv4 address."""
    head, gap, tail = text.partition(b"::")
    before, after = _groups(head, may_end=not gap), _groups(tail, may_end=True)
    if before is None or after is None:
        return False
    return before + after < GROUPS_OF_SIX if gap else before == GROUPS_OF_SIX


def _groups(text: bytes, *, may_end: bool) -> int | None:
    """How many groups a part of an IPv6 address has; None if it is none. `may_end`: its end is the address's."""
    if not text:
        return 0
    parts = text.split(b":")
    is_wrapped = may_end and _is_four(parts[-1])
    plain = parts[:-1] if is_wrapped else parts
    if not all(1 <= len(part) <= 4 and HEX.issuperset(part) for part in plain):
        return None
    return len(plain) + 2 * is_wrapped
