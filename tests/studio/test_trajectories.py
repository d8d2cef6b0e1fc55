"""Run logs are read with their faults, the chart holds what they hold, and kept checkpoints can be opened."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from models import StudioError
from models.build import build_clip
from models.checkpoints import CheckpointInfo, save_checkpoint
from studio.bring import bring_folder, bring_named
from studio.lambdas import MOST_RUNS, Run, chart_value, kept_of, run_of_folder, run_of_log, run_of_model, runs_of
from studio.public import Policy
from studio.runlog import MOST_BYTES, MOST_POINTS, TowerLambdas, find_log, read_log
from studio.service import Service
from studio.viewer.lambda_chart import SCRIPTS

VIEWER = Path(__file__).resolve().parents[2] / "studio" / "viewer"


def write_log(folder: Path, *lines: object) -> Path:
    path = folder / "log.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def series(run: Run, tower: str = "vision") -> dict:
    return chart_value([run])["runs"][0]["towers"][tower]


def test_a_log_is_read_for_both_towers(folders: tuple[Path, Path]) -> None:
    path = find_log(folders[1])
    assert path is not None
    log = read_log(path)
    assert (log.bad_lines, log.last) == (0, (5, 1280))
    vision = log.towers["vision"]
    assert vision.samples == (256, 512, 768, 1024, 1280)
    assert vision.steps == (1, 2, 3, 4, 5)
    assert vision.lam[-1] == pytest.approx((0.8, 0.85, 0.9))
    assert vision.terms is not None
    assert vision.terms[0][0] == pytest.approx((1.0, 1.0))


def test_a_log_is_found_in_a_folder_and_beside_the_checkpoint_of_a_run(folders, tmp_path: Path) -> None:
    assert find_log(folders[0]) is None
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "elsewhere").mkdir()
    path = write_log(tmp_path, {"samples": 1})
    assert find_log(tmp_path) == find_log(tmp_path / "checkpoint") == path
    assert find_log(tmp_path / "elsewhere") is None


def test_bad_lines_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    good = {"step": 1, "samples": 8, "lambda": {"vision": [0.8], "text": [0.7]}}
    bad = ['{"step": 2, "sam', "[]", "3", '{"samples": "many"}', '{"samples": 9, "lambda": {"vision": [NaN]}}']
    bad += ['{"samples": 9, "lambda": {"vision": [1e300]}}', '{"samples": true}', "[" * 100_000]
    bad += ['{"samples": 9, "lambda": {"vision": [0.8]}, "lambda_terms": {"vision": [[1]]}}']
    bad += ['{"samples": 9, "lambda": {"vision": [0.8, 0.8]}, "lambda_terms": {"vision": [[1, 1]]}}']
    log = read_log(write_log(tmp_path, good, *bad, "", good | {"step": 2}))
    assert log.bad_lines == len(bad)
    assert len(log.towers["text"].samples) == 2
    assert log.towers["text"].terms is None


def test_a_log_that_goes_back_to_an_earlier_step_counts_from_there(tmp_path: Path) -> None:
    def line(step: int, value: float) -> dict:
        return {"step": step, "samples": 8 * step, "lambda": {"vision": [value]}}

    path = write_log(tmp_path, *(line(step, 0.8) for step in range(1, 7)), *(line(step, 0.9) for step in range(4, 9)))
    vision = read_log(path).towers["vision"]
    assert vision.steps == (1, 2, 3, 4, 5, 6, 7, 8)
    assert vision.lam == ((0.8,),) * 3 + ((0.9,),) * 5
    assert (
        "goes back to an earlier step; of what it holds twice the last counts, and 3 lines"
        in run_of_log("run", "A run", path, ()).said
    )
    bare = [{key: value for key, value in line(step, 0.8).items() if key != "step"} for step in (1, 2, 2, 1, 3)]
    assert read_log(write_log(tmp_path, *bare)).towers["vision"].samples == (8, 8, 24)


def test_a_log_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"step": 1, "samples": 8}\r\n{"step": 2, "samples": 16}\r\n')
    log = read_log(path)
    assert (log.bad_lines, log.last) == (0, (2, 16))


def test_a_folder_that_is_named_in_two_ways_is_one_run(folders, tmp_path: Path) -> None:
    shutil.copytree(folders[1], tmp_path / "run" / "checkpoint")
    (tmp_path / "run" / "checkpoint" / "log.jsonl").rename(tmp_path / "run" / "log.jsonl")
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    found = runs_of(service, ["clip-scenes"], [], ["run", "run/", "run/log.jsonl", "run/checkpoint"])
    assert [run.title for run in found] == [service.title("clip-scenes"), "run"]


def test_what_is_no_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(StudioError, match="holds no step of a training run"):
        read_log(write_log(tmp_path, "hello", "<html>"))
    with (tmp_path / "large.jsonl").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(StudioError, match=r"has 20\.1 MB, and logs of at most 20 MB are read"):
        read_log(tmp_path / "large.jsonl")
    with pytest.raises(StudioError, match=r"none.jsonl cannot be read"):
        read_log(tmp_path / "none.jsonl")


def test_a_log_that_grows_is_read_again(tmp_path: Path) -> None:
    line = {"samples": 8, "lambda": {"vision": [0.8]}}
    assert len(read_log(write_log(tmp_path, line)).towers["vision"].samples) == 1
    assert len(read_log(write_log(tmp_path, line, line)).towers["vision"].samples) == 2


def test_a_long_log_is_thinned_with_its_ends(tmp_path: Path) -> None:
    path = write_log(tmp_path, *({"samples": step, "lambda": {"vision": [0.8]}} for step in range(5000)))
    samples = read_log(path).towers["vision"].samples
    assert len(samples) == MOST_POINTS
    assert (samples[0], samples[-1]) == (0, 4999)


def test_lambda_init_is_what_lambda_is_beside_its_terms(tmp_path: Path) -> None:
    lines = [
        {
            "samples": i,
            "lambda": {"vision": [0.8 + 0.1 * i, 0.2]},
            "lambda_terms": {"vision": [[1 + 0.1 * i, 1.0], [1, 1]]},
        }
        for i in range(4)
    ]
    log = read_log(write_log(tmp_path, *lines))
    assert log.towers["vision"].lambda_init() == (0.8, 0.2)
    assert TowerLambdas((1,), (1,), ((0.8,),), None).lambda_init() is None


def test_the_chart_holds_each_layer_its_terms_and_its_start(service: Service) -> None:
    drawn = series(run_of_model(service, "diffclip-scenes"))
    assert drawn["samples"] == [256, 512, 768, 1024, 1280]
    assert drawn["steps"] == [1, 2, 3, 4, 5]
    assert drawn["lam"][1] == pytest.approx([0.81, 0.82, 0.83, 0.84, 0.85])
    assert drawn["one"][1] == pytest.approx([1.01, 1.02, 1.03, 1.04, 1.05])
    assert drawn["two"][0] == [1.0] * 5
    assert drawn["init"] == [0.8, 0.8, 0.8]
    json.dumps(drawn, allow_nan=False)


def test_a_clip_is_said_to_have_no_lambda(service: Service) -> None:
    run = run_of_model(service, "clip-scenes")
    assert "has no λ" in run.said
    assert chart_value([run])["runs"][0]["towers"] == {}


def test_a_tower_without_lambda_is_named_where_the_other_one_has_some(tmp_path: Path) -> None:
    lines = [{"step": at, "samples": at, "lambda": {"vision": [0.8]}} for at in (1, 2)]
    run = run_of_log("a", "a", write_log(tmp_path, *lines), ())
    assert run.said.startswith("Its log holds no λ of the text tower. Its log holds λ without its two terms")
    lines[0]["lambda"] = lines[1]["lambda"] = {"vision": [0.8], "text": [0.7]}
    said = run_of_log("a", "a", write_log(tmp_path, *lines, "{"), ()).said
    assert said.startswith("1 line of its log could not be read and is left out. Its log holds λ without")


def test_without_a_log_only_the_final_value_is_drawn_and_that_is_said(folders, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "bare", ignore=shutil.ignore_patterns("log.jsonl")))
    service = Service([folder], ())
    run = run_of_model(service, "bare")
    assert "Only the final λ is known" in run.said
    assert "dots at the right edge, whatever their step. No log.jsonl" in run.said
    lambdas = service.model("bare").vision.lambdas()
    assert lambdas is not None
    assert series(run)["final"] == pytest.approx(lambdas, rel=1e-4)
    write_log(folder, {"samples": 8, "loss": 1.0})
    assert "Its log.jsonl holds no λ" in run_of_model(service, "bare").said


def test_diff_v2_is_said_to_have_no_lambda_of_a_layer(folders, tokenizer, diffclip, tmp_path: Path) -> None:
    from tiny import tiny_config

    config = tiny_config("differential_v2", tokenizer.vocab_size)
    info = CheckpointInfo("DIFF V2", "scenes", config, diffclip.preprocess_settings)
    save_checkpoint(tmp_path / "v2", build_clip(config, 0), info, tokenizer)
    run = run_of_model(Service([tmp_path / "v2"], ()), "v2")
    assert "one for each token and head" in run.said
    assert chart_value([run])["runs"][0]["towers"] == {}


def test_with_another_lambda_init_the_log_of_the_run_is_not_drawn(folders) -> None:
    service = Service(folders, (), policy=Policy(False, roots=(folders[0].parent,)))
    names = [
        list(bring_named(service, str(folders[1]), words))[-1].name for words in ("lambda_init=0.2", "resize=squash")
    ]
    bare, logged = (run_of_model(service, name) for name in names)
    assert bare.log is None
    assert bare.final["vision"]
    assert logged.log is not None


def test_kept_checkpoints_of_a_run_are_found_and_opened(folders, tmp_path: Path) -> None:
    run_folder = tmp_path / "run"
    shutil.copytree(folders[1], run_folder / "checkpoint")
    (run_folder / "checkpoint" / "log.jsonl").rename(run_folder / "log.jsonl")
    for step in ("2", "4", "last", "-1"):
        shutil.copytree(folders[1], run_folder / "steps" / step)
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    run = run_of_folder(service, "run")
    assert [kept.step for kept in run.kept] == [2, 4, 5]
    assert run_of_folder(service, "run/log.jsonl").kept == run.kept
    _, kept = kept_of([run], {"run": run.key, "step": 2, "side": "left"})
    assert kept.folder == run_folder / "steps" / "2"
    bring_folder(service, kept.folder, "run step 2", "run, step 2")
    model = service.model("run step 2")
    assert (model.name, model.title) == ("run step 2", "run, step 2")
    assert torch.equal(model.module.visual.proj, service.model("diffclip-scenes").module.visual.proj)
    (kept.folder / "log.jsonl").unlink()
    shown = run_of_model(service, "run step 2")
    assert list(shown.final) == ["vision", "text"]
    assert shown.said.endswith("It was kept at step 2 of the run run, whose log is drawn where that is chosen.")
    for wrong in (None, {}, {"run": run.key, "step": 3}, {"run": "other", "step": 2}, {"run": [1], "step": {}}):
        with pytest.raises(StudioError, match="No checkpoint of that step"):
            kept_of([run], wrong)


def test_a_shipped_model_is_the_checkpoint_of_its_last_step(service: Service) -> None:
    run = run_of_model(service, "diffclip-scenes")
    assert [(kept.step, kept.name) for kept in run.kept] == [(5, "diffclip-scenes")]


def test_a_run_that_cannot_be_read_leaves_the_others(folders, tmp_path: Path) -> None:
    service = Service(folders, (), policy=Policy(False, roots=(tmp_path,)))
    (tmp_path / "empty").mkdir()
    sent = write_log(tmp_path, "nothing")
    runs = runs_of(service, ["diffclip-scenes", "diffclip-scenes", "nope"], [sent], ["empty", "/etc", " "])
    assert [bool(run.log) for run in runs] == [True, False, False, False, False]
    assert [run.said.split(":")[0][-30:] for run in runs[1:]] == [
        "There is no model 'nope' here"[-30:],
        "holds no step of a training run"[-30:],
        "'empty' holds no log.jsonl"[-30:],
        "'/etc' is nothing that this page opens"[-30:],
    ]
    with pytest.raises(StudioError, match=f"choose {MOST_RUNS} at most"):
        runs_of(service, [str(i) for i in range(MOST_RUNS + 1)], [], [])


def test_in_public_no_folder_is_read(folders) -> None:
    service = Service(folders, (), policy=Policy(True))
    (run,) = runs_of(service, [], [], [str(folders[1])])
    assert run.log is None
    assert "opens no paths" in run.said


def test_the_chart_and_the_list_of_models_write_text_never_markup() -> None:
    for name in (*SCRIPTS, "brought", "gallery"):
        script = (VIEWER / f"{name}.js").read_text(encoding="utf-8")
        assert not any(word in script for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "eval(")), name
    for name in ("lambda_chart", "brought"):
        assert "{" not in (VIEWER / f"{name}.html").read_text(encoding="utf-8")
