"""Tokenizers that are not ours: CLIP's BPE with either rule for too long a text, tokenizer.json files, none."""

from pathlib import Path

import pytest
import torch
from foreign import json_file
from open_clip.tokenizer import SimpleTokenizer

from models.errors import CheckpointError, StudioError
from models.tokenizer import DomainTokenizer
from models.vocabulary import (
    ClipTokenizer,
    NoTokenizer,
    TokenizerRule,
    fitting_tokenizer,
    json_tokenizer,
    padding_id,
)

START, END = 49406, 49407
STRANGE = [
    "",
    " ",
    "猫",
    "قطة",
    "แมว",
    "👍🏽",
    "👨‍👩‍👧",
    "a\x00b",
    "\ud800",
    "Ｆｕｌｌ",
    "\u200fright",
    "It's <b>3</b>.",
]


def test_ids_are_those_of_open_clip_for_every_script() -> None:
    ours, theirs = ClipTokenizer(), SimpleTokenizer()
    for text in ["a photo of a cat", *STRANGE]:
        if "\ud800" not in text:
            assert torch.equal(ours(text), theirs(text)), text
    assert ours("\ud800").shape == (1, 77)


@pytest.mark.parametrize("count", [1, 3])
def test_one_text_a_list_of_one_and_a_list_give_two_dimensions(count: int) -> None:
    assert ClipTokenizer()("a cat").shape == (1, 77)
    assert ClipTokenizer()(["a cat"] * count).shape == (count, 77)
    with pytest.raises(StudioError, match="empty"):
        ClipTokenizer()([])


def test_too_long_a_text_keeps_its_end_token_unless_the_published_rule_is_asked_for() -> None:
    first, second = "red " * 100, "blue " * 100
    keep, cut = ClipTokenizer(), ClipTokenizer(rule=TokenizerRule("clip", "cut_end"))
    for text in (first, second):
        assert keep(text)[0, -1] == END
        assert keep(text)[0].argmax() == 76
        assert END not in cut(text)
        assert cut(text)[0].argmax() == 0
        assert torch.equal(keep(text)[0, :-1], cut(text)[0, :-1])
    assert keep.cut_text("a cat") == ""
    assert keep.cut_text(first).split() == ["red"] * 25


def test_pieces_are_what_a_person_reads_between_start_and_end() -> None:
    assert ClipTokenizer().pieces("a red cat") == ["<start>", "a", "red", "cat", "<end>"]


def test_domain_pieces_are_as_many_as_ids(tokenizer: DomainTokenizer) -> None:
    for text in ("a red apple", "a zeppelin at the left"):
        assert len(tokenizer.pieces(text)) == int((tokenizer(text)[0] != 0).sum())


def test_a_vocabulary_of_clips_size_gets_clips_tokenizer_and_another_none() -> None:
    assert isinstance(fitting_tokenizer(49_408, 77), ClipTokenizer)
    none = fitting_tokenizer(128, 16)
    assert isinstance(none, NoTokenizer)
    for ask in (none, none.pieces):
        with pytest.raises(StudioError, match=r"128 ids .* give token ids to encode_text"):
            ask("a cat")
    assert none.cut_text("a cat") == ""
    assert none.unknown_words("a cat") == []


def test_a_tokenizer_json_is_read_cleaned_and_padded_by_the_rule(tmp_path: Path) -> None:
    rule = TokenizerRule("json", clean="canonicalize", pad=1)
    ours = json_tokenizer(json_file(tmp_path / "tokenizer.json"), 5, rule)
    assert ours("A cat!").tolist() == [[2, 3, 1, 1, 1]]
    assert ours(["a dog dog dog dog dog"])[0].tolist() == [2, 4, 4, 4, 1]
    assert ours.cut_text("a dog dog dog dog cat") == "dog cat"
    assert ours.pieces("a cat") == ["a", "cat", "</s>"]
    ours.save(tmp_path / "again.json")
    assert torch.equal(json_tokenizer(tmp_path / "again.json", 5, rule)("a cat"), ours("a cat"))


def test_the_padding_id_comes_from_the_config_beside_or_from_the_file(tmp_path: Path) -> None:
    path = json_file(tmp_path / "tokenizer.json")
    assert padding_id(path) == 0
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "</s>"}')
    assert padding_id(path) == 1


def test_a_broken_tokenizer_json_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is missing"):
        json_tokenizer(tmp_path / "tokenizer.json", 5, TokenizerRule("json"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"is not a tokenizer\.json"):
        json_tokenizer(tmp_path / "tokenizer.json", 5, TokenizerRule("json"))
