"""The page of `epic inspect` in a real browser: every view and every action, by mouse, keyboard and on a phone.

With EPIC_SCREENSHOTS set to a folder, such as docs/figures, it writes the pictures of docs/inspect.md there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright")
from playwright.sync_api import Browser, Page, expect, sync_playwright

from epic_apps.cli.demo import run_demo
from epic_apps.inspect import inspect_app
from epic_apps.local import listening_socket
from epic_learn.types import Proposal
from epic_memory import EpicMemory, Item
from lm_servers import serving

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TOKEN = "a-token-that-is-long-enough"
QUESTION = "Where should I stay in Lisbon?"
PATHS = ["", "query", f"query?q={QUESTION}", "preferences", "held", "map", "turned-away", "facts", "proposals", "bring"]
PATHS += ["why-not", "why-not?q=trains"]
SCREENSHOTS = os.environ.get("EPIC_SCREENSHOTS")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspect") / "maya.epic"
    for _ in run_demo(str(path)):
        pass
    with EpicMemory.open(path) as memory:
        for fact in ("I live in Porto.", "I work night shifts.", "I don't work night shifts any more, I work days."):
            memory.facts.add(fact)
        trains = {"text": "I prefer night trains.", "quote": "night train", "conversation": "A trip"}
        sister = {"text": "My sister lives in Braga.", "quote": "my sister lives in Braga"}
        memory.proposals.add([Proposal(kind="add_preference", **trains), Proposal(kind="add_fact", **sister)])
    return path


@pytest.fixture
def memory(made: Path, tmp_path: Path) -> Iterator[EpicMemory]:
    with EpicMemory.open(shutil.copy(made, tmp_path / "maya.epic")) as opened:
        yield opened


@pytest.fixture
def address(memory: EpicMemory) -> Iterator[str]:
    with listening_socket(None) as listening:
        port = listening.getsockname()[1]
        with serving(inspect_app(memory, token=TOKEN, port=port, write=True), listening):
            yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # The sandbox needs rights that a container does not give; only our own page is opened.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """Opens a page with the token; what its console complains of, and requests to elsewhere, fail the test."""
    complaints: list[str] = []
    contexts = []

    def opened(**options: Any) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1100, "height": 800}, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda sent: None if sent.url.startswith(address) else complaints.append(sent.url))
        page.goto(f"{address}?token={TOKEN}")
        assert page.url == address
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=str(Path(SCREENSHOTS) / f"inspect_{name}.png"))


def view(page: Page, name: str) -> None:
    page.get_by_role("navigation", name="Views").get_by_role("link", name=name, exact=True).click()


def done(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_contain_text(text)


def test_every_view(open_page: Callable[..., Page]) -> None:
    page = open_page()
    picture(page, "overview")
    for name, heading in {
        "Preferences": "Your preferences",
        "Held": "What is held",
        "Map": "A map of the memory",
        "Turned away": "Turned away",
        "Facts": "Facts about you",
        "Proposals": "Proposals",
        "Bring in": "Bring in what you have",
        "Why not": "Why is it not there?",
    }.items():
        view(page, name)
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        picture(page, name.lower().replace(" ", "_"))
    view(page, "Held")
    page.get_by_role("link", name="Dairy disagrees", exact=False).click()
    page.get_by_role("link", name="Kept for a preference").click()
    page.get_by_role("link", name="Everything about it").first.click()
    expect(page.get_by_role("heading", name="Why it is here")).to_be_visible()
    assert page.locator("mark").count()
    picture(page, "item")


def test_a_question_with_the_keyboard_alone(open_page: Callable[..., Page]) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="What a model is given")).to_be_visible()
    assert "Document 1:" in page.locator("pre.context").inner_text()
    expect(page.get_by_role("searchbox")).to_have_value(QUESTION)
    picture(page, "query")


def test_every_view_and_every_form_is_reached_by_the_tab_key(open_page: Callable[..., Page], address: str) -> None:
    page = open_page()
    for path in PATHS:
        page.goto(address + path)
        wanted = page.evaluate(
            """() => [...document.querySelectorAll('a[href], button, summary, select, textarea, input')]
            .filter(each => each.checkVisibility() && each.tabIndex >= 0 && each.type !== 'hidden')
            .map((each, n) => each.dataset.place = n).length"""
        )
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        met: set[str] = set()
        for _ in range(wanted + 60):  # texts that scroll are stations, too
            page.keyboard.press("Tab")
            place, ring = page.evaluate(
                "[document.activeElement.dataset.place, getComputedStyle(document.activeElement).outlineStyle]"
            )
            assert place is None or ring != "none"
            met |= set() if place is None else {str(place)}
            if len(met) == wanted:
                break
        assert len(met) == wanted, path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(open_page: Callable[..., Page], address: str, scheme: Any) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = open_page(color_scheme=scheme)
    for path in PATHS:
        page.goto(address + path)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert [(each["id"], each["nodes"]) for each in axe.run(page).response["violations"]] == [], path


def test_a_file_is_dropped_looked_at_and_imported(open_page: Callable[..., Page], memory: EpicMemory) -> None:
    page, before = open_page(), len(memory.proposals)
    view(page, "Held")
    page.wait_for_load_state()
    page.evaluate(
        """() => { const carried = new DataTransfer();
        carried.items.add(new File(['[{"role": "user", "content": "I hate loud bars."}]'], 'chat.json'));
        const drop = new DragEvent('drop', {dataTransfer: carried, bubbles: true, cancelable: true});
        document.body.dispatchEvent(drop) }"""
    )
    expect(page.get_by_role("heading", name="What is in it")).to_be_visible()
    assert len(memory.proposals) == before
    page.get_by_role("button", name="Import it").click()
    done(page, "Imported")
    assert len(memory.proposals) == before + 1


def test_a_folder_is_dropped_with_all_that_is_in_it(
    open_page: Callable[..., Page], memory: EpicMemory, tmp_path: Path
) -> None:
    for name in ("inn.md", "trips/spa.md", ".git/config.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text(f"A hotel with a casino, in {name}.", encoding="utf-8")
    page, before = open_page(), len(memory.items())
    text = {"mimeType": "text/plain", "data": "What a file manager says besides."}
    carried = {"items": [text], "files": [str(tmp_path / "notes")], "dragOperationsMask": 1}
    for step in ("dragEnter", "dragOver", "drop"):
        page.context.new_cdp_session(page).send(
            "Input.dispatchDragEvent", {"type": step, "x": 300, "y": 300, "data": carried}
        )
    expect(page.get_by_role("heading", name="What is in it")).to_be_visible()
    page.get_by_role("button", name="Import it").click()
    done(page, "Imported")
    names = [str(item.metadata["source"]).split("/", 2)[2] for item in memory.items()[before:]]
    assert sorted(names) == ["inn.md", "trips/spa.md"]


@pytest.mark.parametrize("name", ["phone", "dark"])
def test_phone_and_dark(open_page: Callable[..., Page], address: str, name: str) -> None:
    phone = name == "phone"
    size = {"width": 360, "height": 740} if phone else {"width": 1100, "height": 800}
    page = open_page(viewport=size, color_scheme="light" if phone else "dark", has_touch=phone)
    for path in PATHS:
        page.goto(address + path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.goto(address + ("held?tier=kept" if phone else "map"))
    picture(page, name)


def test_a_page_of_another_origin_reads_and_changes_nothing(
    browser: Browser, address: str, memory: EpicMemory, tmp_path: Path
) -> None:
    context = browser.new_context()
    context.new_page().goto(f"{address}?token={TOKEN}")  # the cookie is there, as it is while one looks at the page
    page = context.new_page()
    other = address.replace("127.0.0.1", "localhost")
    page.route(f"{other}evil", lambda route: route.fulfill(body="<p>evil</p>", content_type="text/html"))
    page.goto(f"{other}evil")
    read = "address => fetch(address, {credentials: 'include'}).then(answer => answer.text()).catch(() => 'refused')"
    assert page.evaluate(read, address) == "refused"
    # Without CORS a change could be sent blindly: as a fetch, and as a form.
    send = """address => fetch(address + 'do/facts/add', {method: 'POST', mode: 'no-cors', credentials: 'include',
        headers: {'content-type': 'application/x-www-form-urlencoded'}, body: 'text=evil'})
        .catch(() => 0).then(() => 0)"""
    page.evaluate(send, address)
    page.evaluate(
        """address => { const form = document.createElement('form'); form.method = 'post';
        form.action = address + 'do/facts/add'; document.body.append(form); form.submit() }""",
        address,
    )
    page.wait_for_url(f"{address}do/facts/add")
    assert page.locator("body").inner_text().startswith(("Another page", "This page needs"))
    assert "evil" not in [each.text for each in memory.facts]


def test_hostile_texts_do_nothing(open_page: Callable[..., Page], address: str, memory: EpicMemory) -> None:
    texts = ["<script>document.title='owned'</script> dairy", "<img src=x onerror=\"document.title='owned'\"> cheese"]
    memory.add([Item(id=f"'\"><script>{number}", text=text) for number, text in enumerate(texts)])
    page = open_page()
    for path in ("held", "map", "query?q=<script>document.title='owned'</script> cheese", "preferences"):
        page.goto(address + path)
        assert page.locator("main script, main img").count() == 0 and page.title() != "owned"
