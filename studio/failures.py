"""One place turns what a person asked in vain into a message on the page."""

import functools
import html
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

import gradio as gr

from models import StudioError

P = ParamSpec("P")
T = TypeVar("T")


def toast(error: StudioError) -> gr.Error:
    """The error as Gradio shows it. The text is escaped: Gradio reads it as HTML, and it may hold user input."""
    return gr.Error(html.escape(str(error), quote=False), title="Not done", print_exception=False)


def told(handler: Callable[P, T]) -> Callable[P, T]:
    """An event handler whose `StudioError` reaches the person as a sentence; other exceptions stay faults.

    An event that fails changes no output, so the picture and the maps of before stay on the page.
    """

    @functools.wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return handler(*args, **kwargs)
        except StudioError as error:
            raise toast(error) from error

    return wrapped


def told_steps(handler: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """As `told`, for a handler that yields as it goes; it can be stopped between, and then its own `finally` runs."""

    @functools.wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from handler(*args, **kwargs)
        except StudioError as error:
            raise toast(error) from error

    return wrapped
