"""Models are loaded once, pictures run once, and what is kept of both is bounded."""

import os
import shutil
from pathlib import Path

import pytest

from models import LoadedModel, StudioError
from models.checkpoints import WEIGHTS
from models.files.weights import file_sha256
from studio.examples import Example, picture_token
from studio.registry import model_bytes
from studio.service import Service
from studio.upload import Upload


def test_a_model_is_loaded_once_and_a_picture_run_once(service: Service, scene: Upload) -> None:
    assert service.model("clip-scenes") is service.model("clip-scenes")
    assert service.look("clip-scenes", scene.image) is service.look("clip-scenes", scene.image)


def test_recordings_stay_within_their_bytes(
    folders: tuple[Path, Path], examples: tuple[Example, ...], scene: Upload
) -> None:
    one = Service(folders, examples).look("clip-scenes", scene.image).recording.nbytes
    service = Service(folders, examples, recording_bytes=int(one * 2.5 * 2.5))
    tokens = []
    for turn in range(6):
        image = scene.image.rotate(turn)
        service.look("clip-scenes", image)
        tokens.append(picture_token(image))
        assert 0 < service.looks.used <= service.looks.capacity
    assert service.looks.get(("clip-scenes", tokens[0])) is None
    assert service.looks.get(("clip-scenes", tokens[-1])) is not None


def test_what_holds_a_model_is_told_when_it_is_let_go(
    folders: tuple[Path, Path], diffclip: LoadedModel, scene: Upload
) -> None:
    service, gone = Service(folders, (), model_bytes=int(model_bytes(diffclip) * 1.5)), []
    service.follow(lambda name, token: gone.append((name, token)))
    service.look("clip-scenes", scene.image)
    service.model("diffclip-scenes")
    assert gone == [("clip-scenes", None)]
    assert len(service.looks) == 0


def test_what_holds_a_look_is_told_when_it_is_let_go(
    folders: tuple[Path, Path], examples: tuple[Example, ...], scene: Upload
) -> None:
    one = Service(folders, examples).look("clip-scenes", scene.image).recording.nbytes
    service, gone = Service(folders, examples, recording_bytes=int(one * 2.5 * 1.5)), []
    service.follow(lambda name, token: gone.append((name, token)))
    service.look("clip-scenes", scene.image)
    service.look("clip-scenes", scene.image.rotate(1))
    assert gone == [("clip-scenes", picture_token(scene.image))]


def test_an_unknown_model_is_named_with_those_that_exist(service: Service) -> None:
    with pytest.raises(StudioError, match=r"no model 'clap' here: choose clip-scenes, diffclip-scenes"):
        service.model("clap")


def test_titles_are_read_without_loading_weights_and_broken_configs_keep_the_name(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "broken").mkdir()
    service = Service([*folders, tmp_path / "broken"], [])
    assert [service.title(name) for name in service.names] == ["CLIP, tiny", "DiffCLIP, tiny", "broken"]


def test_a_weights_file_is_read_again_only_when_it_is_another(folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(folders[0], folder)
    service, weights = Service([folder], []), folder / WEIGHTS
    service.model("mine")
    first = service.weights_sha256("mine")
    assert first == file_sha256(weights)
    stat, kept = weights.stat(), weights.read_bytes()
    weights.write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert service.weights_sha256("mine") == first, "a file of the same size and time is not read again"
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert service.weights_sha256("mine") == file_sha256(weights) != first
    weights.unlink()
    assert service.weights_sha256("mine") == ""


def test_two_models_of_one_name_are_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(StudioError, match="the same name"):
        Service([folders[0], folders[0]], [])


def test_only_an_example_scene_has_objects(service: Service, scene: Upload) -> None:
    objects = service.look("clip-scenes", scene.image).objects
    assert objects is not None
    assert objects.inside.reshape(4, 4)[:2, :2].all()
    assert int(objects.inside.sum()) == 4
    assert service.look("clip-scenes", scene.image.rotate(90)).objects is None
