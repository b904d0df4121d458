"""Chats that are imported: what the user says becomes proposals, and nothing that anybody else says does."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ijson")

from exports import archive, chatgpt, chatgpt_message, claude, claude_message

from epic_apps import ImportReport, import_from
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from tables import table

NUTS, QUICK, TOFU, ONIONS = "I am allergic to peanuts.", "I prefer quick recipes.", "I love tofu.", "I hate onions."


def imported(path: Path, **options: Any) -> tuple[set[str], ImportReport]:
    memory = EpicMemory()
    report = import_from(memory, path, **options)
    return {each.text for each in memory.proposals}, report


def test_chatgpt(tmp_path: Path) -> None:
    food = chatgpt(
        "Food",
        chatgpt_message("system", TOFU, is_visually_hidden_from_conversation=True),
        chatgpt_message("user", f"{NUTS} What can I cook?", at=1_700_000_100.5),
        chatgpt_message("assistant", TOFU),
        chatgpt_message("tool", TOFU, kind="execution_output"),
        chatgpt_message("user", {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}, QUICK,
                        kind="multimodal_text"),
        deleted=[chatgpt_message("user", ONIONS)],
    )  # fmt: skip
    pasted = chatgpt("Mail", chatgpt_message("user", f"Summarise this mail:\n\nDear all,\n{TOFU}\nBest regards, Bob"))
    found = archive(
        tmp_path / "any name.zip", conversations__json=[food, pasted], user__json={}, chat__html=f"<p>{TOFU}"
    )
    memory = EpicMemory()
    report = import_from(memory, found)
    nuts, quick = memory.proposals
    assert (nuts.text, nuts.sentence, nuts.conversation) == (NUTS.rstrip("."), NUTS, "Food")
    assert nuts.said_at is not None and f"{nuts.said_at:%Y-%m-%d}" == "2023-11-14"
    assert quick.text == QUICK.rstrip(".")
    assert report.files == {"chatgpt": 1} and report.conversations == 2 and report.own == 3
    assert report.unusable["messages of other branches"] == 1
    assert len(report.skipped) == 2 and not memory.items()


def test_claude_reads_the_last_branch_and_no_attachment(tmp_path: Path) -> None:
    chat = claude(
        "Cooking",
        claude_message("human", ONIONS, uuid="1", parent_message_uuid="0"),
        claude_message("human", NUTS, uuid="2", parent_message_uuid="0",
                       attachments=[{"file_name": "bob.txt", "extracted_content": TOFU}]),
        claude_message("assistant", TOFU, uuid="3", parent_message_uuid="2"),
        claude_message("human", QUICK, uuid="4", parent_message_uuid="3"),
    )  # fmt: skip
    found, report = imported(archive(tmp_path / "c.zip", conversations__json=[chat], memories__json=[{"text": TOFU}]))
    assert found == {NUTS.rstrip("."), QUICK.rstrip(".")}
    assert report.files == {"claude": 1}


@pytest.mark.parametrize(("name", "content", "user", "found"), table(__file__, "files"))
def test_what_is_proposed_of_a_file(tmp_path: Path, name: str, content: Any, user: str, found: list[str]) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert imported(tmp_path / name, **({"user": user} if user else {}))[0] == set(found)


ANDROID = f"12/31/23, 10:15 PM - Messages are encrypted.\n12/31/23, 10:16\u202fPM - Ann: {NUTS}\nThe other day\n" + (
    f"12/31/23, 10:17 PM - Bob: {TOFU}\n1/1/24, 9:00 AM - Ann: <Media omitted>\n"
)
IPHONE = f"[31.12.23, 22:16:01] Ann: {NUTS}\n\u200e[31.12.23, 22:17:00] Bob: \u200eimage omitted\n" + (
    f"[31.12.23, 22:18:00] Bob: {TOFU}\n"
)


@pytest.mark.parametrize(("name", "text"), [("WhatsApp Chat with Bob.txt", ANDROID), ("_chat.txt", IPHONE)])
def test_whatsapp(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    memory = EpicMemory()
    import_from(memory, tmp_path / name, user="ann")
    (made,) = memory.proposals
    assert made.text == NUTS.rstrip(".") and made.conversation == "Bob"
    assert made.said_at is not None and f"{made.said_at:%Y-%m-%d %H:%M}" == "2023-12-31 22:16"


def test_whatsapp_knows_the_user_by_the_other_person(tmp_path: Path) -> None:
    assert imported(archive(tmp_path / "WhatsApp Chat - Bob.zip", _chat__txt=IPHONE))[0] == {NUTS.rstrip(".")}
    (tmp_path / "group.txt").write_text(IPHONE, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="--user NAME: Bob, Ann"):
        import_from(EpicMemory(), tmp_path / "group.txt")


@pytest.mark.parametrize("title", ["My password is TitleSecret1", "Living with diabetes"])
def test_titles_of_conversations_say_nothing_that_is_never_kept(tmp_path: Path, title: str) -> None:
    with EpicMemory() as memory:
        memory.never.add("diabetes")
        import_from(
            memory, archive(tmp_path / "x.zip", conversations__json=[chatgpt(title, chatgpt_message("user", NUTS))])
        )
        assert [each.conversation for each in memory.proposals] == ["conversations"]


def test_a_group_in_whatsapp_named_like_a_member_has_no_user(tmp_path: Path) -> None:
    said = ['Ann created group "Bob"', "Bob: Hi", f"Eve: {TOFU}"]
    text = "".join(f"12/31/23, 10:1{minute} PM - {each}\n" for minute, each in enumerate(said))
    (tmp_path / "WhatsApp Chat with Bob.txt").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="--user NAME: Bob, Eve"):
        import_from(EpicMemory(), tmp_path / "WhatsApp Chat with Bob.txt")


def test_a_conversation_is_read_once_also_after_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chats = [
        chatgpt(f"c{n}", chatgpt_message("user", f"I love {food}.", at=1_700_000_000.0 + n))
        for n, food in enumerate(["tea", "soup", "bread", "rice"])
    ]
    path = archive(tmp_path / "x.zip", conversations__json=chats)
    monkeypatch.setattr("epic_apps.imports.importing._TURNS_AT_ONCE", 2)
    monkeypatch.setattr("epic_apps.imports.importing._SECONDS", -1.0)
    with EpicMemory.open(tmp_path / "me.epic") as memory:
        propose, calls = memory.proposals.__class__.propose, []

        def cut(self: Any, *arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return propose(self, *arguments, **options)

        monkeypatch.setattr(memory.proposals.__class__, "propose", cut)
        with pytest.raises(KeyboardInterrupt):
            import_from(memory, path)
        assert len(memory.proposals) == 2
    with EpicMemory.open(tmp_path / "me.epic") as memory:
        report = import_from(memory, path)
        assert (report.known, report.proposed, len(memory.proposals)) == (2, 2, 4)
        assert import_from(memory, path).known == 4


@pytest.mark.parametrize(("before", "after", "left"), table(__file__, "a_change_of_mind_counts_whatever_the_batch"))
@pytest.mark.parametrize("way", ["one batch", "one reversed batch", "two batches", "two imports", "backwards"])
def test_a_change_of_mind_counts_whatever_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, left: list[str], way: str
) -> None:
    chats = [
        chatgpt("a", chatgpt_message("user", before, at=1_700_000_000.0)),
        chatgpt("b", chatgpt_message("user", after, at=1_730_000_000.0)),
    ]
    if way == "one reversed batch":
        chats.reverse()
    if way == "two batches":
        monkeypatch.setattr("epic_apps.imports.importing._TURNS_AT_ONCE", 1)
    parts = (
        [chats] if "batch" in way else [[chats[1]], [chats[0]]] if way == "backwards" else [[each] for each in chats]
    )
    with EpicMemory() as memory:
        for number, part in enumerate(parts):
            import_from(memory, archive(tmp_path / f"{number}.zip", conversations__json=part))
        if way == "backwards" and not left:
            # That something is over was read when nothing was known of it.
            assert before.rstrip(".") not in [each.text for each in memory.proposals]
        else:
            assert sorted(each.text for each in memory.proposals) == sorted(left)


def test_secrets_are_counted_and_not_kept(tmp_path: Path) -> None:
    said = "My password is hunter2. My IBAN is DE89 3704 0044 0532 0130 00. My card is 4111 1111 1111 1111."
    (tmp_path / "chat.json").write_text(json.dumps([{"role": "user", "content": f"{said} {NUTS}"}]), encoding="utf-8")
    (tmp_path / "note.md").write_text(f"The plan. {said}", encoding="utf-8")
    memory = EpicMemory()
    report = import_from(memory, tmp_path)
    assert [each.text for each in memory.proposals] == [NUTS.rstrip(".")]
    assert [item.text for item in memory.items()] == ["The plan."]
    assert sum(report.kept_out.values()) == 3


@pytest.mark.parametrize("content", ["[", '[{"mapping": {}}', "[1, 2]", "{", "", '{"a": 1}', '"x"'])
def test_broken_json_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.json").write_text(content, encoding="utf-8")
    (tmp_path / "note.md").write_text("Buy milk.", encoding="utf-8")
    report = import_from(EpicMemory(), tmp_path)
    assert any("x.json" in told for told in (*report.failures, *report.skipped))
    assert report.items == 1


@pytest.mark.parametrize("content", ["[" * 100_000, f'{{"messages": {"[" * 5_000}'], ids=["a list", "a chat"])
def test_what_is_nested_too_deeply_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "i.json").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        imported(tmp_path / "i.json")


def test_a_zip_that_is_none_and_a_bomb(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no archive")
    with pytest.raises(InvalidInputError, match="no zip archive"):
        import_from(EpicMemory(), tmp_path / "x.zip")
    with pytest.raises(InvalidInputError, match="There is no file"):
        import_from(EpicMemory(), tmp_path / "none.zip")


def test_the_memory_that_it_takes_does_not_grow_with_the_export(tmp_path: Path) -> None:
    peaks = []
    for count in (50, 400):
        chats = [
            chatgpt(
                f"c{n}",
                chatgpt_message("user", f"How do I sort list {n}? " * 20),
                chatgpt_message("assistant", "x" * 5000),
            )
            for n in range(count)
        ]
        path = archive(tmp_path / f"{count}.zip", conversations__json=chats)
        del chats
        memory = EpicMemory()
        import_from(memory, path, dry_run=True)
        tracemalloc.start()
        import_from(memory, path, dry_run=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 500_000
