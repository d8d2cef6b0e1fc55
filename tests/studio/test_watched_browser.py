"""What every browser test rests on: a request that leaves this machine is noted, whoever opened the page."""

from playwright.sync_api import BrowserContext
from watched_browser import WatchedBrowser

# Addresses that are set apart for examples; nobody has them.
PAGE = """<img src="http://192.0.2.1/picture.png"><script>
new WebSocket("ws://192.0.2.2/socket"); fetch("https://192.0.2.3/fetched").catch(() => {});</script>"""


def test_every_request_that_leaves_this_machine_is_noted(browser: WatchedBrowser, context: BrowserContext) -> None:
    own = browser.new_context()
    for page in (browser.new_page(), own.new_page(), context.new_page()):
        page.set_content(PAGE, wait_until="commit")
        page.wait_for_timeout(300)
        assert sorted(browser.taken()) == [
            "http://192.0.2.1/picture.png",
            "https://192.0.2.3/fetched",
            "ws://192.0.2.2/socket",
        ]
        page.close()
    own.close()


def test_addresses_of_this_machine_and_content_within_the_page_are_not(browser: WatchedBrowser) -> None:
    for address in ("http://127.0.0.1:7860/x", "http://localhost/x", "data:image/png;base64,", "blob:http://a/b"):
        browser.note(address)
    assert browser.taken() == []
