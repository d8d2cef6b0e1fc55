"""Configs: what is wrong is named, what is right is as written, overrides reach every level."""

from pathlib import Path

import pytest

from models.errors import StudioError
from train.config import load_config, resolved
from train.data.config import CsvData, SceneData, TarData
from train.evaluation.protocols import CaptionRetrieval, FolderClasses, SceneClasses
from train.evaluation.zero_shot import SEED
from train.optim import learning_rate
from train.settings import SceneStream

SHIPPED = Path(__file__).parents[2] / "train" / "configs"


def test_the_shipped_twins_differ_in_name_and_attention_alone() -> None:
    clip, diffclip = (load_config(SHIPPED / f"{name}_scenes.toml") for name in ("clip", "diffclip"))
    assert clip.model.vision.attention == clip.model.text.attention == "standard"
    assert diffclip.model.vision.attention == diffclip.model.text.attention == "differential"
    as_standard = ["model.vision.attention=standard", "model.text.attention=standard"]
    same = load_config(SHIPPED / "diffclip_scenes.toml", [*as_standard, "name=clip-scenes", "title=CLIP, scenes"])
    assert same == clip
    assert clip.samples >= 200_000
    assert [stage.image_size for stage in clip.stages] == [64, 64, 112]
    # Another processor can make the first steps again only where they are in float32.
    assert [stage.precision for stage in clip.stages] == ["float32", "", ""]


def test_an_override_reaches_a_nested_setting(config_file: Path) -> None:
    config = load_config(config_file, ["optim.lr=0.5", "model.vision.attention=standard", "stop_after=2"])
    assert config.optim.lr == 0.5
    assert config.model.vision.attention == "standard"
    assert config.stop_after == 2


def test_a_stage_with_a_rate_begins_a_cosine_of_its_own() -> None:
    config = load_config(SHIPPED / "clip_scenes.toml")
    rates = [learning_rate(*config.cosine_of(step)) for step in range(config.steps)]
    first = config.first_step(len(config.stages) - 1)
    assert max(rates[:first]) == config.optim.lr
    assert rates[first - 1] == pytest.approx(config.optim.final_lr)
    assert rates[first] < max(rates[first:]) == config.stages[-1].lr
    assert rates[-1] == pytest.approx(config.optim.final_lr)
    with pytest.raises(IndexError):
        config.cosine_of(config.steps)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["optim.learning_rate=1"], "no setting 'learning_rate'"),
        (["batchsize=4"], "did you mean 'batch_size'"),
        (["batch_size=7"], "not a whole number of batches of 7"),
        (["batch_size=1"], "no negatives"),
        (["model.vision.head_width=16"], "must be even"),
        (["model.text.heads=1"], "choose 2"),
        (["optim.warmup_steps=8"], "leaves nothing of 8 steps"),
        (["optim.lr=fast"], "must be of type float"),
        (["precision=float8"], "choose auto, float32, bfloat16"),
        (["stages=[]"], "no stages"),
        (["stages=[{samples=64, image_size=16, lr=0.1}]"], "takes its rate from optim.lr"),
        (["stages=[{samples=64, image_size=16, drawn=-1}]"], "cannot be below 0"),
        (["stages=[{samples=8, image_size=20}]"], "not a multiple of 8"),
        (["seed.x=1"], "is a value, not a table"),
        (["no-equals-sign"], "write key=value"),
        (["optim.lr=-1"], "must lie above 0"),
        (["optim.beta1=2"], "below 1"),
        (["optim.grad_clip=0"], "must lie above 0"),
        (["optim.warmup_steps=-1"], "cannot be below 0"),
        (["threads=-1"], "cannot be below 0"),
        (["stop_after=-5"], "cannot be below 0"),
        (["model.vision.layers=0"], "must be at least 1"),
        (["stages=[{image_size=16}]"], "give one of the two"),
        (["stages=[{samples=8, epochs=1, image_size=16}]"], "give one of the two"),
        (["optim.warmup_epochs=1"], "leave one of them out"),
        (["optim.start_lr=-1e-3"], "cannot be below 0"),
        (["optim.schedule=cosines"], "did you mean 'cosine'"),
        (["gathering=ful"], "did you mean 'full'"),
        (["initialization=publish"], "did you mean 'published'"),
        (["ema=1"], "from 0 to below 1"),
        (["accumulation=0"], "must be 1 or more"),
        (["data={tarz='x'}"], "no setting 'tarz'"),
        (["log.trackers=['tensorbord']"], "did you mean 'tensorboard'"),
        (["log.probe_samples=0"], "must be 1 or more"),
        (["evaluation={of=[{scenes=5, template='x'}]}"], "did you mean 'templates'"),
    ],
)
def test_a_wrong_setting_is_refused_with_what_to_do(config_file: Path, settings: list[str], sentence: str) -> None:
    with pytest.raises(StudioError, match=sentence):
        load_config(config_file, settings)


def test_data_and_measurements_are_known_by_their_first_key(config_file: Path) -> None:
    kinds = {
        "data={seed=1}": SceneStream(1),
        "data={tars='x', captions=['json:text']}": TarData("x", captions=("json:text",)),
        "data={csv='x.csv'}": CsvData("x.csv"),
        "data={scenes=2, count=80}": SceneData(2, 80),
    }
    for setting, wanted in kinds.items():
        assert load_config(config_file, [setting]).data == wanted
    of = "evaluation.of=[{scenes=9}, {folder='val', images=5}, {retrieval={csv='x.csv'}}]"
    protocols = (SceneClasses(9), FolderClasses("val", images=5), CaptionRetrieval(CsvData("x.csv")))
    assert load_config(config_file, [of]).evaluation.of == protocols


def test_epochs_become_steps_once_the_size_of_the_data_is_known(config_file: Path) -> None:
    settings = ["data={tars='x'}", "stages=[{epochs=1.5, image_size=16}, {epochs=2, image_size=32, lr=1e-4}]"]
    config = load_config(config_file, [*settings, "optim.warmup_steps=0", "optim.warmup_epochs=0.5"])
    done = resolved(config, 35)
    assert [stage.samples for stage in done.stages] == [48, 64]
    assert (done.steps, done.samples, done.optim.warmup_steps) == (14, 112, 2)
    assert [done.stage_index(step) for step in (0, 5, 6, 13)] == [0, 0, 1, 1]
    assert [done.first_step(index) for index in range(3)] == [0, 6, 14]
    assert resolved(done, 1000) == done
    with pytest.raises(StudioError, match="fewer than one batch"):
        resolved(config, 7)
    with pytest.raises(StudioError, match="shorter than one step"):
        resolved(load_config(config_file, [settings[0], "stages=[{epochs=0.01, image_size=16}]"]), 35)


def test_a_missing_file_and_one_that_is_not_toml_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="There is no config at"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("[[[")
    with pytest.raises(StudioError, match="is not a TOML config"):
        load_config(tmp_path / "bad.toml")
    (tmp_path / "empty.toml").write_text("")
    with pytest.raises(StudioError, match="lacks name, title, seed"):
        load_config(tmp_path / "empty.toml")


def test_a_run_on_the_scenes_that_are_kept_for_evaluation_is_refused(config_file: Path) -> None:
    for data in ("{seed=%d}", "{scenes=%d, count=64}"):
        assert load_config(config_file, [f"data={data % (SEED + 1)}"])
        with pytest.raises(StudioError, match=f"Scenes of seed {SEED} are kept for evaluation"):
            load_config(config_file, [f"data={data % SEED}"])
