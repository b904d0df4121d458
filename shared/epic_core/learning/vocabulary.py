"""Vocabulary of the patterns: the words that stand for people, things, habits and times, and how patterns are written.

Each line of a pattern is one alternative; what is indented further goes on with the line before. A word in angle
brackets stands for a part of `_PARTS`.
"""

from __future__ import annotations

import re

_PARTS: dict[str, str] = {}


def _filled(text: str) -> str:
    joined = re.sub(r"\n {8}", "", text.strip())
    return re.sub(r"<([A-Z_]+)>", lambda match: _PARTS[match.group(1)], joined)


def define(text: str) -> None:
    """Define parts, one a line: "NAME = alternatives"."""
    for line in re.sub(r"\n {8}", "", text.strip()).splitlines():
        name, _, alternatives = line.strip().partition(" = ")
        _PARTS[name] = f"(?:{_filled(alternatives)})"


def phrases(text: str) -> re.Pattern[str]:
    r"""Return a pattern for phrases of whole words; one that ends in \w ends in the first letter of any word."""
    lines = [line.strip() for line in _filled(text).splitlines()]
    ended = [each if each.endswith(r"\w") else rf"{each}(?![\w'])" for each in lines]
    return re.compile(rf"(?<![\w'-])(?:{'|'.join(ended)})", re.I)


def front(text: str) -> re.Pattern[str]:
    """Return a pattern for any of its lines, after a "please" or none."""
    return re.compile(
        rf"(?:(?:please|pls|plz|kindly) )?(?:{'|'.join(line.strip() for line in _filled(text).splitlines())})", re.I
    )


def anywhere(text: str) -> re.Pattern[str]:
    """Return a pattern for any of its lines, within words too."""
    return re.compile("|".join(line.strip() for line in _filled(text).splitlines()), re.I)


# THING keeps out what is no kind of thing: "I like it", "I love that idea", "I prefer the second one".
define(
    r"""
    I = i|we|my \w+(?: [a-z]+)? and i|me and (?:the|my) \w+
    AM = i'm|i am|im|we're|we are|my \w+(?: [a-z]+)? and i are|me and (?:the|my) \w+ are
    ADV = (?:(?:really|truly|just|generally|usually|normally|actually|simply|also|much|always|personally|strongly|
        deeply|do|very|absolutely|strictly|so|quite|completely|totally|honestly|still|mostly|mainly|definitely|
        seriously|tend to|especially|particularly|certainly|kind of|far|genuinely|both|all|pretty|rather|have|
        try to) )*
    THING = (?! *(?:it(?= *(?:[.,;!]|$))|to(?= *(?:[.,;!?]|$))|it (?:so|very|a lot|when|how|here|now|again|too|there)|
        (?:this|that|these|those|them|yours?|you|theirs?|him|her|his|he|she|all the|everyone|everybody|how|what|where|
        why|who|both|either|neither|ones?|everything about)\b|to (?:know|see|hear|ask|go|visit|try|learn|think|believe|
        imagine|thank|point|add|mention|have|get|bother|be(?! (?:called|told|addressed|left|near|outside|outdoors|
        alone)\b)|do|say)\b|not to (?:say|answer|tell|discuss)|the [\w ]{2,30} (?:more|better|less) than the|
        the (?:\w+ )?(?:first|second|third|last|idea|sound|look|new|other|one|option|answer|version|draft|plan|
        suggestion|title|name|colou?r|picture|design|ending|way|former|latter|above|previous|same|result|tone)\b|
        (?:\w+ )?(?:idea|answer|version|suggestion|option) *$|(?:ideas|answers|versions|suggestions|options) *$|
        [.,!]?$))
    LIKE = love|adore|enjoy|like|prefer|value|favou?r|boycott|go for|opt for|lean towards?|gravitate towards?|
        stick with|live for|could live on|shun|hate|loathe|detest|dislike|despise|avoid|crave|swear by|insist on|
        appreciate(?! (?:the|you|your|having|that|how|it|this)\b)|steer clear of|stay away from|stick to|
        react (?:\w+ )?to|can live without
    CANNOT = (?:can't|cannot|can not|cant|couldn't(?! have)) (?:really )?(?:stand|bear|stomach|abide|tolerate|eat|
        drink|have|digest|deal with|handle|do(?! (?:it|this|that|much|anything)\b)|sleep|get enough of|live without|
        resist|wear|be doing|(?:work|sleep|read|think|concentrate|travel|sit|function|relax) (?:on|in|with|at|without|
        near|next))
    DONT = (?:don't|do not|dont|won't|will not|wouldn't) (?:really |ever |usually |particularly |much )?(?:like|eat|
        drink|do|wear|watch|tolerate|care for|touch|fly|smoke|enjoy|cook|use|drive|want (?:any|to (?:be (?:near|called|
        in|on|around|disturbed|woken)|fly|drive|eat|stay)|\w+ (?:of any|in my|on my|with))|buy|read|go (?:to|near|for)|
        stay (?:in|at)|take|get on with|trust)
    DIET = all?ergic|intolerant|vegans?|veg[ei]t[ae]rians?|veggies?|pescatarians?|coeliac|celiac|diabetic|lactose|
        gluten|teetotal\w*|sober|kosher|halal
    DAY = (?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays|weekends|january|february|march|april|may|june|july|
        august|september|october|november|december|\d{1,2}(?:st|nd|rd|th)?|morning|evening|night|week|day
    NUMBER = \d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|
        seventeen|eighteen|twenty|thirty|forty|fifty|sixty|seventy|eighty
    KIN = (?:(?:ex-?)?(?:wife|husband|hubby)|other half|missus|partner|boyfriend|girlfriend|fianc\w+|spouse|mother|
        father|mum|mom|dad|parent|sister|brother|twin|triplet|eldest|youngest|son|daughter|kid|child|baby|toddler|lad|
        lass|boy|girl|little one|grand(?:ma|pa|mother|father|son|daughter|parent|child)|aunt|uncle|niece|nephew|cousin|
        family|in-law|dog|cat|puppy|kitten|rabbit|hamster|horse|parrot|pet)(?:s|ren)?
    OWN = (?:birthday|e-?mail(?: address)?|commute|pronouns?|time ?zone|hometown|major|role|height|weight|hobby|hobbie|
        star sign|hours|wedding|anniversary|address|phone number|job|shift|commute|car|van|bike|flat|apartment|house|
        garden|kitchen|blood (?:type|group|pressure)|shoe size|asthma|hair|skin|eyesight|hearing|rent|pension|salary|
        mortgage|loan|tenancy|insurance|band|choir|office|studio|name|surname|nickname|doctor|dentist|therapist|
        landlord|landlady|flatmate|roommate|school|company|budget|deadline|exam|marathon|visa|passport|lease|contract|
        warranty|blood type|prescription)s?
    EVENT = (?:flight|train|appointment|operation|surgery|interview|holiday|trip|class|course|term|exam|deadline|lease|
        wedding|move|marathon|race|concert|visa|passport)s?
    HAD = <KIN>|\w+[ -]year[ -]olds?|babies|puppies|hens|chickens|sibling|siblings|grandchildren|twins|triplets|garden|
        allotment|balcony|patio|terrace|aquarium|pond|greenhouse|shed|workshop|car|van|bikes?|motorbike|boat|piano|
        flat|house|licence|asthma|arthritis|diabetes|migraines?|adhd|dyslexia|epilepsy|eczema|hay fever|tinnitus|
        pacemaker|glasses|bad (?:back|knees?|hips?|eyes)|(?:high|low) (?:blood (?:pressure|sugar)|cholesterol)|tv|
        television|smartphone|oven|freezer|dishwasher|microwave|washing machine|\w+ (?:disease|syndrome|disorder|
        condition|degeneration)|\w*(?:itis|osis|a?emia|algia|opathy)|glaucoma|cataracts|ibs|copd|lupus|psoriasis|gout|
        sciatica|vertigo|hernia
    TRADE = twin|nurse|teacher|doctor|engineer|developer|programmer|student|lawyer|carpenter|farmer|pensioner|baker|
        chef|cook|electrician|plumber|accountant|architect|designer|musician|writer|journalist|librarian|pharmacist|
        plumber|builder|mechanic|joiner|roofer|waiter|waitress|barista|cleaner|carer|social worker|childminder|
        headteacher|lecturer|professor|solicitor|barrister|surgeon|consultant|trucker|courier|postman|fisherman|
        policeman|police officer|\w+ (?:operator|worker|keeper|fitter|technician|clerk|agent|analyst|editor|
        instructor)|head chef|soldier|civil servant|\w+(?:grapher|ologist|trician|ustrator|onomist|itian|apist)|
        dentist|vet|midwife|paramedic|firefighter|pilot|driver|translator|scientist|researcher|physicist|biologist|
        chemist|psychologist|therapist|gardener|hairdresser|photographer|manager|widower|widow|(?:father|mother|dad|
        mum) of|wheelchair user|shift worker|single (?:mother|father|parent|mum|mom|dad)
    ONCE = need|want|have|had|get|got|see|saw|use|used|know|knew|think|thought|run|said|say|read (?:the|this|that|it|
        about)|mean|meant|found|find|understand|remember|ask|asked|made|make|can|could|will|would|should|might|may|
        must|was|were|am|are|just|only|never|always|did|do|don't|didn't|tried|try|wrote|write (?:the|this)|run (?:the|
        this)|\w+ed
    WORK = (?:question|point|guess|answer|code|goal|topic|title|idea|plan|text|problem|draft|essay|story|poem|book|
        song|file|character|project|script|paper|thesis|game|app|website|report|table|query|function)\b
    ASKED = recipe|table|hotel|flight|train|bus|taxi|cab|ticket|idea|name|list|plan|gift|present|advice|example|
        summary|translation|suggestion|tip|answer|draft|text|speech|script|template|restaurant|explanation|word|way|
        quote
    ILL = (?:bad |terrible |nasty |sore |stiff |upset )?(?:cold|flu|headache|fever|cough|throat|neck|stomach|toothache|
        hangover|migraine|guests?|visitors)
    HABIT = (?:often |mostly |regularly |usually )?(?:make my own|make our own|grow|keep|raise|run|sing|swim|cycle|
        bake|cook|paint|knit|sew|hike|climb|ski|surf|dance|practi[sc]e|meditate|coach|brew|breed|ride|row|jog|smoke|
        fast|pray|tutor|sail|restore)
    NO_MORE = any ?more|any longer
"""
)

define(
    r"""
    SUBJECT = (?!(?:it|its|this|that|these|those|they|their|his|her|your|mine|yours|he|she|you|there|what|which|who|
        how|why|when|where|do|does|did|is|are|was|can|could|will|would|should|yeah|the (?:one|answer|first|second|last|
        matter|rest|whole))\b)[\w' -]{3,60}?,?
    FEEL = bore|bother|tire|worry|fascinate|thrill|soothe|unsettle|annoy|scare|terrify|frighten|stress|overwhelm|
        exhaust|irritate|depress|disgust|drain|upset|calm|relax|delight|lose|floor|wreck|ruin|finish
    HELPS = write|correct|check|proofread|edit|fix|suggest|answer|explain|recommend|plan|cook|book|code|summari[sz]e|
        translate|draft|talk|reply|give|send|show|list|describe|quote|schedule|propose|pick|choose|order|speak|mention|
        name|offer|serve
    KINDS = questions|recipes|trips|e-?mails|messages|code|answers|flights|hotels|restaurants|bookings|presents|gifts|
        films|books|routes|meetings
    ASK = (?:can|could|would|will) you (?:please |pls |just )?
    FOR_GOOD = from now on|in future|going forward|(?<=, )period|(?<=, )full stop
    US = me|us
"""
)
