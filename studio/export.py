"""What is shown, taken away: a figure as PNG and SVG, its arrays and numbers, and the recipe that draws it again.

The page's button and the command line make the same bytes: both read recordings, in the same order, by `figure_files`.
"""

import base64
import io
import threading
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from models import StudioError, open_picture
from studio.asked import text_asked
from studio.provenance import model_found, package_versions
from studio.recipe import VERSION, Panel, Picture, Recipe, View, view_of_state
from studio.render.arrays import arrays_of, npz_bytes, numbers_csv, zip_entry
from studio.render.figure import figure_of
from studio.render.ranges import shown_of
from studio.render.raster import png_bytes
from studio.render.readings import Relevances, Spoken, readings_of
from studio.render.vector import svg_text
from studio.service import Look, Service
from studio.speaking import RelevanceAsked, RelevanceStore
from studio.upload import Upload

Answers = Callable[[RelevanceAsked], Mapping[str, Any] | None]
_PATIENCE = 20.0
_GONE = "The server let go of this run to save memory: choose the picture again, then take it away."


def recipe_of(service: Service, view: View, picture: Picture) -> Recipe:
    """A recipe for what is looked at, with the models as they are now.

    Raises:
        StudioError: a model that is not here.
    """
    found = tuple(model_found(name, service.model(name), service.weights_sha256(name)) for name in view.models)
    return Recipe(VERSION, picture, view, found, package_versions())


def figure_files(
    recipe: Recipe, looks: Mapping[str, Look], relevances: Relevances, image: Image.Image, note: str = ""
) -> dict[str, bytes]:
    """The five files of a figure by their names; equal inputs give equal bytes.

    Args:
        recipe: what is drawn.
        looks: model name -> what it did with the picture.
        relevances: model name -> relevance, where a panel shows it.
        image: the picture, upright RGB.
        note: a further sentence for the figure's caption.

    Raises:
        StudioError: a kind or head that the models do not have, or no panel has anything to show.
    """
    readings = readings_of(recipe.view, looks, relevances)
    if all(reading.message for reading in readings):
        raise StudioError(readings[0].message)
    shown = shown_of(recipe.view, readings)
    drawn = figure_of(recipe, shown, image, note)
    return {
        "figure.png": png_bytes(drawn),
        "figure.svg": svg_text(drawn).encode("utf-8"),
        "arrays.npz": npz_bytes(arrays_of(recipe, looks, shown)),
        "numbers.csv": numbers_csv(recipe, shown).encode("utf-8"),
        "recipe.json": recipe.text().encode("utf-8"),
    }


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Files as one zip; equal files give equal bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            archive.writestr(zip_entry(name), data)
    return stream.getvalue()


def relevances_of(view: View, token: str, answer: Answers, control: Answers) -> dict[str, Spoken]:
    """Relevance for each model with a panel that shows it, where there is an answer.

    Args:
        view: whose panels.
        token: of the picture.
        answer: gives the relevance, or None where it is not known.
        control: likewise its numbers with A2 shuffled, for panels that have them.

    Raises:
        StudioError: there is no text, or the answer is why there is none.
    """
    found = {}
    for name in dict.fromkeys(panel.model for panel in view.panels if panel.kind == "relevance"):
        asked = _relevance_asked(view, token, name)
        given = answer(asked)
        if given is None:
            continue
        wanted = any(panel.control for panel in view.panels if (panel.model, panel.kind) == (name, "relevance"))
        beside = (control(asked) if wanted else None) or {"control": {}}
        for each in (given, beside):
            if "error" in each:
                raise StudioError(each["error"])
        values = np.frombuffer(base64.b64decode(given["values"]), dtype="<f4")
        found[name] = Spoken(torch.from_numpy(values.astype(np.float32)), beside["control"], given["similarity"])
    return found


def _relevance_asked(view: View, token: str, model: str) -> RelevanceAsked:
    return RelevanceAsked(model, token, text_asked(view.text), view.from_layer)


def _with_known_controls(view: View, token: str, relevance: RelevanceStore) -> View:
    """The view, in which relevance is said to have a control only where it was worked out."""

    def known(panel: Panel) -> bool:
        return (
            panel.kind == "relevance" and relevance.controls.get(_relevance_asked(view, token, panel.model)) is not None
        )

    return replace(view, panels=tuple(replace(panel, control=panel.control and known(panel)) for panel in view.panels))


def take_away_server(
    service: Service, find_picture: Callable[[str], Upload | None], relevance: RelevanceStore
) -> Callable[[Any], dict[str, str]]:
    """The function that the browser calls to take away what it shows. It never runs a model; anyone can call it.

    Args:
        service: whose recordings are read.
        find_picture: a picture that was looked at, by its token, or None.
        relevance: what was worked out of it; only what is known already is used.
    """
    one_at_a_time = threading.Lock()

    def take_away(state: Any) -> dict[str, str]:
        if not one_at_a_time.acquire(timeout=_PATIENCE):
            return {"error": "Others take figures away at this moment: press again in a few seconds."}
        try:
            token, view = view_of_state(state)
            return _packed(_taken(service, find_picture, relevance, token, view), token, view)
        except StudioError as error:
            return {"error": str(error)}
        finally:
            one_at_a_time.release()

    return take_away


def _taken(
    service: Service,
    find_picture: Callable[[str], Upload | None],
    relevance: RelevanceStore,
    token: str,
    view: View,
) -> dict[str, bytes]:
    unknown = [name for name in view.models if not service.knows(name)]
    if unknown:
        raise StudioError("There is no such model here: choose one of those that the page offers, or bring it.")
    looks = {name: service.looks.get((name, token)) for name in view.models}
    there = {name: look for name, look in looks.items() if look is not None}
    upload, example = find_picture(token), service.example(token)
    if len(there) < len(looks) or (upload is None and example is None):
        raise StudioError(_GONE)
    if upload is not None:
        image, name = upload.image, upload.file.name
    else:
        assert example is not None
        image, name = open_picture(example.picture), example.picture.name
    view = _with_known_controls(view, token, relevance)
    recipe = recipe_of(service, view, Picture(token, image.width, image.height, name))
    relevances = relevances_of(view, token, relevance.known.get, relevance.controls.get)
    return figure_files(recipe, there, relevances, image)


def _packed(files: Mapping[str, bytes], token: str, view: View) -> dict[str, str]:
    name = f"attention-layer{view.layer}-{token[:8]}.zip"
    return {"name": name, "data": base64.b64encode(zipped(files)).decode("ascii")}


_BY_ENDING = {".png": "figure.png", ".svg": "figure.svg", ".npz": "arrays.npz", ".csv": "numbers.csv"}


def written(files: Mapping[str, bytes], out: Path) -> list[Path]:
    """Write the files: all into a folder or a .zip, or the one that the ending of `out` names.

    Raises:
        StudioError: the place cannot be written to.
    """
    try:
        if out.suffix == ".zip":
            return [_write(out, zipped(files))]
        if out.suffix in _BY_ENDING:
            return [_write(out, files[_BY_ENDING[out.suffix]])]
        return [_write(out / name, data) for name, data in files.items()]
    except OSError as error:
        raise StudioError(f"{out} cannot be written ({error.strerror}): choose another place.") from error


def _write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
