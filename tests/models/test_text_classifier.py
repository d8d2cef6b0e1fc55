"""Classes in words: plain templates, synonyms, the mean of unit vectors."""

import pytest
import torch
import torch.nn.functional as F

from models import LoadedModel
from models.errors import StudioError
from models.text_classifier import check_template, text_classifier


def test_a_class_is_the_mean_of_its_unit_embeddings_over_templates(model: LoadedModel) -> None:
    templates = ("a photo of a {}.", "{} at the top left", "{}")
    ours = text_classifier(model, ["cat", "red apple, anchor"], templates)
    assert ours.classes == ("cat", "red apple")
    assert ours.phrases == ("cat", "red apple", "anchor")
    assert ours.owners == (0, 1, 1)
    for phrase, embedding in zip(ours.phrases, ours.embeddings, strict=True):
        texts = [f"a photo of a {phrase}.", f"{phrase} at the top left", phrase]
        each = torch.cat([model.encode_text(model.tokenize(text)) for text in texts])
        wanted = F.normalize(F.normalize(each, dim=-1).mean(0), dim=-1)
        torch.testing.assert_close(embedding, wanted, atol=1e-6, rtol=1e-5)


def test_many_classes_are_embedded_as_few_are(clip: LoadedModel) -> None:
    names = [f"cat {i}" for i in range(150)]
    many = text_classifier(clip, names, ("a {}", "the {}"))
    few = text_classifier(clip, names[140:], ("a {}", "the {}"))
    torch.testing.assert_close(many.embeddings[140:], few.embeddings, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("template", ["photo", "", "{}{}", "a {colour} {}", "{0.__class__}", "{0}", "{{}}", "a {} }"])
def test_a_template_without_exactly_one_bare_slot_is_refused(clip: LoadedModel, template: str) -> None:
    with pytest.raises(StudioError, match=r"one bare \{\} where the class goes"):
        text_classifier(clip, ["cat"], ["a {}", template])


def test_a_class_with_braces_is_put_in_as_plain_text(clip: LoadedModel) -> None:
    check_template("a {}")
    ours = text_classifier(clip, ["{0.__class__} {}"], ["a {}"])
    wanted = clip.encode_text(clip.tokenize("a {0.__class__} {}"), normalize=True)
    torch.testing.assert_close(ours.embeddings, wanted, atol=1e-6, rtol=1e-5)


def test_synonyms_are_taken_once_and_blanks_left_out(clip: LoadedModel) -> None:
    ours = text_classifier(clip, [" cat,  cat , ,dog "])
    assert ours.phrases == ("cat", "dog")


def test_nothing_to_classify_is_refused(clip: LoadedModel) -> None:
    for classes, templates in (([], ["{}"]), (["cat"], []), (["cat", " , "], ["{}"])):
        with pytest.raises(StudioError):
            text_classifier(clip, classes, templates)
