"""Boundaries of statements: patterns of what is not the user's own word, not meant, and where a statement ends."""

from __future__ import annotations

import re

from epic_core.learning.vocabulary import anywhere, phrases

# A turn with one of these says nothing about the user at all: it steers an assistant, or is a whole letter.
NO_TURN = anywhere(r"""
    (?:^|\n)[ \t>*#]*(?:user|assistant|system|human|ai|developer|instructions?)[ \t]{0,3}[:\]]|<\||\[/?INST\]|###
    </?(?:system|user|assistant|memory|instructions?|im_start|[a-z]+>)|\{\s{0,3}"
    \b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}(?:instructions|rules|prompts?)\b
    \byou(?:'re| are) (?:now )?(?:an? |my )?(?:\w+ ){0,2}now\b|\byou(?:'re| are) now\b
    \n[ \t]*(?:(?:kind|best|warm) (?:regards|wishes)|sincerely|yours (?:truly|faithfully)|sent from my|posted by)\b
    \b(?:all rights reserved|read more|terms and conditions|click (?:here )?to unsubscribe)\b
""")
_MADE_UP = (
    r"stor(?:y|ies)|poem|song|scene|dialogues?|monologue|limerick|haiku|joke|diary|speech|quotes?|testimonial|tweet|"
    r"bio|verse|rap|fable|sentences?|review|caption|slogan|ad|example|sample"
)
# What follows these is made up or played, up to the end of the turn; what stands before them counts.
PLAYED = anywhere(r"""
    (?:(?:^|[.!?:;,\n])\s{0,20}(?:(?:ok|okay|so|now|hey|hi|and|but|please|just|right|well),? )*|\b(?:let's|let us|
        please|(?:want|like|need) you to|(?:can|could) you) )(?:(?:imagin|suppos|pretend)(?:e|ing)?
        (?: for a \w+)? (?:that )?(?:i|you|we|he|she|they|it|there|an?|the|some\w+)(?:'\w+)?(?! (?:should|must|need)\b)
        \b|say (?:i|you|we)\b)
    \bhypothetical|\blet's (?:play|say)\b|\bin character\b|\bact as\b|\brole-?play(?!ing games?)|\bcosplay
    \b(?:carry on|continue|finish) (?:this|the|my) (?:\w+ )?(?:story|fiction|chapter|scene|text|tale)\b
    \bonce upon\b|\bin (?:the )?(?:first|second|third) person\b|\bpoint of view of\b
    \bfictional\b|\b(?:flash|short|fan) ?fiction\b|\bthought experiment\b|\bdevil's advocate\b|
        \bfor the sake of argument\b|\bback-?story\b|\bwho (?:sang|sings)\b|\bwhat song\b
    \b(?:my|our|the) (?:\w+ )?(?:screenplay|fanfic\w*|dungeon|protagonist|narrator|lyrics|persona|alter ego|sitcom)\b
    \b(?:in|for|of) (?:my|our) (?:\w+ )?(?:novel|short story|sketch)\b|\bmy (?:\w+ )?character\b
""")
# A request for a text with one of these: what stands in its sentence is not said of the user.
REQUESTED = re.compile(
    rf"(?<!\bi )(?<!\bwe )\b(?:write(?! in\b)|compose|draft|generate|make up|invent|give me|tell me)\b[^.?!\n]{{0,40}}"
    rf"\b(?<!for )(?:{_MADE_UP})\b[^.?!\n]*",
    re.I,
)
# What follows these is somebody else's text, up to the end of the turn.
PASTED = anywhere(r"""
    \b(?:correct|rephras\w+|paraphras\w+|rewrit\w+|reword\w*|summari[sz]\w+|shorten|edit|improve|polish|fix|check|
        review|analy[sz]e|classify|repl(?:y|ied)|respond|read|format|convert|continue|complete|finish|fill in|grade|
        rate|interpret|explain|spell|pronounce|means?|says?|said|saying|writes?|wrote|reads?|asks?|asked|goes|posted|
        texted|emailed|messaged|claims?|tells?|told|states?|here(?:'s| is| are| comes)|found|got|received|sent|saw|
        this|these|following|below|text|e-?mail|message|letter|article|post|page|note|comment|transcript|ad|prompt|
        form|copy|pasted?|document|title|headline|reviews|sign|label)\b[^.?!\n]{0,80}:\s
    \b(?:this|these|following|below)\b[^.?!\n]{0,60}[?.!]?[ \t]*\n\s*(?=\S)
    (?:^|\n)[ \t]*(?:dear|(?:hi|hello|hey)(?!(?: there| again| all)?,)|to whom)\b[^\n?!.]{0,40},[ \t]*\n
    (?:^|\n)-{3,}|\bfwd?:
    (?:^|\n)[ \t]*(?:from|to|cc|subject|sent|date|re|fwd?)[ \t]?:|(?<!\bi )(?<!\bwe )\b(?:translate|proof-?read)\b|
        \btranslation (?:of|for)\b|\b(?:grammar|
        spelling|punctuation|typos?|wording|phrasing)\b[^\n?.!]{0,30}[?:]|\b(?:check|correct|fix|improve|mind|
        polish)\b[^\n?.!:]{0,40}\b(?:grammar|spelling|punctuation|typos?|wording|phrasing)\b[^\n?.!]{0,30}[.!]
""")
MASKED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{1,200}`|(?m:^[ \t]{0,8}[>|].*$)|(?m:^[ \t]*[-*\u2022][ \t].*$)|\"[^\"]{0,600}(?:\"|\Z)|"
    r"\u00ab[^\u00bb]{0,600}\u00bb|(?<!\w)'(?!\d0s)[^\n]{2,300}?'(?!\w)|https?://\S+",
    re.S,
)

# A sentence with one of these in front of a statement, or in it, states nothing.
NOT_MEANT = phrases(r"""
    if (?:i|we|only|my|our)\b.*
    (?:(?:it's|it is|its) not|it isn't) (?:that|as if)
    (?:it|that)(?:(?:'s| is)(?: simply| just)? (?:not (?:true|correct|right|the case|so)|false|untrue|incorrect|wrong|
        a (?:lie|myth|rumou?r))|(?: isn't| wasn't) (?:true|correct|right|the case|so)) that(?= |$)
    (?:is|was) (?:simply |just )?(?:not true|not the case|untrue|(?:an? )?(?:false(?: \w+)?|lie|myth|rumou?r))(?= *$)
    (?:i|we) (?:deny|denied|dispute)(?: that)?(?= (?:i|we|my|our)\b| $)
    (?:i|we)(?: am|'m| are|'re)? (?:not|never|didn't|did not|don't|do not|wouldn't) (?:say|said|claim|mean|meant|think|
        thought|believe|suggest|pretend)(?:ing|ed)?(?: that)?(?= (?:i|we|my|our)\b| $)
    (?:what if|whether (?:i|we)|assum(?:e|ing)|i wish|maybe|perhaps|not sure|let's say|as if|just kidding|/s|
        said no one|as (?:they|people) say|(?:says?|said) (?:the|my|an?|he|she|they))
    i (?:might|may|could(?! live on)|should|guess|suppose|bet|doubt|wonder|hope|dreamt|dreamed)
    (?:would|should|could|do|did|am|are|can|will|might|have|had) (?:i|we)
    (?:when i was|as a (?:child|kid|teenager|student|boy|girl)|back (?:then|in))
    oh,? (?:sure|great|yeah|wow|joy|yes)
    (?:lol|haha|yeah|sure|right),? (?:yeah|right|because|sure|no)
    (?:simply|just|absolutely|totally|really) (?:love|adore) (?:it when|how|\w+ing)
    because i (?:totally|absolutely|really|so)
    my favou?rite (?:part|thing) (?:of|about|is (?:when|being|waiting))
    in (?:the|this|a) (?:film|movie|book|song|show|series|play|story|episode|poem|novel|game|dream)
    in (?:my|our) (?:[\w&]+ )?(?:campaign|game|story|novel|dream)
    (?:the|this|that|these|your|its) (?:\w+ ){0,2}(?:paragraph|sentence|section|slide|bullet|column|row|chart|wording|
        reply|response|output|file|image|picture|tone)s?
""")
REPORTED = phrases(r"""
    says?|said|saying|(?<!i )(?:wrote|writes?|thinks?|believes?)|asks?|asked|claims?|tells?|told|insists?|heard|
        according to|
        quotes?|means?|people|somebody|(?<!as )someone|anyone|who|those|others|everyone|everybody|like|such as|called|
        titled
""")
# What stands before a colon if the words after it are the user's own.
COLON = re.compile(
    r"^(?:.*[.!?]\s)?(?:(?:for|with|on|about|at|as for|when|in) [\w' -]{2,30}|(?:please )?(?:note|remember|"
    r"keep in mind)|one (?:more )?thing|heads up|(?:before|while|when) you [\w' ]{2,20}|by the way|btw|fyi|also|"
    r"important|reminder|ps|p\.s\.|context|background|update(?: for you)?|just so you know|oh|"
    r"(?:my|our) rule|scratch that|(?:small |quick |one )?correction)\s?:\s",
    re.I,
)
# What the user asks to be remembered follows, whatever it is about.
REMEMBER = re.compile(
    r"\s*(?:(?:hey|hi|ok|okay|also|and|so|oh|right),? )*(?:(?:can|could|will|would) you )?(?:please |just )*"
    r"(?:remember|(?:don't|do not|never) forget|keep in mind|bear in mind|make a note|take (?:a )?note|note(?: down)?|"
    r"jot down|write down|remind yourself|note to self|for your memory)(?: for me| please| of this| this)?"
    r"(?:,? that\b|:)? (?!to\b|me\b|when|how|what|who|where|why|if\b|you\b|the time|this\b|it\b|that\b|about\b|"
    r"your\b|us\b|there)(?=\S+ \S+ \S)",
    re.I,
)
I_SAID = re.compile(r"\b(?:as |like )?i(?:'ve| have)? (?:already )?(?:said|told|mentioned)\b|\bhave i told\b", re.I)
QUESTION = re.compile(
    r"(?:(?:so|and|but|ok|okay|hi|hello|hey|well|also|now|please|then|btw|by the way),? )*(?:what|which|where|"
    r"when(?! (?:i|we|i'm|we're|it's|it|there's|the|my|our)\b)|"
    r"how|who|whose|why|is|are|was|were|do|does|did|can|could|would|will|should|shall|may|might|has|have|had|am|any|"
    r"isn't|aren't|don't|doesn't|won't|can't|if|unless|whether)\b",
    re.I,
)
# Where a statement may begin: at the beginning, after a mark, or after one of these words.
BEGINNING = re.compile(
    r"(?:^(?:(?:as (?:an?|someone|somebody)|being|since|because) [\w' -]{2,40})?|[,;:(\u2013\u2014!.]|\s[-/]|\b(?:and|"
    r"but|because|since|so|as|btw|way|reference|note|that|also|actually|fyi|now|well|anyway|though|yes|no|ok|okay|hi|"
    r"hello|thanks|sorry|please|record|sadly|unfortunately|luckily|recently|personally|usually|generally|normally|currently|"
    r"basically|typically|finally|apparently|honestly|frankly|lately|know|remember|"
    r"mind|then|rule|weekend|week|today|tonight|trip|time|once|days|parties|up|one|ps|mornings?|evenings?|travel\w*|"
    r"months?|years?|for me|rest of the day|"
    r"(?:until|till) [\w ]{2,20}|(?:for|on|in) (?:this|tonight's) \w+))\s*$",
    re.I,
)
# In which cases a statement holds, where that stands in front of it.
CONDITION = re.compile(
    r"(?<!\w)(?:when(?:ever)? (?:i|we|i'm|we're|it's|it|there's|the|my|our)\b(?! (?:do|did|can)\b)[\w' ]{2,30}|"
    r"every time [\w' ]{2,30}|(?:for|on|in|with|at) (?:my|our) (?![\w' ]*\b(?:that|which|who|and|but)\b)[\w' ]{2,30}|"
    r"(?:for|at) (?:breakfast|lunch|dinner|work|home|parties)|"
    r"(?:on|at) (?:weekends|weekdays|holidays|trips|sundays|fridays)|in the (?:mornings?|evenings?)),?\s*$",
    re.I,
)
# Where it ends: a question, a request or a consequence follows.
CUT = re.compile(
    r"\s{0,20}(?:[,;:(\u2013\u2014]|\s-)\s{0,20}(?:(?:so|and|but|then|or|ok)\s{1,20})?(?:well|i mean|or rather|"
    r"what|which|where|how|who|why|when (?:do|can|should|will|does|is)|is|are|do|does|"
    r"can|could|would you|would|will|should|any\w*|ideas?|please (?!always|never)|"
    r"keep|tell|give|find|show|suggest|recommend|plan|book|let's|if that|if you|just so|by the way|btw|fyi|help|"
    r"believe it|you|put|make|thanks|thx|thank)\b|,\s{1,20}so\s{1,20}(?=\w)|"
    r",?\s{1,20}(?:and so|so that|and then|hence|therefore)\s{1,20}(?=\w)|"
    r"\s{1,20}so\s{1,20}(?=(?:i|we|you|no|not|please|never|always|can|could|that|any|what'?s?|which|who|how|where|"
    r"when|why|is|are|do|does|would|should|the|my|our|it|if|nothing|only|don'?t|keep|give|make|skip|tell|show|find)\b)|"
    r",?\s{1,20}if that (?:matters|helps)|,?\s{1,20}even (?:if|when|though)\b|\s{1,20}(?=i (?:need|want|wonder)\b)|"
    r"\s{1,20}(?:and|but)\s{1,20}(?:want to|need|would like|am looking|i need|i want to|i'd like to|wonder|"
    r"was wondering|what|how|which|where|can|could|miss)\b|"
    r"\s{1,20}(?:and|but)\s{1,20}(?=(?:that|this|it)\b)|,?\s{1,20}(?:so|and|but)\s*$",
    re.I,
)
# What stands behind a statement that is put right at once: "I collect stamps, well, I collect only ...".
CORRECTED = re.compile(
    r"\s{0,20}[,.;\u2013\u2014-]?\s{0,20}(?:well|i mean|or rather|no,? wait|sorry|correction)\b", re.I
)
NEXT = re.compile(
    r"(?:,?\s{1,20}(?:and|but|also)|[,;])\s{1,20}(?=(?:(?:for the|over the|until|till|through) [^,.;]{3,30} )?"
    r"(?:i|we|i'm|i've|we're|my|our)\b)",
    re.I,
)
