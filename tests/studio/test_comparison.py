"""What the viewer is told of a picture and two models, and what it may ask for."""

import json
from typing import Any

import pytest

from studio.comparison import domain_warning, layer_server, view_value
from studio.examples import picture_token
from studio.service import Service
from studio.uploads import Upload


def looked(service: Service, upload: Upload) -> dict[str, Any]:
    looks = service.look("clip-scenes", upload.image), service.look("diffclip-scenes", upload.image)
    return view_value(service, upload, looks)


def test_the_value_describes_both_models_and_is_plain_json(service: Service, scene: Upload) -> None:
    value = looked(service, scene)
    json.dumps(value)
    left, right = value["sides"]
    assert (left["differential"], right["differential"]) == (False, True)
    assert (left["heads"], right["heads"]) == (4, 2)
    assert (left["rows"], left["cols"], left["prefix"]) == (4, 4, 1)
    assert left["box"] == pytest.approx((0, 0, 1, 1))
    assert value["mask"] is True


def test_each_run_has_its_own_name_so_that_the_browser_notices(service: Service, scene: Upload) -> None:
    assert looked(service, scene)["run"] != looked(service, scene)["run"]


def test_a_picture_that_is_no_example_is_outside_the_domain(service: Service, scene: Upload) -> None:
    other = Upload(scene.image.rotate(90), scene.file)
    assert [side["badge"] for side in looked(service, scene)["sides"]] == ["", ""]
    assert all("trained on generated scenes" in side["badge"] for side in looked(service, other)["sides"])
    assert domain_warning("photographs") == ""


def test_a_tall_picture_has_parts_that_no_model_saw(service: Service, scene: Upload) -> None:
    tall = Upload(scene.image.resize((64, 160)), scene.file)
    top, left, bottom, right = looked(service, tall)["sides"][1]["box"]
    assert top == pytest.approx(0.3, abs=0.02)
    assert bottom == pytest.approx(0.7, abs=0.02)
    assert (left, right) == pytest.approx((0, 1))


@pytest.mark.parametrize(
    "asked",
    [
        None,
        [],
        "layer",
        {},
        {"token": "x", "model": "clip-scenes", "layer": 0, "alpha": 1},
        {"token": "0" * 32, "model": "../../etc", "layer": 0, "alpha": 1},
        {"token": "0" * 32, "model": ["clip-scenes"], "layer": 0, "alpha": 1},
        {"token": "0" * 32, "model": "clip-scenes", "layer": "0", "alpha": 1},
        {"token": "0" * 32, "model": "clip-scenes", "layer": True, "alpha": 1},
        {"token": "0" * 32, "model": "clip-scenes", "layer": 0, "alpha": float("nan")},
        {"token": "0" * 32, "model": "clip-scenes", "layer": 0, "alpha": 1e308},
        {"token": "0" * 32, "model": "clip-scenes", "layer": 0, "alpha": 10**400},
        {"token": "0" * 32, "model": "clip-scenes", "layer": 0, "alpha": "1"},
    ],
)
def test_a_malformed_request_is_answered_with_a_sentence(service: Service, asked: object) -> None:
    answer = layer_server(service)(asked)
    assert list(answer) == ["error"]
    assert answer["error"].endswith(".")


def test_layers_and_alpha_out_of_range_are_answered_with_a_sentence(service: Service, scene: Upload) -> None:
    get_layer, token = layer_server(service), picture_token(scene.image)
    looked(service, scene)
    asked = {"token": token, "model": "clip-scenes", "layer": 0, "alpha": 1.0}
    assert "choose 0-2" in get_layer(asked | {"layer": 3})["error"]
    assert "choose 0-2" in get_layer(asked | {"layer": -1})["error"]
    assert "outside [1, 2]" in get_layer(asked | {"alpha": 7})["error"]
    assert get_layer(asked)["keys"] == 17


def test_a_recording_that_was_let_go_is_said_to_be_gone(service: Service) -> None:
    asked = {"token": "0" * 32, "model": "clip-scenes", "layer": 0, "alpha": 1.0}
    assert layer_server(service)(asked) == {"evicted": True}


def test_alpha_is_taken_in_steps_so_that_answers_are_few(service: Service, scene: Upload) -> None:
    looked(service, scene)
    get_layer = layer_server(service)
    asked = {"token": picture_token(scene.image), "model": "clip-scenes", "layer": 0}
    answers = [get_layer(asked | {"alpha": 1.5 + i * 1e-4}) for i in range(20)]
    assert len(service.payloads) == 1
    assert {answer["alpha"] for answer in answers} == {1.5}
