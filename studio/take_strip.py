"""A strip of maps taken away as the page shows it: no model is run for it, and anyone can ask."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from models import StudioError
from models.plain import from_plain
from studio.export import zipped
from studio.provenance import model_found, package_versions
from studio.recipe import VERSION, Picture
from studio.service import Service
from studio.strip_files import strip_files
from studio.tab_recipe import TABS, Settings, Style, TabRecipe

_PATIENCE = 20.0


def tab_recipe(service: Service, picture: Picture, settings: Settings, style: Style) -> TabRecipe:
    """A recipe for what was shown, with the models as they are now.

    Raises:
        StudioError: a model that is not here.
    """
    names = dict.fromkeys(settings.models)
    found = tuple(model_found(name, service.model(name), service.weights_sha256(name)) for name in names)
    return TabRecipe(VERSION, TABS[type(settings)], picture, settings, style, found, package_versions())


def take_strip_server(service: Service) -> Callable[[Any], dict[str, str]]:
    """The function that the browser calls to take a strip away. It never runs a model; anyone can call it.

    It is asked with an object of `token`, `drawing`, `ramp` and `opacity`, and answers `{"name", "data"}` with a zip in
    base64, or `{"error"}`.
    """

    def take(asked: Any) -> dict[str, str]:
        strips = service.strips
        if not strips.one_at_a_time.acquire(timeout=_PATIENCE):
            return {"error": "Others take figures away at this moment: press again in a few seconds."}
        try:
            if not isinstance(asked, Mapping):
                raise StudioError("What is taken away must be told as an object with token, drawing, ramp and opacity.")
            wanted = dict(asked)
            kept = strips.find(wanted.pop("token", None))
            recipe = tab_recipe(service, kept.picture, kept.settings, from_plain(Style, wanted, "asked"))
            name = f"{recipe.tab}-{kept.picture.sha256[:8]}.zip"
            data = zipped(strip_files(kept.strip, recipe))
            return {"name": name, "data": base64.b64encode(data).decode("ascii")}
        except StudioError as error:
            return {"error": str(error)}
        finally:
            strips.one_at_a_time.release()

    return take
