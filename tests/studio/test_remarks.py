"""What a person should know of a text is said wherever texts are given, for the models on whose reading it depends."""

import dataclasses
import html

import pytest

from models import LoadedModel
from models.tokenizer import DomainTokenizer
from models.vocabulary import ClipTokenizer
from studio.attribution import drained
from studio.explained import words_html
from studio.explaining import Explanation, explain
from studio.intervening import Outcome, Run
from studio.methods import Relevance
from studio.outcome import outcome_html
from studio.remarks import Remarks, remarks_on
from studio.segmenting import Segmentation, remarks_on_classes
from studio.service import Look, Service
from studio.sparsity import Asked
from studio.sparsity_similarity import answers_html, answers_of
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.text_maps import warnings_of
from studio.upload import Upload
from studio.zeroshot import parse_prompts, score, scores_html

EMOJI = "👩🏽\u200d🚀"
SAID = f"hardly known to a model of English captions: {EMOJI}"


@pytest.fixture
def look(service: Service, scene: Upload) -> Look:
    return service.look("clip-scenes", scene.image)


def test_a_text_without_fault_has_no_remark(tokenizer: DomainTokenizer) -> None:
    assert remarks_on(tokenizer, ["a cat", "two dogs"]) == Remarks((), (), (), tokenizer.context)
    assert remarks_on(tokenizer, ["a cat"]).clauses == []


def test_remarks_on_several_texts_name_each_word_once() -> None:
    found = remarks_on(ClipTokenizer(), ["a 猫", "two 猫 and a 狗", "cat " * 100])
    assert found.foreign == ("猫", "狗")
    assert [clause.split(":")[0] for clause in found.clauses] == [
        "hardly known to a model of English captions",
        "too long for 77 positions, not read",
    ]


def test_every_place_that_takes_a_text_says_it(service: Service, scene: Upload, look: Look) -> None:
    text = f"a {EMOJI}"
    model, prompts = look.model, parse_prompts(text, "")
    scores = score(look, prompts)
    found: list[Explanation] = []
    list(drained(explain(look, model.preprocess(scene.image)[0], text, Relevance()), found))
    *_, answers = answers_of(look, scene.image, prompts, Asked(1.5), ("softmax",))
    texts = model.encode_text(model.tokenize([text]), normalize=True)
    run = Run(look.embedding, texts, look.recording)
    said = {
        "zero-shot": scores_html(prompts, scores, scores),
        "explain": words_html(found, "x"),
        "relevance": RelevanceStore(service).relevance(
            RelevanceAsked("clip-scenes", scene.token, text, None), scene.image
        )["note"],
        "text": " ".join(warnings_of(model, text)),
        "segmentation": " ".join(remarks_on_classes(model, Segmentation("sclip", ("cat, " + EMOJI,), "", 1.5))),
        "sparse answers": answers_html(prompts, [answers], ""),
        "intervention": outcome_html(prompts, [Outcome(look, (), (), run, run)] * 2),
    }
    assert [place for place, words in said.items() if SAID[1:] not in html.unescape(words)] == []


def test_a_remark_that_holds_of_one_model_names_it(look: Look, clip: LoadedModel) -> None:
    prompts = parse_prompts("a кошка, cat", "")
    other = dataclasses.replace(score(look, prompts), title="Other", remarks=(Remarks((), (), (), 16),) * 2)
    assert f"{look.model.title}: never seen in training: кошка" in scores_html(prompts, score(look, prompts), other)
