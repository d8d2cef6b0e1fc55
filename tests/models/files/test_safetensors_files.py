"""Safetensors: what we write others read, what others write we read, and a header that lies is told before reading."""

import json
import os
import struct
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.errors import CheckpointError
from models.files.safetensors_files import DTYPES
from models.files.sniff import Limits
from models.files.weights import read_weights, write_safetensors


def values(kind: torch.dtype) -> torch.Tensor:
    raw = torch.randint(0, 2 if kind == torch.bool else 100, (24,), generator=torch.Generator().manual_seed(1))
    return raw.to(kind).reshape(2, 3, 4)


STATE = {
    **{name: values(kind) for name, kind in DTYPES.items()},
    "scalar": torch.tensor(4.6),
    "none": torch.zeros(0, 3),
    "nan": torch.tensor([float("nan"), -0.0, float("inf")]),
    "ümläut": torch.ones(1),
}


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second)]
    return torch.equal(*bits)


def test_the_library_reads_what_we_write_and_we_read_what_it_writes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_safetensors(STATE, ours, {"format": "pt", "title": "a ∂"})
    save_file(STATE, theirs, {"format": "pt"})
    by_library, by_us, by_both = load_file(ours), read_weights(theirs), read_weights(ours)
    for name, tensor in STATE.items():
        assert same_bits(tensor, by_library[name]), name
        assert same_bits(tensor, by_us.state[name]), name
        assert same_bits(tensor, by_both.state[name]), name
    assert by_library.keys() == by_us.state.keys() == by_both.state.keys() == STATE.keys()
    assert by_us.metadata == {"format": "pt"}
    assert by_both.metadata == {"format": "pt", "title": "a ∂"}


def test_the_same_tensors_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_safetensors(STATE, first, {"a": "1", "b": "2", "c": "3"})
    write_safetensors(dict(reversed(STATE.items())), second, {"c": "3", "b": "2", "a": "1"})
    assert first.read_bytes() == second.read_bytes()


def test_tied_tensors_are_written_once_and_are_one_again(tmp_path: Path) -> None:
    path = tmp_path / "tied"
    embedding = torch.randn(50, 8)
    buffer = torch.randn(12, 8)
    query, key, value = buffer.chunk(3)
    state = {
        "embed": embedding,
        "head": embedding,
        "alias": embedding.detach(),
        "turned": embedding.t(),
        "expanded": torch.ones(1, 4).expand(3, 4),
        "q": query,
        "k": key,
        "v": value,
        "qkv": buffer,
        "whole": buffer.view(-1),
    }
    write_safetensors(state, path, {"note": "kept"})
    weights = read_weights(path)
    assert weights.state.keys() == state.keys()
    for name, tensor in state.items():
        assert same_bits(tensor, weights.state[name]), name
        assert weights.state[name].is_contiguous()
    assert weights.metadata == {"note": "kept"}
    assert weights.state["embed"] is weights.state["head"]
    assert weights.state["embed"] is weights.state["alias"]
    assert len(load_file(path)) == len(state) - 2
    written = sum(t.numel() for n, t in state.items() if n not in ("head", "alias")) * 4
    assert path.stat().st_size < written + 2000


def test_a_read_file_is_written_again_bit_for_bit(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    shared = torch.randn(3)
    write_safetensors({**STATE, "a": shared, "b": shared}, first, {"x": "y"})
    weights = read_weights(first)
    write_safetensors(weights.state, second, weights.metadata)
    assert first.read_bytes() == second.read_bytes()


def test_an_interrupted_write_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    write_safetensors({"w": torch.ones(3)}, path)
    before = path.read_bytes()
    for wrong in (
        {"w": torch.ones(3, device="meta")},
        {"w": torch.ones(3).to_sparse()},
        {"__metadata__": torch.ones(1)},
    ):
        with pytest.raises(CheckpointError):
            write_safetensors({"a": torch.ones(2), **wrong}, path)
    with pytest.raises(CheckpointError, match="must be text"):
        write_safetensors({"w": torch.zeros(3)}, path, {"epoch": 3})  # type: ignore[dict-item]
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_safetensors({"w": torch.ones(1)}, tmp_path / "no folder" / "weights")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["weights"]


def file_of(header: object, data: bytes, path: Path) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(kind: object = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


PETA = 10**15
LIES = {
    "a petabyte": ({"w": entry(shape=[PETA // 4], offsets=[0, PETA])}, "not fully covered"),
    "shape and bytes differ": ({"w": entry(shape=[3])}, "invalid shape"),
    "a huge shape": ({"w": entry(shape=[2**62, 2**62])}, "overflow"),
    "many dimensions": ({"w": entry(shape=[1] * 65)}, "invalid shape"),
    "negative": ({"w": entry(shape=[-2])}, "invalid value"),
    "fractions": ({"w": entry(shape=[2.0])}, "invalid type"),
    "truth as size": ({"w": entry(shape=[True, 2])}, "invalid type"),
    "backwards": ({"w": entry(offsets=[8, 0])}, "invalid offset"),
    "three offsets": ({"w": entry(offsets=[0, 8, 9])}, "invalid length"),
    "unknown type": ({"w": entry(kind="F4")}, "invalid shape"),
    "type no text": ({"w": entry(kind=["F32"])}, "invalid type"),
    "a gap": ({"a": entry(shape=[1], offsets=[4, 8])}, "invalid offset"),
    "an overlap": ({"a": entry(), "b": entry(shape=[1], offsets=[4, 8])}, "invalid offset"),
    "left over": ({"w": entry(shape=[1], offsets=[0, 4])}, "not fully covered"),
    "a type that PyTorch packs": ({"w": entry(kind="F4", shape=[16])}, "not a sound safetensors file"),
    "too short": ({"w": entry(shape=[4], offsets=[0, 16])}, "not fully covered"),
    "no offsets": ({"w": {"dtype": "F32", "shape": [2]}}, "missing field"),
    "no entry": ({"w": 3}, "invalid type"),
    "metadata no text": ({"__metadata__": {"a": 1}, "w": entry()}, "invalid type"),
    "metadata a list": ({"__metadata__": [], "w": entry()}, "invalid type"),
    "not json": (b'{"w": nothing}', "invalid JSON"),
    "not text": (b'{"\xff": 1}', "invalid UTF-8"),
    "deep": (b'{"w":' + b"[" * 200_000, "recursion limit"),
    "a long number": (b'{"w":' + b"9" * 10_000 + b"}", "out of range"),
    "aliases to nowhere": ({"__metadata__": {"studio.aliases": '{"a": "b"}'}, "w": entry()}, "do not name tensors"),
    "aliases no json": ({"__metadata__": {"studio.aliases": "w"}, "w": entry()}, "are not JSON"),
    "alias over a tensor": ({"__metadata__": {"studio.aliases": '{"w": "w"}'}, "w": entry()}, "do not name tensors"),
    "no tensors": ({"__metadata__": {}}, "not fully covered"),
}


@pytest.mark.parametrize("case", sorted(LIES))
def test_a_header_that_lies_is_refused_at_once(tmp_path: Path, case: str) -> None:
    header, sentence = LIES[case]
    path = file_of(header, bytes(8), tmp_path / "lie.safetensors")
    start = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        read_weights(path)
    assert time.perf_counter() - start < 1
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_and_counts_beyond_the_limits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    write_safetensors({f"w{i}": torch.zeros(10) for i in range(20)}, path)
    assert len(read_weights(path, Limits(tensors=20)).state) == 20
    for limits, sentence in (
        (Limits(tensors=19), "20 tensors, more than the 19"),
        (Limits(header_bytes=500), "more than the 500"),
        (Limits(total_bytes=900), "more than the 900"),
    ):
        with pytest.raises(CheckpointError, match=sentence):
            read_weights(path, limits)
    path.write_bytes(struct.pack("<Q", 2**40) + b"{" + bytes(100))
    with pytest.raises(CheckpointError, match="header claims 1,099,511,627,776"):
        read_weights(path)
    path.write_bytes(struct.pack("<Q", 2**20) + b"{" + bytes(100))
    with pytest.raises(CheckpointError, match="incomplete: its header takes 1,048,584 bytes and 109 are there"):
        read_weights(path)


def test_what_was_read_does_not_hang_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    write_safetensors({"w": torch.arange(100_000)}, path)
    weights = read_weights(path)
    os.truncate(path, 0)  # memory that is still mapped from the file could not be touched after this
    assert torch.equal(weights.state["w"], torch.arange(100_000))


def test_aliases_do_not_multiply_tensors_beyond_the_limit(tmp_path: Path) -> None:
    aliases = json.dumps({f"a{i}": "w" for i in range(1000)})
    path = file_of({"__metadata__": {"studio.aliases": aliases}, "w": entry()}, bytes(8), tmp_path / "many")
    assert len(read_weights(path).state) == 1001
    with pytest.raises(CheckpointError, match="1,001 tensors of 8,008 bytes"):
        read_weights(path, Limits(tensors=1000))
