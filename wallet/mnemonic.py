"""Recovery phrases: BIP-39 words, and the secret that Substrate wallets derive from them.

Words, checksum and lengths are BIP-39's (https://github.com/bitcoin/bips/blob/master/bip-0039.mediawiki). The next step
is Substrate's own: PBKDF2 runs over the entropy, not over the words, and its first 32 bytes are the secret.
"""

import hashlib
import secrets

from mnemonic import Mnemonic

from wallet.errors import PhraseError

WORD_COUNTS = (12, 15, 18, 21, 24)
MAX_PHRASE_CHARACTERS = 24 * 10

_ROUNDS = 2048
_SECRET_BYTES = 32
_ENGLISH = Mnemonic("english")


def generate(word_count: int = 12) -> str:
    """Return a new phrase from the randomness of the operating system: 128 bits in 12 words, 256 in 24."""
    if word_count not in WORD_COUNTS:
        raise PhraseError(f"a phrase has 12, 15, 18, 21 or 24 words, not {word_count}", code="phrase_length")
    return _ENGLISH.to_mnemonic(secrets.token_bytes(word_count // 3 * 4))


def entropy_of(phrase: str) -> bytes:
    """Return the 16 to 32 bytes of the words, in capitals or not.

    Raise PhraseError for an unknown word, with its position, or a wrong checksum.
    """
    if len(phrase) > MAX_PHRASE_CHARACTERS:
        raise PhraseError("the phrase is too long. It has at most 24 words", code="phrase_length")
    phrase_words = phrase.lower().split()
    if len(phrase_words) not in WORD_COUNTS:
        raise PhraseError(
            f"a phrase has 12, 15, 18, 21 or 24 words in one line, and this line has {len(phrase_words)}",
            code="phrase_length",
        )
    for position, phrase_word in enumerate(phrase_words, start=1):
        if phrase_word not in _ENGLISH.wordlist:
            raise PhraseError(f"word {position} of the phrase is not in the English BIP-39 list", code="phrase_word")
    try:
        return bytes(_ENGLISH.to_entropy(phrase_words))
    except ValueError:
        raise PhraseError(
            "the checksum of the phrase is wrong: a word is mistyped or in the wrong place", code="phrase_checksum"
        ) from None


def mini_secret(phrase: str, password: str = "") -> bytes:
    """Return the 32-byte secret of a phrase, a different one for each password; both schemes start from it."""
    pbkdf_salt = b"mnemonic" + password.encode(errors="surrogateescape")
    return hashlib.pbkdf2_hmac("sha512", entropy_of(phrase), pbkdf_salt, _ROUNDS)[:_SECRET_BYTES]
