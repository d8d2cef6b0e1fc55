"""Maps and curves of tabs with the settings of their recipes, and their files on a page."""

import base64
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from studio.attribution import drained
from studio.chart import Chart
from studio.chart_recipe import DuelSettings
from studio.duel import Side, duel
from studio.duel_figure import duel_chart
from studio.explain_all import explain_all, method_of
from studio.explained import explanations_strip
from studio.intervened_maps import MapChoice, maps_strip
from studio.intervening import changed_model
from studio.result_store import Result, new_token
from studio.service import Service
from studio.sparsity_sides import MATCHES, Controls
from studio.sparsity_similarity import answers_shown
from studio.sparsity_view import segment_shown, show_sparsity, sweep_shown
from studio.strip import Strip
from studio.sweep_figure import sweep_chart
from studio.sweeping import lambda_asked, swept_models
from studio.tab_recipe import Settings, TabRecipe, read_tab_recipe
from studio.tab_settings import (
    alpha_sweep_settings,
    explain_settings,
    intervene_settings,
    lambda_sweep_settings,
    picture_of,
    segmentation_settings,
    sparsity_settings,
)
from studio.take_strip import take_strip_server
from studio.upload import Upload
from studio.zeroshot import parse_prompts

NAMES = ("clip-scenes", "diffclip-scenes")
SET = Controls(
    alpha=1.5, match=MATCHES[0], keep=4, source="qk", mode="readout", everywhere=True, layer=1, left_head="mean",
    right_head="0", query="1, 2", classes="cat, dog, <script>", template="a photo of a {}", mask=None, painted=None,
    named="",
)  # fmt: skip
Made = tuple[Strip, Settings]


def sparsity(service: Service, scene: Upload, controls: Controls = SET, tables: bool = True, answers: int = 0) -> Made:
    strip = list(show_sparsity(service, scene, NAMES, controls))[1 if tables else 0].strip
    settings = replace(sparsity_settings(scene, NAMES, controls, tables=tables), answers=answers)
    for made, answered in enumerate(answers_shown(service, scene, NAMES, controls) if answers else (), 1):
        if made == answers:
            return replace(strip, tables=(*strip.tables, answered.table)), settings
    return strip, settings


def segmentation(
    service: Service, scene: Upload, controls: Controls = SET, ready: int = 4, side: int = 1, background: float = 0.2
) -> Made:
    steps = list(segment_shown(service, scene, NAMES, controls, "sclip", background, ["softmax", "entmax"]))
    strip = steps[ready - 1][1:][side]
    assert strip is not None
    place = ("left", "right")[side]
    return strip, segmentation_settings(
        scene,
        NAMES,
        controls,
        "sclip",
        background,
        ["softmax", "entmax"],
        place,
        ready,  # type: ignore[arg-type]
    )


def explained(service: Service, scene: Upload, method: str = "relevance", ready: tuple[int, int] = (4, 0)) -> Made:
    asked: dict[str, Any] = {
        "method": method, "part": "weights", "rule": "signed", "back": 2, "steps": 4.0, "baseline": "black",
    }  # fmt: skip
    chosen, texts = method_of(*asked.values()), ["a cat", "a <script> & dog"]
    detail = "patches" if method == "relevance" else "pixels"
    states = explain_all(service, scene, NAMES, texts, chosen, control=ready[1] > 0)
    state = next(state for state in states if state.ready == ready)
    settings = explain_settings(NAMES, texts, {**asked, "detail": detail}, ready)
    return explanations_strip(scene.image, state.explanations, chosen, detail), settings


def edits(a2: str = "uniform") -> list[dict[str, Any] | None]:
    changed = {"lam": [None, 0.5], "a2": a2, "off": [[1, 1]]}
    return [None, {"name": NAMES[1], "chosen": {"vision": changed, "text": {"lam": [0.0]}}}]


def intervened(service: Service, scene: Upload, a2: str = "uniform", other: Upload | None = None) -> Made:
    asked_for = "cat, <b>dog", "a {}"
    prompts = parse_prompts(*asked_for)
    outcomes = [
        changed_model(service, name, scene, asked, prompts, other) for name, asked in zip(NAMES, edits(a2), strict=True)
    ]
    choice = MapChoice(1, 0)
    strip = maps_strip(scene, outcomes, choice, prompts)
    assert strip is not None
    return strip, intervene_settings(service, NAMES, edits(a2), outcomes, choice, other, asked_for)


TABS: dict[str, Callable[[Service, Upload], Made]] = {
    "sparsity": sparsity,
    "segmentation": segmentation,
    "explain": explained,
    "intervene": intervened,
}


def over_alpha(service: Service, scene: Upload, controls: Controls = SET) -> tuple[Chart, Settings]:
    alphas = (1.0, 1.5, 2.0)
    *_, (_, chart) = sweep_shown(service, scene, NAMES, controls, alphas)
    assert chart is not None
    return chart, alpha_sweep_settings(scene, NAMES, controls, alphas)


def over_lambda(
    service: Service, scene: Upload, a2: str = "uniform", other: Upload | None = None, classes: str = "cat, <b>dog"
) -> tuple[Chart, Settings]:
    asked = lambda_asked(classes, "a {}", 2, "mean", "weights", other, "vision", False)
    *_, results = swept_models(service, scene, NAMES, edits(a2), asked)
    assert isinstance(results, list)
    chart = sweep_chart(results)
    assert chart is not None
    return chart, lambda_sweep_settings(service, NAMES, edits(a2), results, asked)


def dueled(service: Service, scene: Upload) -> tuple[Chart, Settings]:
    sides: list[Side] = []
    for name in NAMES:
        look = service.look(name, scene.image)
        pixels = look.model.preprocess(scene.image)[0]
        list(drained(duel(look, pixels, "a <cat> & dog", "last layer", "black", 4), sides))
    chart = duel_chart(sides, "a <cat> & dog", "last layer", "black")
    return chart, DuelSettings("a <cat> & dog", NAMES, "last layer", "black", 4)


CHARTS: dict[str, Callable[[Service, Upload], tuple[Chart, Settings]]] = {
    "alpha-sweep": over_alpha,
    "lambda-sweep": over_lambda,
    "duel": dueled,
}


def taken(service: Service, scene: Upload | None, made: tuple[Result, Settings], **style: Any) -> dict[str, bytes]:
    """The files of a result, as a page gets them that was given it."""
    token = service.results.keep(new_token(), made[0], None if scene is None else picture_of(scene), made[1])
    answer = take_strip_server(service)({"token": token, **style})
    assert "error" not in answer, answer
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["data"]))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def read(files: dict[str, bytes]) -> TabRecipe:
    return read_tab_recipe(json.loads(files["recipe.json"]))
