"""Statements of a preference: where they end, their reasons and scopes, and forms without a verb of liking."""

from __future__ import annotations

import re

from epic_core.preferences.grammar.cues import ADVERB, SUBJECT, any_of, pattern, words
from epic_core.text.stems import word_set

_SOMEBODY = any_of(
    "i'm|i'd|i've|i'll|i|im|ive|we|they|it's|it|this|that's|these|those|he|she|you|people|everything|there|nobody|"
    "what|who"
)
_FINITE = any_of(
    "is|are|was|were|isn't|aren't|has|have|can|can't|cannot|will|won't|does|do|doesn't|don't|just|always|never",
    "makes?|gives?|leaves?|feels?|looks?|tastes?|smells?|sounds?|tends?|should|must|would|bores?|lose|loses|help|helps|turns?|gets?|ruins?|"
    "drives?|puts?|keeps?",
)
_VERDICT = any_of(
    "yes", "yes please", "never(?: again)?", "no(?: thanks| thank you)?", "all the way", "every time", "any day"
)
_LIKING = any_of("love|adore|like|enjoy|prefer|hate|dislike|detest|loathe|avoid|can't|cannot|could not|couldn't")
# Where a statement ends and another begins.
STATEMENT = re.compile(
    any_of(
        # "Social media? No, thank you." is one statement.
        r"(?<![.;!?:])(?!\? (?:yes|no|never)\b)[.;!?:]+(?:\s+|$)",
        r"\s+[-–—]+\s+|\s*—\s*|[()]",
        rf"\s*,?\s+(?:but|yet|however|although|though|whereas|so|and so|and|which is why|which means|"
        rf"meaning)\s+(?=(?:{SUBJECT}|please|it|they|no|nothing|only)\s)",
        rf"\s*,\s+(?:so |and |but |then |while )?(?={_SOMEBODY}\s)",
        r"\s*,?\s+whereas\s+",
        r"\s*,\s+(?:so|but)\s+",
        r"\s*,\s+(?=(?:too|the kind|the sort|mainly|mostly|which|because|preferably|ideally|please|just|"
        r"(?:give|send|show|bring|find|book|text|call) me|tell|use|whether|regardless|no|nothing|only)\s)",
        # "Yoga yes, hot yoga never again", "No leather, fabric all the way".
        rf"\s*,\s+(?:but |and )?(?=(?:[\w'-]+ ){{1,4}}{_VERDICT}\s*(?:[.,;!]|$))",
        # "Nothing in polyester, cotton or linen is good".
        r"\s*,\s+(?=(?:[\w'-]+ ){1,6}(?:is|are) (?:fine|good|great|lovely|ok|okay|allowed|welcome)\b)",
        # "Beaches bore me but mountains I adore".
        rf"\s*,?\s+(?:but|and)\s+(?=(?:[\w'-]+ ){{1,3}}(?:i|we) (?:{ADVERB} )?{_LIKING}\b)",
        r"\s*,\s+(?=(?:[\w'-]+ ){1,5}(?:only|exclusively)(?: please)?\s*(?:[.;!]|$))",
        # A comma, a noun, a verb: "I hate opera, the singing bores me".
        rf"\s*,\s+(?:so |but )?(?=(?!and\b|or\b)(?:(?!that\b|which\b|who\b|where\b|and\b|or\b|not\b|when\b|"
        rf"even\b|because\b|since\b|as\b|due\b)[\w'-]+ ){{1,7}}{_FINITE}\s)",
    ),
    re.I,
)
# "I want to support" is a wish, not a reason.
_NO_WISH = "".join(
    f"(?<!{word} )"
    for word in sorted(
        word_set(
            "prefer like love want need try trying tend choose rather aim refuse ability desire willing except"
            " committed going attempt strive seek hope wish have decline dedicated way ways able how reluctant"
            " supposed intend hate"
        )
    )
)
_GROUND = any_of(
    "environmental|ethical|health|religious|moral|medical|safety|privacy|personal|financial|sustainability|cultural"
    "|dietary|political"
)
# Beginnings of reasons: nothing in a reason is liked or avoided.
REASON = pattern(
    "because|since|due to|owing to|thanks to|out of (?:concern|respect|principle|habit|fear)|so that|"
    "on account of|after what",
    r"given (?:my|that|the)|as (?:i|i'm|they|it|this|that|these|those|my|he|she|we)(?= )|as (?:the|an?) (?:key|"
    r"basis|foundation|best|primary|main|only|way|means)|so (?:much|bad\w*) that",
    rf"for (?:\w+ )?(?:{_GROUND})(?: and \w+)? (?:reasons?|concerns?|purposes|benefits|motives)",
    rf"for (?:the sake|reasons)|for (?:its|their) (?:\w+ ){{0,4}}(?:{_GROUND}|benefits?|\w+ity|\w+ness)",
    r"(?<=, )(?:proper|bad|severe|serious|nasty|real) (?:allergy|allergies|intolerance)|"
    r"on (?:\w+ )?(?:grounds|principle)|even (?:if|when|though|in|on|at)|regardless|no matter|whether|for fear|"
    r"(?<=, )(?:or )?(?:else|otherwise) (?:i|we|it|they)(?= )",
    r"(?<=[\w,] )(?:and )?(?<!it )(?<!only )(?<!just )(?<!as )(?<!what )(?<!that )(?<!unless )"
    r"if (?:you can|you have|an?|the|it|there|that)(?= )",
    r"(?:it|they|this|that|these|those)(?:'s|'re| is| are| makes?| gives?| feels?| just| tends?| can| leaves?|"
    r" was| were| smells?| tastes?) (?=too\b|me\b|my\b|so\b|a\b)",
    _NO_WISH + "to (?:reduce|save|protect|support|help|prevent|manage|minimize|maintain|lower|ensure|promote|reflect"
    "|accommodate)",
    "(?:and )?(?:which|and i|and) (?:i )?find (?:it|them|that)|as much as possible|which (?:is|are|makes?|gives?|"
    "i find)|as well as possible",
    "(?:and|but)? ?(?:it|they|this) (?=(?:\\w+ )?(?:makes?|gives?|leaves?|hurts?|drives?|upsets?|triggers?|ruins?|"
    "bores?) (?:me|my))",
)
_PEOPLE = words(
    "kids? child(?:ren)? sons? daughters? bab(?:y|ies) famil(?:y|ies) parents? mother mum mom father dad wife"
    " husband partner toddlers? dogs? cats? pets? grand\\w+ guests? friends colleagues students clients nephews?"
    " nieces? in-laws"
)
_MEALS = words("breakfast lunch dinner brunch snacks? dessert starters? supper meals")
_SEASONS = words(
    "summer winter spring autumn january february march april june july august october november december lent ramadan"
)
_TIMES = any_of(
    _MEALS,
    r"dark|noon|midday|midnight|bed(?:time)?|work|exercise|sunset|workouts?|\d\w*(?::\d\d)?(?: ?[ap]\.?m\.?)?|"
    r"sleep|nine|ten|eight",
    "a (?:race|meeting|flight|run|workout|long day|trip)|(?:monday|friday|sunday)",
)
_OCCASIONS = any_of(
    "weekdays?|weeknights?|weekends?|workdays?|school nights?|holidays?|vacations?|(?:\\w+ )?(?:trips?|tours?|"
    "hikes?)|dates?|date nights?",
    "(?:\\w+ )?(?:flights?|drives|journeys)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?(?: (?:mornings?|"
    "evenings?|nights?))?",
    "days? off",
)
_HOME = words(
    "home house flat apartment kitchen bedroom office car bathroom studio garden yard living\\sroom workplace classroom"
)
_OWN = (
    rf"(?:\w+ )?(?:{_PEOPLE}|{_HOME}|skin|hair|commute|team|room|diet|cooking|workouts?|job|wedding|birthday|business"
    r"|class(?:es)?)"
)
_WEATHER = words(
    "(?:hot|cold|warm|wet|bad|freezing)\\sweather public(?!\\s\\w) bed company meetings traffic groups"
    " large\\sgroups class"
)
# Times, places and occasions to which a preference is limited.
SCOPE = re.compile(
    r"(?<![\w'-])"
    + any_of(
        r"(?<!hate )(?<!like )(?<!love )(?<!like it )(?<!love it )(?<!hate it )(?<!best )"
        r"(?:when(?:ever)?|while)(?! (?:possible|necessary|needed|i can|available|(?:i )?(?:avoid|dislike|"
        r"hate))\b)\s[^,]+",
        r"during\s[^,]+|(?<!only )(?<!even )if (?:i|i'm|we|we're|i've|there's|there is|there are) [^,]+|"
        r"outside of work|between meals|out in public|abroad|"
        r"on a date",
        rf"on (?:my |the |our |a )?{_OCCASIONS}|on my (?:face|phone|skin|commute|desk|own)|on the (?:plane|train|"
        rf"bus|road|go|sofa|couch)",
        rf"at (?:home(?: and abroad)?|work|night|bedtime|parties|school|concerts|weddings|the (?:office|table|gym|"
        rf"cinema|movies|theatre|pool|airport|moment|same time)|{_MEALS}|(?:the )?weekends?)",
        rf"for (?:my|our|the|his|her) {_OWN}(?:'s \w+)?",
        rf"(?<!dislike )(?<!love )(?<!passion )(?<!preference )for (?:young |small |little ){_PEOPLE}(?! (?:that|"
        rf"who|which|with))",
        rf"(?:with|around) (?:my|our) (?:\w+ )?{_PEOPLE}(?: around| in tow)?|(?:with|among|around) (?:friends|"
        rf"kids|colleagues|strangers)",
        rf"(?:late )?(?<!out )(?<!anything )(?:after|before|past|until|till) {_TIMES}",
        rf"in (?:the )?(?:mornings?|evenings?|afternoons?|middle of the (?:night|day)|{_SEASONS}|{_WEATHER}|"
        rf"office|house|car|kitchen|bedroom)",
        rf"(?:in|into|near|around|inside|at) (?:my|our) {_OWN}(?: (?:decor|design|renovation|library|gym|"
        rf"improvement))?",
        "(?:into|near|around|inside) the (?:house|home|office|car)|in (?:my|our) (?:free|spare) time",
        rf"for (?:{_MEALS}|work(?! \w)|travel|everyday use|daily use|(?:long|short) (?:trips|drives|flights|"
        rf"distances))",
        "as a (?:gift|snack|present|starter)|by myself|on my own|every (?:morning|night|day|evening|week)|"
        "right now|for now",
        "rn|these days|lately|at the moment|this (?:week|month|year|summer|winter|semester|season)",
    )
    + r"(?![\w'-])",
    re.I,
)
# In front of the statement, any place, time or matter is a scope: "in novels, I love".
SCOPE_IN_FRONT = re.compile(
    r"(?:(?:in|at|on|for|during|around|before|until|inside|outside|among|between|whenever|over)"
    r"(?! (?:me|general|fact|particular|my (?:opinion|view|experience|part|taste)|ethical|health|religious|"
    r"medical|principle|all|example)\b)"
    r" (?:(?!i\b|i'm\b|we\b|because\b)[\w'-]+ ){0,6}?(?!(?:i|i'm|we)\b)[\w'-]+)(?=,|\s(?:i|i'm|i'd|we|please)\s)",
    re.I,
)
_DIETS = (
    "vegan|vegetarian|pescatarian|flexitarian|pescetarian|keto|paleo|kosher|halal|sober|teetotal|teetotaler|"
    "gluten-free"
    "|dairy-free|plant-based|carnivore|raw food|intermittent fasting|low-carb|fruitarian|macrobiotic"
)
DIET = re.compile(
    rf"(?:^(?=(?:{_DIETS}) (?:since|for)\b)|\b(?:as|i'm|im|i am|we're|we are|being|doing|do|eat|eating|keep|went|"
    rf"going|been|turned|stayed)\s(?:(?:an?|{ADVERB}|"
    rf"lifelong|avid|committed|dedicated|longtime|strict|ethical|devout|on|doing|practi[sc]ing|proud|"
    rf"gone)\s){{0,3}})(?P<what>{_DIETS})(?![\w-])(?! \w+ diet)(?! diet)",
    re.I,
)
# "I'm not vegan" does not mean that any food is avoided.
NO_DIET = re.compile(
    rf"\b(?:i'm|im|i am|we're|we are) (?:not|no longer) (?:(?:an?|{ADVERB}|strict) ){{0,3}}(?:{_DIETS})"
    r"(?![\w-])(?! \w+ diet)(?! diet)",
    re.I,
)
CONDITION = re.compile(
    r"(?<![\w'-])(?P<what>(?!severe|strong|an?\b|my\b|bad|serious|proper|nasty|real|horrible|mild|an|the|have|with|am|no|food|and|of|is|has|"
    r"me|to)[\w-]+(?: or [\w-]+)?)[- ]"
    r"(?:intoleran\w+|allerg\w+|avers\w+|phobi\w+)\b(?!\s(?:to|of))",
    re.I,
)
_UNWANTED = any_of(
    r"(?!discuss)(?:un|dis|over|mis)\w+(?:ing|able|ant|ive|ed|ful|al|ic|y|ling)|in(?!ter|spir|vig|form|"
    r"trig)\w+(?:able|ant|ive|ic|ed|ent)|too\b",
    "boring|annoying|tedious|stressful|tiresome|tiring|depressing|dull|awful|terrible|frustrating|exhausting|"
    "gimmicky|confusing",
    "cheap|scary|childish|creepy|silly|disgusting|gross|pointless|hard|difficult|draining|claustrophobic|shallow|"
    "tacky|noisy",
    "less|inferior|worse|harder|wasteful|cruel|manipulative|irritating|repetitive|predictable|bland|ugly|"
    "offensive|restrictive|impractical|gloomy|monotonous",
)
_WANTED = words(
    "fascinating relaxing inspiring helpful comforting exciting beautiful charming easier best interesting"
    " delicious soothing cosy cozy"
)
FIND = re.compile(
    rf"\b(?:find|finding|found|consider)\s(?P<what>(?!it\b|them\b|that\b|this\b|myself\b|"
    rf"out\b)(?:(?!when\b)[^,]){{2,60}}?)\s(?:to be\s)?(?:(?:{ADVERB}|a bit|way|deadly|hopelessly|"
    rf"utterly)\s){{0,3}}"
    rf"(?:(?P<avoided>{_UNWANTED})|(?P<liked>{_WANTED}))",
    re.I,
)
_PRONOUNS = words(
    "i it they this that we which who he she these those you what there everything people all because since"
)

_MISERY = any_of(
    "(?:sheer |pure |such |so |simply |just |absolute |my idea of |an? |total )*(?:murder|hell|punishment|misery|agony"
    "|torment|a pain|pain|useless|pointless|horrible|horrid|dreadful|disgusting|unbearable|insufferable|intolerable)"
)
# Statements that name the thing first: "running is off limits", "crowds stress me out".
FRONTED = re.compile(
    any_of(
        r"\b(?P<avoided>(?:(?:\w+ly|always|just|often|usually) )?(?:"
        r"(?:makes?|gives?|leaves?|drives?|bores?|annoys?|disgusts?|stress(?:es)?|scares?|irritates?|bothers?|"
        r"upsets?|overwhelms?|hurts?|flares? up|lose|loses"
        r"|frightens?|triggers?|depress(?:es)?|puts?|grates? on|sets? off|gets? on|turns?|creeps?|weirds?|freaks?|"
        r"tires?|exhausts?|confuses?|disturbs?|wears?|infuriates?|angers?|enrages?|terrif(?:y|ies)|wrecks?|burns?|"
        r"dries|dry|brings? (?:me|on)|ruins?) (?:me\b|my\b)"
        r"|should (?:\w+ly )?be (?:avoided|abolished|banned|rejected|prohibited|forbidden|excluded)"
        r"|(?:is|are) (?:\w+ly )?(?:an? )?(?:strict |complete |total |big |firm )?(?:no-go|no-no|no(?= |$)|"
        rf"off the table|out(?! of (?!the question|bounds))|not for me|not my thing|dealbreaker|deal-breaker|"
        rf"off limits|off-limits|where i draw the line|{_MISERY}|banned|forbidden|out of the question|torture|nightmare"
        r"|(?:so |way |vastly )?overrated|(?:\w+ )?waste of (?:time|money|space|energy|effort)|(?:\w+ )?pet peeve"
        r"|my least favou?rite)"
        r"|(?:is|are)(?:n't| not) (?:for me|my thing|my cup of tea|an option|welcome|allowed|acceptable)|(?:don't|"
        r"doesn't|do not|does not|never) (?:help|work for|suit|interest|appeal to|do it for|agree with|"
        r"sit well with) (?:me|my)|(?:do|does|did) nothing for me|itch(?:es)?\b.{0,12} me|keeps? (?:me|us) (?:awake|"
        r"up)|(?:in it)?, (?:count me out|i'm out|i pass|no thanks)|never again"
        r"|(?:tastes?|looks?|smells?|sounds?) (?:\w+ly |so |just |too )?(?:like (?:soap|cardboard|plastic)|awful|"
        r"foul|horrible|disgusting|vile|terrible|dreadful|daft|silly|ridiculous|stupid|cheap|tacky|ugly|wrong)"
        r"(?: on me| to me)?"
        r"|\? (?:no|never)\b))",
        r"(?P<liked>(?:(?:is|are) (?:\w+ly )?(?:an? )?(?:musts?|must-haves?|good|fine|fun|bliss|heaven|nice|"
        r"lovely|great|"
        r"all right|alright|welcome|okay|ok|essential|"
        r"non-negotiable|not optional|not negotiable|all i (?:want|need|eat|use|read)|what i (?:like|want|love|"
        r"prefer|need|stand for|enjoy)|"
        r"my (?:favou?rite|thing))"
        r"|(?:helps?|suits?|interests?|works?|appeals?|excites?|calms?|inspires?|relax(?:es)?|fascinates?|"
        r"delights?|thrills?|moves?)(?: best)?(?: for| to)? (?:me|my)|mak(?:e|es) sense to me|(?:is|"
        r"are)n't (?:optional|negotiable)|works? best|makes? me (?:happy|"
        r"smile|feel (?:at home|good|safe))))",
    )
    + r"(?!\w)",
    re.I,
)
# "I swapped coffee for tea", "I replaced butter with olive oil".
EXCHANGED = re.compile(
    r"\b(?<!that )(?<!which )(?<!who )"
    r"(?:(?:swap(?:ped|ping)?|trad(?:ed|ing)|(?:(?<=i )|(?<=to )|(?<=not )|(?<=n't )|(?<=never ))trade)"
    r" (?P<swapped>[^,]{2,60}?) for|replac(?:e|ed|ing) (?P<replaced>[^,]{2,60}?) (?:with|by)"
    r"|switch(?:ed|ing)? from (?P<left>[^,]{2,60}?) to) (?P<new>[^,.;]+?)"
    r"(?=[,.;]|$| (?:and|but) (?:i|now|love|never|feel)\b)",
    re.I,
)
# "Please keep coriander out of it", "I try to keep my salt intake down".
KEPT_OUT = re.compile(
    r"\b(?:keep|keeping|leave|leaving|left|cut|cutting)\s(?P<what>(?!me\b|out\b|it\b)[^,]{2,60}?)\s"
    r"(?:intake |consumption |use )?(?:out(?: of)?|down|low|away from|to a minimum)(?![\w-])"
    r"|\b(?:keep|keeping|kept)\s[^,]{2,40}?\sfree (?:of|from)\s(?P<free>[^,]+)",
    re.I,
)
# "Table service every time", "a window seat any day".
WISHED = re.compile(
    rf"\s*(?!{_PRONOUNS}\b)(?P<what>[^,]{{2,60}}?),? (?:yes(?: please)?|every time|any day|any time|"
    rf"all the way|please|instead|"
    rf"for me|it is)\s*",
    re.I,
)
# A habit is liked if "but no" follows: "I eat fish but no meat".
DONE = re.compile(
    rf"\s*(?:i|we) (?:{ADVERB} |do )*(?:eat|drink|watch|read|wear|play|listen to|buy|use|cook|consume) (?P<what>.+)",
    re.I,
)
BUT_NOT = re.compile(
    rf"[\s,]*but (?:(?:{SUBJECT}|{ADVERB}) )*(?:no|not|never|nothing|don't|do not|can't|cannot|won't)\b", re.I
)
LONGEST_SUBJECT = 80
SUBJECT_IN_FRONT = re.compile(
    rf"(?:(?:and|but|so|yet|though|the|any|most|all|for me|to me|i (?:\w+ly )?(?:think|believe|"
    rf"feel)(?: that)?),?\s)*(?!{_PRONOUNS}\b)",
    re.I,
)
COMPARED = re.compile(
    r"(?<!nothing)\s(?:(?P<more>comes? (?:before|first, before)|(?:counts?|matters?|means?|weighs?|"
    r"appeals?)(?: far| much|"
    r" a lot)? more(?: to me| for me)? than|(?:is|are)(?: far| much)? (?:more important|better)(?: to me|"
    r" for me)? than|beats?|should (?:always )?come before)"
    r"|(?P<less>(?:counts?|matters?|means?|weighs?)(?: far| much| a lot)? less(?: to me| for me)? than|(?:is|"
    r"are)(?: far| much)? (?:less important|worse)(?: to me| for me)? than|should (?:never )?(?:come|"
    r"stand) (?:after|behind)))\s",
    re.I,
)
