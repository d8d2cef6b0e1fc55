"""Token maps: the text tower's own weights, every position under its name, masked keys told from small weights."""

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from families import built, randomised

from models import LoadedModel, StudioError, attention_maps, record
from models.build import make_differential_v2
from models.loaded import Tower
from models.tokenizer import DomainTokenizer
from models.towers import text_tower
from models.vocabulary import ClipTokenizer, NoTokenizer, TokenizerRule
from studio.text_maps import MOST_PROMPTS, parse_texts, readout_words, run_text, text_value, token_labels, token_maps

PROMPTS = ["a photo of a cat", "three keys above an anchor"]


def floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def panels(model: LoadedModel, prompts: list[str], layer: int = 1) -> list[dict[str, Any]]:
    return text_value(token_maps([run_text(model, prompts)], prompts, layer))["rows"][0]["panels"]


def masked(panel: dict[str, Any]) -> np.ndarray:
    n = len(panel["tokens"])
    return np.frombuffer(base64.b64decode(panel["masked"]), "u1").reshape(n, n).astype(bool)


def with_text(host: LoadedModel, tokenizer: Any, differential_v2: bool = False, **text: Any) -> LoadedModel:
    """`host` with a text tower of another kind."""
    sizes = {"vocab_size": tokenizer.vocab_size, "context_length": tokenizer.context}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        module = built(text=sizes | text)
        if differential_v2:
            make_differential_v2(text_tower(module).blocks)
        randomised(module)
    return replace(host, module=module, text=text_tower(module), tokenizer=tokenizer)


def test_maps_are_the_towers_own_up_to_the_end_token(model: LoadedModel) -> None:
    for at, panel in enumerate(panels(model, PROMPTS)):
        n = len(panel["tokens"])
        ids = model.tokenize(PROMPTS[at : at + 1])
        with record(model.text) as recording:
            model.encode_text(ids)
        maps = attention_maps(recording[1])
        first = floats(panel["first"]).reshape(1 + model.text.heads, n, n)
        np.testing.assert_allclose(first[1:], maps.a1[0, :, :n, :n].numpy(), atol=1e-6)
        np.testing.assert_allclose(first[0], maps.a1[0].mean(0)[:n, :n].numpy(), atol=1e-6)
        if maps.subtracted is None:
            assert panel["subtracted"] == ""
        else:
            second = floats(panel["subtracted"]).reshape(1 + model.text.heads, n, n)
            np.testing.assert_allclose(second[1:], maps.subtracted[0, :, :n, :n].numpy(), atol=1e-6)
        assert panel["readout"] == n - 1 == int(ids.argmax())
        np.testing.assert_allclose(first.sum(-1), 1, atol=1e-5)


def test_tokens_are_named_start_and_end_included(diffclip: LoadedModel) -> None:
    panel = panels(diffclip, PROMPTS)[0]
    assert panel["tokens"][0] == "<start>"
    assert panel["tokens"][-1] == "<end>"
    assert "".join(panel["tokens"][1:-1]).replace("·", "") == "aphotoofacat"
    assert "are left out" in panel["left"]


def test_the_causal_region_is_masked_and_nothing_else(clip: LoadedModel) -> None:
    panel = panels(clip, PROMPTS)[0]
    n = len(panel["tokens"])
    assert (masked(panel) == np.triu(np.ones((n, n), bool), 1)).all()
    assert not floats(panel["first"]).reshape(-1, n, n)[:, masked(panel)].any()


def test_a_two_way_tower_masks_nothing_and_shows_what_fills_up(clip: LoadedModel, tokenizer: DomainTokenizer) -> None:
    model = with_text(clip, tokenizer, no_causal_mask=True, pool_type="last")
    panel = panels(model, PROMPTS)[0]
    assert not masked(panel).any()
    assert len(panel["tokens"]) == tokenizer.context
    assert panel["tokens"][-1] == "<pad>"
    assert panel["readout"] == tokenizer.context - 1
    assert panel["left"] == ""
    assert "not causal" in readout_words(model.text)
    assert "last position" in readout_words(model.text)


def test_lambda_of_each_token_gives_its_map(clip: LoadedModel, tokenizer: DomainTokenizer) -> None:
    model = with_text(clip, tokenizer, differential_v2=True)
    panel = panels(model, PROMPTS)[0]
    n = len(panel["tokens"])
    sums = floats(panel["subtracted"]).reshape(-1, n, n)[1:].sum(-1)
    assert sums.std() > 1e-3


def test_a_long_prompt_says_what_was_not_read_and_keeps_its_end(model: LoadedModel) -> None:
    long = ["a small red apple " * 12, "a small red apple " * 12 + "and a cat"]
    first, second = panels(model, long)
    assert first["tokens"][-1] == "<end>"
    assert len(first["tokens"]) == model.tokenizer.context
    assert "Too long for 16 positions, not read: “" in first["warnings"][0]
    assert second["warnings"][0].endswith("and a cat”.")
    assert first["left"] == ""


def test_a_vocabulary_that_cuts_the_end_off_names_the_piece_that_is_there() -> None:
    text = " ".join(["dog"] * 20 + ["cat"])
    cut = ClipTokenizer(8, TokenizerRule("clip", "cut_end"))
    kept = ClipTokenizer(8, TokenizerRule("clip", "keep_end"))
    for tokenizer, last in ((cut, "dog"), (kept, "<end>")):
        host = _Named(tokenizer)
        labels = token_labels(host, text, tokenizer(text)[0])  # type: ignore[arg-type]
        assert labels == ["<start>", *["dog"] * 6, last]
        assert token_labels(host, "dog", tokenizer("dog")[0]) == ["<start>", "dog", "<end>", *["<pad>"] * 5]  # type: ignore[arg-type]


class _Named:
    """What `token_labels` asks of a model."""

    def __init__(self, tokenizer: ClipTokenizer) -> None:
        self.tokenizer = tokenizer


def test_words_that_the_model_never_saw_are_told(clip: LoadedModel) -> None:
    panel = panels(clip, ["a zorb and a cat"])[0]
    assert panel["warnings"] == ["Never seen in training: zorb."]


def test_a_layer_that_does_not_exist_says_so(clip: LoadedModel) -> None:
    panel = panels(clip, PROMPTS, layer=5)[0]
    assert panel["message"].endswith("has layers 0–1: choose among them.")
    assert "first" not in panel


def test_a_tower_without_attention_and_a_vocabulary_without_tokenizer_are_refused(clip: LoadedModel) -> None:
    silent = replace(
        clip, text=Tower("text", (), 0, clip.text.layout, None, (), "The text tower is a Bag: choose another.")
    )
    with pytest.raises(StudioError, match="is a Bag"):
        run_text(silent, PROMPTS)
    unread = replace(clip, tokenizer=NoTokenizer(290, 16))
    with pytest.raises(StudioError, match="no tokenizer here"):
        run_text(unread, PROMPTS)
    value = text_value(token_maps([("A title", "A sentence.")], PROMPTS, 0))
    assert value["rows"] == [{"title": "A title", "said": "", "panels": [], "message": "A sentence."}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no prompt"),
        (" \n ", "no prompt"),
        ("a\nb\nc\nd", "4 prompts are too many"),
        ("x" * 3000, "longer than 2000"),
    ],
)
def test_wrong_prompts_get_a_sentence(text: str, said: str) -> None:
    with pytest.raises(StudioError, match=said):
        parse_texts(text)


def test_prompts_come_by_line_each_once_without_lone_surrogates() -> None:
    assert parse_texts(" a cat \n\na dog\na cat\n\ud800") == ["a cat", "a dog", "?"]
    assert MOST_PROMPTS == 3
