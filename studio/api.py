"""Endpoints for programs: numbers as well as pictures, by the functions that the page itself uses.

`gradio_client.Client(url).predict(picture=handle_file("cat.png"), model="diffclip-scenes", api_name="/attention")`, or
the same as a tool where the page is started with an MCP server. These four are all that is public; what the page's own
controls call is not documented and may change.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from gradio import FileData
from gradio.events import api
from gradio.processing_utils import save_bytes_to_cache
from gradio.utils import get_upload_folder

from models import StudioError
from models.plain import from_plain
from studio.export import recipe_of, relevances_of
from studio.failures import told
from studio.looked_at import MODEL_EVENT
from studio.recipe import Picture, Recipe, View
from studio.render.figure import figure_of
from studio.render.ranges import Shown, shown_of
from studio.render.raster import png_bytes
from studio.render.readings import Reading, readings_of
from studio.service import Service, vision_grid
from studio.speaking import RelevanceStore
from studio.upload import Upload
from studio.uploads import read_upload
from studio.zeroshot import MAX_LENGTH, parse_prompts, score

ENDPOINTS = ("models", "attention", "rank", "similarity")
_MOST_TEXTS = 200


def add_api(service: Service) -> None:
    """Add the endpoints to the page that is being built."""
    for function in (_models(service), _attention(service), _rank(service), _similarity(service)):
        api(told(function), api_name=function.__name__, **MODEL_EVENT)


def uploaded(picture: object) -> Upload:
    """The picture that a program sent: a file that was uploaded to this server, and no other.

    Raises:
        StudioError: none was sent, it lies elsewhere, or it is no picture.
    """
    path = picture.get("path") if isinstance(picture, Mapping) else getattr(picture, "path", None)
    if not isinstance(path, str):
        raise StudioError("There is no picture: send a file, as gradio_client's handle_file does.")
    return read_upload(path, Path(get_upload_folder()))


def _models(service: Service) -> Any:
    def models() -> list[dict]:
        """The models that can be asked: for each its name, title, layers, heads, patch grid and lambda of each layer.

        Returns:
            One entry a model; `name` is what the other endpoints take.
        """
        found = []
        for name in service.names:
            model = service.model(name)
            grid, tower = vision_grid(model), model.vision
            entry = {"name": name, "title": model.title, "domain": model.domain, "differential": tower.differential}
            entry |= {"layers": tower.layers, "heads": tower.heads, "grid": [grid.rows, grid.cols]}
            found.append(entry | {"lambda": tower.lambdas()})
        return found

    return models


def _attention(service: Service) -> Any:
    relevance = RelevanceStore(service)

    def attention(
        picture: FileData,
        model: str,
        layer: int,
        head: int = -1,
        query_row: int = -1,
        query_col: int = -1,
        kind: str = "weights",
        alpha: float = 1.0,
        source: str = "qk",
        direction: str = "reads",
        text: str = "",
    ) -> tuple[dict, FileData]:
        """What one token of a picture attends to, patch by patch, in a CLIP or DiffCLIP model: numbers and a figure.

        The model runs unmodified and its maps are read off; another alpha or source than 1 and qk recomputes the map
        from that run, the model itself is not changed. For a differential model "weights" is A1 - lambda A2, which may
        be negative.

        Args:
            picture: the picture file, uploaded.
            model: name of the model, as the endpoint `models` lists it.
            layer: from 0.
            head: from 0, or -1 for the mean over heads.
            query_row: row of the query's patch from 0, or -1 for the CLS token.
            query_col: column of the query's patch from 0, or -1 for the CLS token.
            kind: weights, a1, subtracted, positive, negative, value or relevance.
            alpha: of the normaliser, from 1 (softmax) to 2 (sparsemax).
            source: which vectors make the scores: qk, qq, kk, vv, qq+kk or qq+kk+vv; sums are of maps.
            direction: "reads" for what the query attends to, "read by" for who attends to it.
            text: for kind relevance, what the picture is compared with.

        Returns:
            The numbers: patch values raw and times uniform, row by row, statistics, the same with A2 shuffled where it
            was subtracted (for relevance, of the model run so), and the recipe that draws the figure again. The figure
            as a PNG.
        """
        upload = uploaded(picture)
        query = None if query_row == query_col == -1 else [query_row, query_col, model]
        panel = {"model": model, "kind": kind, "head": "mean" if head == -1 else head}
        # Numbers of relevance stand beside a control, too, where there is one.
        panel["control"] = kind == "relevance" and service.knows(model) and service.model(model).vision.differential
        asked = {"panels": [panel], "layer": layer, "query": query, "direction": direction, "text": text}
        view = from_plain(View, asked | {"alpha": alpha, "source": source}, "attention")
        image = upload.image
        look = service.look(model, image)
        worked_out = partial(relevance.relevance, image=image), partial(relevance.control, image=image)
        relevances = relevances_of(view, upload.token, *worked_out)
        readings = readings_of(view, {model: look}, relevances)
        if readings[0].message:
            raise StudioError(readings[0].message)
        shown = shown_of(view, readings)
        recipe = recipe_of(service, view, Picture(upload.token, image.width, image.height, upload.file.name))
        png = png_bytes(figure_of(recipe, shown, image))
        return _numbers(readings[0], shown[0], recipe), _file(png, "attention.png")

    return attention


def _numbers(reading: Reading, shown: Shown, recipe: Recipe) -> dict[str, Any]:
    uniform = reading.patches * len(reading.row) if reading.group == "weights" else None
    return {
        "map": reading.name,
        "query": reading.query,
        "grid": [reading.grid.rows, reading.grid.cols],
        "values": reading.patches.tolist(),
        "times_uniform": None if uniform is None else uniform.tolist(),
        "prefix": reading.row[: reading.prefix].tolist(),
        "statistics": dict(reading.measures),
        "statistics_a2_shuffled": dict(reading.control),
        "range": [-shown.top if reading.signed else 0.0, shown.top],
        "recipe": asdict(recipe),
    }


def _rank(service: Service) -> Any:
    def rank(picture: FileData, model: str, classes: str, template: str = "a photo of a {}") -> list[dict]:
        """Zero-shot classification: which of some classes a model finds in a picture, likeliest first.

        Args:
            picture: the picture file, uploaded.
            model: name of the model, as the endpoint `models` lists it.
            classes: one class a line, or several with commas between.
            template: a sentence with {} where the class goes, or nothing.

        Returns:
            For each class its text, cosine similarity, probability among these classes alone, words that the model does
            not know or hardly knows, and what is not read of too long a text.
        """
        prompts = parse_prompts(classes, template)
        scores = score(service.look(model, uploaded(picture).image), prompts)
        ranked = sorted(range(len(prompts)), key=lambda index: -scores.cosine[index])
        return [
            {
                "class": prompts[index].label,
                "text": prompts[index].text,
                "cosine": scores.cosine[index],
                "probability": scores.probability[index] if len(prompts) > 1 else None,
                "unknown_words": list(scores.remarks[index].unknown),
                "hardly_known_words": list(scores.remarks[index].foreign),
                "not_read": "".join(scores.remarks[index].cut),
            }
            for index in ranked
        ]

    return rank


def _similarity(service: Service) -> Any:
    def similarity(picture: FileData, model: str, texts: list[str]) -> list[float]:
        """Cosine similarity of a picture with each of some texts, by one model.

        Args:
            picture: the picture file, uploaded.
            model: name of the model, as the endpoint `models` lists it.
            texts: the sentences.

        Returns:
            One number from -1 to 1 for each text, in their order.
        """
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise StudioError("The texts are missing: send a list of sentences.")
        if len(texts) > _MOST_TEXTS:
            raise StudioError(f"{len(texts)} texts are too many: at most {_MOST_TEXTS} are taken.")
        if (longest := max(map(len, texts))) > MAX_LENGTH:
            raise StudioError(f"A text of {longest} characters is too long: at most {MAX_LENGTH} are taken.")
        look = service.look(model, uploaded(picture).image)
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        embedded = look.model.encode_text(look.model.tokenize(clean), normalize=True)
        return (embedded @ look.embedding[0]).float().tolist()

    return similarity


def _file(data: bytes, name: str) -> Any:
    """Bytes as a file that the server hands out, and clears away with the uploads."""
    path = save_bytes_to_cache(data, name, get_upload_folder())
    return FileData(path=path, orig_name=name, mime_type="image/png").model_dump()
