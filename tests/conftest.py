"""Tiny real models that every test may share; they are read only. Every test computes with one thread."""

import os

import pytest
import torch
from tiny import CAPTIONS, tiny_model

from models.loaded import LoadedModel
from models.tokenizer import DomainTokenizer, train_tokenizer


def pytest_configure() -> None:
    """One thread, here and in the programs that tests start.

    The models are so small that a second one only waits for the first; on a machine with other work it waits for long,
    and the order of sums would depend on the machine.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> DomainTokenizer:
    return train_tokenizer(CAPTIONS, vocab_size=290, context=16)


@pytest.fixture(scope="session")
def clip(tokenizer: DomainTokenizer) -> LoadedModel:
    return tiny_model("standard", tokenizer)


@pytest.fixture(scope="session")
def diffclip(tokenizer: DomainTokenizer) -> LoadedModel:
    return tiny_model("differential", tokenizer)


@pytest.fixture(params=["clip", "diffclip"])
def model(request: pytest.FixtureRequest) -> LoadedModel:
    return request.getfixturevalue(request.param)


@pytest.fixture
def pixels() -> torch.Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))
