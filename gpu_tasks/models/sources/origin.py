"""The origin of a model: its name, licence, revision and publisher, as far as its files state them."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME_MAX = 64
LICENCE_MAX = 64
REVISION_MAX = 128
SOURCE_MAX = 256

SPDX_IDS = (
    "0BSD AFL-3.0 AGPL-3.0 Apache-2.0 Artistic-2.0 BSD-2-Clause BSD-3-Clause BSL-1.0 CC0-1.0 CC-BY-4.0 CC-BY-NC-4.0 "
    "CC-BY-NC-SA-4.0 CC-BY-SA-4.0 ECL-2.0 EPL-2.0 EUPL-1.2 GPL-3.0 ISC LGPL-3.0 MIT MPL-2.0 MS-PL ODbL-1.0 OFL-1.1 "
    "Unlicense WTFPL Zlib"
).split()  # fmt: skip
_BY_LOWER = {identifier.lower(): identifier for identifier in SPDX_IDS}
_OUTSIDE_OF_NAME = re.compile(r"[^a-z0-9._]+")
_OUTSIDE_OF_ID = re.compile(r"[^A-Za-z0-9.]+")


@dataclass(frozen=True)
class ModelOrigin:
    """The stated origin. An unknown part is empty."""

    name: str
    licence: str = ""
    licence_text: str = ""
    revision: str = ""
    source: str = ""

    def text_for(self, licence: str) -> str:
        """Return the text of the licence, if it belongs to weights under `licence`, or an empty text."""
        # A package may have another licence than the weights in it: MIT for its code, Apache-2.0 for the weights.
        return self.licence_text if licence and licence == self.licence else ""


def model_name(text: str) -> str:
    """Return a text as the name of a model: lower case, words joined by hyphens, `model` if nothing is left."""
    # People type a name in a shell and read it in lists, so no space, quote, slash or control character survives.
    return _OUTSIDE_OF_NAME.sub("-", text.lower()).strip("-._")[:NAME_MAX].rstrip("-._") or "model"


def licence_id(text: str) -> str:
    """Return the SPDX id of a stated licence, `LicenseRef-…` for an id outside the list, empty for none."""
    text = text.strip()
    if not text:
        return ""
    # The SPDX specification requires `LicenseRef-` before an identifier outside its list.
    known = _BY_LOWER.get(text.lower())
    return known or f"LicenseRef-{_OUTSIDE_OF_ID.sub('-', text).strip('-')}"[:LICENCE_MAX]


def one_line(text: str, most: int) -> str:
    """Return a stated text without control characters, cut to `most` bytes of UTF-8."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    # The limits of the model file count bytes. A cut within a character drops that character.
    return " ".join(printable.split()).encode(errors="replace")[:most].decode(errors="ignore")
