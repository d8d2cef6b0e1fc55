"""What the viewer is told of a picture and of the models that look at it."""

import json
from pathlib import Path
from typing import Any

import pytest

from studio.comparison import domain_warning, first_text, looked, view_value, waiting_value
from studio.examples import Example
from studio.service import Service
from studio.upload import PictureStore, Upload

LEFT, RIGHT = "clip-scenes", "diffclip-scenes"


def value_of(service: Service, upload: Upload, *others: str, **more: Any) -> dict[str, Any]:
    looks, missing = looked(service, upload, LEFT, RIGHT, others)
    return view_value(service, upload, looks, missing, **more)


def test_the_value_describes_both_models_and_is_plain_json(service: Service, scene: Upload) -> None:
    value = value_of(service, scene)
    json.dumps(value)
    left, right = value["sides"][LEFT], value["sides"][RIGHT]
    assert (left["differential"], right["differential"]) == (False, True)
    assert (left["heads"], right["heads"]) == (4, 2)
    assert (left["rows"], left["cols"], left["prefix"], left["cls"]) == (4, 4, 1, True)
    assert left["box"] == pytest.approx((0, 0, 1, 1))
    assert value["mask"] is True
    assert [panel["kind"] for panel in value["defaults"]] == ["weights", "a1", "subtracted", "weights"]
    assert value["choices"] == [[LEFT, "CLIP, tiny"], [RIGHT, "DiffCLIP, tiny"]]


def test_each_run_has_its_own_name_so_that_the_browser_notices(service: Service, scene: Upload) -> None:
    assert value_of(service, scene)["run"] != value_of(service, scene)["run"]


def test_a_further_model_that_fails_does_not_stop_the_two(service: Service, scene: Upload) -> None:
    value = value_of(service, scene, "none", LEFT)
    assert list(value["sides"]) == [LEFT, RIGHT]
    assert "none" in value["missing"]["none"]


def test_a_picture_that_is_no_example_is_outside_the_domain(service: Service, scene: Upload) -> None:
    other = Upload(scene.image.rotate(90), scene.file)
    assert [side["badge"] for side in value_of(service, scene)["sides"].values()] == ["", ""]
    badges = [side["badge"] for side in value_of(service, other)["sides"].values()]
    assert all("trained on generated scenes" in badge for badge in badges)
    assert domain_warning("photographs") == ""


def test_a_tall_picture_has_parts_that_no_model_saw(service: Service, scene: Upload) -> None:
    tall = Upload(scene.image.resize((64, 160)), scene.file)
    top, left, bottom, right = value_of(service, tall)["sides"][RIGHT]["box"]
    assert top == pytest.approx(0.3, abs=0.02)
    assert bottom == pytest.approx(0.7, abs=0.02)
    assert (left, right) == pytest.approx((0, 1))


def test_relevance_starts_with_the_caption_or_the_first_class(service: Service, scene: Upload) -> None:
    assert first_text(service, scene.token, "dog", "a {}") == "a cat"
    assert first_text(service, "0" * 32, "dog, cat", "a photo of a {}") == "a photo of a dog"
    assert first_text(service, "0" * 32, " \n cat", "no slot") == "cat"
    assert first_text(service, "0" * 32, "", "a {}") == ""


def test_a_kept_picture_is_found_by_its_token_until_its_file_goes(scene: Upload, tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    scene.image.save(file)
    upload, store = Upload(scene.image, file), PictureStore()
    assert store.find(upload.token) is None
    store.keep(upload)
    assert store.find(upload.token) is upload
    file.unlink()
    assert store.find(upload.token) is None


def test_an_example_is_found_by_its_token_whoever_looked_at_it(examples: tuple[Example, ...]) -> None:
    found = PictureStore(examples).find(examples[0].token)
    assert found is not None
    assert (found.token, found.file) == (examples[0].token, examples[0].picture)


def test_a_link_without_its_picture_waits(service: Service, scene: Upload) -> None:
    value = waiting_value("0" * 32, {"layer": 1}, ["One remark."])
    assert value == {"need": "0" * 32, "link": {"layer": 1}, "note": "One remark."}
    assert value_of(service, scene, link={"layer": 1})["link"] == {"layer": 1}
