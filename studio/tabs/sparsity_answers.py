"""What the models say when they are run as the maps of an intervention show them: a long run of the Sparsity tab."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from models import StudioError
from studio.failures import told_steps
from studio.kept_runs import run_key
from studio.looked_at import LookedAt
from studio.result_store import Kept
from studio.service import Service
from studio.sparsity_similarity import Answered, answers_shown
from studio.stopping import Stopped, Stops
from studio.strip import Strip
from studio.tab_recipe import SparsitySettings
from studio.tab_settings import sparsity_controls
from studio.tabs.following import LongRun, long_run, outdated_line, say_outdated
from studio.upload import Upload
from studio.viewer.explained import status_line
from studio.viewer.tables import table_html

_NONE = '<p class="sg-said">Neither model has such maps, so none is run.</p>'


@dataclass(frozen=True)
class AnswersPart:
    """The components.

    Attributes:
        token: names the strip of maps to which the answers belong.
        since: when those maps were asked for; None where there is no answer to be made.
        stop: ends the run; it is there only while there is something to run.
        line: how far it is.
        outdated: says that the answers are from before a change.
        answers: the tables.
        running: the run.
        replaced: which runs' maps were replaced by others.
    """

    token: gr.Textbox
    since: gr.Number
    stop: gr.Button
    line: gr.HTML
    outdated: gr.HTML
    answers: gr.HTML
    running: LongRun
    replaced: Stops

    @property
    def shown(self) -> list[Any]:
        """What the event that shows maps writes, with `showing`."""
        return [self.answers, self.token, self.since, self.stop]

    def showing(self, answers: str, token: str, since: float | None) -> tuple[Any, ...]:
        """Values of `shown`: why there are no answers or "", the maps' token, when they were asked for, or None."""
        return answers, token, since, gr.Button(visible=since is not None)

    def end_earlier(self, asked: Any, request: gr.Request) -> None:
        """End the runs that belong to maps which this page asked for before `asked`: others are shown now."""
        self.replaced.stop_earlier(asked, request)
        self.running.stops.stop_earlier(asked, request)


def answers_part(at: LookedAt, service: Service) -> AnswersPart:
    """Make the components, below those that are there."""
    token, since = gr.Textbox(visible=False), gr.Number(visible=False)
    with gr.Row():
        stop = gr.Button("Stop", size="sm", elem_id="sparsity-answers-stop", min_width=80, scale=0, visible=False)
        line = status_line("", elem_id="sparsity-answering", elem_classes="studio-waiting")
    outdated = outdated_line("sparsity-answers-outdated")
    answers = table_html(elem_id="sparsity-answers")
    return AnswersPart(token, since, stop, line, outdated, answers, long_run(at, service.turns), Stops())


def wire_answers(at: LookedAt, service: Service, part: AnswersPart, show: gr.Button, shown: Any) -> None:
    """Have the run begin when maps of an intervention are shown.

    Args:
        at: the picture and the models.
        service: the models.
        part: what `answers_part` made.
        show: the button that shows maps anew.
        shown: the event that shows maps; it writes `part.shown`.
    """

    @told_steps
    def answer(asked: float, request: gr.Request, picture: Upload | None, token: str) -> Iterator[tuple[Any, Any]]:
        stops, made = part.running.stops, 0
        try:
            kept, steps = _begun(service, picture, token)
            for made, answered in stops.until(asked, request, steps):
                if stops.asked(asked, request):
                    # The page may show other maps by now, which these answers are not about.
                    raise Stopped
                _keep(service, token, kept, answered, made)
                yield answered.shown, answered.said
            if not made:
                yield _NONE, ""
        except Stopped:
            yield gr.skip(), "" if part.replaced.asked(asked, request) else "Stopped."

    say_outdated(at, part.outdated, part.answers, [show])
    part.running.ended_by(part.stop.click)
    outputs: list[Any] = [part.answers, part.line]
    part.running.begun_by([shown.success], answer, [at.picture, part.token], outputs, line=part.line, since=part.since)


def _begun(service: Service, picture: Upload | None, token: str) -> tuple[Kept, Iterator[tuple[int, Answered]]]:
    """The maps as they are kept, and numbered answers by their settings, whatever the fields hold by now."""
    kept = service.results.find(token)
    if not isinstance(kept.settings, SparsitySettings):
        raise StudioError("These are no maps of sparse attention: press Show, then the models are run.")
    if picture is None or kept.picture is None or picture.token != kept.picture.sha256:
        raise StudioError("The picture is no longer that of the maps: press Show, then the models are run on it.")
    settings = replace(kept.settings, answers=0)
    begun = service.kept.begin(
        run_key("answers", settings.models, picture, settings),
        # Numbered here, since one that goes on has answers ready when it begins.
        lambda: enumerate(answers_shown(service, picture, settings.models, sparsity_controls(settings)), 1),
    )
    return kept, begun.steps


def _keep(service: Service, token: str, kept: Kept, answered: Answered, made: int) -> None:
    """From now on the maps are taken away with so many answers."""
    assert isinstance(kept.result, Strip)
    assert isinstance(kept.settings, SparsitySettings)
    strip = replace(kept.result, tables=(*kept.result.tables, answered.table))
    service.results.keep(token, strip, kept.picture, replace(kept.settings, answers=made))
