"""JSON of a stranger: an object, no key twice, numbers within limits."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.models.tokenizer_checks import CONTAINERS_MAX


def json_object(data: bytes, name: str) -> dict[str, object]:
    """Return the object in a file. Raise SourceError for any other content."""
    # Small lists take thirty times their bytes in memory.
    if data.count(b"[") + data.count(b"{") > CONTAINERS_MAX:
        raise SourceError("too_large", f"{name} holds more than {CONTAINERS_MAX} lists and objects")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        # Parsers differ in which of two equal keys counts, so another program would read another model.
        if len(members) != len(pairs):
            ((repeated_key, _),) = Counter(key for key, _ in pairs).most_common(1)
            raise SourceError("duplicate", f"{name} holds {repeated_key[:100]} twice")
        return members

    # Python's parser accepts NaN and Infinity, which RFC 8259 does not have.
    def refuse(constant: str) -> NoReturn:
        raise SourceError("damaged", f"{name} holds {constant}, which is no JSON")

    try:
        found = json.loads(data, object_pairs_hook=unique, parse_constant=refuse)
    except SourceError:
        raise
    # Deep nesting exhausts the parser's stack, and Python refuses integers of over 4,300 digits by ValueError.
    except (RecursionError, ValueError) as error:
        raise SourceError("damaged", f"{name} is no JSON: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise SourceError("damaged", f"{name} holds no JSON object")
    return found
