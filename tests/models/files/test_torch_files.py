"""Checkpoints of strangers: what training code saves is understood, what would run code is refused and does not run."""

import argparse
import os
import pickle
import struct
import subprocess
import threading
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path, PureWindowsPath

import numpy as np
import pytest
import torch
from torch.serialization import get_safe_globals, safe_globals

from models.errors import CheckpointError
from models.files.sniff import Limits
from models.files.torch_files import read_torch
from models.files.weights import read_weights

# PyTorch's reader stops at a step that torch.save does not write, before it knows what would be called.
UNKNOWN = "steps that PyTorch's safe reader does not know"


class Calls:
    """Pickles as a call of a function with arguments, which happens when it is unpickled the usual way."""

    def __init__(self, function: Callable, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple:
        return self.call


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


def touching(marker: Path) -> dict[str, tuple[object, str]]:
    """Values and raw pickles that leave a file behind when opened, with the name that must be refused."""
    command = f"touch {marker}"
    system = Calls(os.system, command)
    as_namespace = argparse.Namespace(lr=1e-3, hidden=[{"deep": system}])
    raw_namespace = (
        b"\x80\x02cargparse\nNamespace\n)\x81}" + text("__setstate__") + b"cposix\nsystem\nsb" + text(command)
    )
    return {
        "reduce": (system, "posix.system"),
        "eval": (Calls(eval, f"__import__('os').system('{command}')"), "eval"),
        "exec": (Calls(exec, f"open('{marker}', 'w')"), "exec"),
        "popen": (
            Calls(subprocess.Popen, ["touch", str(marker)]),
            "commands.Popen",
        ),  # its Python 2 name, as protocol 2 writes it
        "open": (Calls(open, str(marker), "w"), "io.open"),
        "getattr": (Calls(getattr, "x", "upper"), "getattr"),
        "in the args": (as_namespace, "posix.system"),
        "beside weights": ({"state_dict": {"w": torch.zeros(2)}, "epoch": system}, "posix.system"),
        "as a dictionary's key": ({"state_dict": {"w": torch.zeros(2)}, system.call[0]: 1}, "posix.system"),
        "setstate through build": (raw_namespace + b"b.", "posix.system"),
        "inst": (b"\x80\x02(" + text(command) + b"iposix\nsystem\n.", UNKNOWN),
        "stack global": (b"\x80\x04" + text("posix") + text("system") + b"\x93" + text(command) + b"\x85R.", UNKNOWN),
        "a dotted name": (b"\x80\x04" + text("collections") + text("OrderedDict.fromkeys") + b"\x93)R.", UNKNOWN),
        "a dotted global": (
            b"\x80\x02ctorch._utils\nos.system\n" + text(command) + b"\x85R.",
            "torch._utils.os.system",
        ),
        "a whole model": (torch.nn.Sequential(torch.nn.Linear(2, 2)), "torch.nn.modules.container.Sequential"),
        "torch.load itself": (Calls(torch.load, str(marker)), "torch.serialization.load"),
    }


CASES = sorted(touching(Path("unused")))


def packed(data: bytes, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/version", "3\n")
    return path


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("layout", ["zip", "old", "plain"])
@pytest.mark.parametrize("case", CASES)
def test_a_file_that_would_run_code_is_refused_by_name_and_runs_nothing(tmp_path: Path, case: str, layout: str) -> None:
    marker, path = tmp_path / "marker", tmp_path / "weights.pt"
    value, name = touching(marker)[case]
    if isinstance(value, bytes):
        if layout != "zip":
            path.write_bytes(value)
        else:
            packed(value, path)
    elif layout == "plain":
        path.write_bytes(pickle.dumps(value, 2))
    else:
        torch.save(value, path, _use_new_zipfile_serialization=layout == "zip")
    if layout == "plain" and isinstance(value, (torch.nn.Module, dict)):
        name = r"torch|posix"  # tensors pickled without torch.save name a function for their bytes before anything else
    with pytest.raises(CheckpointError, match=name) as caught:
        read_weights(path)
    assert "nothing of it was run" in str(caught.value)
    assert "safetensors" in str(caught.value)
    assert not marker.exists()


def test_the_harmful_files_of_these_tests_do_harm_when_opened_the_usual_way(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for case in ("reduce", "in the args", "stack global"):
        value, _ = touching(marker)[case]
        pickle.loads(value if isinstance(value, bytes) else pickle.dumps(value, 2))
        assert marker.exists(), case
        marker.unlink()


def read(value: object, path: Path) -> object:
    torch.save(value, path)
    return read_torch(path, "zip", Limits())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"none": None, "n": (0, 255, 65536, -1, 2**40, 0.25), "ß∂ 图": [True]}, None),
        (np.float64(0.5), None),
        (np.float32(-2), None),
        (np.float16(1.5), None),
        (np.int64(-7), None),
        (np.uint8(200), None),
        (np.bool_(True), None),
        (Path("/a/b"), "/a/b"),
        (Path("a/b"), "a/b"),
        (PureWindowsPath("C:\\a\\b"), "C:/a/b"),
        (OrderedDict(a=1), None),
        (Counter("aab"), None),
        (torch.Size([2, 3]), None),
        (torch.device("cuda", 1), None),
        (torch.float16, None),
        (
            argparse.Namespace(lr=0.1, nested=argparse.Namespace(x=Path("y"))),
            argparse.Namespace(lr=0.1, nested=argparse.Namespace(x="y")),
        ),
    ],
)
def test_what_training_code_puts_beside_weights_is_read(tmp_path: Path, value: object, expected: object) -> None:
    again = read(value, tmp_path / "a.pt")
    wanted = value if expected is None else expected
    assert again == wanted
    assert type(again) is type(wanted)


def test_a_path_of_windows_and_of_a_later_python_becomes_text(tmp_path: Path) -> None:
    for module, kind, path in (
        ("pathlib", "WindowsPath", "a/b"),
        ("pathlib._local", "PosixPath", "a/b"),
        ("pathlib._local", "WindowsPath", "a/b"),
    ):
        raw = b"\x80\x02c" + f"{module}\n{kind}\n".encode() + text("a") + text("b") + b"\x86R."
        assert read_torch(packed(raw, tmp_path / "a.pt"), "zip", Limits()) == path


def test_a_number_of_an_older_numpy_is_read(tmp_path: Path) -> None:
    raw = pickle.dumps(np.float64(41.5), 2)
    assert b"numpy._core.multiarray" in raw
    older = packed(raw.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"), tmp_path / "a.pt")
    assert read_torch(older, "zip", Limits()) == 41.5


def test_a_numpy_type_is_no_way_to_change_numpy_for_everyone(tmp_path: Path) -> None:
    state = pickle.dumps((3, ">", None, None, None, -1, -1, 0), 2)[2:-1]
    raw = b"\x80\x02cnumpy\ndtype\n" + text("f8") + b"\x85R" + state + b"b."
    read_torch(packed(raw, tmp_path / "a.pt"), "zip", Limits())
    assert np.dtype("f8").isnative
    assert np.frombuffer(struct.pack("=d", 1.0), "f8").item() == 1.0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x02h\x07.",
        b"\x80\x02t.",
        b"\x80\x02Na.",
        b"\x80\x02}]Ns.",
        b"\x80\x02}(Nu.",
        b"\x80\x02N)R.",
        b"\x80\x02ccollections\nOrderedDict\nNR.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
        b"\x80\x02cargparse\nNamespace\nN\x85R.",
        b"\x80\x02cnumpy\ndtype\n" + text("no type") + b"\x85R.",
        b"\x80\x02cpathlib\nPosixPath\nK\x01\x85R.",
        b"\x80\x02NQ.",
        b"\x80\x02X\xff\xff\xff\x7f.",
        b"\x80\x05\x8e" + b"\xff" * 8,
        b"\x80\x02\xfe.",
        b"\x80\x02c\xff\n\xff\n.",
        b"\x80\x02ctorch\nTensor\nJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86R.",
        b"\x80\x02cbuiltins\nbytearray\n\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85R.",
    ],
)
@pytest.mark.parametrize("layout", ["zip", "plain"])
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_pickle_that_makes_no_sense_gets_a_sentence(tmp_path: Path, raw: bytes, layout: str) -> None:
    path = tmp_path / "some.pt"
    if layout == "zip":
        packed(raw, path)
    else:
        path.write_bytes(b"\x80\x02" + raw)
    with pytest.raises(CheckpointError, match=r"some\.pt .*\.$") as caught:
        read_torch(path, "zip" if layout == "zip" else "pickles", Limits())
    assert "weights_only" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_storage_is_never_read_beyond_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.arange(6.0)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in entries if name.endswith("/data.pkl"))
    longer = entries[name].replace(b"K\x06", b"J" + struct.pack("<i", 10**6))
    assert longer != entries[name]
    with zipfile.ZipFile(path, "w") as archive:
        for entry, data in {**entries, name: longer}.items():
            archive.writestr(entry, data)
    with pytest.raises(CheckpointError, match="ended in RuntimeError"):
        read_weights(path)


def test_a_pickle_of_a_later_protocol_is_told_how_to_save(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.ones(2)}, path, pickle_protocol=4)
    with pytest.raises(CheckpointError, match="default protocol"):
        read_weights(path)


def test_the_list_of_allowed_names_is_as_before_after_every_load(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pt", tmp_path / "bad.pt"
    torch.save({"w": torch.ones(2), "args": argparse.Namespace(a=1)}, good)
    torch.save({"w": torch.ones(2), "f": os.system}, bad)
    with safe_globals([argparse.Namespace]):
        before = set(get_safe_globals())
        assert argparse.Namespace in before
        read_weights(good)
        with pytest.raises(CheckpointError):
            read_weights(bad)
        assert set(get_safe_globals()) == before


def test_two_threads_that_read_at_once_each_get_their_values_and_refusals(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.pt", tmp_path / "bad.pt"
    torch.save({"w": torch.ones(2), "args": argparse.Namespace(a=1), "best": np.float64(2)}, good)
    torch.save({"w": torch.ones(2), "f": os.system}, bad)
    start, before, failures = threading.Barrier(2), set(get_safe_globals()), []

    def many() -> None:
        start.wait()
        for _ in range(40):
            try:
                assert read_weights(good).extra == {"args": {"a": 1}, "best": 2.0}
                with pytest.raises(CheckpointError, match=r"posix\.system"):
                    read_weights(bad)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=many) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(get_safe_globals()) == before
