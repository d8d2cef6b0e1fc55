"""The page as a program sees it that sends what the browser sends: uploads, events of the queue, server functions."""

import io
import json
import secrets
from dataclasses import dataclass
from typing import Any

import httpx
from PIL import Image

WAIT = 120.0


@dataclass(frozen=True)
class RawPage:
    """A page that is served.

    Attributes:
        address: where, with the slash at the end.
        events: number of each event by the name of its function.
        fields: what the fields that each event sends hold when the page opens.
        viewer: number of the viewer of Compare.
    """

    address: str
    events: dict[str, int]
    fields: dict[str, list[Any]]
    viewer: int

    @classmethod
    def at(cls, address: str) -> "RawPage":
        config = httpx.get(address + "config", timeout=WAIT).json()
        named = {each["api_name"]: each for each in config["dependencies"] if each["api_name"]}
        values = {each["id"]: each["props"].get("value") for each in config["components"]}
        events = {name: each["id"] for name, each in named.items()}
        fields = {name: [values[field] for field in each["inputs"]] for name, each in named.items()}
        (viewer,) = (each["id"] for each in config["components"] if each["props"].get("elem_id") == "viewer")
        return cls(address, events, fields, viewer)

    def visitor(self) -> "Visitor":
        return Visitor(self, httpx.Client(base_url=self.address, timeout=WAIT), secrets.token_hex(6))


@dataclass(frozen=True)
class Visitor:
    """One tab of a browser, with connections and a session of its own."""

    page: RawPage
    http: httpx.Client
    session: str

    def upload(self, image: Image.Image) -> dict[str, Any]:
        """Send a picture; how events name it from then on."""
        stream = io.BytesIO()
        image.save(stream, "PNG")
        (path,) = self.http.post("gradio_api/upload", files={"files": ("picture.png", stream.getvalue())}).json()
        return {"path": path, "meta": {"_type": "gradio.FileData"}}

    def look(self, image: Image.Image, left: str, right: str) -> dict[str, Any]:
        """Upload a picture and have both models look at it; the value of the viewer."""
        return self.event("compare", [self.upload(image), left, right, "cat, dog", "a photo of a {}", []])[0]

    def event(self, name: str, data: list[Any]) -> list[Any]:
        """What an event gives its outputs, by way of the queue."""
        number = self.page.events[name]
        joined = {"data": data, "fn_index": number, "session_hash": self.session}
        self.http.post("gradio_api/queue/join", json=joined).raise_for_status()
        with self.http.stream("GET", "gradio_api/queue/data", params={"session_hash": self.session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                if message.get("msg") == "process_completed":
                    assert message["success"], message["output"]
                    return message["output"]["data"]
        raise AssertionError(f"{name} ended without an answer.")

    def at_once(self, name: str, data: list[Any]) -> list[Any]:
        """What an event gives its outputs that does not go by way of the queue."""
        sent = {"data": data, "fn_index": self.page.events[name], "session_hash": self.session}
        return self.http.post("gradio_api/run/predict", json=sent).raise_for_status().json()["data"]

    def ask(self, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What a server function of the viewer answers."""
        sent = {"data": asked, "component_id": self.page.viewer, "fn_name": name, "session_hash": self.session}
        return self.http.post("gradio_api/component_server", json=sent).raise_for_status().json()
