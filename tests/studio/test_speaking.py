"""Relevance for panels: that of the models package, run once for a question, and said where there is none."""

import base64

import numpy as np
import pytest

from models import Choice, localisation, map_gradients, statistics
from models.intervention import ShuffledA2, intervene
from models.relevance import relevance
from studio.service import Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.upload import Upload


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


@pytest.mark.parametrize(("first", "layers"), [(None, (2,)), (0, (0, 1, 2))])
def test_the_control_is_the_mean_over_runs_with_a2_shuffled(
    service: Service, scene: Upload, first: int | None, layers: tuple[int, ...]
) -> None:
    name, store = "diffclip-scenes", RelevanceStore(service)
    asked = RelevanceAsked(name, scene.token, "a cat", first)
    model, objects = service.model(name), service.look(name, scene.image).objects
    assert objects is not None
    pixels, _ = model.preprocess(scene.image)
    runs = []
    for seed in range(3):
        found = map_gradients(
            model, pixels[None], model.tokenize(["a cat"]), Choice(layers=layers), Choice(layers=()), [ShuffledA2(seed)]
        )
        with model.lock, intervene(model.vision, [ShuffledA2(seed)]):
            embedding = model.encode_image(pixels[None], normalize=True)
        text = model.encode_text(model.tokenize(["a cat"]), normalize=True)
        assert float(found.similarity[0]) == pytest.approx(float((embedding @ text.T)[0, 0]), abs=1e-5)
        assert found.vision is not None
        patches = relevance(found.vision).patches[0].flatten()
        inside = localisation.mass_inside(patches, objects.inside)
        runs.append((float(inside), float(statistics.entropy(patches)), float(found.similarity[0])))
    answer = store.control(asked, scene.image)
    expected = dict(zip(("inside", "entropy", "similarity"), np.mean(runs, axis=0), strict=True))
    for measure, value in expected.items():
        assert answer["control"][measure] == pytest.approx(value, rel=1e-4), measure
    plain = store.relevance(asked, scene.image)
    assert answer["control"]["entropy"] != pytest.approx(plain["measures"]["entropy"], rel=1e-4)
    assert answer["control"]["similarity"] != pytest.approx(plain["similarity"], rel=1e-4)
    assert set(answer["control"]) == {*plain["measures"], "similarity"}
    assert "mean of 3 fixed shuffles" in answer["said"]
    assert store.control(asked, scene.image) is answer


def test_a_model_that_subtracts_nothing_has_no_control_of_its_relevance(service: Service, scene: Upload) -> None:
    store, asked = RelevanceStore(service), RelevanceAsked("clip-scenes", scene.token, "a cat", None)
    answer = store.control(asked, scene.image)
    assert "no A2 that could be shuffled" in answer["error"]
    assert "error" not in store.relevance(asked, scene.image)


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
