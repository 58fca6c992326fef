"""`decoder-int8` with one model, as programs see it: text or chat in, text out, counted in the model's tokens.

Invariant: a request that `encode` returns fits the model's context and vocabulary.
"""

import json
import weakref  # deterministic: ends a process with its form
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path  # deterministic: a file whose bytes the model's id covers
from typing import TYPE_CHECKING, Any

from gpu_tasks.models.model_file import (
    CHAT_TEMPLATE,
    CONFIG,
    GENERATION,
    TENSORS,
    TOKENIZER,
    ModelHeader,
    decoded_section,
    read_section,
)
from gpu_tasks.models.text import StreamDecoder, TextError, TextTokenizer, tokenizer_of
from gpu_tasks.workloads.decoder_int8.config import DecoderShape, cache_bytes, decode_shape
from gpu_tasks.workloads.decoder_int8.effort import effort, request_bytes, room_bytes_max
from gpu_tasks.workloads.decoder_int8.request import (
    LOGPROB_UNIT,
    OUTPUT,
    REQUEST,
    STOPS_MAX,
    TEMPERATURE_MAX,
    TOP_P_ONE,
    WORKLOAD_ID,
    WORKLOAD_NAME,
    GenerationRequest,
    continued,
    cut,
    decode_request,
    output_bytes_max,
)
from gpu_tasks.workloads.form import (
    ChatMessage,
    Effort,
    Option,
    RequestError,
    TextPieces,
    WorkloadForm,
    chat_text,
    settings,
    thousandths,
    yes_or_no,
)
from gpu_tasks.workloads.workload import Workload, none_for_none
from runtime.cryptography.hashing import blake2_256
from runtime.encoding.codec import DecodeError

if TYPE_CHECKING:
    from gpu_tasks.models.chat_template import ChatTemplate

TEMPERATURE = Option("temperature", "0.7", f"0 always takes the most likely token; at most {TEMPERATURE_MAX // 1000}")
TOP_P = Option("top-p", "1", "draw from the most likely tokens that together have this probability")
CHAT = Option("chat", "yes", "`no` continues the text as it is, without the model's chat template")
LOGPROBS = Option("logprobs", "no", "`yes` returns each token's log-probability")
FLOAT32_BYTES = 4
_PLACEHOLDER = "ogpu-question"
"""A question that no template holds."""
# OpenAI's newer models call the role of system messages developer. Templates refuse or ignore roles that they lack.
_TEMPLATE_ROLES = {"developer": "system"}


class DecoderForm(WorkloadForm):
    """`decoder-int8` with the model of a file. See `WorkloadForm` for the methods."""

    workload_id = WORKLOAD_ID
    cost_unit = "token"
    is_streamed = True
    backends = ("numpy", "reference", "torch")
    options = (TEMPERATURE, TOP_P, CHAT, LOGPROBS)
    # One prefill checks all tokens. It took 0.13 of the decoding with 135 million weights on a CPU, and the rest is a
    # margin for short answers to long prompts.
    check_ppm = 200_000

    def __init__(self, header: ModelHeader, path: Path) -> None:
        """Take the model file at `path`, whose header is read already."""
        self.name = f"{WORKLOAD_NAME}:{header.name}"
        self.model_id = header.model_id
        self._tensor_bytes = sum(section.length for section in header.sections if section.name == TENSORS)
        self._path = path

    @cached_property
    def shape(self) -> DecoderShape:
        """The model's sizes. Raise ModelFileError for a malformed file."""
        return decoded_section(self._path, CONFIG, decode_shape)

    @cached_property
    def _tokenizer(self) -> TextTokenizer:
        return tokenizer_of(read_section(self._path, TOKENIZER), self.shape.vocabulary)

    def encode(self, text: str, cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        """Encode the request to answer a text, or to continue it, by at most `cost_max` tokens."""
        is_chat = yes_or_no(CHAT, settings(self.options, options)[CHAT.name])
        prompt = self._prompt(text, [ChatMessage("user", text)] if is_chat else [])
        return self._request(prompt, cost_max, options, seed)

    def encode_chat(
        self, messages: Sequence[ChatMessage], cost_max: int, options: Mapping[str, str], seed: bytes
    ) -> bytes:
        """Encode the request for the next message of a chat, by the model's chat template if it has one."""
        is_chat = yes_or_no(CHAT, settings(self.options, options)[CHAT.name])
        prompt = self._prompt(chat_text(messages), messages if is_chat else [])
        return self._request(prompt, cost_max, options, seed)

    def _request(self, prompt: tuple[int, ...], cost_max: int, options: Mapping[str, str], seed: bytes) -> bytes:
        given = settings(self.options, options)
        temperature = thousandths("a temperature", given[TEMPERATURE.name], TEMPERATURE_MAX)
        top_p = thousandths("top-p", given[TOP_P.name], TOP_P_ONE)
        if not top_p:
            raise RequestError("top-p is above 0: no token has the probability 0")
        if cost_max < 1:
            raise RequestError("the answer has no tokens; ask for at least 1")
        if len(prompt) + cost_max > self.shape.context:
            raise RequestError(
                f"the prompt has {len(prompt)} tokens, which with {cost_max} of the answer exceed the context of "
                f"{self.shape.context}; shorten it or ask for fewer tokens"
            )
        stops = tuple((token,) for token in self.shape.end_tokens[:STOPS_MAX])
        has_logprobs = yes_or_no(LOGPROBS, given[LOGPROBS.name])
        return REQUEST.encode(GenerationRequest(prompt, cost_max, temperature, top_p, seed, stops, has_logprobs))

    @cached_property
    def _chat_template(self) -> "ChatTemplate | None":
        from gpu_tasks.models.chat_template import ChatTemplate  # noqa: PLC0415 # few models have one

        template = decoded_section(self._path, CHAT_TEMPLATE, bytes.decode)
        generation = decoded_section(self._path, GENERATION, _json_object)
        variables = {
            f"{role}_token": self._tokenizer.token(generation[f"{role}_token_id"])
            for role in ("bos", "pad")
            if isinstance(generation.get(f"{role}_token_id"), int)
        }
        if not template:
            return None
        chat_template = ChatTemplate(template, variables)
        # Its process is kept for a file of many prompts, and ends with the form.
        weakref.finalize(self, chat_template.close)
        return chat_template

    @cached_property
    def _question_frame(self) -> tuple[str, str]:
        """The text of the chat template before and after a question, as `decode` shows it."""
        if self._chat_template is None:
            return "", ""
        try:
            chat = self._chat_template.render([{"role": "user", "content": _PLACEHOLDER}])
            before, _, after = chat.partition(_PLACEHOLDER)
            shown = [
                self._tokenizer.decode(self._tokenizer.encode(part, add_special=False)) for part in (before, after)
            ]
        except TextError:
            return "", ""
        return shown[0], shown[1]

    def _prompt(self, text: str, messages: Sequence[ChatMessage]) -> tuple[int, ...]:
        """Return the tokens of a chat in the model's template, or those of `text` without messages or a template."""
        try:
            template = self._chat_template if messages else None
            if template is not None:
                text = template.render(
                    [
                        {"role": _TEMPLATE_ROLES.get(message.role, message.role), "content": message.content}
                        for message in messages
                    ]
                )
            prompt = self._tokenizer.encode(text, add_special=template is None)
        except TextError as error:
            raise RequestError(str(error)) from None
        if not prompt:
            raise RequestError("the prompt is empty; give a text")
        # Every provider would decline the request, and the customer would have paid for the posting.
        if max(prompt) >= self.shape.vocabulary:
            raise RequestError(
                f"the prompt has the token id {max(prompt)}, and the model has {self.shape.vocabulary} tokens; its "
                "tokenizer is another model's"
            )
        return prompt

    def show_request(self, encoded_request: bytes) -> str:
        """Return the prompt, without the chat template's text around a question."""
        text = self._text(REQUEST.decode(encoded_request).prompt)
        before, after = self._question_frame
        is_framed = len(text) >= len(before + after) and text.startswith(before) and text.endswith(after)
        return text[len(before) : len(text) - len(after)] if is_framed else text

    def show_output(self, encoded_output: bytes) -> str:
        """Return the answer. With log-probabilities, return JSON of the text, the tokens and their logarithms."""
        try:
            output = OUTPUT.decode(encoded_output)
        except DecodeError:
            return "0x" + encoded_output.hex()
        text = self._text(self._shown(output.tokens))
        if not output.negative_logprobs:
            return text
        logprobs = [round(-value / LOGPROB_UNIT, 4) for value in output.negative_logprobs]  # deterministic: for people
        return json.dumps({"text": text, "tokens": list(output.tokens), "logprobs": logprobs})

    def _text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, or their ids where the model's tokenizer cannot be used."""
        try:
            return self._tokenizer.decode(tokens)
        except (ImportError, ValueError):  # TextError is a ValueError, and its module loads the library
            return " ".join(map(str, tokens))

    def _shown(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the tokens without the one that ended the text. An id that the model does not have shows nothing."""
        end = len(tokens) - 1 if tokens and tokens[-1] in self.shape.end_tokens else len(tokens)
        return [token for token in tokens[:end] if token < self.shape.vocabulary]

    def prefix(self, request: bytes, tokens: Sequence[int]) -> tuple[bytes, bytes]:
        """Return the request whose whole answer is these tokens, and that answer."""
        cut_request, output = cut(self._read(request), tokens)
        return REQUEST.encode(cut_request), OUTPUT.encode(output)

    def continued(self, request: bytes, tokens: Sequence[int]) -> bytes:
        """Return the request whose prompt ends with these tokens of the answer."""
        return REQUEST.encode(continued(self._read(request), tokens))

    def standard_request(self, seed: bytes, tokens_in: int, tokens_out: int) -> bytes:
        """Return a request with tokens of the whole vocabulary, at temperature 1 and without stop sequences."""
        if tokens_in + tokens_out > self.shape.context:
            raise RequestError(f"{tokens_in + tokens_out} tokens exceed the context of {self.shape.context}")
        places = (place.to_bytes(4, "little") for place in range(tokens_in))
        drawn = (int.from_bytes(blake2_256(b"ogpu/standard-request" + seed + place), "little") for place in places)
        prompt = tuple(number % self.shape.vocabulary for number in drawn)
        return REQUEST.encode(GenerationRequest(prompt, tokens_out, 1_000, TOP_P_ONE, seed, (), has_logprobs=False))

    def pieces(self) -> TextPieces:
        """Return a decoder of tokens, which become their ids where the model's tokenizer cannot be used."""
        try:
            decoder: TextPieces = StreamDecoder(self._tokenizer)
        except (ImportError, ValueError):  # as `_text`
            decoder = _TokenIds()
        return _ShownPieces(decoder, self.shape)

    def cost_in(self, encoded_request: bytes) -> int:
        """Return the number of the prompt's tokens."""
        return len(REQUEST.decode(encoded_request).prompt)

    def cost_asked(self, encoded_request: bytes) -> int:
        """Return the greatest number of tokens of the answer."""
        return REQUEST.decode(encoded_request).max_tokens

    def output_bytes(self, encoded_request: bytes) -> int:
        """Return the greatest length of the answer: tokens, and log-probabilities if asked for."""
        return output_bytes_max(REQUEST.decode(encoded_request))

    def memory_bytes(self) -> int:
        """Return the memory of a worker for the model: each weight as a float32 beside the mapped file."""
        return self._tensor_bytes * (1 + FLOAT32_BYTES)

    def room_bytes(self) -> int:
        """Return the memory for keys and values of all texts side by side, and for one pass."""
        return room_bytes_max(self.shape)

    def request_bytes(self, encoded_request: bytes) -> int:
        """Return the memory for keys and values of one text, and for one pass."""
        return request_bytes(self.shape, self._read(encoded_request))

    def effort(self, requests: Sequence[bytes], room_bytes: int) -> Effort:
        """Return the work of these texts side by side, in multiplications."""
        read = (none_for_none(self._read, request) for request in requests)
        return effort(self.shape, [request for request in read if request is not None], room_bytes)

    def probe(self, reading: int, steps: int) -> bytes | None:
        """Return a request with a prompt of `reading` tokens and an answer of `steps` tokens."""
        if reading + steps > self.shape.context:
            return None
        return REQUEST.encode(GenerationRequest((0,) * reading, steps, 0, TOP_P_ONE, bytes(32), (), has_logprobs=False))

    def _read(self, encoded_request: bytes) -> GenerationRequest:
        return decode_request(encoded_request, self.shape.context, self.shape.vocabulary)

    def model_facts(self) -> Mapping[str, int | str]:
        """Return the sizes of the model."""
        shape = self.shape
        return {
            "layers": shape.layers,
            "width": shape.width,
            "heads": f"{shape.heads} queries, {shape.key_heads} keys of {shape.head_width}",
            "vocabulary": shape.vocabulary,
            "context_tokens": shape.context,
            "kv_bytes_per_token": cache_bytes(shape),
        }

    def cost(self, encoded_output: bytes) -> int:
        """Return the number of the answer's tokens, or 0 for bytes that are no answer."""
        try:
            return len(OUTPUT.decode(encoded_output).tokens)
        except DecodeError:
            return 0

    def open(self, backend_name: str) -> Workload:
        """Open the model on `numpy`, `reference` or `torch-<device>`."""
        from gpu_tasks.workloads.decoder_int8.service import open_model  # noqa: PLC0415  # NumPy, for executors only

        return open_model(backend_name, self._path)


class _TokenIds(TextPieces):
    """The ids of tokens, as text."""

    _gap = ""

    def push(self, token: int) -> str:
        gap, self._gap = self._gap, " "
        return f"{gap}{token}"

    def finish(self) -> str:
        return ""


class _ShownPieces(TextPieces):
    """The text of an answer as `DecoderForm.show_output` returns it, from its tokens one by one."""

    def __init__(self, decoder: TextPieces, shape: DecoderShape) -> None:
        self._decoder, self._shape = decoder, shape
        self._held: int | None = None
        """An end token, which the text shows only if another token follows."""

    def push(self, token: int) -> str:
        """Return the text of a token, without an end token at the end."""
        held, self._held = self._held, token if token in self._shape.end_tokens else None
        certain = [each for each in (held, token if self._held is None else None) if each is not None]
        return "".join(self._decoder.push(each) for each in certain if each < self._shape.vocabulary)

    def finish(self) -> str:
        """Return the rest of the text."""
        return self._decoder.finish()


def _json_object(content: bytes) -> dict[str, Any]:
    found = json.loads(content or b"{}")
    if not isinstance(found, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 # malformed content, not a wrong call
    return found
