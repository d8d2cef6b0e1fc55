"""Before is the model as it is, after is the model run with the edits, and nothing is left of them behind."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hooked import hooks_of
from PIL import Image

from models import StudioError, attention_maps
from models.intervention import AblateHeads, SetLambda, intervene
from studio.changes import Change, OtherPictureA2, TowerChange, controls_value
from studio.intervening import Outcome, Refused, changed_model, run_changed
from studio.service import Service
from studio.upload import Upload
from studio.zeroshot import parse_prompts

PROMPTS = parse_prompts("cat, dog, apple", "a photo of a {}")
LAMBDA_0 = Change(TowerChange({0: 0.0, 1: 0.0, 2: 0.0}))


def asked(service: Service, name: str, **vision: Any) -> dict[str, Any]:
    value = controls_value(service.model(name), name)
    value["chosen"]["vision"] |= vision
    return value


def other_picture(scene: Upload) -> Upload:
    return Upload(scene.image.transpose(Image.Transpose.ROTATE_90), scene.file)


def test_without_edits_after_is_before_bit_for_bit(service: Service, scene: Upload) -> None:
    for name in service.names:
        outcome = changed_model(service, name, scene, None, PROMPTS, None)
        assert isinstance(outcome, Outcome)
        assert outcome.after is outcome.before
        assert outcome.words == ()
        assert outcome.moved == pytest.approx(1.0)


def test_after_is_what_the_model_gives_inside_the_intervention(service: Service, scene: Upload) -> None:
    look = service.look("diffclip-scenes", scene.image)
    model = look.model
    outcome = run_changed(look, scene.image, PROMPTS, LAMBDA_0)
    pixels, _ = model.preprocess(scene.image)
    with model.lock, intervene(model.vision, [SetLambda(0.0)]):
        expected = model.encode_image(pixels[None], normalize=True)
    assert torch.equal(outcome.after.embedding, expected)
    assert outcome.moved < 1 - 1e-4
    assert outcome.before.embedding is look.embedding
    assert hooks_of(model.module) == 0
    texts = model.encode_text(model.tokenize([prompt.text for prompt in PROMPTS]), normalize=True)
    torch.testing.assert_close(outcome.after.cosine, (texts @ expected[0]).float())


def test_an_edit_of_the_text_tower_moves_the_texts_alone(service: Service, scene: Upload) -> None:
    look = service.look("clip-scenes", scene.image)
    outcome = run_changed(look, scene.image, PROMPTS, Change(text=TowerChange(off=((0, 0), (1, 2)))))
    assert outcome.after.embedding is outcome.before.embedding
    assert max(outcome.texts_moved) < 1 - 1e-6
    assert outcome.words == ("text tower: head 0 ablated in layer 0", "head 2 ablated in layer 1")


def test_heads_of_a_standard_model_can_be_ablated(service: Service, scene: Upload) -> None:
    outcome = changed_model(service, "clip-scenes", scene, asked(service, "clip-scenes", off=[[1, 3]]), [], None)
    assert isinstance(outcome, Outcome)
    assert outcome.vision == (AblateHeads((3,), 1),)
    assert outcome.moved < 1


def test_lambda_of_a_standard_model_gives_its_sentence(service: Service, scene: Upload) -> None:
    value = asked(service, "clip-scenes", lam=[0.0])
    outcome = changed_model(service, "clip-scenes", scene, value, PROMPTS, None)
    assert isinstance(outcome, Refused)
    assert "has one map and no lambda" in outcome.reason


def test_another_pictures_a2_is_that_of_the_other_picture(service: Service, scene: Upload) -> None:
    value = asked(service, "diffclip-scenes", a2="other")
    missing = changed_model(service, "diffclip-scenes", scene, value, PROMPTS, None)
    assert isinstance(missing, Refused)
    assert "needs another picture" in missing.reason
    other = other_picture(scene)
    outcome = changed_model(service, "diffclip-scenes", scene, value, PROMPTS, other)
    assert isinstance(outcome, Outcome)
    assert outcome.moved < 1
    same = changed_model(service, "diffclip-scenes", scene, value, PROMPTS, scene)
    assert isinstance(same, Outcome)
    assert same.moved == pytest.approx(1.0, abs=1e-5)


def test_another_picture_is_refused_where_it_was_not_recorded(service: Service, scene: Upload) -> None:
    look = service.look("diffclip-scenes", scene.image)
    with pytest.raises(StudioError, match="needs another picture"):
        run_changed(look, scene.image, [], Change(TowerChange(a2=OtherPictureA2())))


def test_the_recording_of_the_changed_run_differs_behind_the_edit_and_not_before_it(
    service: Service, scene: Upload
) -> None:
    look = service.look("diffclip-scenes", scene.image)
    outcome = run_changed(look, scene.image, [], Change(TowerChange({1: 0.0})))
    moved: Callable[[int], float] = lambda layer: float(  # noqa: E731
        (attention_maps(outcome.after.recording[layer]).a1 - attention_maps(outcome.before.recording[layer]).a1)
        .abs()
        .max()
    )
    assert moved(0) == moved(1) == 0
    assert moved(2) > 0
