"""Shares of ranks: every sample once, whatever the numbers, and results that are those of one process."""

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch
from picture_files import labelled_folder, png, write_tar
from PIL import Image
from torch import Tensor

from models import LoadedModel, load_model
from models.templates import template_set
from train.data.config import TarData
from train.data.order import rank_share
from train.evaluation.captioned import open_captioned
from train.evaluation.labelled import open_labelled_folder
from train.evaluation.retrieval import retrieve
from train.evaluation.spread import Ranks, gather_shares, gather_uneven
from train.evaluation.zero_shot import classify
from train.scenes import describe_scene, render_scene

T = TypeVar("T")


def scene(number: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(render_scene(describe_scene(3, number), 64)[0]).save(file, "PNG")
    return file.getvalue()


def together(size: int, work: Callable[[Ranks], T]) -> list[T]:
    """What each of `size` ranks gets; they are threads that wait for each other in every gathering."""
    barrier = threading.Barrier(size, timeout=60)
    parts: list[Tensor] = [torch.empty(0)] * size
    results: list[T | Exception] = [RuntimeError("not run")] * size

    def gather_as(rank: int) -> Callable[[Tensor], Tensor]:
        def gather(tensor: Tensor) -> Tensor:
            parts[rank] = tensor
            barrier.wait()
            assert len({(part.shape, part.dtype) for part in parts}) == 1
            whole = torch.cat(parts)
            barrier.wait()
            return whole

        return gather

    def run(rank: int) -> None:
        try:
            results[rank] = work(Ranks(rank, size, gather_as(rank)))
        except Exception as error:
            results[rank] = error
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        done.append(result)
    return done


@pytest.mark.parametrize(("count", "size"), [(17, 2), (17, 4), (1, 3), (6, 3), (5, 4), (9, 1)])
def test_gathered_shares_are_every_number_once_in_order(count: int, size: int) -> None:
    def work(ranks: Ranks) -> Tensor:
        return gather_shares(ranks, torch.from_numpy(rank_share(count, ranks.size, ranks.rank)[0]), count)

    for gathered in together(size, work):
        assert gathered.tolist() == list(range(count))


def test_uneven_parts_are_put_together_without_what_filled_them_up() -> None:
    def work(ranks: Ranks) -> Tensor:
        return gather_uneven(ranks, torch.full(((0, 3, 1)[ranks.rank], 2), float(ranks.rank)))

    for gathered in together(3, work):
        assert gathered.tolist() == [[1.0, 1.0]] * 3 + [[2.0, 2.0]]


@pytest.mark.parametrize("size", [2, 20])
def test_ranks_together_classify_as_one_does(size: int, clip: LoadedModel, tmp_path: Path) -> None:
    folder = labelled_folder(tmp_path / "data", {"cat": 9, "dogs": 6, "keys": 2})
    (folder / "cat" / "000.png").write_bytes(b"no picture")
    labelled, templates = open_labelled_folder(str(folder)), template_set("plain")
    one = classify(clip, labelled, templates)
    assert (one.images, one.skipped) == (16, {"not a picture": 1})
    assert together(size, lambda ranks: classify(clip, labelled, templates, None, ranks)) == [one] * size


@pytest.mark.parametrize("size", [3, 9])
def test_ranks_together_retrieve_as_one_does(size: int, tmp_path: Path) -> None:
    # A trained model, since one of random weights sees all pictures alike and the last bits of a batch rank them.
    diffclip = load_model("diffclip-scenes")
    words = ["a cat", "two dogs", "keys", "an anchor above keys", "a cat", "a red apple", "", "a photo"]
    members = [(f"{i}.png", scene(i)) for i in range(8)] + [(f"{i}.txt", text.encode()) for i, text in enumerate(words)]
    source = open_captioned(TarData(str(write_tar(tmp_path / "a.tar", members))), 32).source
    one = retrieve(diffclip, source)
    assert (one.images, one.captions, one.repeated_captions) == (7, 7, 1)
    assert together(size, lambda ranks: retrieve(diffclip, source, None, ranks)) == [one] * size


def test_a_rank_without_a_readable_picture_gathers_with_the_others(clip: LoadedModel, tmp_path: Path) -> None:
    members = [(f"{i}.png", png(i) if i < 4 else b"no picture") for i in range(8)]
    members += [(f"{i}.txt", b"a cat" + b" and dogs" * i) for i in range(8)]
    source = open_captioned(TarData(str(write_tar(tmp_path / "a.tar", members))), 32).source
    one = retrieve(clip, source)
    assert (one.images, one.captions, dict(one.skipped)) == (4, 4, {"not a picture": 4})
    assert together(2, lambda ranks: retrieve(clip, source, np.arange(8), ranks)) == [one] * 2
