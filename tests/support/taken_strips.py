"""Maps of the tabs Sparsity, Explain and Intervene with the settings of their recipes, and their files on a page."""

import base64
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

from studio.explain_all import explain_all, method_of
from studio.explained import explanations_strip
from studio.intervened_maps import MapChoice, maps_strip
from studio.intervening import changed_model
from studio.service import Service
from studio.sparsity_view import MATCHES, Controls, segment_shown, show_sparsity
from studio.strip import Strip
from studio.strip_store import new_token
from studio.tab_recipe import Settings, TabRecipe, read_tab_recipe
from studio.tab_settings import (
    explain_settings,
    intervene_settings,
    picture_of,
    segmentation_settings,
    sparsity_settings,
)
from studio.take_strip import take_strip_server
from studio.uploads import Upload

NAMES = ("clip-scenes", "diffclip-scenes")
SET = Controls(
    alpha=1.5, match=MATCHES[0], keep=4, source="qk", mode="readout", everywhere=True, layer=1, left_head="mean",
    right_head="0", query="1, 2", classes="cat, dog, <script>", template="a photo of a {}", mask=None, painted=None,
    named="",
)  # fmt: skip
Made = tuple[Strip, Settings]


def sparsity(service: Service, scene: Upload, controls: Controls = SET) -> Made:
    strip = next(show_sparsity(service, scene, NAMES, controls)).strip
    return strip, sparsity_settings(scene, NAMES, controls)


def segmentation(service: Service, scene: Upload, controls: Controls = SET, ready: int = 4, side: int = 1) -> Made:
    steps = list(segment_shown(service, scene, NAMES, controls, "sclip", 0.2, ["softmax", "entmax"]))
    strip = steps[ready - 1][1:][side]
    assert strip is not None
    place = ("left", "right")[side]
    return strip, segmentation_settings(
        scene,
        NAMES,
        controls,
        "sclip",
        0.2,
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
    outcomes = [
        changed_model(service, name, scene, asked, [], other) for name, asked in zip(NAMES, edits(a2), strict=True)
    ]
    choice = MapChoice(1, 0)
    strip = maps_strip(scene, outcomes, choice)
    assert strip is not None
    return strip, intervene_settings(service, NAMES, edits(a2), outcomes, choice, other)


TABS: dict[str, Callable[[Service, Upload], Made]] = {
    "sparsity": sparsity,
    "segmentation": segmentation,
    "explain": explained,
    "intervene": intervened,
}


def taken(service: Service, scene: Upload, made: Made, **style: Any) -> dict[str, bytes]:
    """The files of a strip, as a page gets them that was given the strip."""
    token = service.strips.value(new_token(), made[0], picture_of(scene), made[1])["take"]
    answer = take_strip_server(service)({"token": token, **style})
    assert "error" not in answer, answer
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(answer["data"]))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def read(files: dict[str, bytes]) -> TabRecipe:
    return read_tab_recipe(json.loads(files["recipe.json"]))
