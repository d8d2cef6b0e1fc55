"""Run logs are read with their faults, and figures hold what the log holds."""

import json
from pathlib import Path

import pytest

from studio.figures import trajectory_figure
from studio.runlog import MOST_POINTS, TowerLambdas, read_lambda_log
from studio.service import Service
from studio.tabs.trajectories import _drawn


def test_a_log_is_read_for_both_towers(folders: tuple[Path, Path]) -> None:
    log = read_lambda_log(folders[1])
    assert log is not None
    assert log.bad_lines == 0
    vision = log.towers["vision"]
    assert vision.samples == (256, 512, 768, 1024, 1280)
    assert vision.lam[-1] == pytest.approx((0.8, 0.85, 0.9))
    assert vision.terms is not None
    assert vision.terms[0][0] == pytest.approx((1.0, 1.0))


def test_no_log_is_none(folders: tuple[Path, Path]) -> None:
    assert read_lambda_log(folders[0]) is None


def test_bad_lines_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    good = json.dumps({"step": 1, "samples": 8, "lambda": {"vision": [0.8], "text": [0.7]}})
    bad = ['{"step": 2, "sam', "[]", '{"samples": "many"}', '{"samples": 9, "lambda": {"vision": [NaN]}}']
    bad += ['{"samples": 9, "lambda": {"vision": [0.8]}, "lambda_terms": {"vision": [[1]]}}']
    bad += ['{"samples": 9, "lambda": {"vision": [0.8, 0.8]}, "lambda_terms": {"vision": [[1, 1]]}}']
    (tmp_path / "log.jsonl").write_text("\n".join([good, *bad, "", good]), encoding="utf-8")
    log = read_lambda_log(tmp_path)
    assert log is not None
    assert log.bad_lines == 6
    assert len(log.towers["text"].samples) == 2
    assert log.towers["text"].terms is None


def test_a_clip_log_holds_no_lambda(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(json.dumps({"step": 1, "samples": 8, "loss": 1.0}), encoding="utf-8")
    log = read_lambda_log(tmp_path)
    assert log is not None
    assert log.towers["vision"].samples == ()


def test_a_long_log_is_thinned_with_its_ends(tmp_path: Path) -> None:
    lines = [json.dumps({"samples": step, "lambda": {"vision": [0.8]}}) for step in range(5000)]
    (tmp_path / "log.jsonl").write_text("\n".join(lines), encoding="utf-8")
    log = read_lambda_log(tmp_path)
    assert log is not None
    samples = log.towers["vision"].samples
    assert len(samples) == MOST_POINTS
    assert (samples[0], samples[-1]) == (0, 4999)


def test_the_figure_draws_each_layer_and_its_start() -> None:
    lambdas = TowerLambdas((8, 16), ((0.8, 0.2), (0.9, 0.1)), (((1.0, 1.0), (1.0, 1.6)), ((1.1, 1.0), (1.0, 1.7))))
    figure = trajectory_figure(lambdas, (0.8, 0.2), "vision tower")
    assert [list(trace.y) for trace in figure.data] == [[0.8, 0.9], [0.2, 0.1], [0.8, 0.8], [0.2, 0.2]]
    assert {tuple(trace.x) for trace in figure.data} == {(8, 16)}
    assert list(figure.data[1].customdata[1]) == [1.0, 1.7]
    assert [trace.line.dash for trace in figure.data] == [None, None, "dash", "dash"]
    assert figure.data[2].line.color == figure.data[0].line.color


def test_layers_that_start_alike_share_one_dashed_line() -> None:
    figure = trajectory_figure(TowerLambdas((8, 16), ((0.8, 0.8), (0.9, 0.7)), None), (0.8, 0.8), "text tower")
    assert [trace.name for trace in figure.data if trace.line.dash == "dash"] == ["λ init: 0.800"]


def test_the_figure_brings_no_background_of_its_own() -> None:
    figure = trajectory_figure(TowerLambdas((1,), ((0.8,),), None), (0.8,), "x")
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    assert figure.layout.template.layout.paper_bgcolor in (None, "white")
    assert figure.layout.font.color != "#2a3f5f"


def test_a_clip_is_said_to_have_no_lambda(service: Service) -> None:
    said, figures = _drawn(service, "clip-scenes")
    assert "has no λ" in said
    assert [figure.visible for figure in figures] == [False, False]
    said, figures = _drawn(service, "diffclip-scenes")
    assert [figure.visible for figure in figures] == [True, True]
