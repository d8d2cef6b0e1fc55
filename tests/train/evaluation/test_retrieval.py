"""Retrieval both ways against a loop; pictures with several captions, rows that share a picture, repeated words."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from picture_files import picture, png, write_tar
from torch import Tensor

from models import LoadedModel
from models.errors import StudioError
from train.data.config import CsvData, SceneData, TarData
from train.data.sample import Sample
from train.evaluation.captioned import open_captioned
from train.evaluation.embed import Pictures, embed_captions
from train.evaluation.retrieval import Recalls, Retrieval, retrieve
from train.evaluation.spread import Ranks

WORDS = ["a cat", "two dogs", "keys above an anchor", "a small red apple", "a photo", "the top left"]


def value(recalls: Recalls, k: int) -> float:
    share = {1: recalls.r1, 5: recalls.r5, 10: recalls.r10}[k]
    assert share is not None
    return share.value


def by_loop(model: LoadedModel, captions: list[list[str]]) -> dict[str, list[int]]:
    """Ranks of queries, of pictures `picture(i)` with captions, for captions that are all different."""
    pixels = [model.preprocess(picture(i))[0][None] for i in range(len(captions))]
    images = [model.encode_image(one, normalize=True)[0] for one in pixels]
    texts = [
        (i, model.encode_text(model.tokenize(t), normalize=True)[0]) for i, own in enumerate(captions) for t in own
    ]
    found: dict[str, list[int]] = {"image": [], "text": []}
    for i, image in enumerate(images):
        order = sorted(texts, key=lambda pair: -float(image @ pair[1]))
        found["image"].append(next(place for place, (owner, _) in enumerate(order, 1) if owner == i))
    for owner, text in texts:
        order = sorted(range(len(images)), key=lambda i: -float(images[i] @ text))
        found["text"].append(order.index(owner) + 1)
    return found


def check_against_loop(result: Retrieval, ranks: dict[str, list[int]]) -> None:
    for k in (1, 5):
        assert value(result.image_to_text, k) == pytest.approx(np.mean([rank <= k for rank in ranks["image"]]))
        assert value(result.text_to_image, k) == pytest.approx(np.mean([rank <= k for rank in ranks["text"]]))


def test_several_captions_of_a_picture_in_a_tar_are_all_right_for_it(model: LoadedModel, tmp_path: Path) -> None:
    captions = [[WORDS[i], f"{WORDS[(i + 1) % 6]} and {WORDS[i]}", f"two {WORDS[i]}"][: 1 + i % 3] for i in range(6)]
    members = [(f"{i}.png", png(i)) for i in range(6)]
    members += [(f"{i}.json", json.dumps({"captions": own}).encode()) for i, own in enumerate(captions)]
    data = TarData(str(write_tar(tmp_path / "a.tar", members)), captions=("json:captions",))
    result = retrieve(model, open_captioned(data, 32).source)
    assert (result.images, result.captions, result.repeated_captions) == (6, 12, 0)
    check_against_loop(result, by_loop(model, captions))
    assert result.image_to_text.r10 is not None  # 12 captions
    assert result.text_to_image.r10 is None  # 6 pictures


@pytest.mark.parametrize("between", ["", "|"])
def test_rows_of_a_csv_that_share_a_picture_are_one_picture(between: str, clip: LoadedModel, tmp_path: Path) -> None:
    captions = [[WORDS[i], f"three {WORDS[i]}"] for i in range(6)]
    for i in range(6):
        (tmp_path / f"{i}.png").write_bytes(png(i))
    rows = [f"{i}.png,{text}" for which in (0, 1) for i, text in enumerate(own[which] for own in captions)]
    (tmp_path / "data.csv").write_text("\n".join(["image,caption", *rows]))
    data = CsvData(str(tmp_path / "data.csv"), between_captions=between)
    opened = open_captioned(data, 32)
    assert "12 rows" in opened.description
    assert "6 pictures" in opened.description
    first = opened.source.read(3)
    assert isinstance(first, Sample)
    assert first.captions == tuple(captions[3])
    result = retrieve(clip, opened.source)
    assert (result.images, result.captions) == (6, 12)
    check_against_loop(result, by_loop(clip, captions))


def test_pictures_that_cannot_be_read_are_neither_query_nor_candidate(clip: LoadedModel, tmp_path: Path) -> None:
    members = [(f"{i}.png", png(i)) for i in range(5)] + [("5.png", b"<html>"), ("6.png", png(6)[:60])]
    members += [(f"{i}.txt", [*WORDS, "two keys"][i].encode()) for i in range(7)]
    result = retrieve(clip, open_captioned(TarData(str(write_tar(tmp_path / "a.tar", members))), 32).source)
    assert (result.images, result.captions) == (5, 5)
    assert sum(result.skipped.values()) == 2
    assert result.skipped["not a picture"] == 1
    check_against_loop(result, by_loop(clip, [[text] for text in WORDS[:5]]))


def test_captions_of_the_same_words_cannot_be_told_apart_and_are_counted(clip: LoadedModel, tmp_path: Path) -> None:
    members = [(f"{i}.png", png(i)) for i in range(4)] + [(f"{i}.txt", b"a cat") for i in range(4)]
    result = retrieve(clip, open_captioned(TarData(str(write_tar(tmp_path / "a.tar", members))), 32).source)
    assert result.repeated_captions == 3
    assert value(result.image_to_text, 1) == 0.0
    assert value(result.text_to_image, 1) == 0.25  # of one text, asked four times, one picture comes first


def test_captions_that_are_cut_are_counted(clip: LoadedModel, tmp_path: Path) -> None:
    members = [(f"{i}.png", png(i)) for i in range(2)] + [("0.txt", b"a cat"), ("1.txt", b"two dogs " * 30)]
    result = retrieve(clip, open_captioned(TarData(str(write_tar(tmp_path / "a.tar", members))), 32).source)
    assert result.cut_captions == 1


def test_scenes_have_one_caption_a_picture(clip: LoadedModel) -> None:
    result = retrieve(clip, open_captioned(SceneData(9, 12), 32).source)
    assert (result.images, result.captions) == (12, 12)
    assert value(result.image_to_text, 1) <= value(result.image_to_text, 5) <= value(result.image_to_text, 10)


def test_data_without_a_usable_sample_are_refused(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", [("0.png", png(0))])
    with pytest.raises(StudioError, match="no sample can be used"):
        open_captioned(TarData(str(tar)), 32)


def test_the_same_words_have_the_same_bits_on_whatever_rank_they_were_embedded(clip: LoadedModel) -> None:
    def with_another(tensor: Tensor) -> Tensor:
        """As if a second rank had the same captions and other last bits of their embeddings."""
        other = torch.nextafter(tensor, torch.full_like(tensor, 9.0)) if tensor.is_floating_point() else tensor
        return torch.cat([tensor, other])

    texts = [f"{WORDS[i % 6]} {i}" for i in range(300)]  # more than are embedded at once
    captions = tuple((i, (text,)) for i, text in enumerate(texts))
    pictures = Pictures(torch.zeros(300, 24), torch.ones(300, dtype=torch.bool), {}, captions)
    embedded = embed_captions(clip, pictures, Ranks(0, 2, with_another))
    assert embedded.repeated == 300
    assert torch.equal(embedded.features[:300], embedded.features[300:])
    assert embedded.pictures.tolist() == [*range(300), *range(300)]
    alone = clip.encode_text(clip.tokenize(texts[299]), normalize=True)[0]
    torch.testing.assert_close(embedded.features[299], alone, atol=1e-6, rtol=1e-5)
