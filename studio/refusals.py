"""The page's blocks, which refuse with a sentence what no field takes, as handlers refuse what is asked in vain.

The page itself sends nothing of the kind; a program that asks past its fields may. Gradio answers some of that without
a word, and writes into the server's log where in its own code it was refused, which is no fault of the program.
"""

import traceback
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.exceptions import ComponentProcessingError

from models import StudioError
from studio.failures import toast

NOT_TAKEN = "What was sent is nothing that this field takes: send what the page sends, a file after it was uploaded."
_LONGEST = 300
_GRADIO = Path(gr.__file__).resolve().parent


class Page(gr.Blocks):
    """`gr.Blocks` whose refusals are sentences; faults stay faults."""

    async def process_api(self, *args: Any, **named: Any) -> dict[str, Any]:
        """What Gradio calls for each event.

        Raises:
            gr.Error: what was sent is not what the event's fields take, or its handler refused.
        """
        try:
            return await super().process_api(*args, **named)
        except gr.Error as error:
            if not error.print_exception:
                raise
            # A sentence of Gradio's own, which may quote all that was sent.
            said = str(error.message)
            raise toast(StudioError(said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…")) from error

    async def preprocess_data(self, *args: Any, **named: Any) -> list[Any]:
        """What was sent -> what the event's handler is given.

        Raises:
            gr.Error: a field does not take it, or there are too few values.
        """
        try:
            given = await super().preprocess_data(*args, **named)
        except gr.Error:  # a sentence already, though Gradio counts it among values that are wrong
            raise
        except ValueError as error:
            if isinstance(error, ComponentProcessingError) and not _of_gradio(error.__cause__):
                raise
            raise toast(StudioError(NOT_TAKEN)) from error
        fields = args[0].inputs if args else named["block_fn"].inputs
        if any(map(_several_of_one, fields, given)):
            raise toast(StudioError(NOT_TAKEN))
        return given


def _several_of_one(field: Any, value: Any) -> bool:
    """Whether a list stands for one choice; Gradio lets it pass where each of its values is one."""
    return isinstance(field, gr.Dropdown) and not field.multiselect and isinstance(value, list)


def _of_gradio(error: BaseException | None) -> bool:
    """Whether Gradio's own code raised it, and not a loader of ours or what that calls."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    return bool(frames) and Path(frames[-1].filename).resolve().is_relative_to(_GRADIO)
