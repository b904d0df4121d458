"""Aspects: what a preference likes and what it avoids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_core.aspects import parse_aspects

# (preference, in the liked side, in the avoided side); None: that side is empty.
SENTENCES = [
    # dislikes
    ("I avoid hotels with on-site casinos.", None, "hotels with on-site casinos"),
    ("I don't like spicy food.", None, "spicy food"),
    ("I don’t want newsletters in my inbox.", None, "newsletters"),
    ("I do not drink coffee.", None, "coffee"),
    ("I never eat shellfish.", None, "shellfish"),
    ("I no longer eat sugar.", None, "sugar"),
    ("I hate horror movies.", None, "horror movies"),
    ("I can't stand loud restaurants.", None, "loud restaurants"),
    ("I am allergic to peanuts.", None, "peanuts"),
    ("I refuse to fly with budget airlines.", None, "budget airlines"),
    ("I steer clear of crowded beaches.", None, "crowded beaches"),
    ("I stay away from multi-level marketing.", None, "multi-level marketing"),
    ("I have no interest in celebrity gossip.", None, "celebrity gossip"),
    ("I'm not a fan of superhero movies.", None, "superhero movies"),
    ("I'm scared of spiders.", None, "spiders"),
    ("I am opposed to animal testing.", None, "animal testing"),
    ("I prefer not to use social media.", None, "social media"),
    ("I prefer to avoid crowds.", None, "crowds"),
    ("I abstain from alcohol.", None, "alcohol"),
    ("We boycott fast fashion brands.", None, "fast fashion"),
    ("Because of my bad knees, I avoid stairs.", None, "stairs"),
    ("I avoid elevators because I find them claustrophobic.", None, "elevators"),
    ("I won't take a job that involves on-call duty or weekend shifts.", None, "on-call duty or weekend shifts"),
    # likes
    ("I follow a strict vegan diet.", "vegan diet", None),
    ("I love hiking in the mountains.", "hiking in the mountains", None),
    ("I am passionate about astronomy.", "astronomy", None),
    ("I'm keen on birdwatching.", "birdwatching", None),
    ("I like to exercise outdoors, in the open air.", "exercise outdoors", None),
    ("I want a car with good fuel economy.", "fuel economy", None),
    ("I only buy second-hand clothes.", "second-hand clothes", None),
    ("Window seats", "window seats", None),
    # both sides
    ("I prefer trains over flights.", "trains", "flights"),
    ("I strongly prefer paper books over e-books.", "paper books", "e-books"),
    ("I like quiet cafes rather than busy bars.", "quiet cafes", "busy bars"),
    ("I choose tea instead of coffee.", "tea", "coffee"),
    ("I like dark chocolate, not milk chocolate.", "dark chocolate", "milk chocolate"),
    ("I enjoy jazz but dislike country music.", "jazz", "country music"),
    ("I don't eat meat, but I love fish.", "fish", "meat"),
    ("I do not like flying; I love trains.", "trains", "flying"),
    ("I avoid dairy and prefer oat milk.", "oat milk", "dairy"),
    ("I dislike all seafood except salmon.", "salmon", "seafood"),
    ("I love beaches without crowds.", "beaches", "crowds"),
    (
        "I prefer learning by building something over sitting through lectures.",
        "building something",
        "sitting through lectures",
    ),
]


@pytest.mark.parametrize(("preference", "liked", "avoided"), SENTENCES)
def test_a_preference_is_read_as_it_is_meant(preference: str, liked: str | None, avoided: str | None) -> None:
    aspects = parse_aspects(preference)

    for phrases, other, wanted, unwanted in (
        (aspects.liked, aspects.avoided, liked, avoided),
        (aspects.avoided, aspects.liked, avoided, liked),
    ):
        assert bool(phrases) is (wanted is not None)
        assert wanted is None or wanted in " | ".join(phrases).casefold()
        assert wanted is None or unwanted is None or wanted not in " | ".join(other).casefold()


@pytest.mark.parametrize(("preference", "liked", "avoided"), SENTENCES)
def test_lower_case_and_white_space_do_not_matter(preference: str, liked: str | None, avoided: str | None) -> None:
    typed = parse_aspects(f" {preference.lower()}\n".replace(" ", "  "))

    assert liked is None or liked in " | ".join(typed.liked)
    assert avoided is None or avoided in " | ".join(typed.avoided)


@pytest.mark.parametrize("preference", ["我不喜欢飞机。", "Ich fahre lieber mit dem Zug.", "🚆", "أحب القطارات", "42"])
def test_what_no_pattern_reads_is_liked_as_a_whole(preference: str) -> None:
    aspects = parse_aspects(preference)

    assert aspects.avoided == ()
    assert aspects.liked[0] in preference


# Sentences of the words that preferences are made of, in no sensible order.
WORDS = st.lists(
    st.sampled_from(
        sorted({word for preference, *_ in SENTENCES for word in preference.split()} | {"-", "—", ";", ","})
    ),
    min_size=1,
    max_size=25,
).map(" ".join)


@given(st.text(min_size=1, max_size=200) | WORDS)
def test_any_text_has_a_side(text: str) -> None:
    aspects = parse_aspects(text)

    assert not text.strip() or aspects.liked or aspects.avoided
    assert all(phrase.strip() for phrase in (*aspects.liked, *aspects.avoided) if text.strip())


@given(WORDS)
def test_no_phrase_is_on_both_sides_or_twice(text: str) -> None:
    aspects = parse_aspects(text)

    assert not set(aspects.liked) & set(aspects.avoided)
    assert len(set(aspects.liked)) == len(aspects.liked)
    assert len(set(aspects.avoided)) == len(aspects.avoided)


@given(WORDS)
def test_phrases_are_words_of_the_preference(text: str) -> None:
    aspects = parse_aspects(text)

    for phrase in (*aspects.liked, *aspects.avoided):
        assert phrase in " ".join(text.split())
