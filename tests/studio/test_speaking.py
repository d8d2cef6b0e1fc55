"""Relevance for panels: that of the models package, run once for a question, and said where there is none."""

import base64

import numpy as np
import pytest

from models import Choice, map_gradients
from models.relevance import relevance
from studio.service import Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.uploads import Upload


@pytest.mark.parametrize("name", ["clip-scenes", "diffclip-scenes"])
@pytest.mark.parametrize(("first", "layers"), [(None, (2,)), (0, (0, 1, 2)), (99, (2,))])
def test_relevance_is_that_of_the_models_package(
    service: Service, scene: Upload, name: str, first: int | None, layers: tuple[int, ...]
) -> None:
    answer = RelevanceStore(service).relevance(RelevanceAsked(name, scene.token, "a cat", first), scene.image)
    model = service.model(name)
    pixels, _ = model.preprocess(scene.image)
    chosen = Choice(layers=layers)
    gradients = map_gradients(model, pixels[None], model.tokenize(["a cat"]), chosen, Choice(layers=()))
    assert gradients.vision is not None
    expected = relevance(gradients.vision).patches.reshape(-1).numpy()
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(answer["values"]), "<f4"), expected, rtol=1e-5)
    assert answer["similarity"] == pytest.approx(float(gradients.similarity[0]), abs=1e-6)


def test_a_question_is_worked_out_once(service: Service, scene: Upload) -> None:
    store, asked = RelevanceStore(service), RelevanceAsked("clip-scenes", scene.token, "a cat", None)
    assert store.relevance(asked, scene.image) is store.relevance(asked, scene.image)
    other = RelevanceAsked("clip-scenes", scene.token, "two dogs", None)
    assert store.relevance(other, scene.image)["values"] != store.relevance(asked, scene.image)["values"]


def test_unknown_words_are_said_and_an_unknown_model_is_an_answer(service: Service, scene: Upload) -> None:
    store = RelevanceStore(service)
    answer = store.relevance(RelevanceAsked("clip-scenes", scene.token, "a zebra", None), scene.image)
    assert "zebra" in answer["note"]
    assert "error" in store.relevance(RelevanceAsked("none", scene.token, "a cat", None), scene.image)
