"""Checks of a tokenizer and of a chat template before a model is imported with them."""

from __future__ import annotations

from gpu_tasks.models.chat_template import CHAT_TEMPLATE_MAX
from gpu_tasks.models.sources.source_model import SourceError
from gpu_tasks.models.text import TextError, Tokenizer


def check_tokenizer(tokenizer: bytes, rows: int) -> None:
    """Raise SourceError unless the tokenizer loads and each of its ids has a row of the embedding table."""
    try:
        greatest = Tokenizer(tokenizer).greatest_id
    except TextError as error:
        raise SourceError("tokenizer", str(error)) from None
    # A prompt with such a token would fail on every provider.
    if greatest >= rows:
        raise SourceError(
            "vocabulary", f"the tokenizer has the token {greatest}, but the embedding table ends at {rows - 1}"
        )


def check_chat_template(template: str) -> str:
    """Return the template. Raise SourceError if it is too long."""
    if len(template) > CHAT_TEMPLATE_MAX:
        raise SourceError(
            "chat_template",
            f"the chat template has {len(template)} characters; at most {CHAT_TEMPLATE_MAX} are allowed",
        )
    return template
