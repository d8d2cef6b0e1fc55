"""Values beside weights become plain ones, and what is endless, deep or no setting is left out."""

import argparse
import json
from collections import Counter, OrderedDict

import numpy as np
import pytest
import torch

from models.files.values import is_dense, label, plain


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, (2.5, None), True]}, {"a": [1, [2.5, None], True]}),
        (np.float64(0.5), 0.5),
        (np.float16(1.5), 1.5),
        (np.int64(-7), -7),
        (np.bool_(True), True),
        (b"\xff", "ÿ"),
        ({3}, [3]),
        (OrderedDict(a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        ({0: {1.5: "x"}}, {"0": {"1.5": "x"}}),
        (torch.Size([2, 3]), [2, 3]),
        (torch.device("cuda", 1), "cuda:1"),
        (torch.bfloat16, "torch.bfloat16"),
        (torch.tensor([[0.25]]), 0.25),
        (argparse.Namespace(lr=0.1, deep=argparse.Namespace(x=[1])), {"lr": 0.1, "deep": {"x": [1]}}),
    ],
)
def test_settings_become_plain_and_can_be_written_as_json(value: object, expected: object) -> None:
    again = plain(value)
    assert again == expected
    assert type(again) is type(expected)
    assert json.loads(json.dumps(again)) == expected


def test_a_numpy_float_is_no_longer_one() -> None:
    (value,) = plain([np.float64(2)])  # type: ignore[misc]
    assert type(value) is float


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(2),
        {"mean": torch.ones(1)},
        object(),
        2**65,
        list(range(100_001)),
        torch.eye(1).to_sparse(),
        torch.empty(1, device="meta"),
    ],
)
def test_what_is_no_setting_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"plain|too large"):
        plain(value)


def test_values_that_would_unfold_without_end_are_refused() -> None:
    laughs: list = ["ha"]
    for _ in range(30):
        laughs = [laughs, laughs]
    ring: dict = {}
    ring["ring"] = ring
    for value in (laughs, ring):
        with pytest.raises(ValueError, match="too large or too deep"):
            plain(value)


def test_labels_are_bounded_text() -> None:
    deep: tuple = ()
    for _ in range(5000):
        deep = (deep,)
    assert [label(key) for key in ("a", 3, 0.5, deep)] == ["a", "3", "0.5", "(tuple)"]


@pytest.mark.filterwarnings("ignore")
def test_only_tensors_with_their_values_in_memory_are_dense() -> None:
    assert is_dense(torch.ones(2, 2).t())
    assert not is_dense(torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]))
