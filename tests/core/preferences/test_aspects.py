"""Aspects: what a preference likes and what it avoids."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.errors import InvalidInputError
from epic_memory.preferences.parser import firmness_of, parse_aspects

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
    ("I get seasick easily.", None, "seasick"),
    ("I can't concentrate in noisy rooms.", None, "noisy rooms"),
    ("My doctor told me to eat less salt.", None, "salt"),
    ("Please keep coriander out of anything you suggest.", None, "coriander"),
    ("I used to love cruises, but I won't set foot on a ship again.", None, "cruises"),
    ("More than anything I value peace.", "peace", None),
    ("Apart from bananas I love all fruit.", "fruit", "bananas"),
    ("Gluten gives me cramps, so I stick to rice.", "rice", "gluten"),
    ("Heels are murder on my feet.", None, "heels"),
    ("I avoid dairy and prefer oat milk.", "oat milk", "dairy"),
    ("I dislike all seafood except salmon.", "salmon", "seafood"),
    ("I love beaches without crowds.", "beaches", "crowds"),
    (
        "I prefer learning by building something over sitting through lectures.",
        "building something",
        "sitting through lectures",
    ),
    # each cue once more, in another sentence
    ("I dislike open-plan offices.", None, "open-plan offices"),
    ("I really hate small talk.", None, "small talk"),
    ("I never fly at night.", None, "fly"),
    ("I refuse to eat at chain restaurants.", None, "chain restaurants"),
    ("I have a phobia of snakes.", None, "snakes"),
    ("I have a severe peanut allergy.", None, "peanut"),
    ("I'm lactose intolerant.", None, "lactose"),
    ("I have a strong aversion to horror movies.", None, "horror movies"),
    ("I'm not big on reality shows.", None, "reality shows"),
    ("Crowds stress me out.", None, "crowds"),
    ("Motorways are off limits for me.", None, "motorways"),
    ("I find opera tedious.", None, "opera"),
    ("Loud music is something I try to avoid.", None, "loud music"),
    ("No seafood for me, please.", None, "seafood"),
    ("I eat nothing containing gluten.", None, "gluten"),
    ("I don't buy products that contain palm oil.", None, "palm oil"),
    ("not a fan of escape rooms", None, "escape rooms"),
    ("I only read novels by living authors.", "novels by living authors", None),
    ("Solid wood only.", "solid wood", None),
    ("A balcony is a must for me.", "balcony", None),
    ("I'm vegan.", "vegan", None),
    ("As a vegetarian, I look for hearty stews.", "hearty stews", None),
    ("I eat nothing but rice.", "rice", None),
    ("Nothing beats a window seat.", "window seat", None),
    ("I prefer avoiding leather.", None, "leather"),
    ("I'm an avid vegan and refuse to wear fur.", "vegan", "fur"),
    # double negations
    ("I avoid hotels that aren't eco-friendly.", "eco-friendly", None),
    ("I don't buy from shops that do not offer refunds.", "refunds", None),
    ("I dislike gyms without a pool.", "pool", None),
    ("I never travel without a paper map.", "paper map", None),
    ("I don't dislike jazz.", "jazz", None),
    ("I can't live without coffee.", "coffee", None),
    ("I refuse to give up cheese.", "cheese", None),
    ("I skip restaurants with no terrace.", "terrace", None),
    # contrasts and exceptions
    ("I prefer silent films to talkies.", "silent films", "talkies"),
    ("I value honesty more than politeness.", "honesty", "politeness"),
    ("Fairness matters more to me than winning.", "fairness", "winning"),
    ("I'd rather walk than drive.", "walk", "drive"),
    ("No meat except chicken.", "chicken", "meat"),
    ("I avoid dairy unless it is goat cheese.", "goat cheese", "dairy"),
    ("I want numbers, not anecdotes.", "numbers", "anecdotes"),
    ("I prefer explanations that focus on history rather than chemistry.", "history", "chemistry"),
    ("I dislike explanations that focus on money and prefer those based on art.", "art", "money"),
    ("I prefer software free of advertising.", "software", "advertising"),
    ("I believe cities should prioritize parks over parking.", "parks", "parking"),
    # several contrasts
    ("I prefer tea over coffee, juice, and beer.", "tea", "coffee | juice | beer"),
    # never, hardly
    ("I never skip breakfast.", "breakfast", None),
    ("I will never give up coffee.", "coffee", None),
    ("I never miss a match.", "match", None),
    ("I never refuse dessert.", "dessert", None),
    ("I hardly ever skip breakfast.", "breakfast", None),
    ("I seldom avoid crowds.", "crowds", None),
    ("I hardly ever like opera.", None, "opera"),
    # idioms
    ("I can't get enough of jazz.", "jazz", None),
    ("I can't wait to visit museums.", "museums", None),
    ("I cannot resist chocolate.", "chocolate", None),
    ("I'd hate to miss the sunset.", "sunset", None),
    ("I don't want to miss the sunset.", "sunset", None),
    ("I'm no fan of opera.", None, "opera"),
    ("My least favorite food is liver.", None, "liver"),
    ("Opera is overrated.", None, "opera"),
    ("Golf is a waste of time.", None, "golf"),
    ("My pet peeve is loud chewing.", None, "loud chewing"),
    ("The last thing I want is a cruise.", None, "cruise"),
    ("I'd rather you didn't suggest seafood.", None, "seafood"),
    ("I'd prefer if you didn't use jargon.", None, "jargon"),
    ("I am unable to eat gluten.", None, "gluten"),
    # less
    ("I want less screen time.", None, "screen time"),
    ("Fewer meetings please.", None, "meetings"),
    ("I want more greens and less meat.", "greens", "meat"),
    ("I like coffee with less sugar.", "coffee", "sugar"),
    ("No more meetings.", None, "meetings"),
    ("I spend less time in shops.", None, "time in shops"),
    # where what is turned around ends
    ("Explain without jargon.", None, "jargon"),
    # one for another
    ("Mountains, not beaches.", "mountains", "beaches"),
    ("I'm not vegan but I love tofu.", "tofu", None),
]

REASONS = (
    " because it gives me headaches",
    ", because it gives me headaches",
    " since it makes me ill",
    " as I find it exhausting",
    " due to health reasons",
    ", it makes me ill",
)


def read(preference: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    aspects = parse_aspects(preference)
    return aspects.liked, aspects.avoided


def is_read(preference: str, liked: str | None, avoided: str | None) -> bool:
    """Tell whether the sides are those that are meant."""
    aspects = parse_aspects(preference)
    return all(
        bool(phrases) is (wanted is not None)
        and (wanted is None or wanted in " | ".join(phrases).casefold())
        and (wanted is None or unwanted is None or wanted not in " | ".join(other).casefold())
        for phrases, other, wanted, unwanted in (
            (aspects.liked, aspects.avoided, liked, avoided),
            (aspects.avoided, aspects.liked, avoided, liked),
        )
    )


def test_preferences_are_read_as_they_are_meant() -> None:
    misread = [preference for preference, *sides in SENTENCES if not is_read(preference, *sides)]

    assert not misread


def test_lower_case_and_white_space_do_not_matter() -> None:
    for preference, liked, avoided in SENTENCES:
        typed = parse_aspects(f" {preference.lower()}\n".replace(" ", "  "))

        assert liked is None or liked in " | ".join(typed.liked), preference
        assert avoided is None or avoided in " | ".join(typed.avoided), preference


def test_case_and_apostrophes_do_not_matter() -> None:
    def folded(preference: str) -> list[list[str]]:
        return [[phrase.replace("’", "'").casefold() for phrase in side] for side in read(preference)]

    for preference, *_ in SENTENCES:
        plain = preference.replace("’", "'")

        assert folded(plain.upper()) == folded(plain.replace("'", "’")) == folded(plain), preference


def test_a_reason_is_on_no_side() -> None:
    for preference in [preference for preference, *_ in SENTENCES if preference.startswith("I")]:
        for reason in REASONS:
            assert read(preference.rstrip(".") + reason + ".") == read(preference), preference + reason


LISTS = [
    ("I love cotton, linen, and silk.", ("cotton", "linen", "silk"), ()),
    ("I don't eat beef, pork or lamb.", (), ("beef", "pork", "lamb")),
    ("I avoid fabrics like wool and nylon.", (), ("fabrics", "wool", "nylon")),
    ("I prefer tea and cake over beer and crisps.", ("tea", "cake"), ("beer", "crisps")),
    ("I avoid hotels with casinos or nightclubs.", (), ("hotels with casinos or nightclubs",)),
    ("I enjoy cultural and artistic exchanges.", ("cultural and artistic exchanges",), ()),
    ("Nothing frozen for dinner, but tins are fine.", ("tins",), ("frozen",)),
    ("I won't eat anywhere that plays loud music.", (), ("loud music",)),
    ("I hate phone calls, send me an e-mail.", ("e-mail",), ("phone calls",)),
    ("Celery tastes like soap to me.", (), ("Celery",)),
    ("I like my lectures short, or else I fall asleep.", ("lectures short",), ()),
    ("I avoid shows or movies that feature laugh tracks.", (), ("laugh tracks",)),
]


def test_lists_are_taken_apart_and_single_things_are_not() -> None:
    misread = {preference: read(preference) for preference, *sides in LISTS if read(preference) != tuple(sides)}

    assert not misread


NOUNS = ("apples", "jazz", "trains", "old books", "window seats", "goat cheese", "chess", "salted caramel", "museums")


@given(st.lists(st.sampled_from(NOUNS), min_size=3, max_size=7, unique=True), st.sampled_from(["and", "or"]))
def test_lists_of_nouns_come_out_whole(nouns: list[str], conjunction: str) -> None:
    listed = f"{', '.join(nouns[:-1])} {conjunction} {nouns[-1]}"

    assert read(f"I avoid {listed}.") == ((), tuple(nouns))
    assert read(f"I love {listed}, since they calm me.") == (tuple(nouns), ())
    assert read(f"I prefer chestnuts over {listed}.") == (("chestnuts",), tuple(nouns))


@pytest.mark.parametrize(
    ("preference", "scope"),
    [
        ("When travelling for work, I avoid chain hotels.", "When travelling for work"),
        ("When I travel I avoid chain hotels.", "When I travel"),
        ("I avoid caffeine after lunch because it keeps me awake.", "after lunch"),
        ("I like warm light in the evening.", "in the evening"),
        ("I prefer moral reasons over legal ones when discussing justice.", "when discussing justice"),
        ("I hate when films are dubbed.", ""),
        ("I love hotels with a pool.", ""),
    ],
)
def test_the_scope_is_read_and_is_on_no_side(preference: str, scope: str) -> None:
    aspects = parse_aspects(preference)

    assert aspects.scope == scope
    assert not scope or not any(scope in phrase for phrase in (*aspects.liked, *aspects.avoided))


@pytest.mark.parametrize(
    ("preference", "firmness"),
    [
        ("I never eat shellfish.", 1.0),
        ("I'm allergic to wool.", 1.0),
        ("I only watch documentaries.", 1.0),
        ("I don’t drink alcohol for religious reasons.", 1.0),
        ("I hate buffets.", 0.75),
        ("I can't stand musicals.", 0.75),
        ("I strongly prefer paper books.", 0.75),
        ("I prefer trains because I only travel short distances.", 0.5),
        ("I dislike mushrooms.", 0.5),
        ("I'm not a fan of jazz.", 0.5),
    ],
)
def test_how_firmly_it_is_held(preference: str, firmness: float) -> None:
    assert firmness_of(preference) == parse_aspects(preference).firmness == firmness


@pytest.mark.parametrize("preference", ["🚆", "42", "Ramen", "Tangerine Dream"])
def test_what_no_pattern_reads_is_liked_as_a_whole(preference: str) -> None:
    aspects = parse_aspects(preference)

    assert aspects.avoided == ()
    assert aspects.liked[0] in preference


def test_nothing_has_no_sides() -> None:
    with pytest.raises(InvalidInputError):
        parse_aspects(" \n")


# Sentences of the words that preferences are made of, in no sensible order.
WORDS = st.lists(
    st.sampled_from(
        sorted({word for preference, *_ in SENTENCES for word in preference.split()} | {"-", "—", ";", ",", "when"})
    ),
    min_size=1,
    max_size=25,
).map(" ".join)


@given(st.text(min_size=1, max_size=200).filter(str.strip) | WORDS)
def test_any_text_has_a_side_unless_it_is_foreign(text: str) -> None:
    aspects = parse_aspects(text)

    assert bool(aspects.liked or aspects.avoided) is aspects.understood
    assert all(phrase.strip() for phrase in (*aspects.liked, *aspects.avoided))


@given(WORDS)
def test_no_phrase_is_on_both_sides_or_twice(text: str) -> None:
    aspects = parse_aspects(text)

    assert not set(aspects.liked) & set(aspects.avoided)
    assert len(set(aspects.liked)) == len(aspects.liked)
    assert len(set(aspects.avoided)) == len(aspects.avoided)


@given(WORDS)
def test_phrases_and_scopes_are_words_of_the_preference(text: str) -> None:
    aspects = parse_aspects(text)

    for phrase in (*aspects.liked, *aspects.avoided, aspects.scope):
        assert phrase in " ".join(text.split())


def seconds(text: str) -> float:
    """The least time that parsing took."""
    taken = []
    for _ in range(5):
        parse_aspects.cache_clear()
        begun = time.process_time()
        parse_aspects(text)
        taken.append(time.process_time() - begun)
    return min(taken)


HOSTILE = [
    "not ",
    "I avoid ",
    "without ",
    "over ",
    "a, ",
    "x",
    "a-",
    "and I hate x ",
    "when I ",
    "because ",
    "to ",
    "or ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    # Four times the text takes about four times as long; with backtracking it would be sixteen times or more.
    assert seconds((piece * 1000)[:1000]) < 10 * seconds((piece * 250)[:250]) + 0.005
