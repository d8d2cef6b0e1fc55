"""Models that people bring: recognised, served under their names, bounded, and nothing is lost when it fails."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from foreign import native, written
from safetensors.torch import load_file
from streamed import as_a_page_gets

from models import LoadedModel, StudioError
from models.files.weights import file_sha256
from studio.bring import bring_files, bring_folder, bring_named, recognised, settings_of
from studio.bring_field import choices_of, known_of, stages, view_of
from studio.examples import Example
from studio.public import Policy
from studio.registry import Entry, Registry, model_bytes
from studio.service import Service
from studio.upload import Upload


@pytest.fixture
def local(folders: tuple[Path, Path], examples: tuple[Example, ...]) -> Service:
    return Service(folders, examples, policy=Policy(False, roots=(folders[0].parent,)))


def brought(stages_of) -> str:
    *before, last = stages_of
    assert all(stage.said and not stage.name for stage in before)
    return last.name


def test_settings_are_read_as_people_write_them() -> None:
    assert settings_of("lambda_init = 0.8; heads=12, 8\nresize= 'squash'\n") == {
        "lambda_init": 0.8,
        "heads": (12, 8),
        "resize": "squash",
    }
    assert settings_of("grid = (24, 24); lambda_init=depth") == {"grid": (24, 24), "lambda_init": "depth"}
    assert settings_of("  \n ; ") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lamda_init=0.8", "did you mean 'lambda_init'"),
        ("heads=12", "must be a list"),
        ("heads=12,8,4", "must have 2 entries"),
        ("squash", "is no setting: write name = value"),
        ("resize=", "is no setting"),
        ("resize=squash;resize=shortest", "given twice"),
        ("interpolation=nearest", "choose bicubic, bilinear"),
    ],
)
def test_wrong_settings_are_told(text: str, said: str) -> None:
    with pytest.raises(StudioError, match=said):
        settings_of(text)


def test_a_named_folder_is_loaded_with_settings_and_served_under_its_name(local: Service, folders, scene) -> None:
    name = brought(bring_named(local, str(folders[1]), "lambda_init = 0.25"))
    model = local.model(name)
    assert model.name == name
    assert model.vision.lambda_init == (0.25, 0.25, 0.25)
    assert "lambda_init = 0.25" in local.title(name) == model.title
    assert local.look(name, scene.image).model is model
    assert brought(bring_named(local, str(folders[1]), "lambda_init=0.25")) == name
    assert name not in local.names
    assert dict(recognised(model))["given"] == "lambda_init = 0.25"
    assert not any(str(folders[1]) in text for _, text in recognised(model))


def test_the_checkpoint_of_a_run_folder_is_found_in_it(local: Service, folders, tmp_path: Path) -> None:
    shutil.copytree(folders[1], tmp_path / "run" / "checkpoint")
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    name = brought(bring_named(service, "run"))
    assert service.model(name).vision.differential
    assert service.folder(name) == tmp_path / "run" / "checkpoint"


def test_uploaded_files_of_a_folder_make_a_model_under_a_name_nobody_can_guess(local: Service, folders) -> None:
    files = [folders[1] / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    names = {brought(bring_files(local, files)) for _ in range(2)}
    assert len(names) == 2
    for name in names:
        assert len(name) > 22
        assert local.title(name) == "DiffCLIP, tiny (brought)"
        assert local.weights_sha256(name) == file_sha256(files[0])
        assert local.folder(name) is None
        same = zip(
            local.model(name).module.parameters(), local.model("diffclip-scenes").module.parameters(), strict=True
        )
        assert all(torch.equal(one, other) for one, other in same)


def test_brought_models_of_one_title_and_other_weights_are_told_apart(local: Service, folders, tmp_path: Path) -> None:
    files = [Path(shutil.copy(folders[1] / name, tmp_path)) for name in ("config.json", "tokenizer.json")]
    titles: list[str] = []
    for scale in (1.0, 2.0, 2.0):
        state = load_file(folders[1] / "model.safetensors")
        state["logit_scale"] = state["logit_scale"] - scale
        weights = written(state, tmp_path / "model.safetensors")
        titles.append(local.title(brought(bring_files(local, [*files, weights]))))
    first = "DiffCLIP, tiny (brought)"
    assert titles == [first, *[f"{first} · {file_sha256(weights)[:8]}"] * 2]
    # Two runs' folders that a person names.
    for run, scale in (("one", 1.0), ("two", 2.0)):
        shutil.copytree(folders[0], tmp_path / run)
        state = load_file(folders[0] / "model.safetensors")
        written(state | {"logit_scale": state["logit_scale"] - scale}, tmp_path / run / "model.safetensors")
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    named = [service.title(brought(bring_named(service, run))) for run in ("one", "two")]
    second = file_sha256(tmp_path / "two" / "model.safetensors")[:8]
    assert named == ["CLIP, tiny (brought)", f"CLIP, tiny (brought) · {second}"]
    # One that was let go and comes again is no other model.
    service.registry._models.drop(lambda name: True)
    assert [service.title(brought(bring_named(service, run))) for run in ("two", "one")] == named[::-1]
    # And steps that are opened on the chart of two runs of one title.
    for run in ("one", "two"):
        bring_folder(service, tmp_path / run, f"{run} step 3", "CLIP, tiny, step 3")
        bring_folder(service, tmp_path / run, f"{run} step 3", "CLIP, tiny, step 3")
    stepped = [service.title(f"{run} step 3") for run in ("one", "two")]
    assert stepped == ["CLIP, tiny, step 3", f"CLIP, tiny, step 3 · {second}"]
    assert service.model("two step 3").title == stepped[1]


def test_the_page_gets_the_rows_of_the_model_that_came_and_of_no_other(local: Service, folders) -> None:
    files = ("model.safetensors", "config.json", "tokenizer.json")
    names = [
        brought(bring_files(local, [folder / name for name in files], settings))
        for folder, settings in zip(reversed(folders), ("resize = squash", ""), strict=True)
    ]
    steps = [view_of(local, "Reading …", "busy", names[:1]), view_of(local, "There.", "", names[::-1])]
    # A CLIP has no rows of lambda, so its list is shorter than that of the DiffCLIP before it.
    assert len(recognised(local.model(names[1]))) + 1 < len(recognised(local.model(names[0])))
    assert as_a_page_gets(steps) == steps


def test_a_lone_weight_file_of_ours_says_what_belongs_to_it_and_not_where_it_lies(
    local: Service, folders, tmp_path: Path
) -> None:
    file = Path(shutil.copy(folders[1] / "model.safetensors", tmp_path))
    with pytest.raises(StudioError, match=r"^model.safetensors is .*copy the whole folder") as caught:
        list(bring_files(local, [file]))
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_lone_weight_file_of_a_known_layout_makes_a_model_that_looks_at_pictures(
    local: Service, scene: Upload, tmp_path: Path, suffix: str
) -> None:
    state = native("differential")
    file = tmp_path / f"run 7{suffix}"
    if suffix == ".pt":
        torch.save({"epoch": 3, "state_dict": {f"module.{key}": value for key, value in state.items()}}, file)
    else:
        written(state, file)
    name = brought(bring_files(local, [file], "lambda_init = 0.8"))
    assert name.startswith("run-7-")
    model = local.model(name)
    assert all(torch.equal(value, state[key]) for key, value in model.module.state_dict().items())
    assert model.vision.differential
    assert local.look(name, scene.image).embedding.isfinite().all()
    assert local.weights_sha256(name) == file_sha256(file)
    assert name not in local.names


class Harm:
    """What a pickle that runs code holds."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple:
        return Path.touch, (self.target,)


def test_no_code_of_an_uploaded_file_runs(local: Service, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    torch.save({"state_dict": {"weight": torch.ones(2)}, "harm": Harm(target)}, tmp_path / "model.pt")
    with pytest.raises(StudioError, match="nothing of it was run"):
        list(bring_files(local, [tmp_path / "model.pt"]))
    assert not target.exists()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("config.json",), "0 weight files"),
        (("a.pt", "b.safetensors"), "2 weight files"),
        (("a.pt", "run.sh"), "'run.sh' belongs to no checkpoint"),
    ],
)
def test_files_that_make_no_checkpoint_are_told(local: Service, tmp_path: Path, names: tuple, said: str) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(StudioError, match=said):
        list(bring_files(local, [tmp_path / name for name in names]))


def test_a_small_file_that_claims_much_is_refused_before_a_model_is_built(local: Service, tmp_path: Path) -> None:
    torch.save({"visual.proj": torch.ones(1).expand(3 * 10**9)}, tmp_path / "claims.pt")
    with pytest.raises(StudioError, match="may be read"):
        list(bring_files(local, [tmp_path / "claims.pt"]))


def test_in_public_files_and_folders_are_refused_on_the_server(folders, examples) -> None:
    service = Service(folders, examples, policy=Policy(True))
    with pytest.raises(StudioError, match="takes no checkpoints"):
        list(stages(service, None, [str(folders[0] / "model.safetensors")], ""))
    with pytest.raises(StudioError, match="not on its list"):
        list(stages(service, str(folders[0]), None, ""))
    for name in (str(folders[0]), "../clip-scenes", "hf-hub:someone/else"):
        with pytest.raises(StudioError, match="There is no model"):
            service.model(name)


def test_a_name_and_a_file_at_once_are_a_question(local: Service) -> None:
    with pytest.raises(StudioError, match="clear one of them"):
        list(stages(local, "clip-scenes", ["x.pt"], ""))


def test_models_stay_within_their_bytes_and_shipped_ones_come_back(
    folders, examples, diffclip: LoadedModel, scene: Upload
) -> None:
    size = model_bytes(diffclip)
    policy = Policy(False, roots=(folders[0].parent,))
    service = Service(folders, examples, policy=policy, model_bytes=int(size * 2.5))
    files = [folders[1] / name for name in ("model.safetensors", "config.json", "tokenizer.json")]
    upload = brought(bring_files(service, files))
    service.look(upload, scene.image)
    looks = len(service.looks)
    first = service.model("clip-scenes")
    service.model("diffclip-scenes")
    assert service.registry.used <= size * 2.5
    assert len(service.looks) == looks - 1
    with pytest.raises(StudioError, match="bring its file again"):
        service.model(upload)
    assert service.knows(upload)
    rows = json.loads(view_of(service, "", "", [upload])["models"][0]["rows"])
    assert rows == [["weights", "let go to make room for others"]]
    brought(bring_named(service, str(folders[1]), "lambda_init=0.1"))
    again = service.model("clip-scenes")
    assert again is not first
    assert service.model("clip-scenes") is again


def test_a_model_beyond_all_room_is_refused_and_those_there_stay(folders, examples) -> None:
    service = Service(folders, examples, policy=Policy(False, roots=(folders[0].parent,)), model_bytes=1000)
    with pytest.raises(StudioError, match="choose a smaller model"):
        list(bring_named(service, str(folders[1])))
    assert not service.knows(str(folders[1]))


def test_who_loads_one_model_keeps_nobody_waiting_for_another(clip: LoadedModel) -> None:
    registry, going, may_end = Registry(10**9), threading.Event(), threading.Event()

    def slow() -> LoadedModel:
        going.set()
        assert may_end.wait(10)
        return clip

    registry.start_with("slow", Entry("slow", None, slow))
    registry.start_with("quick", Entry("quick", None, lambda: replace(clip, name="quick")))
    thread = threading.Thread(target=registry.model, args=("slow",))
    thread.start()
    assert going.wait(10)
    assert registry.model("quick").name == "quick"
    assert registry.held("slow") is None
    may_end.set()
    thread.join()
    assert registry.held("slow") is clip


def test_a_model_asked_for_by_many_is_loaded_once(clip: LoadedModel) -> None:
    registry, loads = Registry(10**9), []
    registry.start_with("one", Entry("one", None, lambda: loads.append(1) or clip))
    threads = [threading.Thread(target=registry.model, args=("one",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]


def test_what_one_page_brought_is_offered_to_it_and_told_to_nobody_else(local: Service, folders) -> None:
    name = brought(bring_named(local, str(folders[1]), "resize=squash"))
    value = {"models": [{"name": name}, {"name": "made up"}, {"name": ["x"]}, 3]}
    assert known_of(local, value) == [name]
    assert [known_of(local, wrong) for wrong in (None, 3, {"models": 3}, {})] == [[], [], [], []]
    assert [value for _, value in choices_of(local, [name, "made up"])] == [*local.names, name]
    with pytest.raises(StudioError) as caught:
        local.model("made up")
    assert name not in str(caught.value)
