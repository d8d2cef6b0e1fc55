"""Requests past the page's fields: whatever anyone can send to a server of ours, and all that it answers."""

import http.client
import itertools
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import gradio as gr

_session = itertools.count()


@dataclass(frozen=True)
class Served:
    """A page with its server."""

    demo: gr.Blocks
    address: str


def ask(address: str, path: str, body: Any = None) -> tuple[int, str]:
    """(status, text) of a request; with a body it is posted as JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path.lstrip("/"), data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def ask_as_written(address: str, path: str) -> tuple[int, str]:
    """The same for a path that no client may tidy up before it is sent, as one with "..", and without redirects."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def run_event(address: str, index: int, data: list[Any], event_data: Any = None) -> list[str]:
    """Join the queue by an event's index, as the page does; every message of the stream, the outcome last."""
    session = f"raw{next(_session)}"
    joined = {"data": data, "fn_index": index, "session_hash": session, "event_data": event_data}
    status, text = ask(address, "gradio_api/queue/join", joined)
    assert status == 200, text
    said = []
    with urllib.request.urlopen(f"{address}gradio_api/queue/data?session_hash={session}", timeout=60) as stream:
        for line in stream:
            text = line.decode().strip()
            if text.startswith("data:"):
                said.append(text)
            if "process_completed" in text or "close_stream" in text:
                break
    return said


def event_named(demo: gr.Blocks, name: str) -> int:
    """The index of the first event whose handler has this name."""
    return next(index for index, event in demo.fns.items() if event.name == name)


def file_data(path: object) -> dict[str, Any]:
    """A file as Gradio's own client names one that it uploaded."""
    return {"path": str(path), "meta": {"_type": "gradio.FileData"}}
