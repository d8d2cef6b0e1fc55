"""Tiny real models that every test may share; they are read only."""

import pytest
import torch
from tiny import CAPTIONS, tiny_model

from models.loaded import LoadedModel
from models.tokenizer import DomainTokenizer, train_tokenizer


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
