"""Boundaries of what counts: patterns of words that are not the user's own, not meant, or said by somebody else."""

from __future__ import annotations

import re


def phrases(text: str) -> re.Pattern[str]:
    r"""Return a pattern for any of the lines, as whole words; eight spaces more carry a line on."""
    return re.compile(rf"(?<![\w'-])(?:{_alternatives(text)})(?![\w'])", re.I)


def anywhere(text: str) -> re.Pattern[str]:
    """Return a pattern for any of the lines, within words too; eight spaces more carry a line on."""
    return re.compile(_alternatives(text), re.I)


def _alternatives(text: str) -> str:
    return "|".join(line.strip() for line in re.sub(r"\n {8}", "", text.strip()).splitlines())


# A turn with one of these says nothing about the user at all: it steers an assistant, or is a whole letter.
_NO_TURN = anywhere(r"""
    (?:^|\n)[ \t>*#]*(?:user|assistant|system|human|ai|developer|instructions?)[ \t]{0,3}[:\]]|\[/?INST\]|###
    <\||</?(?:system|user|assistant|memory|instructions?|im_start|[a-z]+>)|\{\s{0,3}"
    \b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}(?:instructions|rules|prompts?)\b
""")
# What follows these is made up or played, up to the end of the turn; what stands before them counts.
_PLAYED = anywhere(r"""
    (?:(?:^|[.!?:;,\n])\s{0,20}(?:(?:ok|okay|so|now|hey|hi|and|but|please|just|right|well),? )*|\b(?:let's|let us|
        please|(?:want|like|need) you to|(?:can|could) you) )(?:(?:imagin|suppos|pretend)(?:e|ing)?
        (?: for a \w+)? (?:that )?(?:i|you|we|he|she|they|it|there|an?|the|some\w+)(?:'\w+)?(?! (?:should|must|need)\b)
        \b|say (?:i|you|we)\b)
    \b(?:hypothetical|fiction(?:al)?|let's (?:play|say)|act as|role-?play(?!ing games?)|in (?:first|third) person)
    \b(?:in|for|of) (?:my|our) (?:\w+ )?(?:novel|short story|sketch)\b|\bmy (?:\w+ )?character\b|\bwho sings\b
""")
# What follows these is somebody else's text, up to the end of the turn.
_PASTED = anywhere(r"""
    \b(?:correct|rephras\w+|paraphras\w+|rewrit\w+|reword\w*|summari[sz]\w+|shorten|edit|improve|polish|fix|check|
        review|analy[sz]e|classify|repl(?:y|ied)|respond|read|format|convert|continue|complete|finish|fill in|grade|
        rate|interpret|explain|spell|pronounce|means?|says?|said|saying|writes?|wrote|reads?|asks?|asked|goes|posted|
        texted|emailed|messaged|claims?|tells?|told|states?|here(?:'s| is| are| comes)|found|got|received|sent|saw|
        this|these|following|below|text|e-?mail|message|letter|article|post|page|note|comment|transcript|ad|prompt|
        form|copy|pasted?|document|title|headline|reviews|sign|label)\b[^.?!\n]{0,80}:\s
    \b(?:this|these|following|below)\b[^.?!\n]{0,60}[?.!]?[ \t]*\n\s*(?=\S)
    (?:^|\n)[ \t]*(?:from|to|cc|subject|sent|date|re|fwd?)[ \t]?:|(?:^|\n)[ \t]*(?:dear|to whom)\b[^\n?!.]{0,40},
    (?<!\bi )(?<!\bwe )\b(?:translate|proof-?read)\b
    \b(?:grammar|spelling|punctuation|typos?|wording|phrasing)\b[^\n?.!]{0,30}[?:.!]
""")
_MASKED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|(?m:^[ \t]{0,8}[>|].*$)|(?m:^[ \t]*(?:[-*\u2022][ \t]|[\u2012-\u2015]).*$)|"
    r"\"[^\"]{0,600}(?:\"|\Z)|\u00ab[^\u00bb]{0,600}\u00bb|(?<!\w)'(?!\d0s)[^\n]{2,300}?'(?!\w)|https?://\S+",
    re.S,
)
# A line that begins so is of a transcript or the head of a mail: all that follows is somebody else's.
_LABEL = re.compile(
    r"[ \t]*(?:\[[^\]\n]{1,40}\]|[<(][^>)\n]{1,60}[>)](?:\s|$)|@[\w.]{1,30}\b|"  # [user], <bob>, @bob
    r"\w[\w .'@-]{0,30}(?:\([^)\n]{1,20}\)|\[[^\]\n]{1,20}\])?[ \t]?(?:>(?!\d)|:(?=\s|$|\x00)|\uff1a)|"  # Name:, name>
    r"[^\n]{0,60}\b[\w.+-]+@[\w-]+\.\w+|"  # an address
    r"(?:(?!(?:at|by|from|until|around|before|after)\b)[\w.'-]+,? ){0,3}"
    r"[(\[]?\d{1,2}[:.]\d\d(?: ?[ap]\.?m\.?)?[)\]]?[ \t]*(?:[-\u2013:]|$)|"  # Bob, 10:32
    r"(?:from(?! now on\b)|by|via|quote from|signed) [\w .'-]{1,30}$|"
    r"(?:sehr geehrte|liebe[rs]? \w|cher\b|ch[e\u00e8]re\b|bonjour \w|estimad[oa]|querid[oa]|car[oa]\b|gentile|"
    r"beste \w|geachte|prezad[oa]|dear\b|to whom)[^\n.!?]{0,40},?$)",
    re.I,
)
# Labels under which people write their own words.
OWN_LABEL = re.compile(
    r"[ \t]*(?:(?:for|with|on|about|at|as for|when|in|before|while) [\w' -]{2,30}|(?:please )?(?:note|remember|"
    r"keep in mind)|one (?:more )?thing|heads up|by the way|btw|fyi|also|important|reminder|ps|p\.s\.|context|"
    r"background|update(?: for you)?|just so you know|oh|(?:my|our|house) [\w' -]{2,30}|scratch that|"
    r"(?:small |quick )?correction|preferences?|diet|allerg\w+|i\b[^:\n]*|we\b[^:\n]*)\s?[:\u2012-\u2015-]",
    re.I,
)
# After a sentence with a word for a text, or for passing one on, that text may follow.
_PASSED_ON = re.compile(
    r"\b(?:texts?|e-?mails?|mails?|messages?|letters?|articles?|posts?|pages?|notes?|comments?|transcripts?|ads?|"
    r"prompts?|forms?|documents?|titles?|headlines?|reviews?|profiles?|bios?|essays?|drafts?|cv|r\u00e9sum\u00e9s?|"
    r"statements?|summar\w+|blogs?|tweets?|captions?|chats?|conversations?|surveys?|homework|assignments?|"
    r"paragraphs?|speech\w*|quotes?|stor(?:y|ies)|answers?|reply|replies|replied|feedback|testimonials?|complaints?|"
    r"screenshots?|excerpts?|passages?|interviews?|bullets?|copy|e-?mailed|wrote|written|texted|messaged|posted|"
    r"commented|pinged|dm'?e?d|pasted?|copied|forwarded|slacked|tweeted)\b|"
    r"\b(?:says?|said|told|sent|asked|left|found|got|received)(?: (?:me|us|this|that|these|it|so|him|her|them|today|"
    r"yesterday|earlier|back|behind|here))*\s*[.!\u2026]*$",
    re.I,
)
# A question or request that is about a text, although it names none.
_ABOUT_IT = re.compile(
    r"(?:(?:please|can you|could you|now|ok|so|and),? )*(?:tl;?\s?dr|thoughts|opinions?|translat\w+|summari[sz]\w*|"
    r"rephrase|rewrite|explain (?:it|this|that)|classify|analy[sz]e|edit|improve|evaluate|rate|what do you think|"
    r"(?:is|are|does|do|did|how does|how is) (?:it|this|that|these|the|my) [^?]{0,20}(?:ok|good|fake|real|true|right|"
    r"clear|polite|sense|sound|works?|reads?|spam|tone|grammar|mean)|(?:how|what) (?:does|is|did) it\b)\b",
    re.I,
)
# The beginning of a sentence that the user says of themselves.
_LEAD = (
    r"(?:(?:hi|hello|hey|ok|okay|so|and|but|also|well|btw|by the way|oh|yes|no|thanks|thank you|please note|anyway|"
    r"actually|honestly|today|tonight|tomorrow|next \w+|this \w+|in \w+|on \w+|as \w+|sorry|then|now|"
    r"good (?:morning|evening|day))[,.! \u2012-\u2015-]+){0,3}"
)
_OWN = re.compile(rf"{_LEAD}(?:(?:i|we)(?:'\w+)?\b(?!\.)|(?:my|our)\b.*[.!\u2026)]$)", re.I)
_SPEAKER_BEHIND = re.compile(
    r",\s*(?!i\b|as i\b|like i\b)(?:[\w'.-]+ ){1,3}(?:says?|said|writes?|wrote|claim(?:s|ed)?|insist(?:s|ed)?|adds?|"
    r"added|replies|replied|tells?|told|explain(?:s|ed)?|argue[sd]?|goes|went|shouted|whispered|laughed)"
    r"(?: (?:to )?(?:me|us|him|her|them))?\s*[.!]*$|,\s*(?:says|say(?= (?:the|my|they)\b)|said|wrote|writes|replied|"
    r"added|claims?) [\w .'-]{1,40}$",
    re.I,
)
# A sentence with one of these in front of a statement, or in it, states nothing.
NOT_MEANT = phrases(r"""
    if (?:i|we|only|my|our)\b.*
    it(?:'s| is)? (?:not(?: true| the case)?|false|untrue|a (?:lie|myth)) that|it isn't(?: true| the case)? that
    (?:is|was)(?: simply| just)? (?:not true|false|untrue|a (?:lie|myth))(?= *$)|(?:i|we) (?:deny|denied)
    (?:i|we)(?: am|'m| are|'re)? (?:not|never|didn't|did not|don't|do not) (?:say|said|claim|mean|meant)(?:ing|ed)?
    (?:what if|whether (?:i|we)|assum(?:e|ing)|i wish|maybe|perhaps|not sure|let's say|as if|just kidding|/s|
        said no one|as (?:they|people) say|(?:says?|said) (?:the|my|an?|he|she|they))
    i (?:might|may|could(?! live on)|should|guess|suppose|bet|doubt|wonder|hope|dreamt|dreamed)
    (?:when i was|as a (?:child|kid|teenager|student|boy|girl)|back (?:then|in))
    oh,? (?:sure|great|yeah|wow|joy|yes)|(?:lol|haha|yeah|sure|right),? (?:yeah|right|because|sure|no)
    (?:simply|just|absolutely|totally|really) (?:love|adore) (?:it when|how|\w+ing)|because i (?:totally|really|so)
    in (?:the|this|a|my|our) (?:film|movie|book|song|show|series|story|campaign|game|novel|dream)
""")
REPORTED = phrases(r"""
    says?|said|saying|(?<!i )(?:wrote|writes?|thinks?|believes?)|asks?|asked|claims?|tells?|told|insists?|heard
    according to|quotes?|means?|people|somebody|(?<!as )someone|anyone|who|those|others|everyone|everybody
    (?<!i )(?<!we )(?<!also )(?<!really )(?<!to )(?<!'d )like|such as|called|titled
""")
QUESTION = re.compile(
    r"(?:(?:so|and|but|ok|okay|hi|hello|hey|well|also|now|please|then|btw|by the way),? )*(?:what|which|where|"
    r"when(?! (?:i|we|i'm|we're|it's|it|there's|the|my|our)\b)|how|who|whose|why|is|are|was|were|do|does|did|can|could|"
    r"would|will|should|shall|may|might|has|have|had|am|any|isn't|aren't|don't|doesn't|won't|can't|if|unless|"
    r"whether)\b",
    re.I,
)
SENTENCE = re.compile(
    r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<=[.!?\u2026])[)\"']*\s+|(?<!\s)\s*\n\s*"
)
_SENTENCE_OF_LINE = re.compile(r"(?<=[.!?\u2026])[)\"']*\s+")
LONGEST_PARAGRAPH = 120  # words; people do not say so much of themselves at once
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc\u201c\u201d\u201e", "''''\"\"\"")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def plain(text: str) -> str:
    """Return a text with typewriter's quotes, and blanks for format characters, which nobody sees."""
    return _UNSEEN.sub(" ", text.translate(_APOSTROPHES))


def own_words(text: str) -> str:
    """Return a text, cut at what is pasted, in which places stay and all that is not the user's own word is blank."""
    text = plain(text)
    if _NO_TURN.search(text):
        return ""
    text = _MASKED.sub(lambda match: re.sub(r"[^\n]", "\x00", match.group()), text)
    for others in (_PLAYED, _PASTED):
        if found := others.search(text):
            text = text[: found.start()]
    position = 0
    for paragraph in re.split(r"(\n\s*\n)", text):
        if len(paragraph.split()) > LONGEST_PARAGRAPH:
            text = text[:position] + "\n" * len(paragraph) + text[position + len(paragraph) :]
        position += len(paragraph)
    return text


def without_pastes(text: str) -> str:
    """Return a text cut where a transcript or a letter begins."""
    start = 0
    for line in text.split("\n"):
        if _LABEL.match(line) and not OWN_LABEL.match(line):
            return text[:start]
        start += len(line) + 1
    return text


def doubtful_from(text: str) -> int:
    """Return the place from which on the user's own words may be somebody else's; the length if all are the user's.

    What stands in lines of its own is the user's only if they speak of themselves in every line before, and of no text.
    """
    text = without_pastes(text)
    start = 0
    for line in text.split("\n"):
        place = 0
        for boundary in _SENTENCE_OF_LINE.finditer(line):
            if _hands_over(line[place : boundary.start()].strip()):
                return start + boundary.end()
            place = boundary.end()
        start += len(line) + 1
        if line.strip() and not _is_own(line.strip()):
            return min(start, len(text))
    return len(text)


def told_by_others(words: str) -> bool:
    """Tell whether a sentence names somebody else as its speaker at its end: "I love cheese, he says"."""
    return bool(_SPEAKER_BEHIND.search(words.rstrip(" )\"'\u2026")))


def _hands_over(sentence: str) -> bool:
    """Tell whether a sentence announces a text, or asks or requests something about one."""
    return bool(_PASSED_ON.search(sentence) or _ABOUT_IT.match(sentence))


def _is_own(line: str) -> bool:
    """Tell whether the user speaks of themselves in every sentence of a line."""
    return "?" not in line and all(
        _OWN.match(sentence) and not _hands_over(sentence) for sentence in _SENTENCE_OF_LINE.split(line)
    )
