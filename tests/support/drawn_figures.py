"""What tests of figures share: looks at one picture, and a figure of a view of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from families import Family
from PIL import Image

from models import LoadedModel, record
from studio.measures import objects_of
from studio.recipe import Found, Panel, Picture, Recipe, View
from studio.render.figure import figure_of
from studio.render.ranges import Shown, shown_of
from studio.render.readings import Relevances, readings_of
from studio.render.shapes import Drawn
from studio.service import Look, vision_grid


def picture(height: int = 40, width: int = 60) -> Image.Image:
    """Noise, wider than it is high: of it the models see the middle."""
    return Image.fromarray(np.random.default_rng(2).integers(0, 256, (height, width, 3), dtype=np.uint8))


def look_of(model: LoadedModel, image: Image.Image, *, objects: bool = False) -> Look:
    """What a model does with a picture; with `objects`, the upper half of its patches is one."""
    pixels, geometry = model.preprocess(image)
    with record(model.vision) as recording:
        embedding = model.module.visual(pixels[None])
    grid = vision_grid(model)
    coverage = np.zeros((grid.rows, grid.cols))
    coverage[: grid.rows // 2] = 1
    return Look(model, recording, embedding, geometry, objects_of(coverage) if objects else None)


def with_tower(host: LoadedModel, family: Family, image: Image.Image) -> Look:
    """A look of a vision tower of another kind, in the place of the host's own."""
    model = replace(host, vision=family.tower, title="foreign")
    pixels, geometry = model.preprocess(image)
    with record(family.tower) as recording, torch.no_grad():
        embedding = family.module(pixels[None])
    return Look(model, recording, embedding, geometry, None)


def view_of(*kinds: tuple[str, str], **settings: Any) -> View:
    """A view of (model, kind) panels, mean over heads."""
    panels = tuple(Panel(model, kind) for model, kind in kinds)  # type: ignore[arg-type]
    return View(panels, **dict[str, Any]({"layer": 1} | settings))


def recipe_with(view: View, looks: Mapping[str, Look], image: Image.Image) -> Recipe:
    """A recipe of made-up hashes."""
    models = {name: look.model for name, look in looks.items()}
    found = tuple(
        Found(name, model.title, "", "ours", "ab" * 32, model.preprocess_settings, model.vision.lambdas())
        for name, model in models.items()
    )
    return Recipe(1, Picture("0" * 32, image.width, image.height, "noise.png"), view, found, {})


def drawn(
    view: View, looks: Mapping[str, Look], image: Image.Image, relevances: Relevances | None = None
) -> tuple[tuple[Shown, ...], Drawn]:
    """The panels of a view and the figure of them."""
    shown = shown_of(view, readings_of(view, looks, relevances or {}))
    return shown, figure_of(recipe_with(view, looks, image), shown, image)
