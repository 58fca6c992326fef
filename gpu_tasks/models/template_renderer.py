"""The process that renders chat templates, for `chat_template`: Jinja in a sandbox, under limits of the kernel.

It runs as a program of its own and imports nothing of this project. It reads a request per line and writes an answer
per line. A template that takes too much processor time ends the process.
"""

from __future__ import annotations

import json
import resource
import sys
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

CPU_SECONDS = 2
MEMORY_BYTES = 512 * 2**20
OUTPUT_MAX = 2**20
"""Characters of a rendered chat."""


class OutputTooLongError(Exception):
    """A template that writes more than OUTPUT_MAX characters."""


def main() -> None:
    """Answer requests until standard input ends."""
    # `{{ 'a' * 10 ** 12 }}` would take all memory of the machine: the sandbox counts no bytes.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # SIGXCPU ends a loop, and the kernel would then write a core file with the chat in it.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        # RLIMIT_CPU counts from the start of the process, so each request moves the limit on.
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any]) -> dict[str, str]:
    """Return the rendered `text`, or an `error` with its `code`."""
    try:
        return {"text": rendered(compiled(request["template"]), request["variables"])}
    except OutputTooLongError:
        return {"code": "chat_template_limit", "error": f"it writes more than {OUTPUT_MAX} characters"}
    except (MemoryError, RecursionError):
        return {"code": "chat_template_limit", "error": "it takes too much memory"}
    except TemplateError as error:
        return {"code": "chat_template", "error": str(error.message)[:500]}
    except Exception as error:  # noqa: BLE001 - a template may raise any error of the values that it handles
        return {"code": "chat_template", "error": f"{type(error).__name__}: {error}"[:500]}


@lru_cache(maxsize=1)
def compiled(template: str) -> Template:
    """Return a template that is ready to render."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    # The same chat gives the same tokens: nothing here draws by chance or reads the clock.
    del environment.filters["random"], environment.globals["lipsum"]
    return environment.from_string(template)


def rendered(template: Template, variables: dict[str, object]) -> str:
    """Return the text of a template."""
    pieces, length = [], 0
    # `Template.render` would join the whole output before anything could count it.
    for piece in template.generate(variables):
        length += len(piece)
        if length > OUTPUT_MAX:
            raise OutputTooLongError
        pieces.append(piece)
    return "".join(pieces)


def raise_exception(text: object) -> NoReturn:
    """Refuse the messages, as templates do by this name."""
    raise TemplateError(str(text))


def to_json(value: object, indent: int | None = None) -> str:
    """Return JSON as the templates of models expect it: readable, and not escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


if __name__ == "__main__":
    main()
