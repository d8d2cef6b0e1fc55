"""Maps and curves taken away as the page shows them: no model is run for it, and anyone can ask."""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from models import StudioError
from studio.export import zipped
from studio.provenance import model_found, package_versions
from studio.recipe import VERSION, Picture
from studio.service import Service
from studio.tab_recipe import TABS, AnyStyle, Settings, TabRecipe, style_of
from studio.taken_files import files_of

_PATIENCE = 20.0


def tab_recipe(service: Service, picture: Picture | None, settings: Settings, style: AnyStyle | None) -> TabRecipe:
    """A recipe for what was shown, with the models as they are now.

    Raises:
        StudioError: a model that is not here.
    """
    names = dict.fromkeys(settings.models)
    found = tuple(model_found(name, service.model(name), service.weights_sha256(name)) for name in names)
    return TabRecipe(VERSION, TABS[type(settings)], picture, settings, style, found, package_versions())


def take_strip_server(service: Service) -> Callable[[Any], dict[str, str]]:
    """The function that the browser calls to take something away. It never runs a model; anyone can call it.

    It is asked with an object of `token` and, for maps, `drawing`, `ramp` and `opacity`, and answers `{"name", "data"}`
    with a zip in base64, or `{"error"}`.
    """

    def take(asked: Any) -> dict[str, str]:
        results = service.results
        if not results.one_at_a_time.acquire(timeout=_PATIENCE):
            return {"error": "Others take figures away at this moment: press again in a few seconds."}
        try:
            if not isinstance(asked, Mapping):
                raise StudioError("What is taken away must be told as an object with its token.")
            wanted = dict(asked)
            kept = results.find(wanted.pop("token", None))
            style = style_of(kept.settings, wanted, "asked")
            recipe = tab_recipe(service, kept.picture, kept.settings, style)
            of = "" if kept.picture is None else f"-{kept.picture.sha256[:8]}"
            name = f"{recipe.tab}{of}.zip"
            data = zipped(files_of(kept.result, recipe))
            return {"name": name, "data": base64.b64encode(data).decode("ascii")}
        except StudioError as error:
            return {"error": str(error)}
        finally:
            results.one_at_a_time.release()

    return take
