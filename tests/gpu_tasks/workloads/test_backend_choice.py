"""Backends by name: an unknown name lists the known ones, and PyTorch's problems are reported."""

import sys
from collections.abc import Callable, Iterator
from unittest.mock import MagicMock

import pytest

from gpu_tasks.workloads.integer_transformer.backends import arithmetic as of_texts
from gpu_tasks.workloads.matmul_chain.prover import chain_arithmetic
from gpu_tasks.workloads.render_tile.backends import backend_named
from gpu_tasks.workloads.train_int8.backends import arithmetic as of_training

every_workload = pytest.mark.parametrize("choose", [of_texts, of_training, backend_named, chain_arithmetic])


@pytest.fixture(autouse=True)
def torch_loads_anew() -> Iterator[None]:
    """Reset PyTorch's modules before and after the test, as in a process that has not used it."""

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("gpu_tasks.workloads") and "torch" in name]:
            del sys.modules[name]

    forget()
    yield
    forget()


@every_workload
@pytest.mark.parametrize("name", ["abacus", ""])
def test_backends_that_there_are_not_are_named(choose: Callable[[str], object], name: str) -> None:
    with pytest.raises(LookupError, match=f"'{name}'; .*numpy, reference, torch-<device>"):
        choose(name)


@every_workload
def test_without_pytorch_its_backends_say_so(monkeypatch: pytest.MonkeyPatch, choose: Callable[[str], object]) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="torch-cuda:0 needs PyTorch"):
        choose("torch-cuda:0")


@every_workload
@pytest.mark.parametrize("error", [AssertionError, NotImplementedError, RuntimeError])
def test_a_device_that_pytorch_refuses_is_no_backend(
    monkeypatch: pytest.MonkeyPatch, choose: Callable[[str], object], error: type[Exception]
) -> None:
    """An invalid name, a build without CUDA, no driver, no such GPU: PyTorch has an error for each."""

    def refuse(*_: object, **__: object) -> None:
        raise error("invalid device ordinal\nand a page of advice")

    monkeypatch.setitem(sys.modules, "torch", MagicMock(__version__="0.fake", zeros=refuse))
    with pytest.raises(LookupError, match=r"cannot use the device 'cuda:7': invalid device ordinal$"):
        choose("torch-cuda:7")


def test_a_device_whose_number_wraps_round_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch keeps the number in eight bits: it takes cuda:4095 for the first GPU."""
    monkeypatch.setitem(sys.modules, "torch", MagicMock(__version__="0.fake", device=lambda _: "cuda"))
    with pytest.raises(LookupError, match=r"cuda instead$"):
        of_texts("torch-cuda:4095")
