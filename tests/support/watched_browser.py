"""A browser of which every page is watched: no request of a page, frame or worker may leave this machine."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page

HERE = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class WatchedBrowser:
    """Opens pages as Playwright's browser does.

    Attributes:
        chromium: the browser.
        strayed: addresses elsewhere that any of its pages asked.
    """

    chromium: Browser
    strayed: list[str] = field(default_factory=list)

    def new_context(self, **settings: Any) -> BrowserContext:
        """A profile with nothing in it."""
        return self.watched(self.chromium.new_context(**settings))

    def new_page(self, **settings: Any) -> Page:
        """A page in a profile of its own, which ends with it."""
        page = self.chromium.new_page(**settings)
        page.on("websocket", lambda socket: self.note(socket.url))
        self.watched(page.context)
        return page

    def watched(self, context: BrowserContext) -> BrowserContext:
        """A profile of this or another browser, from now on watched like those that this one makes."""
        # Playwright marks the functions that it is given, so they are not methods of this frozen class.
        context.on("page", lambda page: page.on("websocket", lambda socket: self.note(socket.url)))
        context.on("request", lambda request: self.note(request.url))
        return context

    def note(self, address: str) -> None:
        """Keep an address, unless it is of this machine or holds its own content."""
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob", "about") and parts.hostname not in HERE:
            self.strayed.append(address)

    def taken(self) -> list[str]:
        """The addresses elsewhere since this was asked last."""
        found, self.strayed[:] = list(self.strayed), []
        return found
