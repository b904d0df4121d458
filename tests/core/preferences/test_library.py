"""The bundled library of expanded preferences, and what is borrowed from it."""

from __future__ import annotations

from importlib.resources import files

import pytest

from epic_memory import Preference
from epic_memory.encoders import default_encoder
from epic_memory.preferences.evidence import embed_aspects
from epic_memory.preferences.library import borrowed, default_library
from tables import table


def test_the_library_is_as_large_as_promised_and_small_in_the_wheel() -> None:
    library = default_library()
    assert len(library.known) >= 1500
    assert all(len(part) >= 5 for one in library.known for part in one[1:])
    assert len((files("epic_memory") / "data" / "library.txt.xz").read_bytes()) <= 700_000


def test_what_is_near_and_of_the_same_side_is_borrowed() -> None:
    (dairy,) = borrowed([Preference(text="I can't have dairy, it upsets my stomach.")])
    assert dairy is not None and dairy.source == "bundled"
    assert len(dairy.follows) >= 5 and len(dairy.breaks) >= 5 and len(dairy.questions) >= 5
    assert not {one.casefold() for one in dairy.follows} & {one.casefold() for one in dairy.breaks}


@pytest.mark.parametrize(
    ("own", "opposed"), table(__file__, "nothing_is_borrowed_from_who_likes_what_the_preference_avoids")
)
def test_nothing_is_borrowed_from_who_likes_what_the_preference_avoids(own: str, opposed: str) -> None:
    (theirs,) = [one for one in default_library().known if one.text == opposed]
    (lent,) = borrowed([Preference(text=own)])
    assert lent is None or set(theirs.questions).isdisjoint(lent.questions)


@pytest.mark.parametrize("text", ["Qwrtz plmk xyzzy.", "My neighbour's cousin paints zeppelins on Thursdays."])
def test_nothing_is_borrowed_where_nothing_is_near(text: str) -> None:
    assert borrowed([Preference(text=text)]) == [None]


def test_an_encoder_may_decline_to_borrow() -> None:
    class Slow:
        borrow = False

        def __init__(self) -> None:
            self.encode = default_encoder().encode
            self.name, self.dimension, self.fingerprint = "slow", default_encoder().dimension, "1"

    text = "I can't have dairy, it upsets my stomach."
    assert len(embed_aspects(Slow(), [text])[0].expanded) == 0  # type: ignore[arg-type]
    assert len(embed_aspects(default_encoder(), [text])[0].expanded) > 0
    assert len(embed_aspects(default_encoder(), [text], borrow=False)[0].expanded) == 0
