"""Strips, charts and what else pages show, kept for a while, so that they can be taken away as they are."""

import secrets
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from models import StudioError
from studio.recipe import Picture
from studio.store import BoundedStore
from studio.strip import Strip, strip_value
from studio.tab_recipe import Settings

RESULT_BYTES = 64 * 2**20
_TEXT_BYTES = 16 * 2**10  # what the texts of a result take, generously
_GONE = "The server let go of what was shown here to save memory: make it again, then take it away."


class Result(Protocol):
    """What can be taken away: `studio.taken_files.files_of` knows each of them."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory, about."""
        ...


@dataclass(frozen=True)
class Kept:
    """A result, and what it was made from; `picture` is None where it is of none."""

    result: Result
    picture: Picture | None
    settings: Settings


class ResultStore:
    """The results that were shown last. Who was given a token can take away what it names, and nobody else can."""

    def __init__(self, capacity: int = RESULT_BYTES) -> None:
        self._kept: BoundedStore[str, Kept] = BoundedStore(capacity)
        # Drawing takes a processor for a moment, so figures are made one after the other.
        self.one_at_a_time = threading.Lock()

    def keep(self, token: str, result: Result, picture: Picture | None, settings: Settings) -> str:
        """From now on the token stands for this result; it is given back."""
        painted = len(getattr(settings, "painted", ""))
        self._kept.put(token, Kept(result, picture, settings), result.nbytes + painted + _TEXT_BYTES)
        return token

    def value(self, token: str, strip: Strip, picture: Picture, settings: Settings) -> dict[str, Any]:
        """The strip's value for the browser; from now on it is what `token` stands for."""
        return strip_value(strip, self.keep(token, strip, picture, settings))

    def find(self, token: object) -> Kept:
        """What a token stands for.

        Raises:
            StudioError: it was let go, or never was.
        """
        kept = self._kept.get(token) if isinstance(token, str) else None
        if kept is None:
            raise StudioError(_GONE)
        return kept


def new_token() -> str:
    """A name that nobody can guess. One run of a tab needs one: what it shows later takes the place of the earlier."""
    return secrets.token_hex(16)
