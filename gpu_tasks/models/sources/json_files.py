"""JSON of a stranger: an object, no key twice, numbers within limits."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn

from gpu_tasks.models.sources.source_model import SourceError


def json_object(data: bytes, name: str) -> dict[str, object]:
    """Return the object in a file. Raise SourceError for any other content."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
            raise SourceError("duplicate", f"{name} holds {twice[:100]} twice")
        return found

    def refuse(constant: str) -> NoReturn:
        raise SourceError("damaged", f"{name} holds {constant}, which is no JSON")

    try:
        found = json.loads(data, object_pairs_hook=unique, parse_constant=refuse)
    except SourceError:
        raise
    except (RecursionError, ValueError) as error:
        raise SourceError("damaged", f"{name} is no JSON: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise SourceError("damaged", f"{name} holds no JSON object")
    return found
