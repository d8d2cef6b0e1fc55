"""What a tab shows drawn again from its recipe, by the functions that the tab itself calls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from models import StudioError, open_picture
from studio.examples import Example, picture_token
from studio.lambda_again import runs_again
from studio.lambda_recipe import LambdaSettings
from studio.recipe import Picture
from studio.redraw import differences, picture_given, service_for
from studio.tab_again import result_again
from studio.tab_recipe import TabRecipe
from studio.tab_settings import picture_of
from studio.take_strip import tab_recipe
from studio.taken_files import files_of
from studio.upload import Upload


def redraw_tab(
    recipe: TabRecipe,
    examples: Sequence[Example],
    files: Mapping[str, Path],
    sources: Mapping[str, str] | None = None,
    *,
    logs: Sequence[Path] = (),
    anyway: bool = False,
) -> dict[str, bytes]:
    """The files of a recipe, by running its models on its picture.

    Args:
        recipe: what is drawn.
        examples: pictures that are here.
        files: "picture", where it is none of those; "mask", the one that was uploaded; "other", the picture whose A2
            was put in.
        sources: model name -> what `load_model` takes, for models that somebody brought.
        logs: of runs, where they do not lie with a model.
        anyway: draw although pictures, weights or logs are not those of the recipe; the figure then says so.

    Raises:
        StudioError: a picture, a model or a log is not at hand, or is not that of the recipe.
    """
    service = service_for(recipe.models, examples, sources or {})
    upload = None
    if recipe.picture is not None:
        image = picture_given(recipe.picture, examples, files.get("picture"))
        upload = Upload(image, Path(recipe.picture.name))
    drawn = None if upload is None else picture_of(upload)
    said: list[str] = []
    found: dict[str, Any] = {}

    def give(what: str, wanted: Picture | str) -> Image.Image:
        image = _given(what, wanted, examples, files.get(what))
        then, now = wanted if isinstance(wanted, str) else wanted.sha256, picture_token(image)
        found[what] = now if isinstance(wanted, str) else Picture(now, image.width, image.height, wanted.name)
        if now != then:
            said.append(f"The {what} is not that of the recipe: its pixels have sha256 {now[:12]}…, not {then[:12]}….")
            if not anyway:
                raise StudioError(f"{said[0]} Give the files of the recipe, or draw with --anyway.")
        return image

    again = tab_recipe(service, drawn, recipe.settings, recipe.style)
    differing = differences((recipe.picture, recipe.models), (again.picture, again.models), anyway=anyway)
    if isinstance(recipe.settings, LambdaSettings):
        result, now, others = runs_again(service, recipe.settings, logs, anyway=anyway)
        said += others
        found["runs"] = now.runs
    else:
        result = result_again(service, upload, recipe.settings, give)
    # What was given instead is named by the recipe that is written now.
    again = replace(again, settings=replace(recipe.settings, **found))
    return files_of(result, again, " ".join(filter(None, [differing, *said])))


def _given(what: str, wanted: Picture | str, examples: Sequence[Example], file: Path | None) -> Image.Image:
    if isinstance(wanted, Picture):
        return picture_given(wanted, examples, file, what)
    if file is None:
        raise StudioError(f"The recipe's {what} was a file of the one who made it: give it with --{what} FILE.")
    return open_picture(file)
