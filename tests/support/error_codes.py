"""The codes of errors, which tests compare instead of texts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import Result

from wallet.errors import code_of


@contextmanager
def raises_code(error: type[BaseException], code: str) -> Iterator[None]:
    """Expect an error of this class with this code."""
    with pytest.raises(error) as caught:
        yield
    assert code_of(caught.value) == code, str(caught.value)


def ended_code(result: Result) -> str:
    """Return the code in the last line that a program wrote to standard error under `--json`."""
    return str(json.loads(result.stderr.splitlines()[-1])["code"])
