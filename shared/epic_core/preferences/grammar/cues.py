"""Cues: the words by which a preference likes or avoids something, and the words for firmness."""

from __future__ import annotations

import re


def any_of(*alternatives: str) -> str:
    """Return a pattern for any of these patterns."""
    return f"(?:{'|'.join(alternatives)})"


def words(text: str) -> str:
    """Return a pattern for any of the words of a text."""
    return any_of(*text.split())


def verbs(bases: str, forms: str = "s|es|ed|ing") -> str:
    """Return a pattern for verbs, separated by commas, and their regular forms; the first word of each is inflected."""
    return any_of(*(_inflected(*verb.strip().partition(" "), forms) for verb in bases.split(",")))


def _inflected(verb: str, space: str, rest: str, forms: str) -> str:
    if verb.endswith("e"):
        stem, bare = verb[:-1], "e"
        forms = forms.replace("s|es", "es")
    elif verb.endswith("y") and verb[-2] not in "aeo":
        stem, bare = verb[:-1], "y"
        forms = forms.replace("s|es|ed", "ies|ied").replace("ing", "ying")
    else:
        # "skipped" doubles its last letter, "missed" does not.
        stem, bare = verb, ""
        forms = forms.replace("ed", f"{verb[-1]}?ed").replace("ing", f"{verb[-1]}?ing")
    return f"{stem}(?:{forms}|{bare})" + space + rest


def pattern(*alternatives: str) -> re.Pattern[str]:
    """Return a compiled pattern for whole words, in upper or lower case."""
    return re.compile(rf"(?<![\w'-]){any_of(*alternatives)}(?!\w)", re.I)


SUBJECT = r"(?:i'm|i'd|i've|i'll|i|im|id|ive|we're|we'd|we|my \w+)"
ADVERB = words(
    "really truly even ever particularly especially typically usually generally normally actually just simply"
    " also much always necessarily personally willingly strongly deeply greatly highly very absolutely strictly"
    " firmly too so quite currently steadfastly completely totally honestly still often mostly mainly primarily"
    " solely exclusively only almost rather definitely severely seriously extremely incredibly pretty fairly"
    " somewhat rarely consciously fully vastly heavily purely largely especially specifically certainly please"
    " actively intentionally all terribly both either well super far kinda sorta merely instead"
)
# Verbs that neither like nor avoid: "eat" in "never eat shellfish".
LIGHT = any_of(
    verbs(
        "eat, drink, consume, buy, purchase, wear, watch, read, listen to, play, try, order, consider, own,"
        " visit, attend, stay in, stay at, book me, book, participate in, engage in, engage with, rely on, deal"
        " with, have, be, get, do, spend money on, spend time on, pay for, touch, accept, keep, feed, live in,"
        " live with, live on, work with, work for, work in, work at, handle, shop at, shop for, shop in, dine at,"
        " dine in, subscribe to, travel by, travel to, travel with, travel on, look at, drive, cook with, cook,"
        " interact with, join, invest in, take, choose, be around, expose myself to, incorporate, explore, put"
        " money into, put money in, receive, serve, pick, see, hear, walk into, search for, talk about, hire, hang"
        " out in, train in, possess, download, install, grow, adopt, put, go to, go on, go for, go into, go near,"
        " go anywhere near, go with, go, come to, drive to, move to, look into, give, make, set foot in, set foot"
        " on, start, finish, discuss, fly with, mention, utilize",
        forms="ing",
    ),
    "use|being|seeing|been|had|shown|told|given|show me|tell me about|tell me|send me(?: to)?|take me(?: to)?|"
    "using(?!.{0,60} for )|putting|"
    "setting foot in",
)
_LIKED = any_of(
    verbs(
        "prefer, love, like, enjoy, favor, favour, appreciate, adore, value, cherish, seek out, seek, want,"
        " admire, crave, trust, support, advocate for, advocate, champion, welcome, choose, opt for, insist on,"
        " stick to, stick with, believe in, believe that, believe, look for, need, care about, care for, go for,"
        " adhere to, follow, lean towards, lean toward, lean on, live for, thrive on, thrive in, thrive with,"
        " prioritize, prioritise, gravitate toward, gravitate towards, emphasize, emphasise, highlight, endorse,"
        " embrace, respect, treasure, treat myself to, dream of, miss, recommend, swear by, feel that, stand for,"
        " require, count on, base, maximize, promote, encourage, foster, celebrate, keep, wish for"
    ),
    "places? (?:\\w+ ){0,2}(?:importance|emphasis|value) on|look(?:ing)? forward to|nothing beats|"
    "chose|sought|stuck to|think(?: that)?|thought|stood for|focus(?:es|ed|ing)?(?: \\w+)? on|rely on|"
    "base(?: \\w+){1,4}? on|(?:put|place)s?(?=.{1,80} (?:before|above|ahead of|first)\\b)",
    "(?:rather|sooner)(?: have| see| hear| use| be)?(?! th[ae]n| it\\b)",
)
_LIKED_PHRASE = any_of(
    r"preference (?:for|is(?: for| to)?|toward\w*)",
    "(?:fond|enamou?red|supportive|in favou?r|proud) of",
    "(?:a )?(?:\\w+ )?(?:fan|lover|supporter|admirer|proponent|advocate|believer) (?:of|for|in)",
    "(?:passionate|enthusiastic|excited|crazy|mad|serious) about",
    "all for|an? (?=(?:\\w+ ){1,2}person\\b)|my favou?rite (?:\\w+ )?(?:is|are)|keen on|big on|hooked on|into|"
    "obsessed with|fascinated (?:by|with)|partial to|drawn to|attracted to|devoted to",
    r"interest(?:ed)? (?:only )?in|committed to|dedicated to|faithful to|loyal to|at ease (?:with|in)|happy with|"
    r"happiest",
    r"comfortable (?:with|in)|convinced (?:that|of)|a sucker for|soft spot for|weakness for|passion for|"
    r"love (?:for|of)",
    "learn(?:ing)? best (?:by|from|through|with|when)|driven (?:solely |only )?by|desire for|better with|all about",
    r"nothing (?:but|except|other than)|not only|must(?: have)?|on an?(?= [\w -]{0,40}(?:diet|budget|regime))|"
    r"in the mood for|(?:pay|paying|spend) (?:extra|more)(?: money)? (?:for|on)|could (?:\\w+ )?live on",
    "only|exclusively|solely|strictly (?=kosher|halal)",
    # "I avoid lifts and always take the stairs", not "I hate flying and always feel sick".
    "(?<=(?:and|but) )(?:always|usually|mostly|instead)(?= (?:take|use|choose|pick|buy|order|cook|eat|drink|wear|read|"
    "watch|drive|cycle|walk|go|travel|stay|pay)\\b)",
    r"(?:can't|cannot|can not|cant|couldn't|could not) (?:get enough of|wait (?:to|for)|resist|help(?: but)?)",
    r"(?:never|hate to|(?:(?:do|would)(?:n't| not)|never) (?:want|like) to) miss(?: out on)?",
    r"nothing (?:that )?i (?:\w+ )?(?:love|like|enjoy) (?:more|better) than|nothing better than",
    r"used to (?:hate|dislike|avoid|loathe)(?=.* but\b)",
)
_AVOIDED = any_of(
    verbs(
        "avoid, dislike, hate, loathe, detest, despise, abhor, reject, refrain from, abstain from, boycott,"
        " distrust, mistrust, resent, skip, oppose, refuse, decline, fear, dread, struggle with, suffer from,"
        " quit, exclude, minimize, minimise, stop, ban, downplay, turn down, give up, cut out, cut down on, cut"
        " back on, limit, shun, leave out, stay off, disapprove of, wince at, cringe at, steer clear of, steer"
        " well clear of, steer clear, stay clear of, stay well clear of, keep clear of, stay away from, keep away"
        " from, shy away from, omit, steer away from, swear off, spare me, disagree with, object to, react to,"
        " react badly to, restrict, ignore, dismiss, neglect, sidestep, tire of, condemn, disregard, forgo,"
        " reduce, halve, eschew, discourage, back away from"
    ),
    "(?<!before i )gave up|given up|giving up|swore off|sworn off|shun|cut out|left out",
)
_AVOIDED_PHRASE = any_of(
    r"(?:aversion|averse|allergic|allerg(?:y|ies)|intoleran(?:t|ce)|sensitiv(?:e|ity)|hostile|resistant|"
    r"reactions?) (?:to|of|towards?)",
    r"(?:objections?|opposed|immune|indifferent) (?:to|towards?)",
    "(?:afraid|scared|terrified|frightened|wary|sceptical|skeptical|suspicious|tired|sick|weary|critical) of",
    "(?:phobia|fear|dread|hatred|distaste|dislike|disdain|contempt|loathing|horror) (?:of|for|towards?)",
    "(?:trouble|problems?|issues?|done) with|(?:motion |sea|car)sick (?:on|in|from)|so over|stay(?:ing)? out of|"
    r"pass on|(?:(?<=i'm )|(?<=i am )|(?<=i've been ))off(?= [a-z])"
    r"(?! (?:to|work|duty|on|the|for|at|in|sick|today|school)\b)|"
    "no thanks to|(?:put|turned) off by|bothered by|(?:bored|annoyed|irritated|overwhelmed|triggered|"
    "disturbed|"
    "unsettled) (?:by|with|in)",
    "disgusted by|squeamish about|(?:un|dis)interest(?:ed)? in|uncomfortable (?:with|in|around|on)|"
    "uncomfortable(?= \\w+ing)|unwilling to|repelled by",
    "(?:uneasy|anxious|nervous|claustrophobic|panicky) (?:about|with|around|on|in)|fed up (?:with|of)|"
    "had enough of|(?:get |gets )?lost in",
    r"(?:have )?(?:no|zero|little|not much) (?:interest|desire|use|patience|time|wish|appetite|tolerance|love|"
    r"need|stomach) (?:in|for|to|of)",
    r"(?:can(?:'t|not| not)|cant|could(?:n't| not))(?: \w+ly)? (?:stand|bear|stomach|tolerate|take|handle|"
    r"deal with|abide|digest)",
    r"(?:could|would)(?:n't| not) care less about|(?:could|can) (?:do|live) without|anything (?:but|except)|"
    r"against|disgust at|critic of",
    r"no (?:\w+ )?(?:fan|lover|friend|admirer) of|my least favou?rite(?: [\w-]+){0,3}? (?:is|are)",
    r"pet peeves? (?:is|are)|the last (?:thing|place) (?:that )?i(?:'d)? (?:\w+ )?(?:want|need|like)(?: to \w+)? is",
    r"(?:rather|prefer)(?: it)?(?: if| that)? (?:you|they|we|people) (?:did|do|would)(?: not|n't)"
    r"(?: (?:suggest|recommend|offer|send|include))?",
    r"(?<!m )(?<!get )(?<!am )used to (?:really |always )?(?:love|like|enjoy|adore|be (?:into|mad about|a fan of))",
    r"(?:can(?:'t|not| not)|cant|could(?:n't| not)) (?:sleep|work|concentrate|focus|relax|think|study|rest|"
    r"breathe)(?: well)?"
    r" (?:with|in|near|next to|on|around)|(?:sleep|work|concentrate|focus) (?:badly|poorly|worse) (?:with|in|on|near)",
    r"(?:get|gets|become|feel|am|(?<=i')m)(?= (?:\w+ly )?(?:\w+ (?:easily|quickly)\b|(?:motion |sea |"
    r"car )?\w*sick(?! (?:of|on|in|from))|dizzy"
    r"|nauseous|queasy|claustrophobic))",
    r"can(?:'t|not) say (?:that )?i (?:\w+ )?(?:care for|like|love|enjoy)",
    r"if you(?:'d)? (?:left out|leave out|skip(?:ped)?|avoid(?:ed)?|omit(?:ted)?|did not|didn't)",
    r"less (?:interested in|fond of|keen on|into|drawn to|excited about)",
    r"(?<=m )unable to|nothing (?:that )?i (?:\w+ )?(?:hate|dislike|detest|loathe) more than|nothing worse than",
)
_NOT = any_of(
    r"(?:do|does|did|would|could|will|can|should|must|am|is|are|was|were|have|has|need)(?: not|n't)",
    "can't|won't|cannot|shan't|ain't|never|no longer|rarely|seldom|hardly(?: ever)?|not|nor",
    "dont|cant|wont|doesnt|isnt|arent|didnt|wouldnt|neither",
)
_NUMBER = r"(?:one|two|three|four|five|six|eight|ten|half|an? (?:few|couple|hundred|thousand|dozen|hour|year)|\d)"
_NOT_OVER = any_of(
    "the (?:counter|top|past|last|phone|internet|air|hours?)|time|and over",
    _NUMBER,
    r"\w+ (?:hours?|minutes?|years?|miles)",
)
_CONTRAST = any_of(
    rf",? ?(?:rather|more|better|sooner|less) th[ae]n(?! {_NUMBER}| anything\b| ever\b)(?: just)?|,? ?instead of|"
    rf",? ?as opposed to|,? ?unlike",
    rf",? ?in preference to|,? ?in place of|than(?! {_NUMBER}| anything\b| ever\b)|versus|vs\.?|compared (?:to|"
    rf"with)|,? ?and not|but not",
    rf"(?:ahead|at the expense|at the cost|in lieu) of|before|above(?! all(?! other)\b| {_NUMBER})|"
    rf"over(?! {_NOT_OVER})",
)
_EXCEPT = any_of(
    r"except(?:ing)?(?: for| when| if| in| to)?|unless|(?:as|so) long as|provided (?:that|it|they)|other than|"
    r"apart from|aside from|with the exception of|"
    r"excluding",
    "save for|but for|besides",
)
_WITHOUT = any_of(
    "without(?: having)?(?: any| an?)?|lack(?:s|ing)?|free (?:of|from)|devoid of|with (?:no|zero)|void of|minus|"
    "(?:has|have|had|offers?|needs?|requires?|involves?|contains?) (?:no|zero)",
)
# Relative clauses that specify a thing: "explanations that focus on X". X is liked or avoided as the thing is.
_FOCUS = any_of(
    r"(?:that|which|who|where|should) (?:\w+ly )?"
    + any_of(
        verbs(
            "emphasize, emphasise, prioritize, prioritise, highlight, favor, favour, promote, stress, aim at, aim"
            " for, explore, value, respect, advocate, advocate for, champion"
        ),
        r"focus(?:es|ed)?(?: \w+)? on|cent(?:er|re)s?(?: \w+)? (?:on|around)|rel(?:y|ies)(?: \w+)? on|"
        r"lean(?: \w+)? on",
        r"(?:are|is|be) (?:\w+ly )?(?:about|based on|focused on|grounded in|rooted in|cent(?:er|re)d (?:on|"
        r"around)|driven by)",
    ),
    r"(?:focus(?:s?ed|s?ing)|based|grounded|rooted|cent(?:er|re)(?:ed|d|ing))(?: \w+ly)? (?:on|in|around)",
    "emphasi[sz]ing|highlighting|prioriti[sz]ing",
)
# "Less sugar" is a cue; "less crowded beaches" is not, because it only describes the beaches.
_LESS = (
    r"(?:less|fewer|no more(?![\w ]{1,40} th[ae]n\b))(?= [a-z])"
    r"(?! (?:th[ae]n|of|often|so|is|are|about|on|in|for|to|at|with|by|from|like|known"
    r"|well|and|or|but|frequent\w*|i|when|if)\b)(?! (?!metal|animal|plastic|alcohol|cereal|bread|seed|food|weed)"
    r"\w+(?:al|ic|ive|ous|ful|ary|ed|ant|able|ible|ish|ern|some|ex|ly)\b)(?! (?!content|rent)\w+ent(?= [a-z]))"
    r"(?! (?!dairy|candy|brandy|honey|money|party)\w+(?:[bdfhklmpswxz]|st|tt|lt|rt|pt|is|ic|ar|ir)y\b)"
    r"(?! (?:loud|fast|cheap|big|modern|dark|bright|cold|hot|raw|fresh|slow|old|new|quiet|sweet|hard|strict|dense"
    r"|complex|abstract|harsh|obscure|mainstream|popular|familiar)\b)"
)
# The end of a negation: "and with" in "hotels without casinos and with a pool".
_BACK = any_of(
    r"(?:and|but) (?:with|has|have|having|near|close to|next to)(?! (?:no|zero|less|fewer)\b)",
    r"(?<=, )(?:with|has|near|close to|next to)(?! (?:no|zero|less|fewer)\b)",
)
_IMPERATIVE = (
    r"(?:give|tell|show|send|bring|find|book) me(?: about)?|use|keep it|compare|"
    r"explain(?: (?!with(?:out)?\b|no\b)\w+)?|stick to"
)
# Where several kinds of cue match at one place, the first of them counts.
CUE = re.compile(
    r"(?<![\w-])(?:(?<!['’])|(?='))(?:"
    r"(?P<even>not even|or even)"
    rf"|(?P<neutral>(?:{_NOT}) (?:really )?(?:mind|object to|care (?:whether|if)))"
    rf"|(?P<avoided_phrase>{_AVOIDED_PHRASE})"
    rf"|(?P<focus>{_FOCUS})"
    rf"|(?P<liked_phrase>{_LIKED_PHRASE})"
    rf"|(?P<back>{_BACK})"
    rf"|(?P<without>{_WITHOUT})"
    rf"|(?P<contrast>{_CONTRAST})"
    rf"|(?P<less>{_LESS})"
    r"|(?P<more>more(?= [a-z]))"
    rf"|(?P<exception>{_EXCEPT})"
    rf"|(?P<no>no(?= [a-z])(?! matter| longer| more\b| one\b| doubt)|nothing(?: (?:with|containing|involving|"
    rf"made (?:of|with|from))|(?= (?:too|that)))|(?<![^.,;!?] )nothing(?: in)?(?= [a-z])(?! (?:but|except|other|beats"
    rf"|better|worse|like|to|that|more|is|can|could|will|i)\b)|none of)"
    rf"|(?P<imperative>{_IMPERATIVE})"
    rf"|(?P<not>{_NOT})"
    rf"|(?P<avoided>{_AVOIDED})"
    rf"|(?P<liked>{_LIKED})"
    r")(?![\w-])",
    re.I,
)

# These concern the speaker wherever they stand; other words of a reason ("because I only walk") do not count for
# firmness.
_NEVER = pattern(
    r"allerg\w+|intoleran\w+|celiac|coeliac|diagnosed|diabetic|religiously|devout|jewish|muslim|hindu|buddhist",
    "vegan|vegetarian|pescatarian|halal|kosher|sober|keto|teetotal\\w*|(?:deeply|very|being) religious",
    r"(?:for|on|due to) (?:\w+ )?(?:religious|medical|moral|ethical) (?:\w+ )*?(?:reasons|grounds|beliefs)",
)
_STRICT = pattern(
    r"never|refus\w+|(?<!not )(?<!it's )(?<!i'm )only(?! a\b)|exclusively|solely|must|cannot|can not|"
    r"can't (?!stand|bear|help|get|resist|wait)\w+|cant (?!stand)\w+",
    "strictly (?=avoid|follow|no|keep|against|eat|limit|prohibit|only)|strict (?=\\w+ diet|diet|no|rule|about)|"
    "won't|wont|will not",
    "forbid\\w*|absolutely no|no longer|non-negotiable|under no circumstances|not allowed|zero|abstain\\w*|"
    "boycott\\w*|unwilling",
    "mandatory|quit|deal-?breaker|gave up|off[- ]limits|out of the question|nothing (?:but|with|containing)|"
    "a no(?:-go)?|no-go",
    r"do(?: not|n't) (?:\w+ )?(?:eat|drink|consume|use|wear|buy|own|fly|drive|take|shop|do|play|support|watch|smoke)",
)
_STRONG = pattern(
    r"hat(?:e|es|ed)|(?:can't|cannot|cant) (?:stand|bear|tolerate|help)|lov(?:e|es)|strongly|strong (?=\w+ (?:for|"
    r"to|of)|\w+$)|very much",
    r"avers\w+|despis\w+|detest\w*|loath\w+|abhor\w*|passion\w*|insist\w*|absolutely|deep\w*|intense\w*|"
    r"extreme\w*|firm\w*",
    r"terrified|scared|afraid|fear|phobia|committed|obsess\w*|adore|sick of|disgust\w*|steer(?: well)? clear|"
    r"stay away|greatly",
    r"above all|opposed?|really (?:dislike|don't)|drives me|no (?:interest|patience|time)|totally|completely|"
    r"reject|against|big on",
    r"(?<!i'm )(?<!am )(?<!is )(?<!are )always|fascinated|can't (?:get enough|live without)|so much that|"
    r"convinced|avoid (?:all|any\w*)",
    "(?:not|never) (?:\\w+ ){0,4}without|(?<!not )(?<!n't )(?<!just )i want|strong",
)
_SIDE_REMARK = re.compile(r"\b(?:because|since|when|as i|as my)\b.*?(?=[.;,]|$)", re.I)
_STARTS_WITH_NO = re.compile(r"(?:please,? )?no\s", re.I)


def firmness_of(text: str) -> float:
    """Return the firmness of a preference: 1.0 (never, only, allergic), 0.75 (hate, love) or 0.5 (prefer, dislike)."""
    plain = text.replace("\u2019", "'").strip()
    rest = _SIDE_REMARK.sub("", plain)
    if _NEVER.search(plain) or _STRICT.search(rest):
        return 1.0
    return 0.75 if _STRONG.search(rest) or _STARTS_WITH_NO.match(plain) else 0.5
