"""Grammar of preferences: the words by which something is liked or avoided, and those around it. Private to the parser.

A rule is here only if it changed at least one in a hundred of some 5,600 preferences, or if without it something would
be read as its opposite: conditions, exceptions, negations. What is said in other words is left to a language model.
"""

from __future__ import annotations

import re

from epic_memory.text.phrases import sections

_WORDS = sections("grammar")


def any_of(*alternatives: str) -> str:
    """Return a pattern for any of these patterns."""
    return f"(?:{'|'.join(alternatives)})"


def words(text: str) -> str:
    """Return a pattern for any of the words of a text."""
    return any_of(*text.split())


def verbs(section: str) -> str:
    """Return a pattern for the verbs of a section of the bundled words, and their forms."""
    return any_of(*map(_inflected, " ".join(_WORDS[section]).split()))


def _inflected(verb: str) -> str:
    first, *more = verb.split("_")
    bare, forms = (first[:-1], "(?:e[sd]?|ing)") if first[-1] == "e" else (first, rf"(?:e?s|{first[-1]}?(?:ed|ing))?")
    return " ".join([bare + forms, *more])


def pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a compiled pattern for whole words, in upper or lower case."""
    return re.compile(rf"(?<![\w'-]){any_of(*alternatives)}(?!\w)", re.I)


SUBJECT = r"(?:i'm|i'd|i've|i'll|i|im|id|ive|we're|we'd|we|my \w+)"
_LY = r"(?!(?:fami|ear|dai|week|friend|elder|jel|ju|sil|ug|smel|chil|cur|oi)ly\b)\w+ly"
ADVERB = (
    rf"(?:{_LY}|even|ever|just|also|much|always|so|quite|too|very|still|often|almost|all|both|please|instead|rather)"
)
# Verbs that neither like nor avoid: "eat" in "never eat shellfish".
LIGHT = any_of(
    verbs("light"),
    "(?:money|time) on|been|had|(?:show|tell|send|give) me(?: about)?",
)
_LIKED = verbs("liked")
_LIKED_PHRASE = any_of(
    "(?:rather|sooner)(?: have| see| use| be| hear)?(?! than| it)|(?:focus(?:es|ed|ing)?|rely)(?: \\w+)? on|only|must",
    "preference (?:is )?(?:for|to|towards?)|(?:a )?(?:\\w+ )?(?:fan|lover|supporter|advocate|believer) (?:of|for|in)",
    "(?:fond|proud|in favou?r) of|(?:passionate|enthusiastic|excited) about|keen on|big on|drawn to|happiest",
    "(?:(?<=i'm )|(?<=am )|(?<=not )|(?<=ly )|(?<=re ))into|(?:fascinated|driven) (?:\\w+ )?by|exclusively|solely",
    "interest(?:ed)? (?:only )?in|(?:committed|dedicated|devoted) to|convinced that|nothing (?:but|beats)",
    "(?:comfortable|happ(?:y|ier|iest)|at ease|learn best) (?:with|in|from|by|when|out)|(?:love|passion) (?:for|of)",
    "(?:can't|cannot|couldn't) (?:get enough of|wait (?:to|for)|resist)|(?:never|hate to|(?:don't|never) want to) miss",
    "(?:i'm|i am|as|doing|keep|eat)(?: an?)?(?: \\w+)?(?= (?:vegan|vegetarian|pescatarian|kosher|halal|keto|sober)\\b)",
)
_AVOIDED = verbs("avoided")
_AVOIDED_PHRASE = any_of(
    "(?:aversion|averse|allergic|allerg(?:y|ies)|intoleran(?:t|ce)|sensitiv(?:e|ity)|opposed|objections?) (?:to|of)",
    "(?:afraid|scared|terrified|frightened|wary|s[ck]eptical|tired|sick|critical) of|against|gave up|given up",
    "(?:phobia|fear|dread|hatred|distaste|dislike|disdain|contempt|horror) (?:of|for|towards?)",
    "(?:trouble|problems?|issues?|bored|annoyed|overwhelmed|disgusted|put off|uncomfortable|uneasy|anxious|nervous|"
    "squeamish|fed up|lost|(?:motion |sea|car)sick) (?:with|by|in|about|around|on|from)",
    "(?:have )?(?:no|zero|little) (?:interest|desire|use|patience|time|wish|appetite|need) (?:in|for|to|of)",
    r"(?:can't|cannot|can not|cant|couldn't|could not)(?: \w+ly)? (?:stand|bear|stomach|tolerate|take|handle|abide|"
    r"cope with|deal with|(?:sleep|work|concentrate|focus|relax)(?: well)? (?:with|in|near|on))",
    r"(?:leave|keep) (?:it|them|that) out|keep(?=[\w ]{1,30} (?:out of|away from|to a minimum)\b)|anything but|"
    r"(?:can|could) (?:do|live) without|(?<!m )(?<!get )used to (?:love|like)|if you (?:did not|didn't)|unable to|"
    r"no (?:\w+ )?fan of|(?:my least favou?rite(?: \w+)?|my pet peeve|the last thing i want) is|"
    r"(?:get|feel)(?= (?:\w+ly )?\w*(?:sick|dizzy|queasy)\b)",
)
_NOT = any_of(
    r"(?:do|does|did|would|could|will|can|should|must|am|is|are|was|were|have|has|need)(?: not|n't)",
    "can't|won't|cannot|never|no longer|rarely|seldom|hardly(?: ever)?|not|nor|neither|dont|cant|wont|doesnt|isnt",
)
_NUMBER = r"(?:one|two|three|four|five|ten|an? (?:few|hundred|thousand|hour|year)|\d|the (?:counter|top|past|last))"
_CONTRAST = any_of(
    rf",? ?(?:rather |more |better |sooner |less )?than(?! {_NUMBER}| anything\b| ever\b)|,? ?instead of|,? ?unlike",
    ",? ?as opposed to|in place of|versus|vs\\.?|compared (?:to|with)|,? ?and not|but not|ahead of|at the expense of",
    "(?:matters?|counts?|means?|comes?)(?: far| much)?(?: more)?(?: (?:to|for) me)? (?:than|before)",
    rf"above(?! all(?! other)\b| {_NUMBER})|over(?! {_NUMBER}| time\b)|excluding|provided (?:that|it|they)",
    "except(?: for| when| if| in| to)?|unless(?: it's| it is| they're| they are)?|as long as|other than|apart from",
)
_WITHOUT = "(?:without(?: any| an?)?|lack(?:s|ing)?|free (?:of|from)|with (?:no|less|fewer)|(?:has|have|contains?) no)"
_NO = any_of(
    r"(?:no|less|fewer)(?= [a-z])(?! (?:matter|longer|one|doubt|than)\b)|none of|not even|nothing (?:with|containing)",
    r"(?<!\w )nothing(?= (?!(?:but|beats|better|i|is|can|like|to)\b)[a-z])|nothing(?= (?:in|too|that) (?!i\b))",
)
# Relative clauses that specify a thing: "explanations that focus on X". X is liked or avoided as the thing is.
_ABOUT = r"(?:focus(?:ed|es|ing)?|based|grounded|rooted|driven|cent(?:er|re)(?:e?[ds]|ing)|rel(?:y|ies)|aims?)"
_FOCUS = any_of(
    rf"(?:(?:that|which|who|should) (?:(?:are|is|be) )?(?:\w+ly )?)?{_ABOUT}(?: \w+ly)? (?:on|in|by|around|at)",
    rf"(?:that|which|who|should) (?:\w+ly )?{verbs('stress')}",
    "emphasi[sz]ing|highlighting|prioriti[sz]ing",
)
CUE = re.compile(
    rf"(?i)(?<![\w-])(?:(?<!['’])|(?='))(?:(?P<avoided_phrase>{_AVOIDED_PHRASE})|(?P<focus>{_FOCUS})"
    rf"|(?P<liked_phrase>{_LIKED_PHRASE})|(?P<without>{_WITHOUT})|(?P<contrast>{_CONTRAST})|(?P<no>{_NO})"
    r"|(?P<imperative>(?:give|tell|show|send|bring|find|book) me(?: about)?|use|explain)"
    rf"|(?P<neutral>(?:{_NOT}) (?:mind|care (?:whether|if)))|(?P<not>{_NOT})|(?P<avoided>{_AVOIDED})"
    rf"|(?P<liked>{_LIKED}))(?![\w-])"
)

_SOMEBODY = "(?:i|im|id|ive|we|they|it|this|that|these|those|he|she|you|people|there|nobody|what|who)(?:'[a-z]+)?"
_FINITE = words(" ".join(_WORDS["finite"]))
# Where a statement ends and another begins.
STATEMENT = re.compile(
    r"(?i)(?<![.;!?:])[.;!?:]+(?:\s+|$)|\s+[-–—]+\s+|\s*—\s*|[()]|"
    r"\s*,?\s+(?:but|yet|although|though|whereas|so|and so|and|which means)\s+"
    rf"(?=(?:{SUBJECT}|please|it|they|no|nothing|only|[\w-]+ (?:is|are))\s)|"
    rf"\s*,\s+(?:so |and |but |then )?(?={_SOMEBODY}\s)|\s*,\s+(?:so|but|though)\s+|"
    r"\s+(?:and|but)\s+(?=(?:with|always|usually|mostly|instead)\s)|"
    r"\s*,\s+(?=(?:too|the kind|mainly|which|preferably|please|just|(?:give|send|show) me|no|nothing|only|more)\s)|"
    # A comma, a noun, a verb: "I hate opera, the singing bores me".
    rf"\s*,\s+(?=(?!and\b|or\b)(?:(?!(?:that|which|who|where|and|or|not|when|even)\b)[\w'-]+ ){{1,5}}{_FINITE}\s)"
)
# Beginnings of reasons: nothing in a reason is liked or avoided.
REASON = pattern(
    "because|since|due to|regardless|whether|even (?:if|when|though|in|on)|or else|otherwise|so much that",
    "as (?:i|i'm|they|it|this|that|these|those|my|he|she|we)(?= )|(?:and )?(?:which|and i|and) find (?:it|them|that)",
    r"for (?:\w+ )?(?:\w+al|health|religious|safety|privacy)(?: and \w+)? (?:reasons?|concerns?|benefits|purposes)",
    r"(?:it|they|this|that)(?:'s|'re| is| are| makes?| gives?| feels?| leaves?| hurts?) (?=(?:too|me|my|so|a)\b)",
)
_NEAR = "kids? child(?:ren)? family dogs? cats? home house flat kitchen bedroom office car garden face skin phone hair"
_TIMES = r"mornings? evenings? nights? weekdays? weekends? breakfast lunch dinner(?!\stable) bed(?:time)? work(?!\s\w)"
# Times, places and occasions to which a preference is limited.
SCOPE = pattern(
    r"(?<!hate )(?<!like )(?<!love )(?<!best )(?<!it )(?:when(?:ever)?|while|during)(?! possible| i can)"
    r"\s(?:(?:i|i'm|we|we're)\s)?(?:(?!\s(?:i|i'm|im|we|please)\s)[^,])+",
    rf"(?:in|on|at|for|after|before) (?:(?:the|my|our) )?(?:\w+ )?{words(_TIMES)}|at home|in the office",
    rf"(?:in|on|for|around|with|into|near) (?:my|our) (?:\w+ )?{words(_NEAR)}",
)
_UNWANTED = any_of(
    r"too\b|less\b|(?:un|dis|over|in)(?!ter|spir|cuss)\w+(?:ory|ing|able|ible|ive|ed|ful|al|ic|ent|ant)|(?:bor|annoy|"
    r"stress|depress|frustrat|exhaust|confus|drain)\w+|tedious|dull|awful|terrible|pointless|hard|difficult|shallow|"
    "claustrophobic|tacky|cheap|noisy|ugly|useless|silly|horrible|torture|hell|misery|murder|nightmare"
)
_DOES = verbs("does")
# Statements that name the thing first: "crowds stress me out", "running is off limits".
FRONTED = pattern(
    rf"(?P<avoided>(?:\w+ly |always |just |often )?(?:(?:{_DOES}|stress(?:es)?|puts?|sets? off|grates? on|flares? up|"
    r"terrif(?:y|ies)|wrecks?|frightens?) (?:me|my)\b|should (?:\w+ly )?be (?:avoided|banned)|(?:is|are) (?:an? )?"
    r"(?:\w+ )?(?:allerg\w+|no-go|no(?= |$)|off the table|out|not for me|not my thing|off[- ]limits|banned|forbidden|"
    rf"deal-?breakers?|waste of \w+)|(?:is|are) (?:just |so |simply |sheer )?{_UNWANTED}|(?:is|are)(?:n't| not) for me"
    r"|(?:don't|doesn't|do not|does not) (?:suit|help|interest|appeal to|agree with) (?:me|my)|do(?:es)? nothing for me"
    r"|(?:tastes?|looks?|smells?) (?:\w+ )?(?:like|wrong|silly|awful|foul)|keeps? me (?:awake|up)|never again))",
    r"(?P<liked>(?:is|are) (?:an? )?(?:musts?|good|fine|great|welcome|essential|my thing|my favou?rites?|what i like)|"
    r"(?:helps?|suits?|works? (?:best )?for|calms?|relax(?:es)?) (?:me|my)|makes? me (?:happy|smile|feel good))",
)
FIND = pattern(
    rf"(?:find|found|consider) (?P<what>(?!(?:it|them|that|this|myself|out)\b)[^,]{{2,60}}?) (?:to be )?"
    rf"(?:{ADVERB} ){{0,2}}{_UNWANTED}"
)
CONDITION = pattern(
    r"(?P<what>(?!(?:severe|strong|real|proper|an?|my|bad|serious|mild|the|have|with|am|no|food|and|of|is|has)\b)[\w-]+"
    r"(?: or [\w-]+)?)[- ](?:intoleran\w+|allerg\w+|phobi\w+)(?!\w|\s(?:to|of)\b)"
)

# These concern the speaker wherever they stand; other words of a reason do not count: "because I only walk".
_NEVER = pattern(
    r"allerg\w+|intoleran\w+|coeliac|celiac|vegan|vegetarian|pescatarian|halal|kosher|sober|jewish|muslim|hindu|"
    r"buddhist|religious|(?:for|on) (?:\w+ )?(?:medical|moral|ethical) (?:reasons|grounds)"
)
_STRICT = pattern(
    r"never|refus\w+|(?<!not )(?<!i'm )only(?! a\b)|exclusively|solely|must|strict(?:ly)?|won't|will not|quit|"
    r"can(?:'t|not| not) (?!stand|bear|help|get|resist|wait)\w+|forbid\w*|no longer|boycott\w*|unwilling|gave up|"
    r"do(?: not|n't) (?:\w+ )?(?:eat|drink|consume|use|wear|buy|own|fly|drive|take|do|play|support|watch|smoke)",
)
_STRONG = pattern(
    r"hat(?:e|es|ed)|(?:can't|cannot|cant) (?:stand|bear|help|get)|lov(?:e|es)|strong(?:ly)?|despis\w+|avers\w+|"
    r"firm\w*|detest\w*|passion\w*|insist\w*|absolutely|deep\w*|extreme\w*|terrified|scared|afraid|fear|phobia|always|"
    r"committed|obsess\w*|adore|steer clear|stay away|opposed?|no (?:interest|patience|time)|totally|completely|^no|"
    r"^please,? no|reject|against|fascinated|convinced|avoid (?:all|any\w*)"
)


def firmness_of(text: str) -> float:
    """Return the firmness of a preference: 1.0 (never, only, allergic), 0.75 (hate, love) or 0.5 (prefer, dislike)."""
    plain = text.replace("\u2019", "'").strip()
    if _NEVER.search(plain) or _STRICT.search(plain):
        return 1.0
    return 0.75 if _STRONG.search(plain) else 0.5
