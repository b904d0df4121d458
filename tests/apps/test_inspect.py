"""The page of `epic inspect`: its views, its changes, who may read and change, and hostile texts."""

from __future__ import annotations

import html
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from lxml import etree
from starlette.testclient import TestClient

from command_line import Epic
from epic_apps.inspect import inspect_app, run_inspect, views
from epic_learn.memory_proposals import MemoryProposals
from epic_learn.types import Proposal
from epic_memory import Aspects, EpicMemory, Expansion, Item, Settings
from epic_memory.errors import InvalidInputError
from epic_memory.groups.preferences import MemoryPreferences
from hostile_texts import HOSTILE
from tables import table

AVOIDS, LIKES = "I avoid hotels with on-site casinos.", "I like quiet hotels near the sea."
GOLDEN, PALMS = "The Golden Ace is a hotel with an on-site casino.", "The Palms is a quiet hotel near the sea."
STEAM = "The steam engine was improved by James Watt."
TOKEN = "a-token-that-is-long-enough"
PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
VIEWS = ["/", "/preferences", "/held", "/held?tier=light", "/map", "/turned-away", "/facts", "/proposals"]
VIEWS += ["/bring", "/why-not", "/query"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "me.epic"
    with EpicMemory.open(made, [AVOIDS, LIKES]) as memory:
        memory.add([Item(id="golden", text=GOLDEN), Item(id="palms", text=PALMS), Item(id="steam", text=STEAM)])
        memory.facts.add("My sister is called Ines.")
        memory.proposals.add([Proposal(kind="add_preference", text="I prefer night trains.", quote="rather a train")])
    return made


@pytest.fixture
def memory(path: Path) -> Iterator[EpicMemory]:
    with EpicMemory.open(path) as opened:
        yield opened


def visitor(memory: EpicMemory, *, write: bool = True, token: str | None = TOKEN) -> TestClient:
    client = TestClient(inspect_app(memory, token=TOKEN, port=PORT, write=write), base_url=HOME)
    if token is not None:
        client.get("/", params={"token": token})
    return client


def form_token(client: TestClient) -> str:
    found = re.search(r'name="form_token" value="(\w+)"', client.get("/preferences").text)
    assert found
    return found[1]


def send(client: TestClient, name: str, **fields: str) -> str:
    """Sends a form as a browser does; the text of the page that it leads to."""
    data = {"form_token": form_token(client), **fields}
    answer = client.post(f"/do/{name}", data=data, headers={"origin": HOME})
    assert answer.status_code == 200, answer.text
    return answer.text


def words_on(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_every_view_shows_what_is_held(memory: EpicMemory) -> None:
    client = visitor(memory, write=False)
    shown = {path: words_on(client.get(path).text) for path in VIEWS}
    assert "2 preferences" in shown["/"] and "kept for them" in shown["/"] and "kB on disk" in shown["/"]
    assert "hotels with on-site casinos" in shown["/preferences"] and "Rules out" in shown["/preferences"]
    assert GOLDEN in shown["/held"] and "goes against it" in shown["/held"] and "suits you" in shown["/held"]
    assert STEAM in shown["/held?tier=light"] and GOLDEN not in shown["/held?tier=light"]
    assert "None of your preferences is about this" in shown["/turned-away"]
    assert "My sister is called Ines." in shown["/facts"]
    assert "I prefer night trains." in shown["/proposals"] and "rather a train" in shown["/proposals"]
    for missed, stage in (("night trains", "proposed"), ("my violin teacher", "not known")):
        assert stage in words_on(client.get("/why-not", params={"q": missed}).text)
    item = client.get("/item", params={"id": "golden"}).text
    assert f"<mark>{GOLDEN}</mark>" in item and "An assistant is told" in item
    # Reasons are words; figures such as cosines are for `explain`.
    for view in ("/held", "/turned-away", "/item?id=golden"):
        assert not re.search(r"\b0\.\d", words_on(client.get(view).text))


def test_the_way_of_a_query(memory: EpicMemory) -> None:
    page = words_on(visitor(memory).get("/query", params={"q": "Which hotel should I book?"}).text)
    assert page.index("Which preferences matter") < page.index("By the question alone") < page.index("With your pref")
    steered = page[page.index("With your preferences") :]
    assert steered.index(PALMS) < steered.index(GOLDEN)
    assert "Document 1:" in page and "Steer clear" in page


def test_every_change(memory: EpicMemory) -> None:
    client = visitor(memory)
    send(client, "preferences/add", text="I prefer trains.")
    added = next(each for each in memory.preferences if each.text == "I prefer trains.")
    send(client, "preferences/aspects", id=added.id, liked="trains\r\nnight trains", firmness="0.5")
    assert memory.preferences.aspects(added).liked == ("trains", "night trains")
    send(client, "preferences/aspects", id=added.id, again="1")
    assert memory.preferences.aspects(added).source == "parser"
    send(client, "preferences/expansion", id=added.id, questions="", follows="a sleeper", breaks="a shuttle flight")
    assert memory.preferences.expansions(added).breaks == ("a shuttle flight",)
    send(client, "preferences/expansion", id=added.id, again="1")
    assert "Changed" in send(client, "preferences/replace", id=added.id, text="I prefer buses.")
    send(client, "preferences/remove", id="I prefer buses.")
    assert [each.text for each in memory.preferences] == [AVOIDS, LIKES]
    send(client, "facts/add", text="I live in Porto.")
    send(client, "facts/undo", id=str(memory.facts.edits()[0].id))
    assert [each.text for each in memory.facts] == ["My sister is called Ines."]
    send(client, "facts/replace", id=memory.facts[0].id, text="My sister is called Eva.")
    assert [each.text for each in memory.facts] == ["My sister is called Eva."] and memory.facts.edits()[0].old
    send(client, "facts/forget", id=memory.facts[0].id)
    send(client, "items/forget", id="golden")
    assert memory.facts == [] and memory.get(["golden"]) == []
    send(client, "proposals/accept", id=memory.proposals[0].id, text="I prefer slow trains.")
    assert "I prefer slow trains." in [each.text for each in memory.preferences]
    memory.proposals.add([Proposal(kind="add_fact", text="I have a dog.", quote="my dog")])
    send(client, "proposals/reject", id=memory.proposals[0].id)
    assert memory.proposals == [] and memory.facts == []


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        *table(__file__, "a_change_that_cannot_be_says_why"),
        ("preferences/add", {"text": AVOIDS}),
        ("preferences/aspects", {"id": AVOIDS, "firmness": "much"}),
        ("bring/sync", {"folder": f"/{'a' * 5000}"}),
    ],
)
def test_a_change_that_cannot_be_says_why(memory: EpicMemory, name: str, fields: dict[str, str]) -> None:
    client = visitor(memory)
    before = memory.file.revision
    answer = client.post(f"/do/{name}", data={"form_token": form_token(client), **fields}, headers={"origin": HOME})
    assert answer.status_code in (400, 404) and answer.text
    assert memory.file.revision == before


def test_only_the_bearer_of_the_token_reads(memory: EpicMemory) -> None:
    client = visitor(memory, token=None)
    assert {client.get(path).status_code for path in (*VIEWS, "/static/style.css")} == {401}
    assert client.get("/", params={"token": "another-token-as-long"}).status_code == 401
    assert client.get("/", headers=[(b"cookie", f"epic_inspect_{PORT}=é".encode())]).status_code == 401
    answer = client.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "HttpOnly" in answer.headers["set-cookie"] and "SameSite=strict" in answer.headers["set-cookie"]
    page = client.get("/")
    assert page.status_code == 200 and TOKEN not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert not [name for name in page.headers if name.startswith("access-control")]
    assert re.findall(r'(?:src|href|action)="(?!/|#)[^"]*', page.text) == []


def test_the_address_that_a_browser_is_started_with_opens_the_page_once(
    memory: EpicMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Queue[str] = Queue()
    told: list[str] = []
    apps: list[Any] = []
    monkeypatch.setattr("webbrowser.open", opened.put)
    monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: apps.append(server.config.app))
    run_inspect(memory, told.append)
    address, first, second = opened.get(timeout=30), *(TestClient(apps[0]) for _ in range(2))
    assert first.get(address).status_code == first.get(address).status_code == 200  # it has the cookie then
    assert second.get(address).status_code == 401 and second.get(told[0]).status_code == 200

    def visit(address: str) -> None:
        socket.create_connection(("127.0.0.1", int(re.findall(r":(\d+)", address)[0]))).close()

    run_inspect(memory, visit, browser=False)  # whoever reads the address may go there at once


@pytest.mark.parametrize("library", [True, False])
def test_a_form_that_breaks_off_and_a_foreign_websocket_are_one_line_each(
    path: Path, tmp_path: Path, library: bool
) -> None:
    for name in () if library else ("websockets", "wsproto"):
        (tmp_path / f"{name}.py").write_text("raise ImportError", encoding="utf-8")
    command = [sys.executable, "-m", "epic_apps", "inspect", str(path), "--write", "--no-browser"]
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
    try:
        assert served.stderr is not None
        said = served.stderr.readline() + served.stderr.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)/\?token=([\w-]+)", said)
        assert found is not None
        port, token = int(found[1]), found[2]

        def connected() -> socket.socket:
            for _ in range(300):
                with suppress(ConnectionRefusedError):
                    return socket.create_connection(("127.0.0.1", port), timeout=30)
                time.sleep(0.1)
            pytest.fail("nobody listens")

        def sent(*lines: str, body: bytes = b"") -> bytes:
            with connected() as connection:
                head = "\r\n".join([lines[0], f"Host: 127.0.0.1:{port}", *lines[1:], "", ""])
                connection.sendall(head.encode() + body)
                if not body:
                    return connection.recv(2**16)
            assert served.stderr is not None
            return served.stderr.readline().encode()

        cookie, origin = f"Cookie: epic_inspect_{port}={token}", f"Origin: http://127.0.0.1:{port}"
        broken = sent("POST /do/preferences/add HTTP/1.1", cookie, origin, "Content-Length: 100", body=b"half of")
        assert b"broke off" in broken
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        answer = sent("GET / HTTP/1.1", *upgrade, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Origin: http://evil")
        assert answer.startswith(b"HTTP/1.1 403")
        assert b" 200 " in sent("GET / HTTP/1.1", cookie)
    finally:
        served.terminate()
        _, rest = served.communicate()
    assert "websocket" in rest and len(rest.splitlines()) == 1, rest


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "127.0.0.1", f"[::1]:{PORT}"])
def test_another_host_is_refused(memory: EpicMemory, host: str) -> None:
    assert visitor(memory).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_reads_nothing(memory: EpicMemory, site: str) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "cors", "origin": "http://127.0.0.1:9999"}
    assert visitor(memory).get("/", headers=headers).status_code == 403
    assert visitor(memory).get("/static/page.js", headers={**headers, "sec-fetch-mode": "no-cors"}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [None, "null", "https://evil.example", "http://127.0.0.1:9999", f"https://127.0.0.1:{PORT}", f"{HOME}.evil"],
)
def test_a_change_from_elsewhere_is_refused(memory: EpicMemory, origin: str | None) -> None:
    client = visitor(memory)
    data = {"form_token": form_token(client), "text": "evil"}
    headers = {} if origin is None else {"origin": origin}
    assert client.post("/do/facts/add", data=data, headers=headers).status_code == 403
    assert "evil" not in [each.text for each in memory.facts]


def test_a_change_needs_the_token_of_the_form_and_permission(path: Path, memory: EpicMemory) -> None:
    client, headers = visitor(memory), {"origin": HOME}
    for wrong in ({}, {"form_token": ""}, {"form_token": TOKEN}):
        assert client.post("/do/facts/add", data={"text": "evil", **wrong}, headers=headers).status_code == 403
    token = form_token(client)
    assert client.post("/do/facts/add", content=b"\xff", headers=headers).status_code == 400
    assert client.post("/do/facts/add", content=b"a" * 1_100_000, headers=headers).status_code == 413
    assert client.put("/do/facts/add", headers=headers).status_code == 405
    assert client.get("/do/facts/add").status_code == 405
    client.cookies.clear()
    assert client.post("/do/facts/add", data={"form_token": token}, headers=headers).status_code == 401
    with EpicMemory.open(path, settings=Settings(read_only=True)) as reading:
        reader = visitor(reading, write=False)
        data = {"form_token": token, "text": "evil"}
        assert reader.post("/do/facts/add", data=data, headers=headers).status_code == 403
        assert [view for view in VIEWS if 'method="post"' in reader.get(view).text] == []
    assert [each.text for each in memory.facts] == ["My sister is called Ines."]


def test_a_token_that_can_be_guessed_is_refused(memory: EpicMemory) -> None:
    with pytest.raises(InvalidInputError, match="16"):
        inspect_app(memory, token="short", port=PORT)


def submitted(page: str, name: str) -> dict[str, str]:
    """The fields that a browser sends of the last form of a page for a change, untouched."""
    form = re.findall(rf'<form method="post" action="/do/{name}">.*?</form>', page, re.DOTALL)[-1]
    fields = dict(re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', form))
    fields |= dict(re.findall(r'<(?:textarea|select) name="(\w+)"[^>]*>(.*?)</(?:textarea|select)>', form, re.DOTALL))
    for field, options in fields.items():
        chosen = re.search(r'value="([^"]*)" selected', options)
        fields[field] = chosen[1] if chosen else html.unescape(options)
    return fields


def test_an_untouched_form_changes_nothing(memory: EpicMemory) -> None:
    # A mark that Hebrew needs and the page does not show, two lines, and more than fits into a line of a list.
    text = "I prefer food that is \u200f\u05db\u05e9\u05e8\u200f\nand served hot." + " Always." * 300
    client = visitor(memory)
    memory.preferences.add(text)
    aspects = Aspects(liked=("a\u200fb", "c"), firmness=0.8, scope="d\u200fe " + "when travelling " * 40)
    expansion = Expansion(questions=(), follows=("f\u200fg",), breaks=("h",))
    memory.preferences.set_aspects(text, aspects)
    memory.preferences.set_expansion(text, expansion)
    memory.proposals.add([Proposal(kind="add_fact", text=text[:500].strip(), quote="hot")])
    for name in ("preferences/aspects", "preferences/expansion", "preferences/replace", "proposals/accept"):
        view = "/proposals" if name.startswith("proposals") else "/preferences"
        send(client, name, **submitted(client.get(view).text, name))
        assert memory.preferences[-1].text == text
        assert (memory.preferences.aspects(text), memory.preferences.expansions(text)) == (aspects, expansion)
    assert text[:500].strip() in [each.text for each in memory.facts]
    send(client, "facts/replace", **submitted(client.get("/facts").text, "facts/replace"))
    assert text[:500].strip() in [each.text for each in memory.facts]


def test_held_texts_are_searched_by_their_words(memory: EpicMemory) -> None:
    client = visitor(memory)
    found = words_on(client.get("/held", params={"q": "CASINO golden"}).text)
    assert GOLDEN in found and PALMS not in found and "Both tiers 1" in found
    none = words_on(client.get("/held", params={"q": "casino golden", "tier": "light"}).text)
    assert GOLDEN not in none and "No text here has all of these words" in none


@pytest.mark.parametrize("k", [1, 2, 3])
def test_as_many_results_as_asked_for(memory: EpicMemory, k: int) -> None:
    memory.add([Item(id="inn", text="The Inn is a quiet hotel near the sea.")])
    page = visitor(memory).get("/query", params={"q": "Which hotel near the sea?", "k": k}).text
    assert page.count('class="place"') == 2 * k and page.count("Document ") <= k


def dropped(client: TestClient, *files: tuple[str, str], token: str | None = None) -> Any:
    data = {"form_token": form_token(client) if token is None else token, "user": ""}
    return client.post("/drop", data=data, files=[("files", each) for each in files], headers={"origin": HOME})


def test_dropped_files_are_imported_after_a_confirmation(
    memory: EpicMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ijson")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client, chat = visitor(memory), '[{"role": "user", "content": "I hate loud bars."}]'
    before = len(memory.items()), len(memory.proposals)
    for _ in range(2):  # what is dropped again is the same
        files = ("../chat.json", chat), ("inn.md", "The Inn is a hotel with a casino.")
        page = dropped(client, *files).text
        assert "your own turns" in page and (len(memory.items()), len(memory.proposals)) == before
        (waiting,) = re.findall(r'name="id" value="(\w+)"', page)
        assert "Imported." in send(client, "bring/import", id=waiting)
        before = len(memory.items()), len(memory.proposals)
        assert before == (5, 2)
        assert re.fullmatch(r"dropped/\w{8}/inn\.md", memory.items()[-1].metadata["source"])
        assert list(tmp_path.glob("epic-*")) == []
    dropped(client, ("note.md", "Left again."))
    assert list(tmp_path.glob("epic-*")) and "note.md" in client.get("/bring").text
    send(client, "bring/leave")
    assert list(tmp_path.glob("epic-*")) == [] and len(memory.items()) == 5
    assert dropped(client).status_code == dropped(client, ("a.json", "{")).status_code == 400
    assert dropped(client, ("a.md", "a"), token="none").status_code == 403
    monkeypatch.setattr("epic_apps.inspect.app.LARGEST", 1000)
    assert dropped(client, ("a.md", "a" * 1000)).status_code == 413
    monkeypatch.setattr("shutil.copyfileobj", Mock(side_effect=OSError(28, "No space left on device")))
    assert "No space left on device" in dropped(client, ("a.md", "a")).text
    assert list(tmp_path.glob("epic-*")) == []


def test_what_is_dropped_with_a_name_that_no_file_can_have_is_read(memory: EpicMemory) -> None:
    client = visitor(memory)
    lines = "--x", 'content-disposition: form-data; name="form_token"', "", form_token(client)
    lines += "--x", 'content-disposition: form-data; name="files"; filename="\0in\0n.md"', "", "An inn.", "--x--", ""
    kind = {"origin": HOME, "content-type": "multipart/form-data; boundary=x"}
    assert "inn.md : nothing" in words_on(client.post("/drop", content="\r\n".join(lines), headers=kind).text)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("notes/trips/inn.md", "trips/inn.md"),
        ("/notes\\inn.md", "inn.md"),
        ("notes/../.././inn.md", "inn.md"),
        (f"notes/{'a' * 300}/inn.md", f"{'a' * 60}/inn.md"),
        (f"notes/{'a/' * 1000}inn.md", f"{'a/' * 19}inn.md"),
        ("notes/spa.md/inn.md", "2-spa.md/inn.md"),
    ],
)
def test_a_folder_is_dropped_with_the_paths_in_it(memory: EpicMemory, name: str, place: str) -> None:
    client = visitor(memory)
    page = dropped(client, ("notes/spa.md", "The Spa is a hotel."), (name, "The Inn is a hotel with a casino.")).text
    assert "These are copies" in page and "2 document" in page
    (waiting,) = re.findall(r'name="id" value="(\w+)"', page)
    send(client, "bring/import", id=waiting)
    assert place in {str(item.metadata["source"]).split("/", 2)[2] for item in memory.items()[-2:]}


def test_another_file_of_the_same_name_does_not_replace_the_first(memory: EpicMemory) -> None:
    client, texts = visitor(memory), ["The Inn is a hotel with a casino.", "The Spa is a quiet hotel near the sea."]
    for text in texts:
        (waiting,) = re.findall(r'name="id" value="(\w+)"', dropped(client, ("README.md", text)).text)
        send(client, "bring/import", id=waiting)
    assert [each.text for each in memory.items()[-2:]] == texts


def test_what_is_typed_is_in_force_though_an_assistant_proposes_much_the_same(memory: EpicMemory) -> None:
    was = memory.facts[0]
    agents = Proposal(kind="update_fact", text="My sister is called Eva", old=was.text, quote="x", source="agent")
    memory.proposals.add([agents])
    send(visitor(memory), "facts/replace", id=was.id, text="My sister is called Eva!")
    assert [(each.text, each.metadata["origin"]) for each in memory.facts] == [("My sister is called Eva!", "user")]


def test_folders_are_kept_in_step_from_the_page(memory: EpicMemory, tmp_path: Path) -> None:
    (folder := tmp_path / "notes").mkdir()
    (folder / "inn.md").write_text("The Inn is a hotel with a casino.", encoding="utf-8")
    client = visitor(memory)
    assert "1 added" in send(client, "bring/sync", folder=str(folder)) and len(memory.items()) == 5
    assert str(folder) in words_on(client.get("/bring").text)
    assert "is not copied: name its path" in words_on(client.get("/bring?large=1").text)
    assert "1 files forgotten" in send(client, "bring/unsync", folder=str(folder)) and len(memory.items()) == 4


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_do_not_repeat_and_are_seen_on_their_ground(scheme: int) -> None:
    sheet = (Path(views.__file__).parent / "static" / "style.css").read_text(encoding="utf-8")
    named = dict(re.findall(r"--(\w+): (#\w{6});", sheet.split("prefers-color-scheme: dark")[scheme]))
    colours = [named[f"c{number}"] for number in range(views.COLOURS)]
    assert len(set(colours)) == views.COLOURS >= 24 and all(f".c{n} " in sheet for n in range(views.COLOURS))
    shades = [[int(each[n : n + 2], 16) / 255 for n in (1, 3, 5)] for each in (*colours, named["paper"], named["card"])]
    linear = np.where(
        np.array(shades) <= 0.04045, np.array(shades) / 12.92, ((np.array(shades) + 0.055) / 1.055) ** 2.4
    )
    luminance = linear @ [0.2126, 0.7152, 0.0722] + 0.05
    ratios = luminance[:-2, None] / luminance[-2:]
    assert np.maximum(ratios, 1 / ratios).min() >= 3.0  # AA for what is no text


def test_a_view_bears_a_change_by_another_process_while_it_is_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EpicMemory.open(path) as memory, EpicMemory.open(path) as other:
        client = visitor(memory)
        changes = [other.preferences.remove, other.preferences.add]

        def interrupted(read: Any) -> Any:
            def call(*given: Any, **options: Any) -> Any:
                found = read(*given, **options)
                changes[0](AVOIDS)
                changes.reverse()
                return found

            return call

        for view, owner, read in (
            ("/", MemoryProposals, "_read"),
            ("/preferences", MemoryPreferences, "aspects"),
            ("/query?q=Which+hotel+has+no+casino%3F", views.Views, "query"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(owner, read, interrupted(getattr(owner, read)))
                assert {client.get(view).status_code for _ in range(2)} == {200}


def test_hostile_texts_are_shown_harmlessly(memory: EpicMemory) -> None:
    client = visitor(memory)
    for number, text in enumerate(HOSTILE):
        hostile_id = f"{number}\"'><script>{text[:50]}"
        memory.add([Item(id=hostile_id, text=f"casino hotel {text}", metadata={text[:80]: text})])
        memory.proposals.add([Proposal(kind="add_fact", text=text[:400], quote=text[:400])])
    memory.preferences.add(HOSTILE[0])
    pages = [client.get(view).text for view in VIEWS]
    pages += [client.get("/query", params={"q": text}).text for text in HOSTILE[:3]]
    pages += [client.get("/item", params={"id": each.id}).text for each in memory.items()]
    pages += [client.get("/item", params={"id": HOSTILE[0]}).text]
    for page in pages:
        tags = [(each.tag, dict(each.attrib)) for each in etree.HTML(page).iter(etree.Element)]
        assert [name for name, _ in tags].count("script") == 1 and "iframe" not in dict(tags)
        assert [each for _, given in tags for each in given if each.startswith("on") or each == "style"] == []
        links = [given.get(name) for _, given in tags for name in ("href", "src", "action") if name in given]
        assert [link for link in links if not (link or "").startswith(("/", "#"))] == []
        # An id stands as it is in a form's hidden field, where nobody sees it.
        visible = re.sub(r'<input type="hidden"[^>]*>', "", page)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", visible)
        assert len(page) < 1_000_000
    assert send(client, "items/forget", id=memory.items()[-1].id)


def test_lists_have_pages_and_the_map_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_POINTS", 40)
    memory = EpicMemory([AVOIDS, LIKES])
    memory.add(f"Hotel number {number} is quiet and near the sea." for number in range(30))
    memory.add(f"The steam engine of year {1800 + number}." for number in range(30))
    shown = views.Views(memory)
    first, last = shown.held("", "all", 1), shown.held("", "all", 10**6)
    assert len(first["rows"]) == views.PAGE and first["pages"] == last["page"] == 3 and last["rows"]
    drawn = shown.map("")
    assert len(drawn["points"]) == 40 and drawn["left_out"] == 20
    assert {kept for *_, kept, _ in drawn["points"]} == {True, False}


def test_the_map_is_the_same_each_time_and_separates_what_differs() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat(np.eye(8)[:2], 20, axis=0) + 0.05 * random.normal(size=(40, 8))
    places = np.array(views.plane(groups, np.ones(40, dtype=bool)))
    assert places.min() >= 0 and places.max() <= 1
    assert abs(places[:20, 0].mean() - places[20:, 0].mean()) > 0.8
    assert views.plane(np.empty((0, 8)), np.empty(0, dtype=bool)) == []
    assert views.plane(np.ones((1, 8)), np.ones(1, dtype=bool)) == [(0.0, 0.0)]


def test_an_empty_memory_has_every_view() -> None:
    client = visitor(EpicMemory())
    assert {client.get(view).status_code for view in (*VIEWS, "/query?q=hotel")} == {200}


def test_a_file_that_is_written_over_is_said(path: Path, memory: EpicMemory) -> None:
    client, token = visitor(memory), form_token(visitor(memory))
    path.write_bytes(b"")
    for view in VIEWS[:-1]:
        answer = client.get(view)
        assert answer.status_code == 400 and "That did not work" in answer.text and "me.epic" in words_on(answer.text)
    answer = client.post("/do/facts/add", data={"form_token": token, "text": "I have a dog."}, headers={"origin": HOME})
    assert answer.status_code == 400 and "me.epic" in words_on(answer.text)


def test_the_command_says_what_is_wrong(path: Path, tmp_path: Path, epic: Epic) -> None:
    missing = epic("inspect", str(tmp_path / "none.epic"), "--no-browser")
    assert missing.code != 0 and "none.epic" in missing.err
    taken = epic("inspect", str(path), "--no-browser", "--port", "99999")
    assert taken.code != 0 and "99999" in taken.err
