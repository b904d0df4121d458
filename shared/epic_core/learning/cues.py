"""Cues: statements of a user about themselves, found in their own turns by words alone; precision before recall.

A turn is read in three steps. First what is not the user's own word about today's world is masked: quoted lines, code,
quotations, pasted texts, role play, fiction. Then sentences with a question, a condition, reported speech or irony in
front of the statement are passed over. What is left is looked through for a first person with a cue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from typing import Literal, TypeAlias

from epic_core.learning.conversations import Turn

Change: TypeAlias = Literal["none", "undo", "stop", "turn", "update"]

_LONGEST_TURN = 4000
_LONGEST_PARAGRAPH = 120  # words; people do not say so much of themselves at once
_LONGEST_QUOTE = 240
_TAIL = 40  # characters after a statement that may say for how long it holds
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc\u201c\u201d\u201e", "''''\"\"\"")


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of the user about themselves.

    Attributes:
        quote: The user's words.
        about: Whether it says a preference or a fact; None if only what it changes can tell.
        change: Whether and how it changes what was said before: "undo" takes it back, "stop" ends it, "turn" says
            something else, "update" brings a fact up to date.
        confidence: In (0, 1].
        until: Until when it holds; None for always.
    """

    quote: str
    about: Literal["preference", "fact"] | None
    change: Change = "none"
    confidence: float = 0.9
    until: datetime | None = None


# --- what is nobody's statement


def _re(*alternatives: str) -> re.Pattern[str]:
    """Return a pattern for phrases of whole words; one that ends in "\\\\w" ends in the first letter of any word."""
    ended = [each if each.endswith(r"\w") else rf"{each}(?![\w'])" for each in alternatives]
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(ended)})", re.I)


# A turn with one of these says nothing about the user at all.
_WHOLE_TURN = re.compile(
    r"(?:^|\n)[ \t>*#]*(?:user|assistant|system|human|ai|developer|instructions?)[ \t]{0,3}[:\]]|<\||\[/?INST\]|###|"
    r"</?(?:system|user|assistant|s|memory|instructions?|im_start|[a-z]+>)|\{\s{0,3}\"|"
    r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}(?:instructions|rules|prompts?)\b|"
    r"\brole-?play|\bpretend\b|\bimagine\b|\bsuppos(?:e|ing)\b|\bhypothetical|\blet's (?:play|say)\b|"
    r"\bin character\b|"
    r"\bact as\b|\bonce upon\b|\b(?:first|second|third) person\b|\bpoint of view\b|\bex(?:ample|ercise|am) |"
    r"\bexample\b|\bsample\b|\bfictional\b|\bthought experiment\b|\bdevil's advocate\b|\bfor the sake of argument\b|"
    r"\b(?:my|our|the|a) (?:\w+ )?(?:novel|screenplay|short story|fanfic\w*|dungeon|protagonist|narrator|character|"
    r"lyrics|persona|alter ego|sketch|sitcom)\b|"
    r"\b(?:write|compose|draft|generate|make up|invent|give me|tell me)\b[^.?!\n]{0,40}\b(?:stor(?:y|ies)|poem|song|"
    r"scene|dialogues?|monologue|limerick|haiku|joke|diary|speech|quotes?|testimonial|tweet|bio|verse|rap|fable|"
    r"sentences?|review|caption)\b",
    re.I,
)
# What follows these is somebody else's text, up to the end of the turn.
_PASTED = re.compile(
    r"\b(?:translat\w+|proof-?read\w*|correct|rephras\w+|paraphras\w+|rewrit\w+|reword\w*|summari[sz]\w+|shorten|"
    r"edit|"
    r"improve|polish|fix|check|review|analy[sz]e|classify|repl(?:y|ied)|respond|read|format|convert|continue|"
    r"complete|"
    r"finish|fill in|grade|rate|interpret|explain|spell|pronounce|mean|means|say|says|said|saying|writes?|wrote|"
    r"reads?|asks?|asked|goes|posted|texted|emailed|messaged|claims?|tells?|told|states?|here(?:'s| is| are| comes)|"
    r"found|got|received|sent|saw|this|these|following|below|text|e-?mail|message|letter|review|article|post|page|"
    r"note|comment|transcript|ad|prompt|form|copy|paste|pasted|document|title|headline|reviews?|sign|label)\b"
    r"[^.?!\n]{0,80}:\s|"
    r"\b(?:this|these|following|below)\b[^.?!\n]{0,60}[?.!]?[ \t]*\n\s*(?=\S)|"
    r"(?:^|\n)[ \t]*(?:dear|hi|hello|hey|to whom)\b[^\n?!.]{0,40},[ \t]*\n|"
    r"(?:^|\n)[ \t]*(?:from|to|cc|subject|sent|date|re|fwd?)[ \t]?:|(?:^|\n)-{3,}|\bfwd?:|"
    r"\b(?:translat\w+|proof-?read)\b",
    re.I,
)
# A text with one of these was written to somebody else.
_SIGNED = re.compile(
    r"\b(?:(?:kind|best|warm) (?:regards|wishes)|sincerely|yours (?:truly|faithfully)|unsubscribe|sent from my|"
    r"all rights reserved|posted by|read more|terms and conditions)\b",
    re.I,
)
_MASKED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|(?m:^[ \t]{0,8}[>|].*$)|(?m:^[ \t]*[-*\u2022][ \t].*$)|\"[^\"]{0,600}(?:\"|"
    r"\Z)|"
    r"\u00ab[^\u00bb]{0,600}\u00bb|(?<!\w)'(?!\d0s)[^\n]{2,300}?'(?!\w)|https?://\S+",
    re.S,
)
_SENTENCE = re.compile(r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<=[.!?\u2026])[)\"']*\s+|\s*\n\s*")

# --- sentences that state nothing

_NOT_MEANT = _re(
    r"if (?:i|we|only|my|our)\b.*",
    "what if",
    "whether (?:i|we)",
    "assum(?:e|ing)",
    "i wish",
    "i (?:might|may|could|should|guess|suppose|bet|doubt|wonder|hope)",
    "(?:would|should|could|do|did|am|are|can|will|might|have|had) (?:i|we)",
    "maybe",
    "perhaps",
    "not sure",
    "let's say",
    "when i was",
    "as a (?:child|kid|teenager|student|boy|girl)",
    "back (?:then|in)",
    "oh,? (?:sure|great|yeah|wow|joy|yes)",
    "(?:lol|haha|yeah|sure|right),? (?:yeah|right|because|sure|no)",
    "as if",
    r"(?:simply|just|absolutely|totally|really) (?:love|adore) (?:it when|how|\w+ing)",
    "because i (?:totally|absolutely|really|so)",
    "just kidding",
    "/s",
    "said no one",
    "my favou?rite (?:part|thing) (?:of|about|is (?:when|being|waiting))",
    "in the (?:film|movie|book|song|show|series|play|story|episode)",
)
_REPORTED = _re(
    r"(?:says?|said|saying|wrote|writes?|asks?|asked|claims?|tells?|told|thinks?|believes?|insists?|heard|"
    r"according to"
    r"|quotes?|means?|people|somebody|someone|anyone|who|those|others|everyone|everybody|like|such as|called|titled)"
)
_I_SAID = re.compile(r"\b(?:as |like )?i(?:'ve| have)? (?:already )?(?:said|told|mentioned)\b|\bhave i told\b", re.I)
_QUESTION = re.compile(
    r"(?:(?:so|and|but|ok|okay|hi|hello|hey|well|also|now|please|then|btw|by the way),? )*(?:what|which|where|when|"
    r"how|"
    r"who|whose|why|is|are|was|were|do|does|did|can|could|would|will|should|shall|may|might|has|have|had|am|any|"
    r"isn't|"
    r"aren't|don't|doesn't|won't|can't|if|unless|whether)\b",
    re.I,
)
# Where a statement may begin: at the beginning, after a mark, or after one of these words.
_BEGINNING = re.compile(
    r"(?:^|[,;:(\u2013\u2014!.]|\s[-/]|\b(?:and|but|because|since|so|as|btw|way|reference|note|that|also|actually|"
    r"fyi|now"
    r"|well|anyway|though|yes|no|ok|okay|hi|hello|thanks|sorry|please|record|honestly|frankly|lately|know|remember|"
    r"mind|then|rule|weekend|week|today|tonight|trip|time|once|parties|mornings?|evenings?|travel\w*|months?))\s*$",
    re.I,
)
# Where it ends: a question, a request or a consequence follows.
_CUT = re.compile(
    r"\s*(?:(?:[,;:(\u2013\u2014]|\s-)\s*(?:(?:so|and|but|then|or|ok)\s+)?(?:what|which|where|how|who|why|"
    r"when (?:do|can|"
    r"should|will)|is|are|do|does|can|could|would you|would|will|should|any|ideas?|please (?!always|never)|keep|"
    r"tell|give|find|show|suggest|recommend|plan|book|let's|if that|if you|just so|by the way|btw|fyi|help|"
    r"believe it|"
    r"you|put|make|thanks|thx|thank)\b|"
    r",?\s+(?:so|and so|so that|and then|hence|therefore)\s+(?=\w)|"
    r"\s+(?:and|but)\s+(?:want to|need|would like|am looking|i need|i want to|i'd like to|wonder|was wondering|what|"
    r"how|which|where|can|could)\b|,?\s+if that (?:matters|helps)|\s+(?:and|but)\s+(?=(?:that|this|it)\b))",
    re.I,
)
_NEXT = re.compile(r"(?:,?\s+(?:and|but|also)|[,;])\s+(?=(?:i|we|i'm|i've|we're|my|our)\b)", re.I)

# --- what is stated

_ADV = (
    r"(?:(?:really|truly|just|generally|usually|normally|actually|simply|also|much|always|personally|strongly|deeply|"
    r"very|absolutely|strictly|so|quite|completely|totally|honestly|still|mostly|mainly|definitely|seriously|"
    r"especially"
    r"|particularly|certainly|kind of|far|genuinely|both|all|pretty|rather|have|'ve|'ve always|do|tend to|try to) )*"
)
_I = r"(?:i|we|my (?:wife|husband|partner|family) and i)"
_AM = r"(?:i'm|i am|im|we're|we are)"
# Objects that are not kinds of things: "I like it", "I love that idea", "I prefer the second one".
_THIS = (
    r"(?! *(?:it[.!,]?$|it (?:so|very|a lot|when|how|here)|this|that\b|these|those|them\b|you\b|your|him|her\b|he\b|"
    r"she\b"
    r"|how\b|what\b|to (?:know|see|hear|ask|go|visit|try|learn|have|get|be|do)\b|the (?:\w+ )?(?:first|second|third|"
    r"last|"
    r"idea|sound|look|new|other|one|option|answer|version|draft|plan|suggestion|title|way|former|latter|above|"
    r"previous|"
    r"same|result)|both|either|neither|one\b|ones\b|everything about|(?:\w+ )?(?:idea|answer|version|suggestion|"
    r"option)s?"
    r" *$|[.,!]?$|a (?:good|nice) ))"
)
_LIKES = (
    r"(?:love|adore|enjoy|like|prefer|favou?r|hate|loathe|detest|dislike|despise|avoid|crave|swear by|insist on|"
    r"appreciate|steer clear of|stay away from|stick to|react (?:\w+ )?to|can live without)"
)
_CANNOT = (
    r"(?:can't|cannot|can not|cant|couldn't) (?:really )?(?:stand|bear|stomach|abide|tolerate|eat|drink|have|digest|"
    r"deal "
    r"with|handle|take (?!\w+ (?:this|that|it))|do (?!it|this|that)|sleep|get enough of|live without|resist|wear|see "
    r"myself|be doing)"
)
_DONT = (
    r"(?:don't|do not|dont|won't|will not|wouldn't) (?:really |ever |usually |particularly |much )?(?:like|eat|"
    r"drink|do|wear"
    r"|watch|tolerate|care for|touch|fly|smoke|enjoy|cook|use|drive|want (?:any|to (?:be|fly|drive|eat|stay|have"
    r")|\w+ (?:of any|in my|on my|with))|buy|read|go (?:to|near|for)|stay (?:in|at)|take|get on with|trust|need)"
)
_PREFERENCE = _re(
    rf"{_I} {_ADV}{_LIKES}{_THIS} \w",
    rf"{_I} {_ADV}{_CANNOT}{_THIS}",
    rf"{_I} {_ADV}{_DONT}{_THIS} \w",
    rf"{_I} (?:never|always|only|hardly ever|rarely|exclusively|refuse to|mostly|invariably)(?: ever| really| even)?"
    r" (?!(?:know|knew|thought|think|said|heard|hear|saw|had|did|been|got|get|remember|understood|ask|asked|wanted|"
    r"need"
    r"|forget|wonder|meant|was|were|found|noticed|learned|seem|end up|see|have|use this|just)\b)\w+",
    rf"{_I} (?:never|always|only) (?:have|use|get|need|see)\b{_THIS} \w",
    r"(?:i|we)(?:'d| would) (?:much |far |really |always )?(?:rather|sooner|prefer) (?!you\b|know|this|that\b|the)\w",
    rf"{_I} (?:get|am|feel) (?:very |so |really |terribly |badly )?(?:\w*sick (?:on|in|from)|migraines? from|"
    rf"anxious (?:in|on)|"
    r"claustrophobic|dizzy (?:on|in))",
    rf"{_I} (?:follow|keep|eat|stick to|am on|'m on) (?:an? )?(?:\w+ ){{0,3}}(?:diet|kosher|halal|vegan|vegetarian|"
    rf"keto)",
    rf"{_AM} (?:not )?{_ADV}(?:(?:an? )?(?:\w+ ){{0,3}}?(?:allergic|intolerant|vegans?|vegetarians?|pescatarians?|"
    rf"coeliac|"
    r"celiac|diabetic|lactose|gluten|teetotal\w*|sober|kosher|halal|muslim|jewish|hindu)|(?:scared|afraid|terrified|"
    r"frightened|fond|sick|tired|wary) of|into |(?:keen|big|hooked) on|partial to|sensitive to|obsessed with|"
    r"crazy about|"
    r"claustrophobic|averse to|happiest|at my best|"
    r"(?:not )?(?:an? |much of an? |really an? )?(?:\w+ ){0,3}(?:person|people|fan|lover|eater|drinker|owl|bird|"
    r"minimalist|"
    r"bookworm|foodie|sucker|purist|sleeper|walker|reader|morning person)\b)",
    r"(?:my|our) (?:all-time |absolute |least )?favou?rite (?:\w+ ){0,3}(?:is|are|has always been)\b(?! (?:it|this|"
    r"that)\b)",
    r"(?:i|we) have (?:an? |a severe |severe |a bad )?(?:\w+ )?(?:allerg(?:y|ies)|intolerance|aversion|phobia|"
    r"soft spot|"
    r"weakness|sweet tooth|preference)",
    r"(?:i'm|i am|i've|i have|we're|we've) (?:always )?(?:loved|hated|disliked|avoided|preferred|"
    r"been (?:an? )?(?:\w+ )?"
    r"(?:vegan|vegetarian|fan))",
    rf"{_I} (?:need|want) (?:my|our) \w",
    r"(?:it|that|this) (?:has to|must) (?:always|never)",
)
# The thing stands in front: "Beach holidays are torture for me".
_THING_FIRST = re.compile(
    r"(?!(?:it|this|that|these|those|they|he|she|you|there|what|which|who|how|the (?:one|answer|first|second|"
    r"last))\b)"
    r"[\w' -]{3,60}? (?:(?:is|are) (?:\w+ ){0,2}(?:a must|torture|a no-?go|essential|a nightmare|a dealbreaker|"
    r"out of the question|non-negotiable|off limits|a pleasure|heaven|hell|too \w+|important|sacred) (?:for|"
    r"to) (?:me|us)|"
    r"(?:is|are)(?:n't| not)? (?:\w+ ){0,3}(?:my thing|for me|my cup of tea|my favou?rite\w*|how (?:i|we) )|"
    r"(?:make|give|drive|stress|bore|annoy|scare|upset|calm|relax)s? me (?!(?:the|a|an|some|five|three|two|ten|"
    r"another|"
    r"your) )\w|(?:don't|doesn't|do not|does not) (?:agree with|work for|do it for|suit) me|suits? me (?:best|"
    r"better))|"
    r"[\w' -]{3,60}, that's (?:how|the way) (?:i|we)\b",
    re.I,
)
# What the assistant is told to do for good: "never suggest ...", "no dairy in our family".
_TOLD = re.compile(
    r"(?:please |and |but )*(?:(?:never|always|don't ever|do not ever) (?:ever )?(?:suggest|book|recommend|send|"
    r"give|show|"
    r"offer|include|put me|seat|use|add|serve|call me|write|answer|reply|order|schedule|plan|pick|choose|buy|assume|"
    r"mention|tell|list)\b{this}|no (?!problem|worries|idea|need|rush|matter|one|more|way|thanks|offen[sc]e|it|i|"
    r"that|"
    r"doubt|longer|but)[\w -]{{2,40}}? (?:for (?:me|us)|in (?:our|this|my) (?:family|house|home|household|kitchen)|"
    r"ever)\b|"
    r"[\w -]{{3,40}}, (?:please, )?always\b(?:, please)?[.!]*$)".replace("{this}", _THIS)
    .replace("{{", "{")
    .replace("}}", "}"),
    re.I,
)
_DURABLE = re.compile(
    r"\b(?:from now on|going forward|for future reference|in future|in the future|as a (?:general )?rule)\b", re.I
)
_DAYS = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays|weekends|january|february|march|april|may|june|july|"
    r"august|"
    r"september|october|november|december|\d{1,2}(?:st|nd|rd|th)?"
)
_KIN = (
    r"(?:(?:ex-?)?(?:wife|husband)|partner|boyfriend|girlfriend|fianc\w+|spouse|mother|father|mum|mom|dad|parents|"
    r"sister|"
    r"brother|twins?|son|daughter|kids?|children|baby|toddler|grand(?:ma|pa|mother|father|son|daughter|parents|"
    r"children)|"
    r"aunt|uncle|niece|nephew|family|landlord|landlady|flatmate|roommate|dog|cat|puppy|kitten|rabbit|hamster|horse|"
    r"parrot|pet|birthday|wedding|anniversary|address|phone number|job|shift|commute|car|bike|flat|apartment|house|"
    r"garden|kitchen|blood type|shoe size|name|surname|nickname|doctor|therapist|school|company|team|budget|deadline|"
    r"exam|marathon|visa|passport|lease|contract)s?"
)
_PETS_AND_KIN = (
    r"(?:kids?|child(?:ren)?|sons?|daughters?|twins?|bab(?:y|ies)|toddlers?|dogs?|cats?|rabbits?|hamsters?|horses?|"
    r"chickens|hens|parrots?|pets?|pupp(?:y|ies)|kittens?|sisters?|brothers?|siblings?|grandchildren|wife|husband|"
    r"partner|boyfriend|girlfriend|garden|allotment|balcony|car|van|bikes?|motorbike|boat|piano|flat|house|asthma|"
    r"arthritis|diabetes|migraines?|adhd|dyslexia|epilepsy|eczema|hay fever|tinnitus|pacemaker|glasses|bad (?:back|"
    r"knees?|hips?|eyes)|high blood pressure|low blood pressure)"
)
_FACT = _re(
    r"my name(?:'s| is) \w",
    r"(?:everybody|everyone|people|friends) calls? me \w",
    rf"{_AM} (?:a )?(?:\d{{1,2}}(?= *(?:$|[,.;]| years| and ))|\d{{1,2}} years old|\d{{1,2}}-year-old)",
    rf"{_AM} (?:\d+ (?:weeks|months) )?(?:pregnant|left-handed|married|divorced|widowed|retired|unemployed|deaf|"
    rf"blind|"
    r"colou?r-?blind|autistic|dyslexic|self-employed|freelance|engaged|expecting|based in|from [A-Z])",
    rf"{_AM} (?:an? )?(?:\w+ ){{0,2}}(?:nurse|teacher|doctor|engineer|developer|programmer|student|lawyer|carpenter|"
    r"farmer|pensioner|baker|chef|cook|electrician|plumber|accountant|architect|designer|musician|writer|journalist|"
    r"librarian|pharmacist|dentist|vet|midwife|paramedic|firefighter|pilot|driver|translator|scientist|researcher|"
    r"physicist|biologist|chemist|psychologist|therapist|gardener|hairdresser|photographer|manager|widower|widow|"
    r"wheelchair user|single (?:mother|father|parent|mum|mom|dad)|shift worker|vegetarian chef)\b",
    rf"{_I} (?:currently |now |both )?(?:live|work|teach|commute|volunteer|study|reside)(?: |\b)(?!out\b|on (?:this|"
    rf"that)\b)"
    r"(?:in|on|at|as|for|near|with|from|by|nights?|part|full|shifts|alone|together|close|next|opposite|above|"
    r"remotely|"
    r"to|\w+ (?:at|in|shifts))\b",
    rf"{_I} (?:grew up|was born|were born|come from|own|speak|play|drive|collect|run a|rent|study)\b(?! (?:it|this"
    r"|that|the game)\b)",
    rf"{_I} (?:have|'ve got|have got|'ve|'ve had) (?:got )?(?:an? |one |two |three |four |five |no |\d+ |several |"
    rf"severe |"
    rf"mild |chronic )?(?:\w+ ){{0,2}}{_PETS_AND_KIN}\b",
    rf"(?:i|we)'ve (?:got )?(?:an? |two |three |four |\d+ )(?:\w+ ){{0,2}}{_PETS_AND_KIN}\b",
    r"i had my \w+(?: \w+)? (?:out|removed|replaced)",
    rf"{_AM} (?:currently )?(?:training|studying|saving|learning|preparing|writing|renovating|building|doing (?:a|"
    rf"my) "
    r"(?:phd|master\w*|degree|apprenticeship))\b(?! (?:this|that|it)\b)",
    rf"{_AM} (?:travel(?:l)?ing|flying|leaving|moving|getting married|visiting|going|starting|running|"
    rf"having \w+ surgery)\b"
    rf"[^,.;]{{0,60}}\b(?:on|in|from|at the end of) (?:the )?(?:{_DAYS})\b",
    rf"{_I} (?:\w+ ){{1,4}}(?:on|every) (?:{_DAYS})\b",
    rf"(?:my|our) (?:\w+ ){{0,2}}?{_KIN}(?:'s (?:birthday|name|surname))?,? (?:\w+(?: \w+)?,? )?(?:is|are|was born|"
    rf"has|have|works?|"
    r"lives?|visits?|turns|starts|comes|goes to|studies|attends|teaches|plays|is called|died|passed)\b(?! (?:it|"
    r"this|that|"
    r"not sure|driving me|asking|always asking|been asking|wrong|here|coming (?:over|round)|to|terrified|scared|"
    r"afraid|"
    r"mad|obsessed|crazy|allergic|vegan|vegetarian|a (?:vegan|vegetarian|fan|coeliac)|into|fond|keen|so|too|very|"
    r"really|"
    r"being|annoying|angry|begging|complaining|nagging|trying)\b)",
)
_TASTE_OF_OTHERS = _re(
    r"(?:my|our) (?:\w+ ){1,3}(?:loves?|likes?|hates?|prefers?|enjoys?|wants?|thinks?|dislikes?|"
    r"detests?|can't|cannot|won't|avoids?|adores?|refuses?|only (?:eats|drinks|wears))",
    r"(?:my|our) (?:\w+ )?\w+'s (?!birthday|name|surname)\w+",
)

# --- changes of mind

_NO_MORE = r"(?:any ?more|any longer)"
_UNDO = _re(
    r"scratch (?:that|what i said|the|my)",
    r"(?:forget|ignore|disregard|drop|delete|cancel|undo|strike) (?:what i (?:said|told)|that (?:about|thing|bit|"
    r"rule)|my "
    r"(?:rule|request|preference|wish|thing)|the (?:rule|thing|bit|part|no-))",
    r"(?:i|we)(?:'ve| have)? (?:changed my mind|take (?:that|it) back|take back)",
    r"(?:you|there's|there is) (?:needn't|don't need to|don't have to|do not have to|need not|can stop|"
    r"no (?:more )?need "
    r"to|may stop) (?:avoid\w*|leav\w+|exclud\w*|skip\w*|worry\w* about|look\w* for|insist\w*|keep\w*)",
    rf"(?:i|we)(?: do| really)? ?(?:don't|do not|no longer) (?:mind|care about|care|need|have to avoid|"
    rf"have to watch)\b"
    rf"(?=.*\b(?:{_NO_MORE}|no longer|now)\b|(?<=longer mind))",
    rf"[\w' -]{{2,40}} (?:is|are) (?:fine|ok|okay|allowed|no problem) (?:again|now|after all|{_NO_MORE})",
    r"(?:i|we) can (?:eat|have|drink|tolerate) [\w -]{2,40} (?:again|now|after all)",
)
_STOP = _re(
    r"(?:i|we)(?:'ve| have)? (?:finally |just |recently )?(?:quit|gave up|given up|stopped|dropped|ditched|cut out|"
    r"gone off|went off|had enough of|sold|cancelled|canceled|got rid of|finished|sworn off|swore off)\b(?! (?:it|"
    r"this|that"
    r"|here|there|reading|working on|by|at)\b)",
    r"(?:i|we)(?:'m| am|'re| are)? no longer \w",
    rf"(?:i|we)(?:'m| am|'re| are)? ?(?:don't|do not|not|can't|cannot) [^,.;]{{2,60}} {_NO_MORE}",
    r"[\w' -]{2,40} (?:passed away|has died|died (?:on|in|last|this|yesterday))",
    r"[\w' -]{1,30} and i (?:have )?(?:split up|broken? up|separated|divorced|called it off)",
    r"(?:i|we)(?:'ve| have)? (?:left|lost|quit) (?:my|our|the) (?:job|company|firm|\w+ job)",
)
_TURN = _re(
    r"(?:i|we)(?:'ve| have)? (?:now |recently |just )?(?:come (?:round|around) to|come to (?:like|love|prefer|hate)|"
    r"grown to "
    r"\w+|warmed to|got(?:ten)? into|gone (?:vegan|vegetarian|off|back to)|(?:turned|become) (?:an? )?\w+|"
    r"switched (?:from "
    r"[^,.;]{2,40} )?to|moved (?:on|over) to|taken (?:to|up)|started (?:eating|drinking|liking|"
    r"having|"
    r"taking|to like)|developed|fallen (?:in love with|for))\b(?! (?:this|that|it)\b)",
    r"(?:i|we) used to [^.;]{2,80}\b(?:but|now|these days)\b.*",
    r"(?:i|we) now (?:prefer|like|love|hate|eat|drink|avoid|want|always|only|never)\b",
    r"(?:i|we) (?:eat|drink|like|love|have|prefer|want|enjoy|take|wear|do)\b[^,.;]{2,60}\b(?:again|now|after all|"
    r"these days)\b",
    r"(?:swap|change|replace|update|flip|reverse) (?:my|the|that) (?:rule|preference|wish|\w+ rule)\b",
    r"[\w' -]{2,40} suits? me (?:more|better) now",
    r"(?:i|we)(?:'d| would) rather [^.;]{2,60}\b(?:after all|now|instead from now)\b",
)
_UPDATE = _re(
    r"(?:i|we)(?:'ve| have)? (?:just |recently )?moved (?:house |back )?(?:to|into|in with) (?!this|that|the next)\w",
    r"(?:the|my|our) [\w' -]{2,40} (?:has|have|was|were|is|got)(?: been| now)? (?:moved|changed|postponed|"
    r"brought forward|"
    r"rescheduled|put off|pushed back|shifted|renamed) (?:to|from|until|by)\b",
    r"(?:my|our) new [\w' -]{2,40} (?:is|are)\b(?! (?:not|too|so|very|broken|making|driving))",
    r"(?:my |our )?[\w' -]{2,40}? (?:has )?(?:just )?turned (?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|"
    r"ten|"
    r"eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|twenty|thirty|forty|fifty|sixty|seventy)\b",
    r"(?:my|our) [\w' -]{2,40} (?:is|are|lives|works) now\b",
    rf"{_AM} now (?:an? |\d|living|working|based|married|divorced|the)\b",
    r"(?:i|we) now (?:live|work|study|have)\b",
    r"(?:i|we)(?:'ve| have)? (?:started|got|taken|accepted|landed) (?:an? |the |my )?(?:new )?(?:\w+ )?(?:job|"
    r"position|post)\b",
)

# --- for how long

_TODAY = _re(
    "(?:just |only )?(?:for )?today",
    "tonight",
    "this (?:time|once|morning|afternoon|evening)",
    "(?:just )?(?:for )?(?:now|the moment)",
    "right now",
    "at the moment",
    "(?:just )?for once",
    "for a change",
    "for (?:this|the) (?:trip|one|meal|recipe|party|visit|stay|occasion)",
    "this trip",
    "for the next (?:few|couple of|two|three) days",
    "currently",
    "temporarily",
    "in the mood for",
)
_NOT_TODAY = _re("today's", "these days", "nowadays")
_TOMORROW = _re("tomorrow")
_WEEK = _re("this (?:week|weekend)", "(?:till|until) (?:sunday|the weekend)")
_DAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNTIL_DAY = re.compile(rf"\b(?:until|till|through) (?P<day>{'|'.join(_DAY_NAMES)})\b", re.I)
_TIME_IN_FRONT = re.compile(
    r"(?:(?:just|only|but|so|and) )*(?:for )?(?:today|tonight|tomorrow|now|once|this \w+|"
    r"the next \w+ days)(?: only)?,?\s*$",
    re.I,
)
# Until when these hold nobody can say.
_OPEN_END = re.compile(
    r"\b(?:until|till|this (?:month|year|summer|winter|spring|autumn|season)|next (?:week|month|few|two|three)|"
    r"for the next|"
    r"for (?:a|two|three|\d+) (?:days?|weeks?|months?|few)|lent|easter|ramadan)\b",
    re.I,
)
# Wishes that count only where they are for once: "Tonight I fancy something greasy".
_WISH = _re(
    rf"{_I} (?:fancy|feel like|want|need|only want|would like|am after|'m after|crave)\b(?! (?:to know|you|help|it|"
    rf"this|that|your)\b)",
    r"(?:i|we)(?:'d| would) (?:like|love|rather|prefer)\b(?! (?:to know|you|it|this|that|your)\b)",
    r"(?:let's|let us) (?:keep|skip|stay|have|go|make it|do|eat)\b",
    r"(?:no|nothing|only|skip|make it) (?!problem|worries|idea|need|rush|matter|one|way|thanks)\w",
    r"(?:an? |the )?(?!(?:it|this|that|what|which) )[\w' -]{3,40} (?:will do|would be (?:nice|good|great|lovely))\b",
    rf"{_AM} (?:off|on|not|only|in [A-Z]\w+|at [A-Z]\w+|staying)\b",
    rf"{_I} (?:have|'ve got|have got|had) (?:an? |the )?(?:bad |terrible |nasty )?(?:cold|flu|headache|fever|cough|"
    rf"guests?|visitors)\b",
    r"(?:i|we)'ve (?:got )?(?:an? )?(?:bad |terrible )?(?:cold|flu|headache|fever|cough|guests?|visitors)\b",
)
_STATE = re.compile(
    r"(?:i'm|i am|we're|we are) (?:in|at|staying)\b|\b(?:cold|flu|headache|fever|cough|guests?|visitors)\b", re.I
)
_HEDGED = re.compile(
    r"\b(?:i think|i believe|kind of|sort of|somewhat|probably|sometimes|a bit|mostly|usually|often|tend to)\b", re.I
)


def statements(turn: Turn, now: datetime) -> list[Statement]:
    """Return what a user says of themselves in a turn; nothing for the turns of others.

    Args:
        turn: The turn.
        now: The time at which it was said, with its zone, from which "today" is reckoned.
    """
    if turn.role != "user" or len(turn.text) > _LONGEST_TURN:
        return []
    text = turn.text
    masked = own_words(text)
    made: list[Statement] = []
    start = 0
    for boundary in [*_SENTENCE.finditer(masked), None]:
        end = len(masked) if boundary is None else boundary.start()
        for span, about, change in _in_sentence(masked, start, end):
            quote = text[slice(*span)]
            if len(quote.split()) >= 2 and len(quote) <= _LONGEST_QUOTE:
                made += _timed(quote, masked[start:end], about, change, now)
        start = 0 if boundary is None else boundary.end()
    return made


def said_at(turn: Turn) -> datetime:
    """Return when a turn was said, in local time; now if it is not known."""
    return (datetime.now(timezone.utc) if turn.time is None else datetime.fromisoformat(turn.time)).astimezone()


def end_of_day(now: datetime, days: int = 0) -> datetime:
    """Return the last second of a day, or of one some days later."""
    return datetime.combine(now.date() + timedelta(days=days), time(23, 59, 59), now.tzinfo)


def own_words(text: str) -> str:
    """Return a text, cut at what is pasted, in which places stay and all that is not the user's own word is blank."""
    text = text.translate(_APOSTROPHES)
    if _WHOLE_TURN.search(text) or _SIGNED.search(text):
        return ""
    text = _MASKED.sub(lambda match: re.sub(r"[^\n]", "\x00", match.group()), text)
    if pasted := _PASTED.search(text):
        text = text[: pasted.start()]
    position = 0
    for paragraph in re.split(r"(\n\s*\n)", text):
        if len(paragraph.split()) > _LONGEST_PARAGRAPH:
            text = text[:position] + "\n" * len(paragraph) + text[position + len(paragraph) :]
        position += len(paragraph)
    return text


_Found: TypeAlias = tuple[tuple[int, int], Literal["preference", "fact"] | None, Change]


def _in_sentence(text: str, start: int, end: int) -> Iterator[_Found]:
    """Yield the spans of the statements of a sentence, with what they are about."""
    sentence = text[start:end]
    if "\x00" in sentence or not sentence.strip():
        return
    asks = sentence.rstrip(" )\"'").endswith("?")
    place = 0
    while (found := _first(sentence, place)) is not None:
        begin, about, change = found
        place = begin + 2
        front = sentence[:begin]
        if not _BEGINNING.search(front) or _NOT_MEANT.search(front) or _QUESTION.match(front.lstrip()):
            continue
        if _REPORTED.search(front) and not _I_SAID.search(front):
            continue
        stop = len(sentence)
        for mark in (_CUT, _NEXT):
            if cut := mark.search(sentence, begin + 4, stop):
                stop = cut.start()
        if asks and stop == len(sentence):
            continue
        words = sentence[begin:stop]
        if _NOT_MEANT.search(words) and change == "none":
            continue
        place = max(place, begin + len(words.rstrip()))
        while words and words[-1] in " .,;:!-\u2013\u2014(":
            words = words[:-1]
        if fronted := _TIME_IN_FRONT.search(front):
            begin, words = fronted.start(), sentence[fronted.start() : begin] + words
        yield (start + begin, start + begin + len(words)), about, change


_CUES: tuple[tuple[re.Pattern[str], Literal["preference", "fact"] | None, Change], ...] = (
    (_UNDO, None, "undo"),
    (_TURN, None, "turn"),
    (_STOP, None, "stop"),
    (_UPDATE, "fact", "update"),
    (_PREFERENCE, "preference", "none"),
    (_FACT, "fact", "none"),
)


def _first(sentence: str, place: int) -> tuple[int, Literal["preference", "fact"] | None, Change] | None:
    """Return where the first statement from a place on begins, and its kind."""
    found = []
    for rank, (cue, about, change) in enumerate(_CUES):
        if match := cue.search(sentence, place):
            found.append((match.start(), rank, about, change))
    if match := _WISH.search(sentence, place):
        found.append((match.start(), 8, "preference", "none"))
    begin = re.compile(r"\s*(?:(?:so|and|but|also|please),? )?").match(sentence, place)
    if place == 0 and begin is not None:
        for rank, cue in ((6, _THING_FIRST), (7, _TOLD)):
            if cue.match(sentence, begin.end()):
                found.append((begin.end(), rank, "preference", "none"))
    if not found:
        return None
    start, rank, about, change = min(found, key=lambda one: one[:2])
    if about == "fact" and change == "none" and _TASTE_OF_OTHERS.match(sentence, start):
        return (start, None, "none")
    return start, about, change


def _timed(
    quote: str, scope: str, about: Literal["preference", "fact"] | None, change: Change, now: datetime
) -> Iterator[Statement]:
    """Yield a statement with its end, if it holds for good or its end is known; `scope` is where that may be said."""
    plain = quote.translate(_APOSTROPHES)
    if about is None and change == "none":
        return
    until = _end(scope, now)
    if until is None and change == "none" and about != "fact" and (_OPEN_END.search(scope) or _is_wish(plain)):
        return
    if until is not None and (until <= now or change != "none"):
        until = None
        if change == "none":
            return
    if until is not None and _STATE.search(plain):
        about = "fact"
    confidence = 0.95 if about == "preference" else 0.9
    if change != "none" or until is not None:
        confidence = 0.8
    if _HEDGED.search(scope):
        confidence = min(confidence, 0.7)
    yield Statement(quote=quote, about=about, change=change, confidence=confidence, until=until)


def _is_wish(quote: str) -> bool:
    """Tell whether nothing but a wish is said, which counts only where it is for once."""
    for_good = (*(cue for cue, _, _ in _CUES), _THING_FIRST, _TOLD)
    return not any(cue.search(quote) for cue in for_good)


def _end(sentence: str, now: datetime) -> datetime | None:
    """Return the end that a sentence names: of the day, the week, or a day until which something holds."""
    days: int | None = None
    if match := _UNTIL_DAY.search(sentence):
        days = (_DAY_NAMES.index(match["day"].casefold()) - now.weekday()) % 7 or 7
    elif _WEEK.search(sentence):
        days = 6 - now.weekday()
    elif _TOMORROW.search(sentence):
        days = 1
    elif _TODAY.search(_NOT_TODAY.sub("", sentence)):
        days = 0
    return None if days is None else end_of_day(now, days)
