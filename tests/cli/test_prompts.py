"""Questions at a terminal: an answer counts. Without a terminal, the error says how to continue."""

import pytest
from click import Abort
from click.testing import CliRunner

from cli import prompts
from error_codes import raises_code
from wallet.errors import WalletError


@pytest.mark.parametrize(
    ("answer", "is_terminal", "ends"),
    [("y\n", False, None), ("n\n", False, Abort), ("", False, WalletError), ("", True, Abort)],
)
def test_agreement_is_what_somebody_said(
    monkeypatch: pytest.MonkeyPatch, answer: str, is_terminal: bool, ends: type[Exception] | None
) -> None:
    monkeypatch.setattr(prompts, "has_terminal", lambda: is_terminal)
    with CliRunner().isolation(input=answer):
        if ends is None:
            prompts.require_agreement("Send it?", "add --yes")
        else:
            with pytest.raises(ends):
                prompts.require_agreement("Send it?", "add --yes")


def test_without_a_terminal_secrets_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "has_terminal", lambda: False)
    with CliRunner().isolation(input="a phrase\n\n"):
        assert prompts.typed_secret("Phrase", "pipe it") == "a phrase"
        assert prompts.typed_secret("Password", "give a file", confirm=True) == ""
        with raises_code(WalletError, "no_terminal"):
            prompts.typed_secret("Password", "give a file")


def test_the_last_secret_is_all_that_is_left_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "has_terminal", lambda: False)
    with CliRunner().isolation(input="a\nphrase\n\n"):
        assert prompts.typed_secret("Phrase", "pipe it", is_last=True) == "a\nphrase"


def test_a_secret_of_standard_input_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "has_terminal", lambda: False)
    with CliRunner().isolation(input="a" * (prompts.SECRET_CHARACTERS_MAX - 1) + "\n"):
        assert len(prompts.typed_secret("Phrase", "pipe it")) == prompts.SECRET_CHARACTERS_MAX - 1
    with (
        CliRunner().isolation(input="a" * (prompts.SECRET_CHARACTERS_MAX + 1)),
        raises_code(WalletError, "secret_too_long"),
    ):
        prompts.typed_secret("Phrase", "pipe it")
