"""Pastes: where in a turn words may begin that somebody else wrote, told by the lines and sentences before them."""

from __future__ import annotations

import re

# A line that begins so is of a transcript or the head of a mail: all that follows is somebody else's.
_LABEL = re.compile(
    r"[ \t]*(?:"
    r"\[[^\]\n]{1,40}\]|[<(][^>)\n]{1,60}[>)](?:\s|$)|@[\w.]{1,30}\b|"  # [user], <bob>, @bob
    r"\w[\w .'@-]{0,30}(?:\([^)\n]{1,20}\)|\[[^\]\n]{1,20}\])?[ \t]?(?:>(?!\d)|:(?=\s|$|\x00)|\uff1a)|"
    r""  # Name:, name>
    r"[^\n]{0,60}\b[\w.+-]+@[\w-]+\.\w+|"  # an address
    r"(?:(?!(?:at|by|from|until|around|before|"
    r"after)\b)[\w.'-]+,? ){0,3}[(\[]?\d{1,2}[:.]\d\d(?: ?[ap]\.?m\.?)?[)\]]?[ \t]*(?:[-\u2013:]|$)|"
    r"(?:from(?! now on\b)|by|via|quote from|signed) [\w .'-]{1,30}$|"
    r"(?:sehr geehrte|liebe[rs]? \w|cher\b|ch[e\u00e8]re\b|bonjour \w|estimad[oa]|querid[oa]|car[oa]\b|"
    r"gentile|beste \w|"
    r"geachte|prezad[oa]|dear\b|to whom)[^\n.!?]{0,40},?$"
    r")",
    re.I,
)
# Labels under which people write their own words.
_OWN_LABEL = re.compile(
    r"[ \t]*(?:(?:for|with|on|about|at|as for|when|in|before|while) [\w' -]{2,30}|(?:please )?(?:note|"
    r"remember|keep in mind)|"
    r"one (?:more )?thing|heads up|by the way|btw|fyi|also|important|reminder|ps|p\.s\.|context|background|"
    r"update(?: for you)?|"
    r"just so you know|oh|(?:my|our|house) [\w' -]{2,30}|scratch that|(?:small |quick )?correction|preferences?|diet|"
    r"allerg\w+|i\b[^:\n]*|"
    r"we\b[^:\n]*)\s?[:\u2012-\u2015-]",
    re.I,
)
# "Bob \u2013 I love casinos".
_DASHED = re.compile(r"[ \t]*[A-Z][\w.']*(?: [A-Z][\w.']*)? ?[-\u2012-\u2015]{1,2} (?=(?i:i|we|my|our)\b)")
_DIALOGUE = re.compile(r"(?m)^[ \t]*[\u2012-\u2015][^\n]*")
# Words for a text, and for passing one on: after a sentence with one of these, that text may follow.
_TEXT = (
    r"texts?|e-?mails?|mails?|messages?|letters?|articles?|posts?|pages?|notes?|comments?|transcripts?|"
    r"ads?|prompts?|forms?|"
    r"documents?|titles?|headlines?|reviews?|profiles?|bios?|essays?|drafts?|cv|r\u00e9sum\u00e9s?|"
    r"statements?|summar\w+|"
    r"blogs?|tweets?|captions?|chats?|conversations?|surveys?|homework|assignments?|paragraphs?|speech\w*|quotes?|"
    r"stor(?:y|ies)|answers?|reply|replies|repl(?:y|ied)|feedback|testimonials?|complaints?|screenshots?|excerpts?|"
    r"passages?|interviews?|bullets?|copy"
)
_PASSED_ON = re.compile(
    rf"\b(?:{_TEXT})\b|\b(?:e-?mailed|wrote|written|texted|messaged|posted|commented|pinged|dm'?e?d|"
    rf"pasted?|copied|forwarded"
    r"|slacked|tweeted)\b|\b(?:says?|said|told|sent|asked|left|found|got|received)(?: (?:me|us|this|"
    r"that|these|it|so|him|her|"
    r"them|today|yesterday|earlier|back|behind|here))*\s*[.!\u2026]*$",
    re.I,
)
# A question or request that is about a text, although it names none.
_ABOUT_IT = re.compile(
    r"(?:(?:please|can you|could you|would you|now|ok|okay|so|hi|hey|and|just),? )*(?:tl;?\s?dr|eli5|"
    r"thoughts|opinions?|"
    r"comments|verdict|takeaways?|gist|translat\w+|summari[sz]\w*|paraphrase|rephrase|rewrite|reword|"
    r"proof-?read|shorten|"
    r"simplify|explain (?:it|this|that)|classify|analy[sz]e|interpret|edit|polish|improve|respond|"
    r"evaluate|critique|rate|"
    r"grade|your (?:view|take|thoughts|opinion)|what do you (?:think|make)|(?:is|was|are|does|do|did|"
    r"how does|how is)"
    r" (?:it|this|that|these|the|my) (?:[\w']+ ){0,3}?(?:ok(?:ay)?|good|fine|fake|real|true|legit|"
    r"correct|right|clear|"
    r"polite|rude|formal|convincing|sense|sound|sounds|work|works|read|reads|spam|scam|human|ai|"
    r"any good|tone|wording|"
    r"grammar|spelling|style|argument|meaning|point|gist|mean|sentiment|mood)\b)|"
    r".*\b(?:tone|wording|grammar|spelling|main (?:argument|point|idea)|gist|sentiment|key points?|"
    r"in (?:english|german|french|"
    r"spanish|italian|dutch|japanese|chinese|portuguese))\b",
    re.I,
)
# The beginning of a sentence that the user says of themselves.
_LEAD = (
    r"(?:(?:hi|hello|hey|ok|okay|so|and|but|also|well|btw|by the way|oh|yes|no|thanks|thank you|"
    r"please note|anyway|actually|"
    r"honestly|today|tonight|tomorrow|next \w+|this \w+|in \w+|on \w+|as \w+|sorry|then|now|"
    r"good (?:morning|evening|day))"
    r"[,.! \u2012-\u2015-]+){0,3}"
)
_I = re.compile(rf"{_LEAD}(?:i|we)(?:'\w+)?\b(?!\.)", re.I)
_MY = re.compile(rf"{_LEAD}(?:my|our)\b.*[.!\u2026)]$", re.I)
_SENTENCE = re.compile(r"(?<=[.!?\u2026])[)\"']*\s+")
_BEHIND = re.compile(
    r",\s*(?!i\b|as i\b|like i\b)(?:[\w'.-]+ ){1,3}(?:says?|said|writes?|wrote|claims?|claimed|insists?|"
    r"insisted|adds?|"
    r"added|replies|replied|tells?|told|explains?|explained|argues?|argued|goes|went|shouted|whispered|laughed)"
    r"(?: (?:to )?(?:me|us|him|her|them))?\s*[.!]*$|,\s*(?:says|say(?= (?:the|my|they)\b)|said|wrote|writes|replied|"
    r"added|"
    r"claims?) [\w .'-]{1,40}$",
    re.I,
)


def without_pastes(text: str) -> str:
    """Return a text in which places stay, cut where a transcript or a letter begins; lines of a dialogue are blank."""
    text = _DIALOGUE.sub(lambda match: "\x00" * len(match.group()), text)
    start = 0
    for line in text.split("\n"):
        named = _LABEL.match(line) or (_DASHED.match(line) and not _I.match(line) and not _MY.match(line))
        if named and not _OWN_LABEL.match(line):
            return text[:start]
        start += len(line) + 1
    return text


def doubtful_from(text: str) -> int:
    """Return the place from which on the words of a turn may be somebody else's; its length if all are the user's.

    What stands in lines of its own is the user's only if they speak of themselves in every line before, and of no text.
    """
    text = without_pastes(text)
    start = 0
    for line in text.split("\n"):
        place = 0
        for boundary in [*_SENTENCE.finditer(line), None]:
            sentence = line[place : len(line) if boundary is None else boundary.start()].strip()
            if boundary is not None and sentence and _hands_over(sentence):
                return start + boundary.end()
            place = place if boundary is None else boundary.end()
        start += len(line) + 1
        if line.strip() and not _own(line.strip()):
            return min(start, len(text))
    return len(text)


def told_by_others(words: str) -> bool:
    """Tell whether a sentence names somebody else as its speaker at its end: "I love cheese, he says"."""
    return bool(_BEHIND.search(words.rstrip(" )\"'\u2026")))


def _hands_over(sentence: str) -> bool:
    """Tell whether a sentence announces a text, or asks or requests something about one."""
    return bool(_PASSED_ON.search(sentence) or _ABOUT_IT.match(sentence))


def _own(line: str) -> bool:
    """Tell whether the user speaks of themselves in every sentence of a line."""
    return "?" not in line and all(
        (_I.match(sentence) or _MY.match(sentence)) and not _hands_over(sentence) for sentence in _SENTENCE.split(line)
    )
