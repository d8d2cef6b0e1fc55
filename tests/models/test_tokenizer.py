"""The tokenizer: takes anything, keeps its end token, says what it does not know."""

from pathlib import Path

import pytest
import torch

from models.errors import CheckpointError, StudioError
from models.tokenizer import DomainTokenizer, load_tokenizer, train_tokenizer


def test_the_end_id_is_the_highest_and_stands_at_argmax(tokenizer: DomainTokenizer) -> None:
    ids = tokenizer(["a cat", "three keys above an anchor and a dog"])
    assert ids.shape == (2, 16)
    assert tokenizer.end_id == tokenizer.vocab_size - 1 == int(ids.max())
    assert ids[:, 0].tolist() == [tokenizer.start_id] * 2
    for row in ids:
        end = int(row.argmax())
        assert int((row == tokenizer.end_id).sum()) == 1
        assert bool((row[end + 1 :] == 0).all())


ODD = ["", " ", "猫と犬", "قطة", "👩🏽‍🚀", "nul\x00byte", "lone \ud800 surrogate", "ＦＵＬＬ", "\u200frtl", "x" * 500]


@pytest.mark.parametrize("text", ODD)
def test_any_text_is_accepted_and_has_its_end_token(tokenizer: DomainTokenizer, text: str) -> None:
    ids = tokenizer(text)
    assert ids.shape == (1, 16)
    assert int(ids.max()) == tokenizer.end_id
    assert int(ids.min()) >= 0


def test_two_long_texts_that_differ_early_have_different_ids_and_their_end(tokenizer: DomainTokenizer) -> None:
    ids = tokenizer(["cat " * 100, "dog " * 100])
    assert ids[:, -1].tolist() == [tokenizer.end_id] * 2
    assert not torch.equal(ids[0], ids[1])


def test_text_beyond_the_context_is_told(tokenizer: DomainTokenizer) -> None:
    assert tokenizer.cut_text("a cat") == ""
    cut = tokenizer.cut_text("a photo of " * 8 + "an anchor")
    assert cut.endswith("an anchor")


def test_words_that_no_caption_held_are_named(tokenizer: DomainTokenizer) -> None:
    assert tokenizer.unknown_words("A photo of a zeppelin, a cat and a Zeppelin") == ["zeppelin"]
    assert tokenizer.unknown_words("a red apple") == []


def test_a_saved_tokenizer_gives_the_same_ids(tokenizer: DomainTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    texts = ["a photo of a cat", "zeppelin 猫"]
    assert torch.equal(again(texts), tokenizer(texts))
    assert again.unknown_words("zeppelin cat") == ["zeppelin"]


def test_a_missing_or_broken_file_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing"):
        load_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a tokenizer of this project"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_no_text_and_too_small_a_vocabulary_are_refused(tokenizer: DomainTokenizer) -> None:
    with pytest.raises(StudioError, match="empty"):
        tokenizer([])
    with pytest.raises(StudioError, match="260 ids"):
        train_tokenizer(["a"], vocab_size=100)
