"""Messages of a chat as a prompt, for workloads that continue a text and know no roles.

The template, as `docs/batches_customer.md` shows it: each message as `role: content` and a line break, then
`assistant:`. It is plain text: a content that looks like a message of another role is read as one.
"""

from typing import Any

from gpu_tasks.client.batches.json_lines import shown, text_of
from gpu_tasks.client.batches.lines import LineRefusal

MESSAGES_MAX = 1_024
ROLES = ("system", "developer", "user", "assistant")
_FIELDS = ("role", "content")
_PARAM = "body.messages"


def prompt_of(messages: Any) -> str:
    """The prompt that asks for the next message; LineRefusal."""
    if not isinstance(messages, list):
        raise LineRefusal("invalid_type", f"{_PARAM} must be a list, not {shown(messages)}", _PARAM)
    if not 1 <= len(messages) <= MESSAGES_MAX:
        raise LineRefusal("invalid_value", f"{_PARAM} holds {len(messages)} messages: give 1 to {MESSAGES_MAX}", _PARAM)
    lines = [_line_of(message, f"{_PARAM}[{place}]") for place, message in enumerate(messages)]
    return "\n".join([*lines, "assistant:"])


def _line_of(message: Any, param: str) -> str:
    if not isinstance(message, dict):
        raise LineRefusal("invalid_type", f"{param} must be an object with role and content", param)
    for name in message:
        if name not in _FIELDS:
            raise LineRefusal(
                "unsupported_parameter",
                f"{shown(name)} of a message is not supported, and nothing is ignored: leave it out",
                f"{param}.{name}" if name.isidentifier() and name.isascii() else param,
            )
    for name in _FIELDS:
        if name not in message:
            raise LineRefusal("missing_required_parameter", f"{param} has no {name}", f"{param}.{name}")
    role, content = message["role"], message["content"]
    if role not in ROLES:
        raise LineRefusal(
            "invalid_value", f"{param}.role is one of {', '.join(ROLES)}, not {shown(role)}", f"{param}.role"
        )
    if isinstance(content, list):
        raise LineRefusal(
            "invalid_type",
            f"{param}.content must be a string: parts, images and sound are not supported",
            f"{param}.content",
        )
    return f"{role}: {text_of(content, f'{param}.content')}"
