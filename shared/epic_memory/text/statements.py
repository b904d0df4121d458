"""Statements about a user's life, taken apart: topic words, names, values (numbers, times, dates), signs of a change.

All of this is English. A statement in another language has words, but few values and no signs of a change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from epic_memory.text.stems import stem, word_set


def _listed(text: str) -> list[str]:
    return text.split()


def _sign(text: str) -> re.Pattern[str]:
    """Return a pattern for whole words, from lines of alternatives."""
    return re.compile(rf"\b(?:{'|'.join(line.strip() for line in text.strip().splitlines())})\b", re.I)


_UNITS = _listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS = _listed("twenty thirty forty fifty sixty seventy eighty ninety")
NUMBERS = {word: number for number, word in enumerate(_UNITS)} | {
    word: 10 * tens for tens, word in enumerate(_TENS, start=2)
}
DAYS = _listed("monday tuesday wednesday thursday friday saturday sunday")
MONTHS = _listed("january february march april may june july august september october november december")
_DAY = {name: day for day in DAYS for name in (day, day + "s")}
_HOUR = rf"(?:\d{{1,2}}|{'|'.join(_UNITS[1:13])})"
# Spoken times and numbers, written in digits before anything else is read.
_HALF_PAST = re.compile(rf"\bhalf(?: past)? ({_HOUR})\b")
_QUARTER = re.compile(rf"\b(?:a )?(quarter|ten|twenty|five)(?: minutes)? (past|after|to) ({_HOUR})\b")
_COMPOUND = re.compile(rf"\b({'|'.join(_TENS)})[- ]({'|'.join(_UNITS[1:10])})\b")
_CLOCK = re.compile(r"\b(\d{1,2})[.:](\d\d)(?!\d)")
_ON_THE_HOUR = re.compile(rf"\b(?:at|around|by|before|after|until) ({_HOUR})\b|\b({_HOUR}) ?(?:am|pm|o'clock)\b")
_DATED = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({'|'.join(MONTHS)})\b")
_DATED_FIRST = re.compile(rf"\b({'|'.join(MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?\b")
_TOKEN = re.compile(r"[A-Za-zÀ-ÿ0-9][\w'#À-ÿ-]*(?:[.:,/]\d+|@[\w-]+|\.[a-z]{2,}\b)*")
# The fewest digits of a group of a telephone number.
_GROUP = 3
_GLUED = re.compile(r"(\d+)(kgs?|kilos?|mg|ml|cm|km|k|g|m|am|pm)")
_LOWER_NAMES = frozenset(_DAY) | frozenset(MONTHS) | {"i", "i'm", "i've", "i'd", "i'll", "mot"}
# Words that do not tell what a statement is about: verbs of all work, time, talk, and the signs of a change themselves.
_NO_TOPIC = word_set(
    "the a an of and or to in for with on at by from is are be been being was were am as it its it's their your you i"
    " my me we our us mine ours any all some that that's this these those which who whom whose what than more most very"
    " such like into over under out up off about through after before between per each every when where why how there"
    " there's here have has had having do does did done doing don't doesn't didn't can could will would should may"
    " might must just also too so if but they they're they've them he he's she she's his her hers him not no never nor"
    " now nowadays currently today tonight days day week weeks month months year years time times moment present since"
    " yesterday until till still"
    " already always ever again anymore longer instead new old different other another changed change"
    " changes moved move moves moving switched switch swapped swap replaced reset shifted put forward gone go goes"
    " going get gets got getting gotten give gives given gave take takes took taken taking make makes made come comes"
    " came coming keep keeps kept say says said tell told use uses used using need needs needed want wants call calls"
    " called named name's start starts started starting stop stopped stopping finish finished end ended over become"
    " became let lets let's one ones i'm i've i'd i'll we're we've we'd we'll you're you've who's what's where's when's"
    " can't cannot couldn't won't isn't aren't wasn't hasn't haven't okay ok please by the way remember forget know"
    " actually really finally recently lately right well both own only even else thing things way bit lot am pm mr mrs"
    " ms miss dr prof professor first second third last next number half past quarter of o'clock currently these"
    " because though while yet oh hi hey thanks left leave quit given packed sold cancelled canceled dropped"
)
_NO_LEAD = (
    _NO_TOPIC
    | {*_DAY, *MONTHS, *NUMBERS}
    | word_set("poor old christmas easter summer winter home birthday just many people somebody")
)
_SIGNS = {
    # It holds from now on.
    "now": _sign(rf"""
        now|these days|nowadays|currently|at present|at the moment|from now on|from here on|henceforth
        (?:from|since|as of|starting) (?:today|tomorrow|this|next|{"|".join([*DAYS, *MONTHS])})
        this (?:term|year|season|month)
    """),
    # Something was moved, raised, exchanged.
    "changed": _sign(r"""
        chang(?:ed|es?)|switch(?:ed|ing)?|swap(?:ped)?|mov(?:ed|ing)|shifted|shuffled|resched\w+|rearranged|postponed
        delayed|slipped|extension|put (?:back|off|up|down|forward|me|us|you|him|her|gran|mum|dad)|push(?:ed|ing)
        brought forward|bumped|reset|re-?programmed|replaced?|renamed|relocat\w+|migrat\w+|transferred|overtaken|voted
        since (?:the|we|i|he|she|they|last)|(?:been|has|have) given|upped|again|after all|upgraded|traded|raised
        lowered|increased|doubled|halved|reduced
        (?:gone|went|go(?:es|ing)?|up|down|cut|dropped|fell|rose) (?:up |down )?to
        turned|correction|update[ds]?|(?:is|it's|are) (?:up|down) to|we've until|the new \w+ is|cut
    """),
    # Something new was begun, bought, found.
    "new": re.compile(
        r"(?:^|[,;:(-] ?)new\b|\b(?:my|our|the|a|an|got|have) (?:brand[- ])?new\b|\bnew (?:job|one|boss|code|number)\b"
        r"|\b(?:start(?:ed|ing) (?:at|a|as|with|on)|taken on|took (?:over|on)|taken (?:over|\w+ over)|joined|hired"
        r"|elected|promoted|bought|ordered|found|chosen|settled (?:on|in))\b",
        re.I,
    ),
    # In place of what was.
    "instead": re.compile(
        r"\b(?:instead(?: of)?|rather than|in place of|not \w+(?: \w+)? any ?more|no longer|used to|not \S+$)\b|, not ",
        re.I,
    ),
    # Somebody or something fell out, and so another does it: "Pete's off to college and I've taken on Samira".
    "so": re.compile(
        r"\b(?:has|have|is|was|went|left|retired|quit|gone|closed|died|broke|full|off|late|flooded|can't|bust|dropped"
        r"|packed|fell|stepped|let)\b[^.;]{0,40}(?:[,;:]| and| so) *(?:and |so |but )?(?:i|we|it|he|she|they|my|our|the"
        r"|[A-Z]\w+)\b"
    ),
    # It is over.
    "ended": _sign(r"""
        no longer|any ?more|any longer|no more|nobody|never again|stopp?(?:ed|ing)|quit|giving up|sold|cancell?ed
        g(?:ive|ave|iven) (?:\w+ ){0,3}(?:up|away|back)|called (?:\w+ ){0,3}off|finished|died
        passed (?:away|on)|put (?:down$|to sleep)|closed
        (?:is|'s|are|it's) (?:off|over|dead|finished|done|empty|closed|out of)|shut down|folded|disbanded|broke up
        (?:has|have|had|'s|'ve|is|was|were|got|been) (?:\w+ ){0,2}gone(?! (?:up|down|to)\b)
        ended|folded
        run over|stolen|nicked|scrapped|discharged|repaid|smashed|drained|lapsed|expired|written off
        packed (?:it |up|in\b)|broken up|split up|divorced|handed (?:in|back)|got rid|getting rid
        paid (?:off|for)
        left|dropped|ditched|threw out|lost|let (?:\w+ ){1,5}go|done with|doing without|without (?:a|the)
        pulled out
        (?:come|came|took|taken)(?: me| us)? off|leave off|moved out|scrapyard|binned
        last (?:day|lesson|session|one|instal\w+|payment)
        that's the end|final|made redundant|retired|isn't \w+ing|aren't \w+ing|not \w+ing
        can't (?:make|come|get)|turns out
        passed my|rehomed?|discontinued|taken out
    """),
    # It is one more of several.
    "also": _sign("also|too|as well|second|another|other|besides|both|additionally"),
    # It was said before.
    "told": _sign(r"""
        in case|remember|mustn't forget|don't forget|by the way|btw|as i said|like i said|as you know|again|reminder
    """),
}
SIGNS = tuple(_SIGNS)
CHANGES = frozenset({"now", "changed", "new", "instead", "so"})


# Words for one thing, one thing a line: most of them are what a person has one of at a time.
_THINGS = """
    boss manager supervisor report_to | doctor gp surgery physician | dentist teeth | wifi internet broadband online
    | gym workout fitness | rent landlord | salary wage pay payday paid | weigh weight kilos kg | car vehicle drive
    | job work employer works working worked | live lives living home address i've_moved_to i_moved_to
      i_have_moved_to we_have_moved_to
      we've_moved_to we_moved_to moved_house flat apartment
    | train platform | school primary secondary academy goes_to | nursery playgroup kindergarten daycare
    | trash garbage rubbish bin bins refuse | football soccer five-a-side | film movie cinema | holiday vacation trip
    | lawn grass mow | hair hairdresser barber haircut | accountant bookkeeper accounts
    | babysitter sitter nanny childminder | password passcode pin code combination unlock unlocks opens
    | meeting stand-up standup daily | colleague coworker | therapy therapist counsellor
    | physio physiotherapy exercises | supplier supplies supply comes_from buy_from | cost costs charge price fee
    | operation surgery surgeon | flight fly airline | hotel staying | coach trainer trains | vet animals
    | deadline due hand_in | wedding marry marrying married | boyfriend girlfriend partner seeing
    | vegetarian veggie meat | pupil learner student | lab practical | boiler heating | bank account
    | chair chairman chairwoman chairs | mum mother mom | dad father | treasurer money | caterer catering food
    | dose tablet pill mg milligrams | electricity electric power | phone mobile cell | budget spend set_aside
    | electrician wiring electrics | cleaner cleans cleaning | gardener garden | swim swimming pool
    | read reading book | bedtime bed
"""
_THING_LINES = [line.split() for line in _THINGS.split("|")]
_PHRASES = [word for line in _THING_LINES for word in line if "_" in word]
_THING_OF = {stem(word): f"#{number}" for number, line in enumerate(_THING_LINES) for word in line}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement taken apart.

    Attributes:
        topic: The words that tell what it is about, small letters, each once, in order.
        names: The names in it, small letters.
        lead: Its first word in small letters, if that has a capital: a name, or any word that begins a sentence.
        when: Its weekdays, dates and times, normalised.
        numbers: Its other numbers and codes, normalised.
        signs: Which of `SIGNS` it has.
    """

    topic: tuple[str, ...]
    names: frozenset[str]
    lead: str
    when: frozenset[str]
    numbers: frozenset[str]
    signs: frozenset[str]

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of the topic."""
        return frozenset(map(stem, self.topic))

    @cached_property
    def values(self) -> frozenset[str]:
        """Words that may have another value at another time, without names."""
        return self.when | self.numbers

    @cached_property
    def all_names(self) -> frozenset[str]:
        """Its names, and the word that it begins with, which may be one."""
        return self.names | {self.lead} if self.lead else self.names

    def begins_unlike(self, other: Statement) -> bool:
        """Tell whether it begins with a word of its own, as with a name: "Otto is feeding the cats"."""
        return bool(self.lead) and self.lead not in other.all_names and stem(self.lead) not in other.stems


@lru_cache(maxsize=4096)
def statement_of(text: str) -> Statement:
    """Return a statement taken apart."""
    text = " ".join(text.replace("’", "'").split())
    signs = frozenset(name for name, sign in _SIGNS.items() if sign.search(text))
    lower, when = _timed(text.lower())
    tokens = _TOKEN.findall(text)
    topic: dict[str, None] = {phrase: None for phrase in _PHRASES if phrase.replace("_", " ") in lower}
    names = {_bare(word) for word in tokens[1:] if word[0].isupper() and word.lower() not in _LOWER_NAMES}
    names = {name for name in names if name not in _NO_TOPIC and not any(map(str.isdigit, name))}
    lead = _bare(tokens[0]) if tokens and tokens[0][0].isupper() else ""
    if "'" in lead or not _NO_LEAD.isdisjoint({lead, *lead.split("-")}):
        lead = ""
    numbers: set[str] = set()
    for word in _TOKEN.findall(lower):
        bare = _bare(word)
        if any(map(str.isdigit, bare)) or "." in bare or "@" in bare:
            glued = _GLUED.fullmatch(bare)
            # A telephone number may be grouped in any way; "2-1" is another place than "2-2".
            grouped = bare.replace("-", "").isdigit() and min(map(len, bare.split("-"))) >= _GROUP
            parts = bare.split("-") if grouped else [glued[1] if glued else bare]
            numbers.update(part.replace(",", "").strip(".#") for part in parts)
        elif bare in NUMBERS and bare != "one":
            numbers.add(str(NUMBERS[bare]))
        elif bare not in _NO_TOPIC and word not in _NO_TOPIC and bare not in names and len(bare) > 1:
            topic[bare] = None
    return Statement(
        topic=tuple(topic),
        names=frozenset(names),
        lead=lead,
        when=frozenset(when),
        numbers=frozenset(numbers),
        signs=signs,
    )


def without_signs(text: str) -> str:
    """Return a text without the words that say that something has changed, is over, or holds from now on."""
    for name in ("now", "instead", "ended"):
        text = _SIGNS[name].sub(" ", text)
    return " ".join(text.split())


def thing_of(word: str) -> str:
    """Return the thing that a word speaks of; empty for none of those that are known."""
    return _THING_OF.get(stem(word), "")


def _bare(word: str) -> str:
    return re.sub(r"'s$|'$", "", word.lower()).strip("'-")


def _timed(lower: str) -> tuple[str, set[str]]:
    """Return a text without its days, dates and times, and those, normalised."""
    when: set[str] = set()
    lower = _HALF_PAST.sub(lambda match: f"{_number(match[1])}:30", lower)
    lower = _QUARTER.sub(_spoken, lower)
    lower = _COMPOUND.sub(lambda match: str(NUMBERS[match[1]] + NUMBERS[match[2]]), lower)

    def taken(value: str) -> str:
        when.add(value)
        return " "

    lower = _DATED.sub(lambda match: taken(f"{match[1]} {match[2]}"), lower)
    lower = _DATED_FIRST.sub(lambda match: taken(f"{match[2]} {match[1]}"), lower)
    lower = _CLOCK.sub(lambda match: taken(_clock(match[1], match[2])), lower)
    lower = _ON_THE_HOUR.sub(lambda match: taken(f"{_number(match[1] or match[2])}:00"), lower)
    for name in re.findall(r"[a-z]+", lower):
        if name in _DAY:
            when.add(_DAY[name])
        elif (name in MONTHS and name not in ("may", "march")) or name in ("noon", "midday", "midnight"):
            when.add(name)
    lower = re.sub(rf"\b(?:{'|'.join([*_DAY, *MONTHS, 'noon', 'midday', 'midnight'])})\b", " ", lower)
    return lower, when


def _spoken(match: re.Match[str]) -> str:
    minutes = {"quarter": 15, "five": 5, "ten": 10, "twenty": 20}[match[1]]
    hour = int(_number(match[3]))
    if match[2] == "to":
        hour, minutes = hour - 1 or 12, 60 - minutes
    return f"{hour}:{minutes:02}"


def _clock(hour: str, minute: str) -> str:
    return f"{int(hour)}:{minute}"


def _number(word: str) -> str:
    return str(NUMBERS.get(word, word))
