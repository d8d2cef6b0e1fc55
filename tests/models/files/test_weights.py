"""Checkpoints of training code, whole and damaged: the state dict is found, the rest is told, damage is a sentence."""

import argparse
import hashlib
import io
import random
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from models.errors import CheckpointError
from models.files.sniff import Limits
from models.files.weights import Weights, file_sha256, read_weights, write_safetensors

LAYOUTS = {"zip": {}, "old": {"_use_new_zipfile_serialization": False}}


@pytest.fixture(params=sorted(LAYOUTS))
def layout(request: pytest.FixtureRequest) -> dict:
    return LAYOUTS[request.param]


def state() -> OrderedDict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    shared = torch.randn(4, 6, generator=generator)
    return OrderedDict(
        {
            "visual.proj": torch.randn(3, 4, generator=generator),
            "visual.turned": torch.randn(3, 4, generator=generator).t(),
            "embed": shared,
            "head": shared,
            "rows": shared[1:3],
            "half": torch.randn(5, generator=generator).half(),
            "brain": torch.randn(5, generator=generator).bfloat16(),
            "ids": torch.arange(7).expand(2, 7),
            "mask": torch.tensor([True, False, True]),
            "none": torch.zeros(0, 3),
            "logit_scale": torch.tensor(4.6),
        }
    )


def wrapped(prefix: str) -> OrderedDict[str, torch.Tensor]:
    return OrderedDict((prefix + name, tensor) for name, tensor in state().items())


def check_state(weights: Weights) -> None:
    assert weights.state.keys() == state().keys()
    for name, tensor in state().items():
        assert weights.state[name].dtype == tensor.dtype, name
        assert torch.equal(weights.state[name], tensor), name


def test_a_module_as_it_is_saved_loads_bit_for_bit(tmp_path: Path, layout: dict) -> None:
    path = tmp_path / "model.pt"
    model = torch.nn.TransformerEncoderLayer(8, 2, 16)
    torch.save(model.state_dict(), path, **layout)
    weights = read_weights(path)
    assert (weights.container, weights.stripped, weights.nested_in) == ("pytorch", "", "")
    assert (weights.extra, weights.metadata, weights.left_out) == ({}, {}, ())
    fresh = torch.nn.TransformerEncoderLayer(8, 2, 16)
    fresh.load_state_dict(weights.state, strict=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], tensor)


def test_what_is_read_is_what_torch_reads(tmp_path: Path, layout: dict) -> None:
    path = tmp_path / "model.pt"
    torch.save(state(), path, **layout)
    ours, theirs = read_weights(path).state, torch.load(path, weights_only=True)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        assert (ours[name].dtype, ours[name].shape, ours[name].stride()) == (
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
        )
        assert torch.equal(ours[name], tensor)
    assert ours["embed"].data_ptr() == ours["head"].data_ptr()
    assert ours["rows"].data_ptr() == ours["embed"].data_ptr() + 6 * 4


def test_a_training_checkpoint_gives_its_weights_and_its_plain_values(tmp_path: Path, layout: dict) -> None:
    path = tmp_path / "checkpoint.pt"
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    value = {
        "epoch": 25,
        "state_dict": wrapped("module."),
        "optimizer": optimizer.state_dict(),
        "scaler": {"scale": 65536.0, "growth_interval": 2000},
        "best_acc1": np.float64(41.5),
        "best_loss": torch.tensor(0.25),
        "ema": wrapped(""),
        "args": argparse.Namespace(lr=3e-3, output_dir=Path("/out/run"), betas=(0.9, 0.98), amp=torch.bfloat16),
    }
    torch.save(value, path, **layout)
    weights = read_weights(path)
    check_state(weights)
    assert (weights.stripped, weights.nested_in) == ("module.", "state_dict")
    assert weights.left_out == ("optimizer", "ema")
    assert weights.extra == {
        "epoch": 25,
        "scaler": {"scale": 65536.0, "growth_interval": 2000},
        "best_acc1": 41.5,
        "best_loss": 0.25,
        "args": {"lr": 0.003, "output_dir": "/out/run", "betas": [0.9, 0.98], "amp": "torch.bfloat16"},
    }
    assert type(weights.extra["best_acc1"]) is float


@pytest.mark.parametrize(
    ("value", "nested_in", "stripped"),
    [
        (wrapped(""), "", ""),
        (wrapped("clip_model."), "", "clip_model."),
        ({"model": wrapped("module.clip_model.")}, "model", "module.clip_model."),
        ({"ema": wrapped(""), "model_state_dict": wrapped("_orig_mod.")}, "model_state_dict", "_orig_mod."),
        ({"whatever": wrapped("")}, "whatever", ""),
        ({"weights": wrapped(""), "epoch": 3}, "weights", ""),
    ],
)
def test_the_state_dict_is_found_by_its_content(tmp_path: Path, value: dict, nested_in: str, stripped: str) -> None:
    path = tmp_path / "model.pt"
    torch.save(value, path)
    weights = read_weights(path)
    assert (weights.nested_in, weights.stripped) == (nested_in, stripped)
    check_state(weights)


def test_plain_values_among_the_tensors_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({**state(), "epoch": 7, "notes": {"a": [1, 2]}, "stats": {"mean": torch.ones(3)}}, path)
    weights = read_weights(path)
    check_state(weights)
    assert weights.extra == {"epoch": 7, "notes": {"a": [1, 2]}}
    assert weights.left_out == ("stats",)
    torch.save({"state_dict": {**state(), "version": 2}, "version": 3, "embed": "beside"}, path)
    weights = read_weights(path)
    check_state(weights)
    assert weights.extra == {"state_dict.version": 2, "version": 3, "embed": "beside"}


def test_a_prefix_that_one_name_lacks_stays(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    for keys in (["module.a", "b"], ["a.module.b", "module.c"], ["modulelist.x"], ["visual.a", "visual.b"]):
        torch.save({key: torch.ones(1) for key in keys}, path)
        weights = read_weights(path)
        assert list(weights.state) == keys
        assert weights.stripped == ""


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (torch.ones(3), "holds a single tensor"),
        ([torch.ones(3)], "holds a list"),
        (None, "holds a NoneType"),
        ({}, "its entries: nothing"),
        ({"epoch": 3, "args": {}}, "its entries: 'epoch', 'args'"),
        ({0: torch.ones(3)}, "holds no tensors by name"),
        ({"left": {"a": torch.ones(1)}, "right": {"a": torch.ones(1)}}, "several sets of weights ('left', 'right')"),
    ],
)
def test_a_file_without_weights_by_name_says_what_it_holds(tmp_path: Path, value: object, sentence: str) -> None:
    path = tmp_path / "model.pt"
    torch.save(value, path)
    with pytest.raises(CheckpointError) as caught:
        read_weights(path)
    assert sentence in str(caught.value)


def test_a_number_that_is_repeated_by_stride_counts_as_the_memory_it_becomes(tmp_path: Path, layout: dict) -> None:
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(1).expand(2**40)}, path, **layout)
    with pytest.raises(CheckpointError, match="4,398,046,511,104 bytes"):
        read_weights(path)


def test_limits_bind_what_is_described(tmp_path: Path, layout: dict) -> None:
    path = tmp_path / "model.pt"
    torch.save({f"w{i}": torch.zeros(100) for i in range(50)}, path, **layout)
    assert len(read_weights(path, Limits(tensors=50)).state) == 50
    for limits, sentence in ((Limits(tensors=49), "50 tensors"), (Limits(total_bytes=5000), "more than the 5,000")):
        with pytest.raises(CheckpointError, match=sentence):
            read_weights(path, limits)


@pytest.mark.filterwarnings("ignore")
def test_weights_without_plain_values_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    for tensor in (
        torch.eye(3).to_sparse(),
        torch.empty(2, device="meta"),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    ):
        torch.save({"a": torch.ones(2), "odd": tensor}, path)
        with pytest.raises(CheckpointError, match="'odd' without plain values"):
            read_weights(path)
        torch.save({"state_dict": {"a": torch.ones(2)}, "odd": tensor}, path)
        assert read_weights(path).left_out == ("odd",)


def test_conjugated_and_trained_tensors_come_as_plain_ones(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    value = torch.tensor([1 + 2j])
    torch.save({"c": value.conj(), "p": torch.nn.Parameter(torch.ones(2))}, path)
    state = read_weights(path).state
    assert not state["c"].is_conj()
    assert state["c"].item() == 1 - 2j
    assert type(state["p"]) is torch.Tensor
    assert not state["p"].requires_grad


class Hiding:
    """An ordered dictionary whose methods are hidden by attributes once it is loaded."""

    def __init__(self, **items: object) -> None:
        self.items = items

    def __reduce__(self) -> tuple:
        return OrderedDict, (), dict.fromkeys(("items", "keys", "values"), torch.Size), None, iter(self.items.items())


def test_what_hides_the_methods_of_a_dictionary_or_a_tensor_does_not_reach_us(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    odd = torch.ones(3)
    odd.detach = odd.numel = torch.Size  # type: ignore[method-assign, assignment]
    torch.save(Hiding(state_dict=Hiding(w=torch.ones(2), odd=odd), epoch=1, notes=Hiding(a=2)), path)
    assert torch.load(path, weights_only=True).items is torch.Size
    weights = read_weights(path)
    assert torch.equal(weights.state["w"], torch.ones(2))
    assert weights.state["odd"].numel() == 3
    assert weights.extra == {"epoch": 1, "notes": {"a": 2}}


def damage(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def saved(kind: str) -> bytes:
    buffer = io.BytesIO()
    torch.save(
        {"state_dict": state(), "args": argparse.Namespace(lr=1), "best": np.float64(2), "epoch": 3},
        buffer,
        _use_new_zipfile_serialization=kind == "zip",
    )
    return buffer.getvalue()


def written(path: Path) -> bytes:
    write_safetensors(state(), path, {"format": "pt"})
    return path.read_bytes()


@pytest.mark.parametrize("kind", ["zip", "old", "safetensors"])
def test_a_file_that_is_cut_off_anywhere_gets_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cut"
    data = written(path) if kind == "safetensors" else saved(kind)
    cuts = {*range(0, 64, 3), *range(0, len(data), 61), *range(len(data) - 120, len(data), 2)}
    for cut in sorted(cuts):
        path.write_bytes(data[:cut])
        with pytest.raises(CheckpointError, match=r"cut .*\.$"):
            read_weights(path)
    path.write_bytes(data)
    check_state(read_weights(path))


def test_a_damaged_zip_gives_the_very_same_tensors_or_a_sentence(tmp_path: Path) -> None:
    path, data, chance = tmp_path / "damaged", saved("zip"), random.Random(7)
    refused = 0
    for _ in range(120):
        path.write_bytes(damage(data, chance))
        try:
            weights = read_weights(path)
        except CheckpointError:
            refused += 1
        else:
            check_state(weights)
    assert 20 < refused < 120


@pytest.mark.parametrize("kind", ["old", "safetensors"])
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_without_checksums_gives_tensors_or_a_sentence(tmp_path: Path, kind: str) -> None:
    path, chance = tmp_path / "damaged", random.Random(8)
    data = written(path) if kind == "safetensors" else saved(kind)
    refused = 0
    for _ in range(120):
        path.write_bytes(damage(data, chance))
        try:
            weights = read_weights(path)
        except CheckpointError:
            refused += 1
        else:
            assert all(isinstance(tensor.sum().item(), (int, float, complex)) for tensor in weights.state.values())
    assert 20 < refused < 120


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    data = written(path)
    assert file_sha256(path) == hashlib.sha256(data).hexdigest()
    with pytest.raises(CheckpointError, match="cannot be read"):
        file_sha256(tmp_path)
