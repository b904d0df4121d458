"""Word lists for English: words that no entity begins or ends with or consists of; compiled for this package."""

from __future__ import annotations

from epic_memory.text.phrases import word_set

# Words between two phrases, and part of none.
FUNCTION = word_set("""
the a an this that these those my your his her its our their whose some any no every each either neither both all half
several many much few little more most less least fewer enough other another others such same own one ones two three
four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands million millions billion dozen dozens
i me we us you he him she it they them myself yourself himself herself itself ourselves themselves yourselves mine yours
hers ours theirs who whom which what when where why how whatever whichever whoever whenever wherever of in on at by for
with from to into onto upon over under about above below across after against along alongside amid among amongst around
as before behind beneath beside besides between beyond but concerning despite down during except inside like minus near
off out outside past per plus round since than through throughout till until toward towards underneath unlike up via
versus vs within without aboard atop and or nor so yet because although though while whereas whether if unless lest once
whilst not never ever always often sometimes seldom rarely usually also too just only even still already again soon now
then there here everywhere nowhere somewhere anywhere almost quite rather very really else instead perhaps maybe however
therefore thus hence moreover meanwhile otherwise anyway indeed away back together apart ahead ago later earlier sooner
further farther far forward backwards today tonight tomorrow yesterday twice thrice yes no okay ok please thanks
everyone everybody everything someone somebody something anyone anybody anything nobody nothing none etc eg ie e.g i.e
aka well abroad indoors outdoors upstairs downstairs overnight afterwards afterward nearby hereby thereby whereby
wherein therein halfway partway sideways upwards downwards inwards outwards onwards i'm i've i'd i'll you're you've
you'd you'll he's she's it's we're we've we'd we'll they're they've they'd they'll that's there's here's what's who's
where's how's let's isn't aren't wasn't weren't don't doesn't didn't won't wouldn't can't couldn't shouldn't hasn't
haven't hadn't mustn't needn't cannot
""")
# After these words an unknown lower-case word is a verb.
BEFORE_VERB = word_set("""
to will would can could may might must shall should do does did don't doesn't didn't won't wouldn't can't couldn't
cannot shouldn't not never i we they you he she who i'll we'll you'll they'll he'll she'll let's please
""")
BE = word_set(
    "is are was were be been being am isn't aren't wasn't weren't it's he's she's they're we're i'm you're that's"
)
DETERMINERS = word_set("""
the a an this these those my your his her its our their each every some any no another all both me us him them it you
one two three four five six seven eight nine ten several many
""")
PREPOSITIONS = word_set("""
of in on at by for with from into onto upon over under about above below across after against along among around as
before behind beneath beside between beyond during inside near off outside past per since through throughout toward
towards until via within without the a an this that these those my your his her its our their each every some any no
another all both
""")
# Inflected by rule: say, says; walk, walked. Verbs that are as often nouns are also in `_NOUNS_TOO`.
_VERBS = """
accept achieve acquire add adjust admire admit adopt advise affect afford agree aim allow announce annoy apologise
apologize appear apply appoint appreciate approve argue arise arrange arrive ask assemble assist assume attach attend
attract avoid await bake bark be become beg begin behave believe belong bend borrow bother bring build burn bury buy
calculate call cancel carry catch cause celebrate change charge chase check choose claim clean clear climb close collect
combine come compare compete complain complete conceal concern confirm connect consider consist consume contain continue
contribute convert convince cook copy cost count cover create criticise cross cut deal decide declare decline decorate
defend define deliver demand deny depend describe deserve destroy determine develop die differ disagree disappear
discover discuss dislike display distinguish distribute divide do draw drink drive drop dry earn eat employ empty enable
encourage end enjoy ensure enter establish examine exceed exist expand expect explain explore express extend face fail
fall fasten favour favor feature feed feel fetch fill find finish fit fix float flow fly focus fold follow forbid force
forget forgive form gain gather generate get give go grab grow guess handle hang happen hate have hear help hesitate
hide hire hit hold hope identify ignore imagine improve include increase indicate inform inherit injure insert insist
inspire install intend introduce invent invite involve join judge jump keep kick kill knock know lack last laugh lay
lead lean learn leave lend let lie lift lighten like limit listen live look loosen lose love maintain make manage marry
matter mean measure meet melt mend mention mind miss mix move name need neglect notice observe obtain occupy occur offer
open oppose organise organize own pack pass pay perform permit persuade pick pierce place plan play point pour prefer
prepare press pretend prevent prick print proceed produce promise propose protect prove provide publish pull purchase
push put quit raise reach read realise realize receive recognise recommend record recover reduce refer reflect refuse
regard reject relate relax release rely remain remember remind remove rename render rent repay repeat replace reply
report represent require rescue resemble reserve resist respond rest restore result retain retire return reveal ride
ring rise roll rub ruin run save say scatter scoop search see seek seem select sell send separate serve set settle shake
shape share shine shoot shorten shout show shrink shut sign sing sink sit skip sleep slip smell smile solve sort sound
speak specify spend split spoil spread squeeze stain stand start stay steal step stick stir stop store strengthen strike
struggle study succeed suffer suggest suit supply support suppose surprise surround survive suspect swallow swap swear
sweep swim swing take talk taste teach tear tell tend thank think thrive throw tie tighten touch train transform travel
treat trim try turn understand undo unfold unlock use vary visit vote wait wake walk want warn wash waste watch wear
weigh weigh win wipe wish wonder work worry wrap write yield follow comprise feature derive originate located found dig
drape crease reverse rate roughen inflate refit insure grip sew stitch knit whisk chop simmer become wed succeed reign
rule star direct compose portray depict inhabit emerge evolve  repair drift leak list answer state beat sink escape
ripen bloom
"""
_IRREGULAR = word_set("""
am is are was were been being has had having does did done goes went gone came became began begun bent bet bit bitten
bled blew blown broke broken bought brought built burnt caught chose chosen clung crept dealt drew drawn drank drunk
drove driven ate eaten fell fallen felt fought flew flown forbade forgot forgotten froze frozen gave given got gotten
grew grown heard held hid hidden hung kept knew known laid lain lay leapt learnt led left lent lit lost made meant met
mistook overcame paid proved proven ran rang risen rode ridden rose said sang sank sat saw seen sent sewn shaken shone
shook shot shown slept slid slung smelt sold sought sown spat spent spoke spoken spun sprang sprung stolen stood stole
stuck struck stung sung sunk swam swept swore sworn swum swung taken taught tore torn thought threw thrown told took
understood undertook undid undone underwent woke woken won wore worn wove woven wound wrote written withdrew shall
should will would can could may might must ought used seems let lets
""")
# Verbs that often name a thing; of these only the forms in -ed are certainly verbs.
_NOUNS_TOO = word_set("""
repair drift leak list answer state bake bark bend bother burn call cause change charge check claim climb concern cook
copy cost count cover cross cut deal demand display drink drive drop end face fall fear feed feature finish fit flow fly
focus fold force form gain guess help hope increase jump judge kick lack last lead lift limit look love matter measure
mind move name need offer open pack pass pick place plan play point pour press print promise purchase push record
release rent reply report rescue reserve rest result return ride ring rise roll rule run search set shake shape share
shot show sign sleep slip smell smile sort sound split spread stain stand star start stay step stick stop store strike
study suit supply support surprise swap swim swing talk taste tear tie touch train travel treat trim turn use view visit
vote wait walk wash waste watch wear wind wish wonder work worry wrap yield shine dry empty place raise mean mix own
""")
# Nouns too vague to be an entity alone, whatever stands before them.
VAGUE = word_set("""
thing things way ways day days time times year years month months week weeks hour hours minute minutes second seconds
moment moments decade decades century centuries morning afternoon evening night nights noon midnight weekend weekends
part parts piece pieces bit bits kind kinds sort sorts type types form forms lot lots number numbers amount amounts
group groups set sets pair pairs couple case cases example examples instance fact facts point points reason reasons
result results end ends beginning start middle top bottom side sides front rear edge edges rest half halves quarter
quarters third thirds place places area areas spot spots people person persons man men woman women boy boys girl girls
guy guys someone others anybody name names word words line lines idea ideas question questions answer answers problem
problems issue issues matter matters situation condition conditions state states level levels degree degrees rate rates
value values size sizes length width height depth weight distance speed metre metres meter meters kilometre kilometres
kilometer kilometers mile miles inch inches foot feet litre litres gram grams kilo kilos kilogram kilograms pound pounds
ton tons tonne tonnes cent cents percent euro euros dollar dollars degree min mins hrs use uses turn turns step steps
look looks view chance chances course order sense effort need needs purpose effect effects change changes difference
differences version versions item items list detail details information member members life lives world work job jobs
attempt attempts whole total average majority range series variety addition hand hands eye eyes head back front means
account advantage manner direction position period age ages date dates stage stages process system method methods use
something somebody monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays
fridays saturdays sundays january february march april may june july august september october november december jan feb
mar apr jun jul aug sep sept oct nov dec spring summer autumn winter lady gentleman daughter son wife husband father
mother brother sister parents child children death birth kilometre km cm mm kg ml mph kmh pm am bc ad ce bce favour
spite sake term terms favourites feet inside outside left right centre center favourite favorite
""")
# Words that are removed from the beginning of a phrase.
GENERIC = word_set("""
new old young big small large little great good better best bad worse worst long short high low wide narrow deep tall
thin thick heavy full empty first second third fourth fifth last next final previous former latter current recent late
early main major minor whole entire total single double own certain various different similar same usual normal common
ordinary general special particular particular important possible impossible likely available real true false right
wrong sure clear nice fine lovely wonderful beautiful pretty excellent perfect huge tiny enormous quick slow fast easy
hard difficult simple strong weak hot cold warm cool dry wet clean dirty fresh raw sharp soft smooth rough loud quiet
bright dark busy free cheap expensive rich poor happy sad glad proud angry afraid able unable ready open closed complete
extra additional several own favourite favorite popular famous well-known best-known upper lower left right front rear
annual daily weekly monthly yearly spare typical modern ancient so-called due half nearest narrowest largest biggest
smallest oldest youngest longest shortest highest lowest fastest slowest cheapest newest latest elder older younger
bigger smaller larger longer shorter higher lower wider faster slower cheaper safer easier harder stronger weaker warmer
colder thicker thinner heavier lighter neat plain proper suitable useful bare unknown unlikely alone alive dead worth
sorry keen fond aware absent original separate sixth seventh eighth ninth tenth eleventh twelfth thirteenth single fat
downy sensitive superb shiny elastic superb busy quiet
""")
# A name after one of these titles is also a name by itself.
TITLES = word_set("""
mr mrs ms miss dr prof professor doctor sir dame lord lady saint st father mother sister brother uncle aunt aunty granny
grandma grandpa captain colonel general major sergeant officer inspector president chancellor minister senator governor
mayor king queen prince princess emperor empress duke duchess count countess earl baron baroness bishop archbishop pope
reverend rev vicar judge coach goalkeeper striker author writer poet painter composer singer actor actress director
""")
# Words before "of" in a name that are no name by themselves: "University of Oslo".
KINDS = (
    word_set("""
university college school institute academy museum gallery library church cathedral abbey monastery temple bank house
court ministry department office council parliament board league society association order kingdom republic empire
county city town village isle island lake river sea bay gulf strait mount battle siege treaty war act lord lady book
""")
    | TITLES
)
# Small words inside names.
CONNECTORS = word_set("of de la le du des del della di da dos das van von der ibn")
NOT_ADVERBS = word_set("""
family supply jelly fly butterfly dragonfly belly lily ally assembly bully holly italy july monopoly anomaly rally reply
gully poly curly fully ply sally polly molly billy emily kelly sicily lily homily panoply melancholy early only ugly
woolly wooly trolly doily dolly folly filly jolly brolly potbelly underbelly firefly housefly
""")
NOT_PARTICIPLES = word_set("""
bed seed weed shed sled reed breed steed bleed need feed speed greed creed deed moped watershed flowerbed seabed seaweed
red led ted fred wed riverbed bobsled hundred kindred sacred biped linseed aniseed birdseed rapeseed swede
""")
NOT_GERUNDS = word_set("""
king ring string spring wing morning evening building thing ceiling pudding wedding painting clothing meeting housing
lightning pricing beijing herring duckling dumpling seedling sapling earring sterling viking ping lining
""")
# Words in -ing that are no activities.
LIGHT = word_set("""
being having doing going getting making taking giving using putting saying coming seeing looking trying letting keeping
becoming leaving including according following regarding concerning considering depending remaining resulting telling
asking showing bringing finding happening wanting needing knowing thinking calling starting starring featuring aged
ending adding allowing providing containing consisting involving requiring receiving losing winning beginning
""")
# Words that begin a name where a sentence begins.
SENTENCE_NAMES = word_set("""
new old great little big upper lower grand will mark bill rose grant art jack sue drew hope
""")
# Epithets: after "the", at the end of a name.
EPITHETS = word_set("""
elder younger great good bold bald fat pious wise terrible conqueror confessor magnificent lion
""")
MONTHS = word_set("""
monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
october november december jan feb mar apr jun jul aug sep sept oct nov dec
""")
# Words that are no adjectives, though they end like one.
NO_ADJECTIVE = word_set("""
table cable vegetable stable bible forest harvest chest nest guest quest west east test vest pest crest interest contest
protest request priest handful armful spoonful octopus timetable rest
""")
COMPASS = word_set("""
north south east west northern southern eastern western central
""")


def _forms(verb: str) -> list[str]:
    """Return a verb with its regular endings."""
    stem = verb[:-1] if verb.endswith("e") else verb
    doubled = verb + verb[-1]
    if verb.endswith("y") and verb[-2] not in "aeou":
        return [verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"]
    third = verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")
    return [verb, third, stem + "ed", stem + "ing", doubled + "ed", doubled + "ing"]


_FORMS = {verb: _forms(verb) for verb in _VERBS.split()}
# Activities count as things, so no form in -ing is a verb here; the exceptions are in `LIGHT`.
VERBS = _IRREGULAR | {
    form
    for verb, forms in _FORMS.items()
    for form in (forms[2:3] + forms[4:5] if verb in _NOUNS_TOO else forms[:3] + forms[4:5])
    if not form.endswith("ing")
}
# A noun or a verb, depending on the words around.
EITHER = frozenset(form for verb in _NOUNS_TOO for form in _forms(verb)[:2])
