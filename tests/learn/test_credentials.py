"""Credentials: a password that is said in a chat is neither kept nor proposed; what is only about one is read."""

from __future__ import annotations

import time

import pytest

from epic_learn import add_conversation
from epic_learn.credentials import redacted
from epic_memory import EpicMemory
from epic_memory.lm import Completion
from epic_memory.types.proposals import Proposal
from labelled_sentences import labelled
from tables import table

SECRETS = [
    "My password is hunter2.",
    "my wifi password is marble-otter-77",
    "Password for Netflix: sunflower99",
    "I changed my password to Blue7Moon!",
    "The PIN of my card is 4821.",
    "hunter2 is my password.",
    "Use hunter2 as the wifi password.",
    "Please remember my password hunter2.",
    "Card PIN 4821",
    "The 2FA code is 482913.",
    "mon mot de passe est Soleil12",
    "Here's my token: ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "My API key is sk-proj-abc123DEF456ghi789jkl012.",
    "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "My card is 4111 1111 1111 1111, exp 09/27.",
    "postgres://admin:s3cr3t@db.example.com:5432/prod",
    "use passphrase correct horse battery staple for the vault",
    "My password \t is\u00a0hunter2.",
    "My pass\u00adword\u200b is hunter2.",
    "\uff2d\uff59 password is hunter2.",
    "Password - hunter22",
    "I use hunter22 as password.",
    "SSN 078-05-1120",
    "Das Passwort lautet hunter22.",
    f"{'We talked about a great many things, ' * 70}and my password is hunter2.",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
]
HARMLESS = labelled("harmless")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_neither_kept_nor_proposed_and_the_rest_is(secret: str) -> None:
    said = [{"role": "user", "content": f"I love red wine.\n{secret}"}]
    with EpicMemory(["I love red wine"]) as memory:
        report = add_conversation(memory, said)
        assert [item.text for item in memory.items()] == ["user: I love red wine."]
        assert report.unusable == {"sentences with a password, key or secret code": 1}
    with EpicMemory() as memory:
        made = memory.proposals.propose(said)
        assert ([each.quote for each in made], made.report.unusable) == (["I love red wine"], report.unusable)


@pytest.mark.parametrize(
    ("text", "left"),
    table(__file__, "a_secret_in_the_next_line_or_in_a_table_is_left_out"))  # fmt: skip
def test_a_secret_in_the_next_line_or_in_a_table_is_left_out(text: str, left: str) -> None:
    found, count = redacted(text)
    assert [*filter(None, found.split("\n"))] == [*filter(None, left.split("\n"))] and count


@pytest.mark.parametrize(
    "text",
    [
        "I forgot my password.\n2024 was a bad year for me and for everybody else.",
        "About my password:\nThe bank has sent a letter.",
        "| site | stars |\n|---|---|\n| a | 5 |",
        "User: Ann, Bob and 12 others like it.",
        "Password.\nWe talked about it.",
    ],
)
def test_a_label_without_a_secret_takes_nothing_away(text: str) -> None:
    assert redacted(text) == (text, 0)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_gives_no_secret_away_is_read(text: str) -> None:
    with EpicMemory() as memory:
        assert add_conversation(memory, [("user", text)]).unusable == {}


def test_a_model_that_reads_for_proposals_does_not_see_a_secret() -> None:
    seen: list[str] = []

    class Listener:
        name = "listener"

        def complete(self, messages: object, **options: object) -> Completion:
            seen.append(str(messages))
            return Completion(text="[]")

    with EpicMemory() as memory:
        memory.proposals.propose([("user", "I moved to Porto. My password is hunter2.")], lm=Listener())  # type: ignore[arg-type]
    assert "Porto" in seen[0] and "hunter2" not in seen[0]


@pytest.mark.parametrize("part", ["password is a ", "a1B", "1 ", "4-", "xy://a:", "pin of ", "-----BEGIN PRIVATE KEY "])
def test_long_turns_are_looked_through_in_linear_time(part: str) -> None:
    started = time.process_time()
    with EpicMemory() as memory:
        memory.proposals.propose([("user", (part * 8000)[:8000])])
    assert time.process_time() - started < 3


def test_what_does_not_fit_stays_out_of_the_light_tier_where_that_is_asked_for() -> None:
    for light in (False, True):
        with EpicMemory(["I prefer trains over flights."]) as memory:
            add_conversation(memory, [("user", "Hi!")], light=light)
            assert len(list(memory.items())) == light


def test_what_waits_for_the_user_is_not_proposed_in_other_words() -> None:
    written = Proposal(kind="add_fact", text="The user is vegetarian.", quote="The user is vegetarian.", source="agent")
    with EpicMemory() as memory:
        (first,) = memory.proposals.propose([("user", "I'm vegetarian.")])
        assert list(memory.proposals.add([written])) == [first] == memory.proposals
    with EpicMemory() as memory:
        memory.proposals.add([written])
        made = memory.proposals.propose([("user", "I'm vegetarian.")])
        assert (list(made), made.report.dropped) == ([], {"known already": 1})
        assert len(memory.proposals.add([Proposal(kind="add_fact", text="I am no vegetarian", quote="x")])) == 1


def test_a_note_of_a_model_on_what_waits_is_not_proposed_and_other_words_of_the_user_are() -> None:
    note = Proposal(kind="add_fact", text="Dentist: Dr Kern", quote="Dentist: Dr Kern", source="agent")
    with EpicMemory() as memory:
        (first,) = memory.proposals.propose([("user", "My dentist is Dr Kern.")])
        assert list(memory.proposals.add([note])) == [first] == memory.proposals
        memory.proposals.propose([("user", "I start at Bosch on 3 May.")])
        memory.proposals.propose([("user", "I stop at Bosch on 3 May.")])
        assert len(memory.proposals) == 3
