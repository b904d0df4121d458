"""Grammar of statements about oneself: English patterns of what is stated and wished; `vocabulary.py` has the words."""

from __future__ import annotations

from epic_core.learning.vocabulary import anywhere, front, phrases

PREFERENCE = phrases(r"""
    <I> want you to be (?:an? (?:bit|little) |more |less )?\w
    <I> never (?:got on with|took to|got into|liked|cared for)<THING> \w
    (?:i|we)(?:'d| would) rather you (?:\w+ed|gave|used|wrote|kept|didn't|spoke|told|stuck|left|made|
        did)\b(?! (?:me )?(?:the|this|that|it)\b)
    <I> skip (?:breakfast|lunch|dinner|dessert|meals)\b
    <I> eat (?:late|early|slowly|a lot of|lots of|very little|little)\b
    <I> (?:check|answer|read|reply to) [^.,;?]{2,20} (?:only|once|twice) (?:a|per|on|in|every)\b
    <AM> (?:not )?(?:very |really |so |that )?(?:fussy|picky|choosy|fussed|particular) (?:about|with|when)\b
    <I> can only (?:chew|lie|see|hear|stand|manage|afford|lift)\b
    <I> read (?:mostly |mainly |only )?(?:on|in) (?:an? |my )?(?!this|that|the\b|order|advance)\w
    <I> (?:prefer to|binge) \w
    <I> learn (?:best|better|faster|quickest|most) (?:from|by|with|through|when|if|in)\b
    you can (?:be|talk|speak) [\w ]{2,30} (?:with|to) me\b
    as an? (?:vegan|vegetarian|diabetic|coeliac|celiac|pescatarian|muslim|teetotaller|wheelchair user|single (?:mum|
        dad|mother|father|parent)),? (?:i|we) \w
    being (?:left-handed|colou?r-?blind|deaf|blind|dyslexic|autistic|diabetic|vegan|vegetarian|allergic to \w+),? (?:i|
        we) \w
    <I> do (?:intermittent|keto|paleo|low[- ]carb|vegan|dry) ?\w*
    <I> (?:usually|always|normally|generally|mostly|typically) (?!<ONCE>)\w+ (?:with|by|in|at|on|without|from|around|
        only|before|after)\b(?! (?:this|that|it)\b)
    <I> listen to [\w' -]{2,30} (?:on|in|during|every|all)\b
    <AM> (?:really |just |slowly )?getting (?:really )?into (?!trouble|the|it|this|that|an?\b)\w
    <I> (?!<ONCE>)\w+ [^.,;?]{2,50} (?:whenever|wherever|where|when|if) (?:i|we) can\b
    <I> get (?:easily |quickly |really |very |so )?(?:overwhelmed|stressed|anxious|bored|distracted|nervous|
        overstimulated|homesick) (?:by|easily|when|in|with|from|quickly|on)\b
    you (?:can|may|should) call me (?-i:[A-Z])\w
    <I> need (?:vegetarian|vegan|gluten-free|step-free|wheelchair|step-by-step|simple|short|clear|detailed|concrete|
        visual|plain|practical|large|big|slow) \w
    <I> go by (?-i:[A-Z])\w
    for me,? it(?:'s| is) [\w' -]{2,30},? (?:not|never) \w
    <I> (?:listen|watch|read|drink|eat|play|wear|walk|cycle|cook|sleep|work|study|train|
        write)(?: to)? [^.,;?]{2,40} (?:when|while|before|after|if|whenever) (?:i|we|the (?:kids|children|gym))\b
    (?:i'd like|i would like|i want|i prefer) (?:all )?(?:of )?(?:my|your) (?:\w+ )?(?:recipes|answers|replies|
        messages|e-?mails|meals|plans|trips|summaries|explanations|lists|schedules?|dates|prices|workouts|translations|
        code)s? (?:to be|in|under|without|with|as|short|brief|on)\b
    <I> (?:really |deeply )?care (?:a lot |deeply )?about<THING> \w
    <I> try (?:not )?to [^.;?]{3,50} (?:whenever|when|where|if|as often as|as much as|wherever) (?:possible|i can|
        we can)
    <I> (?!<ONCE>)\w+ [^.,;?]{2,50} (?:whenever|wherever|where|if) possible
    (?:i|we)(?:'d| would)? (?:really )?(?:prefer|like|love) it (?:if|when) you \w
    (?:for|in|with) (?!this|that|the\b|tonight|today|my\b|our\b|now\b|once|an?\b|which|what)[\w' -]{2,25},? (?:i|
        we) (?:use|go for|take|stick to|prefer|like|want|choose)\b<THING> \w
    <I> (?!<ONCE>|lost)\w+ (?:everything|all my|all our|most of my) \w
    <I> (?:train|study|write|run|cook|read|exercise|shop) (?:best|better|only) (?:in|with|when|on|at|by|if|after|
        before)\b
    <I> (?:don't|do not|dont|never) (?:give|let|allow) (?:the|my|our) \w
    <I> (?:don't|do not|dont) (?!<ONCE>)[a-z]+ (?:on|in|at|with|by|from|for)<THING> (?!the\b|an?\b|my\b|here|there)\w
    the (?:only|best|worst) [\w' -]{2,40} (?:i|we) (?:really |ever |truly )?(?:like|love|enjoy|eat|drink|wear|read|
        watch|trust|use|can \w+) (?:is|are)\b(?! (?:that|this|the)\b)
    <I> <ADV>(?:go to bed|get up|wake up|(?:have|eat) (?:breakfast|lunch|dinner|supper)) (?:at|by|around|before|after|
        early|late)\b
    (?:i'll|i will|i'd|we'll) (?:always )?(?:take|choose|pick|have) [^,.;]{2,40} over [^,.;]{2,40}
    <I> (?:don't|do not|dont|never|can't|cannot) (?:get along|get on|agree) with<THING>
    (?:i've|i have|we've|i) (?:got |have )?a (?:thing|horror|dread|fear|love|passion|hatred) (?:about|of|for)<THING> \w
    <I> (?!<ONCE>)\w+ (?:only|nothing but|mostly|exclusively|mainly) (?!(?:if|when|because|know|knew|what|this|that|it|
        the)\b)\w
    <I> (?!<ONCE>)\w+ [^.,;?]{2,50} (?:whatever the|wherever (?:i|we|it)|whenever (?:i|we|there)|no matter|
        every time)\b
    you(?:'ll| will) never (?:catch|find|see|get) me \w
    count me out (?:of|for|when|if) \w
    <I> (?!<ONCE>)\w+ [^.,;?]{2,40}, never (?:on|in|with|by|from|\w+ing)
    <I> (?:don't|do not|dont) (?:drink|smoke|fly|cook|gamble|eat out)(?= *(?:[.,;!]|$))
    <I> need [^.,;?]{3,40} (?:(?:in order )?to (?:work|sleep|think|function|concentrate|relax|focus|fall asleep|study)|
        at night|every (?:day|morning|night))
    i(?:'d| would) (?:prefer|like|love) (?:it if )?you (?:to|would|could)? ?(?:always|never) \w
    i(?:'d| would) (?:prefer|like|love) it if you(?:'d| would) (?:always|never) \w
    it(?:'s| is) (?:very |really |quite )?important to (?:me|us) that \w
    (?<=for me )it(?:'s| is) always \w
    <I> (?:want|like|expect) (?:[\w-]+ ){1,4}(?:in everything|in all|everywhere|every time|always)
    <I> (?:support|trust) (?:small|local|independent|family)\b
    my (?:stomach|skin|back|knees?|eyes|gut|body|feet|hips?|ears|lungs) (?:can't|cannot|don't|doesn't|won't) \w
    (?:my|our) (?:\w+ )?(?:style|taste|rule|policy) (?:is|are) (?!(?:that|this|it)\b)\w
    <I> <ADV><LIKE><THING> \w
    <I> <ADV>(?:hate|dislike|detest|can't stand|prefer|like) it when \w
    (?:my|our) (?:go-to|usual|ideal|idea of)[\w' ]{0,30} (?:is|are)
    <I> <ADV><CANNOT><THING>
    <I> <ADV><DONT><THING> \w
    <I> (?:never|always|only|hardly ever|rarely|exclusively|refuse to|mostly|invariably)(?: ever| really|
         even)? (?!(?:know|knew|thought|think|said|heard|hear|saw|had|did|been|got|get|remember|understood|ask|asked|
        wanted|need|forget|wonder|meant|was|were|found|noticed|learned|seem|end up|see|have|use this|just|understand|
        mix|confuse|fail|struggle|want (?:the|an?)|meant)\b|\w+ed\b)\w+
    <I> (?:never|always|only) (?:have(?! (?:to|trouble|a problem|an? error|a few|the|<NUMBER>)\b)|use)\b<THING> \w
    <I> (?:can|may) only (?:eat|drink|sleep|use|wear|walk|sit|travel|work)\b<THING>
    <I> (?:need to|have to|must|should) (?:avoid|watch|limit|stay away from|stay off)<THING> \w
    (?:i|we)(?:'d| would) (?:always|never) (?!know|have|guess|think|say|ask)\w
    <AM> on (?:an? )?(?:[\w-]+ ){0,2}(?:diet|budget)
    <AM> not one for
    <AM> an? (?:no-\w+|\w+-free|vegan|vegetarian) (?:household|family|home|couple)
    <I> (?:do|cope|manage|get on) (?:better|best|well|badly) (?:with|without|in|on)\b<THING>
    (?:i'd|i would) (?:pick|choose|take) [^,.;]{2,50} over \w
    i can't (?:function|survive|cope|start (?:the|my) day|work) without<THING> \w
    i tend to (?!think|agree|believe|forget|get)\w
    nothing beats (?!this|that)\w
    (?:big|huge|massive|not a|no)(?: big)? fan of<THING> \w
    (?:i|we)(?:'d| would) (?:much |far |really |always )?(?:rather|sooner|(?<=much )prefer|
        (?<=always )prefer) (?!you\b|know|this|that\b|the)\w
    (?:i've|i have|we've) never (?:liked|loved|enjoyed|been (?:fond|keen|into|a|much)|eaten|drunk|got on with|
        cared for)\b
    (?:i've|i have|we've) (?:always )?(?:loved|hated|disliked|avoided|preferred|been (?:an? )?(?:\w+ )?(?:<DIET>|fan))
    <I> (?:get|feel) (?:very |so |really |terribly |badly )?(?:(?:sea|car|air|motion|travel)[ -]?sick|(?:anxious|dizzy|
        nervous|panicky|bored|restless) (?:in|on|at|around|with|when)|claustrophobic|migraines? from|hay fever|
        migraines|heartburn|hives|rashes|nosebleeds)
    <I> (?:sleep|work|think|learn|concentrate|function|travel) (?:best|badly|better|poorly|well) (?:in|with|when|on|at|
        by|if)
    <I> (?:follow|keep|eat|stick to|am on|'m on) (?:an? )?(?:\w+ ){0,3}(?:diet|kosher|halal|vegan|vegetarian|keto)
    <I> (?:take|drink|eat|have|want|need) (?:my|our)\b(?! \w+ in an? )(?! (?:\w+ )?(?:time|help|word|kids|children|
        family|friends|son|daughter|partner|wife|husband))
    <I> find (?!it (?:in|on|here|out)|out|that|the|this|your|any|no )[\w' -]{2,40}? (?:dull|boring|hard|difficult|
        annoying|relaxing|exhausting|soothing|too \w+|overrated|disgusting|tiring|stressful|charming|calming|
        unbearable|delicious)
    <AM> (?:not )?<ADV>(?:an? )?(?:(?!so|and|but|because|who|off|over)\w+ ){0,3}?(?:<DIET>)
    <AM> (?:not )?<ADV>(?:(?:scared|afraid|terrified|frightened|fond|sick|tired|wary) of<THING>(?= )|into(?= )|(?:keen|
        big|hooked) on|partial to|sensitive to|obsessed with<THING>|crazy about<THING>|all for|more into|
        claustrophobic|averse to|happiest|at my best)
    <AM> (?:not )?(?:really )?(?:an? |much of an? |more of an? )?(?!(?:really )?(?:an? )?(?:(?:really|such|so|quite|
        big|huge|massive|great|true|total) )*(?:an? )?fan(?! of))(?:\w+ ){0,3}(?:person|fan|lover|eater|drinker|owl|
        bird|minimalist|bookworm|foodie|sucker|purist|sleeper|walker|reader|riser|learner|thinker|planner|listener|
        gamer|cyclist|runner|hiker|introvert|extrovert|believer|stickler|addict|snob|enthusiast|traveller|traveler)
    (?:we're|we are) (?:not )?(?:really )?(?!\w+ing )(?:\w+ ){1,3}people
    <AM> (?:trying|planning) to (?:eat|drink|cut|avoid|lose|stop|quit|sleep|spend|use|fly|walk)
    (?:my|our) (?:all-time |absolute |least )?favou?rite (?:\w+ ){0,3}(?:is|are|has always been)\b(?! (?:it|this|
        that)\b)
    (?:i have|we have|i've|we've)(?: got)? (?:an? |a severe |severe |a bad )?(?:\w+ )?(?:allerg(?:y|ies)|intolerance|
        aversion|phobia|soft spot|weakness|sweet tooth|preference|coeliac disease|celiac disease)
    i (?:need|sleep|sit|eat|drink|walk|wear|take|use|work|sit) [\w' -]{2,50} because (?:of my|i'm|i am|i have)\b
""")
# What stands in front of it: "Beach holidays are torture for me".
THING_FIRST = front(r"""
    (?!(?:this|that|it|go|look|think|get|take)\b)[\w' -]{3,30} over [\w' -]{3,30} for <US>\b
    <SUBJECT> (?:is|are) (?:the devil|evil|vile|gross|my kryptonite|the bane of my \w+)\b
    the \w+er the better for <US>\b
    (?:<SUBJECT>) (?:is|are) (?:more |very |so |just )?my (?:style|life|thing|vibe|speed)\b
    (?!(?:this|that|it|such)\b)[\w' -]{2,25} is life\b
    <SUBJECT> (?:upsets?|hurts?|irritates?|inflames?|triggers?|ruins?|messes up|bothers?) my (?:stomach|skin|eyes|back|
        knees?|throat|asthma|eczema|migraines?|gut|allerg\w+|sleep|digestion|joints|sinuses)
    [\w' -]{3,40} and (?:i|me) (?:do not|don't|dont|never) (?:get (?:along|on)|agree|mix)\b
    <SUBJECT> (?:is|are) (?:\w+ ){0,2}(?:a must|torture|a no-?go|essential|a nightmare|a dealbreaker|
        out of the question|non-negotiable|off limits|a pleasure|heaven|hell|too \w+|important|sacred) (?:for|to) <US>
    <SUBJECT> (?:is|are)(?:n't| not)? (?:\w+ ){0,3}(?:my thing|for me|my cup of tea|my favou?rite\w*|how i )
    <SUBJECT> (?:is|are) (?:an? )?(?:hard |firm |big |absolute |definite )?(?:no|yes|win|turn-?off) (?:for|from) <US>\b
    <SUBJECT> (?:is|are) (?:my|our) (?:\w+ )?(?:colou?r|style|thing|rule|nightmare|idea of \w+|blanket|jam|weakness|
        passion|comfort food|happy place|guilty pleasure)\b
    <SUBJECT> (?:is|are) (?!clear|unclear|new|news|fine|sent|given|known|available|confusing|up)[\w' -]{2,30} (?:for|
        to) me\b
    <SUBJECT> (?:does? my head in|is all (?:i|we) \w|(?:could|would|will) kill <US>\b|<FEEL>s? me\b|terrif(?:y|ies) me|
        brings? me out in|puts? me off|wears? me (?:out|down)|makes? sense to me|leaves? me (?!a\b|an\b|with|alone|
        no\b|the\b)\w+|sends? me to\b|gets? on my nerves|(?:puts?|sets?) my (?:teeth|nerves) on edge)
    <SUBJECT> (?:make|drive)s? me (?!think|wonder|laugh|want(?! to (?:hide|scream|run|leave|cry|vomit|puke|die))|smile|
        reali[sz]e|look|feel like|an?\b|question|curious|believe|suspect|cry\b|late|miss|lose)(?:feel )?\w+
    <SUBJECT> gives? me (?:an? |the )?(?:headaches?|migraines?|hives|heartburn|creeps|nightmares|rash|wind|energy|joy|
        stomach \w+)
    <SUBJECT> (?:(?:don't|doesn't|do not|does not) (?:agree with|work for|do it for|suit) <US>|suits? <US>(?: best|
         better)?\b|works? (?:best|better) for <US>)
    <SUBJECT> keeps? me (?:sane|going|calm|awake|happy|fit)
    <SUBJECT> tastes? (?:like|of) [\w' -]{2,20} to me
    (?:(?!(?:what|that|which|who|when|where|if|how|why|because|and|but|like|as|than|the|an?|until|since|with|for|at|in|
        on|they|he|she|you|people|says?|said|thinks?|told)\b)[\w'-]+ ){1,4}i (?:do not|don't|dont|never|can't|
        cannot|won't|avoid|leave)(?: [\w' ]{2,30})?(?= *(?:[.,;!]|$))
    <SUBJECT> (?:is|are) [\w' ]{2,30} as far as i'm concerned
    <SUBJECT> (?:that's (?:how|the way) (?:i|we)\b|only(?:,? please)?,? for <US>\b)
""")
# Without a subject, at the beginning of a sentence only: "Hate olives", "vegan here".
ELLIPTIC = front(r"""
    can't be doing with<THING> \w
    am (?:an? )?(?:\w+ )?<DIET>\b
    (?:love|hate|adore|loathe|prefer|dislike|(?:can't|cannot|cant) (?:stand|do|eat|bear)|not (?:really |that |so |too |
        overly )?(?:into|keen on|(?:a )?(?:big |huge )?fan of|fond of)|all?ergic to|intolerant to)<THING> (?!to\b|or\b|
        and\b|for\b|is\b|are\b|was\b|the\b|hearing|seeing|everywhere|from\b|can\b|could\b|will\b|would\b|does\b|has\b|
        may\b|might\b)\w
    (?:(?:type (?:1|2|one|two) )?<DIET>|night owl|early bird|coeliac|celiac) here\b
""")
FACT = phrases(r"""
    (?:i've |we've |i |we )?(?:just |recently )?(?:had (?:twins|triplets|a (?:baby|boy|girl|son|daughter))|
        started (?:work |working )?as an?) ?\w*
    (?:i've|i have) been an? (?!bit\b|while\b|fan\b)[\w -]{3,30} (?:for|since) \w
    <I> take the [\w:.]{0,6} ?(?:train|bus|tram|ferry|tube|metro) to \w
    <AM> with (?-i:[A-Z])\w+(?= *(?:[.,;!]|$| and\b))
    it(?:'s| is) (?:just|only) (?:me|us|the two of us)\b(?! (?:or|who|that))
    <I> (?!<ONCE>)\w+ [^.,;?]{2,40} for a living\b
    (?:i|we)(?:'ve| have)? (?:just |recently )?(?:started|taken up|begun) (?:learning|studying|training|teaching|
        playing) \w
    <AM> not (?:very |really |that |so |particularly )?(?:technical|tech-savvy|sporty|musical|handy|artistic|sociable|
        flexible|outdoorsy)\b
    (?:the|my) (?:doctors?|gp|consultant|cardiologist|specialist|hospital|dentist) (?:have |has )?(?:put|started|
        prescribed) me (?!on hold|through|off\b)\w
    <I> (?:have|'ve got|have got) (?:my|our|an?) (?:\w+ )?(?:anniversary|birthday|reunion|christening)\b
    <I> (?:work out|exercise) (?:at|in|with) \w
    my (?:knees?|back|hips?|eyes|eyesight|shoulders?|hearing|memory|joints) (?:is|are) (?:shot|bad|gone|going|weak|
        wrecked|ruined|poor)
    <AM> an? (?:redhead|blonde|brunette|atheist|agnostic|pacifist|feminist|immigrant|expat|refugee|veteran|carer|widow|
        widower)\b
    <I> wear an? (?:\d|small|medium|large|x+l)
    <I> (?:freelance|am self-employed)\b
    <AM> (?:applying for (?:jobs|work)|self[- ]taught|in remission|originally from \w|hosting (?!it|this)\w)
    <AM> on (?:blood thinners|insulin|antidepressants|medication|the pill|beta[- ]blockers|steroids|chemo|dialysis|
        statins)\b
    (?:my|our) <KIN> does (?:all |most of )?the \w+ing\b
    we do (?:meatless|meat-free|veggie|taco|pizza|family|movie|game) \w
    <I> was in the (?:navy|army|air force|marines|police|military)\b
    <I> speak (?!to|with|up|of|out|about|for|as|too|so|very|in\b|on\b|at\b)[a-z]+(?: and [a-z]+)?(?= at home| fluently|
        ,| with my| only|\.|$)
    <I> drink (?:about |around |at least )?(?:<NUMBER>|an?) (?:litres?|liters?|cups?|glasses|pints?|coffees?|teas?)\b
    <AM> (?:currently |now |still )?(?:unemployed|job[- ]hunting|between jobs|on benefits|short-?sighted|long-?sighted|
        near-?sighted|gay|lesbian|bisexual|trans|queer|straight|single|non-binary|a member of|in (?:year|grade|class|
        form) \d+)\b
    <I> (?:identify as|vote|voted) (?!for this|on)\w
    (?:i|we)(?:'ve| have)? (?:just |recently )?(?:(?<=just )got|bought|adopted|inherited|built) (?:an? |our |
        my )(?:\w+ )?<HAD>
    <I> (?:adopted|rescued|fostered?) (?:an? |two |three )\w
    <I> go to (?-i:[A-Z])\w+ (?:high|school|college|university|primary|secondary|academy|uni)\b
    <I> (?:majored|minored|graduated|have a (?:degree|phd|masters?)) in \w
    <I> (?:did|finished|got|have) (?:my|an?) (?:phd|masters?|degree|bachelor'?s?|diploma|apprenticeship|mba)\b
    <AM> watching my (?:cholesterol|weight|sugar|blood (?:sugar|pressure)|salt|diet|carbs|calories|figure)
    <I> count (?:calories|macros|carbs|points|steps)
    <AM> (?:not )?supposed to (?:eat|drink|avoid|take|walk|rest|exercise|lift|cut)\b
    my (?:doctor|gp|dentist|physio|midwife|dietitian|therapist|consultant) (?:told me|wants me|advised me|asked me|
        says i (?:should|must|can't|have)) \w
    <I> fix [^.,;?]{2,30} as a hobby
    <I> turn <NUMBER> (?:next|in|on|this)\b
    <I> <ADV>(?:go|walk|cycle|run|swim|train|work out|exercise|meditate|volunteer|babysit|shop|cook|travel|fast|
        play)\b[^.,;?]{0,40} (?:times|days|nights|hours) (?:a|per|each|every) (?:week|month|day|year)
    <I> <ADV>(?:walk|cycle|bike|drive|commute|(?:take|get|ride) the (?:bus|train|tube|tram|metro|subway|
        ferry)) (?:to (?:work|school|uni|the office|college)|everywhere|every day)
    <I> have (?:an? |my )?(?:\w+ )?(?:exam|appointment|interview|flight|surgery|scan|
        check-?up)s? [^.;?]{0,30}\b(?:on <DAY>|next \w+|this <DAY>|every \w+)
    <I> (?:owe|support|celebrate) (?![^.;?]*\bno more\b)(?:about |around |over )?(?:\d|(?-i:[A-Z]))\w*
    <I> get paid (?:at|in|once|twice|fortnightly)\b
    <AM> on (?:an? |my )?(?:mac|macbook|linux|ubuntu|windows|android|iphone|ipad|chromebook|pc)\b
    <I> (?:have|use|own|'ve got|have got)(?: got)? (?:an? )?(?:\w+ )?(?:android|iphone|ipad|mac|macbook|pixel|kindle|
        chromebook|screen reader|hearing aids?|guide dog)\b
    <I> have (?:very |quite |really )?(?:sensitive|dry|oily|curly|fine|thick|chronic|flat) (?:\w+ )?(?:skin|hair|feet|
        teeth|eyes|stomach|pain|fatigue|back pain)
    <I> have (?:\w+ )?(?:back|knee|neck|shoulder|hip|joint|foot|wrist) (?:pain|problems|issues|trouble)
    <AM> (?:not |very |quite |deeply )*(?:religious|spiritual|recovering from|fasting (?:for|during))\b
    <I> take [^.,;?]{2,30} (?:tablets|pills|medication|meds|injections|antidepressants|statins)\b
    (?:my|our) (?:best |close )?(?:friend|team|company|office|school|employer|neighbour|landlord|
        gp)(?: (?-i:[A-Z])\w+)? (?:lives|works|uses|closes|opens|is (?:closed|open|based|in (?-i:[A-Z])))\b
    <I> met my (?:<KIN>) (?:at|in|on|through)\b
    <I> (?:pick up|drop off|collect) (?:the|my|our) (?:kids|children|son|daughter|girls|boys|\w+) (?:at|from|on|
        every)\b
    <I> (?:don't|do not|dont) work (?:on )?<DAY>
    <AM> (?:usually|only|mostly|always|never) (?:free|available|busy|off|home) (?:on|at|in|after|before|during)\b
    english (?:is not|isn't) my (?:first|native|mother)
    [\w' -]{2,30} (?:is|are) (?:an? )?(?:strict |absolute )?(?:no-?go|off limits) for my <KIN>
    <I> (?:have|'ve got|have got|'ve)(?: got)? an? [\w -]{2,30} (?:called|named) (?-i:[A-Z])\w
    <I> use an? (?-i:i?[A-Z])\w
    <I> (?:code|program|develop|write code|build) (?:mostly |mainly )?(?:in|on|with) (?-i:[A-Z])\w
    <I> (?:bank|train|fly|am insured) (?:with|at) (?-i:[A-Z])\w
    <I> (?:want|hope|plan|aim|need|have) to [^.;?]{3,50} by (?:the )?(?:<DAY>|summer|winter|spring|autumn|fall|
        christmas|new year|easter|next \w+|the end of \w+)
    (?:my|our) (?:\w+ )?(?:goal|dream|plan|new year's resolution) is (?:to )?(?!that|this|it)\w
    <AM> planning (?:an? |my |our )\w
    <AM> (?:an? )?(?:\w+ )?(?:muslim|jewish|hindu|christian|catholic|buddhist|sikh|quakers?|orthodox)s?\b
    (?:(?:i|we)(?:'ve| have) (?:got )?|(?:i|we) (?:have|drive|own) )an? (?:19|20)\d\d (?-i:[A-Z])\w
    <I> (?:taught|worked|served|nursed|drove|farmed|played|lived|coached|volunteered|ran) [^.;?]{2,50} for (?:\d+|
        <NUMBER>|many) years
    (?:my|our) (?:(?:wife|husband|partner|son|daughter|youngest|eldest|oldest|middle one|little one|baby|toddler|kids?|
        children|girls?|boys?|twins?)|(?:\w+ )?(?:son|daughter|boy|girl))(?:'s| is| are) (?:\w+ )?(?:all?ergic|coeliac|
        celiac|diabetic|(?:lactose |gluten )?intolerant|asthmatic|autistic)\b
    (?:my|our) [\w-]+(?: [\w-]+)? (?:is|are)(?: still)? (?:staying|visiting)\b(?: with us| with me| here)? (?:until|
        till|for the next|this)\b
    <I> have my \w+ in an? (?:cast|sling|plaster|splint|brace|boot)
    (?:we've|i've|we have|i have) (?:got )?(?:the )?(?:builders|painters|plumbers?|roofers|decorators|in-laws|
        guests) (?:in|here|over|staying)\b
    <AM> (?:an? )?(?-i:[A-Z])[a-z]+(?= *(?:[.,;!]|$| and\b| by\b| but\b))
    (?:my|our) (?:first|native|second|mother) (?:language|tongue) is
    (?:my|our) (?!<WORK>)[\w -]{2,30}?(?:'s| is| are) (?:called|named) (?-i:[A-Z])\w+
    (?:my|our) (?!<WORK>)(?!favou?rite)(?:\w+ ){1,2}?is (?:an? )?(?-i:[A-Z])\w
    (?:my|our) (?:\w+ ){1,3}?\w+s (?:every|on) (?:the (?:first|last|second|third) )?<DAY>
    (?:my|our) (?:\w+ )?(?:mortgage|loan|lease|tenancy|budget|salary|rent|insurance|visa|passport|contract|garden|flat|
        house)\b (?:[\w ]{0,30} )?(?:is|ends?|expires?|runs? out|costs?|faces?)\b(?! (?:not|too|broken|slow|wrong)\b)
    <I> (?:broke|tore|fractured|sprained|twisted|dislocated) (?:my|an?) \w
    (?:i've|we've|i have|we have) (?:run|kept|owned|taught|lived|worked|played|had) [\w' -]{2,40} (?:for|since) \w
    <AM> in my (?:first|second|third|fourth|fifth|final|last) (?:year|term|semester)
    <AM> (?:the )?(?:treasurer|secretary|chair|chairman|head|manager|captain|owner|founder|organiser|conductor) of
    <I> take \w+(?:rin|olol|pril|statin|azole|pine|oxetine|aline|formin|pam|sartan|oxin|roxine)\b
    <I> (?:manage|lead|supervise|employ|chair) (?:an? |the |\d+ |<NUMBER> )\w
    <I> lost (?:most of |all of |all )?my (?:sight|hearing|leg|arm|eye|voice|sense of \w+)
    (?:i|we)(?:'ve| have) (?:\w+ ){1,5}since (?:i was|i left|birth|childhood|school|uni\w*|my \w|(?:19|20)\d\d)
    (?:i|we)'ve (?:got )?<NUMBER> (?:acres|hectares|hens|bikes|rooms)
    (?:i|we)(?:'ve| have) got (?:two|three|four|five|six) (?!questions|ideas|options|things|minutes|hours|days|weeks|
        months|tickets|problems|files|meetings|points|errors|versions|choices|exams|jobs)\w+s
    (?:the|my|our) (?:kids|children|girls|boys|twins) (?:are|stay|live) with (?:me|us|their|my)\b
    <I> (?!<ONCE>)\w+ [\w' -]{2,40} for an? (?:\w+ ){0,2}(?:firm|company|charity|council|hospital|school|agency|
        university|paper|magazine|shop|hotel|bank|startup)
    <I> (?:had|got) (?:my|an?) (?:\w+ ){0,2}(?:replacement|operation|surgery|transplant|bypass|stroke|heart attack|
        baby|caesarean|stent)
    <I> (?:retired|graduated|qualified|emigrated)\b
    <I> (?:was|were|got) (?:made redundant|laid off|widowed|raised|brought up|fired)
    <I> (?:started|began) (?:(?:a|my) new job|(?:my|an) apprenticeship|(?:my|a) phd|(?:at|with) (?-i:[A-Z]))\w*
    <I> get paid (?:on|every|by|weekly|monthly)
    <I> (?:use|need|wear) (?:an? |my )?(?:wheelchair|walking stick|walking frame|hearing aids?|inhaler|crutches|
        guide dog|cpap)
    (?:i've|we've|i have) been (?:learning|training|teaching|studying|saving|dating|practi[sc]ing|volunteering) (?!how|
        about|what)\w
    <AM> (?:four|five|six|seven) (?:foot|feet|ft)\b|<AM> \d'\d
    my name(?:'s| is) \w
    (?:my|our|the) (?:[\w']+ ){0,3}(?:code|number|pin|password|combination|plate|extension|login|username|
        locker)(?: for[\w' ]{2,30}| (?:to|of|at) [\w' ]{2,30})?(?:'s| is|:) \w*\d
    (?:my )?blood (?:type|group)(?:'s| is| -|:)? (?:ab|a|b|o)\b
    got (?:two |three |an? )?(?:newborn|toddler|baby|\d+ ?(?:yo|y/o|year[- ]old)|twins|triplets|kids|children|sons?|
        daughters?|dogs?|cats?)\b
    (?:everybody|everyone|people|friends) calls? me \w
    <AM> (?:<NUMBER>(?= *(?:$|[,.;]| years| and ))|\d{1,2} years old|a \d{1,2}-year-old)
    <AM> \d(?:\.\d+)? ?(?:m|cm|kg|feet|foot)\b
    <AM> (?:<NUMBER> (?:weeks|months) )?(?:pregnant|hard of hearing|in a wheelchair|an? (?:\w+ )?beginner (?:at|in|
        with)|left[ -]handed|married|divorced|widowed|retired|unemployed|deaf|blind|autistic|colou?r[ -]?blind|
        dyslexic|self-employed|freelance|engaged|expecting|based in|from (?-i:[A-Z])\w+)
    <AM> (?:(?:an? )?(?:family|couple|household) of|the (?:eldest|oldest|youngest|only child))
    <AM> (?:really |pretty |quite )?(?:terrible|bad|good|hopeless|useless|no good|rubbish) (?:at|with)\b<THING>
    <AM> used to (?!be\b|live|work|have|do\b|go\b|like|love)\w
    i was diagnosed with|i've been diagnosed with|(?:i'd|i would) (?:describe|call) myself|i consider myself
    (?:i've|i have|we've|we have) (?:lived|worked|been living|been working|been married|been learning) (?!on this|
        on it|hard|so |really|out\b|to\b)\w
    i (?:can't|cannot) (?:swim|drive|ride|ski|read music|speak|cook|bake|dance|sing)
    my (?-i:[A-Z])\w+ is (?:at|good|bad|poor|rusty|fluent|basic|[abc][12])
    <I> <HABIT> (?!(?:it|this|that|these|him|her|them|you|me|the|tired|weary|up|out|away|an? (?:script|program|test)|
        \w+ing)\b)\w
    <I> (?:tend to )?(?:get )?\w+ easily
    <I> teach (?!me|you|it|this|that)\w
    <I> moved here|<I> (?:share|weigh|measure) (?:an?|my|our|the|\d+|about)\b
    <I> take \d+ ?(?:mg|ml)
    <AM> (?:renting|sharing|subletting) \w
    <AM> off work|<AM> on (?:sick|parental|maternity) leave|there are <NUMBER> of us|<AM> the one who \w
    (?:i've|we've|i have|we have) (?:just |recently )?(?:adopted|bought|inherited) (?:an? |our |my |
        two )?(?:\w+ )?<HAD>
    (?:i have|i've got|we have|we've got) (?:my|our|an?) (?:\w+ )?(?:<EVENT>|test)s? (?:on|in) <DAY>
    (?:i've|i have|we've|we have) been (?!trying|looking|wondering|thinking|waiting|reading|using|getting|
        working on)\w+ing [^,.;]{0,40}\b(?:since|for)
    <I> have (?:an? )(?:terrible|bad|poor|weak|sensitive|delicate|good) (?!idea|time|question|feeling|example|one|
        reason|look|news|day)\w
    <AM> (?:an? )?(?:\w+ ){0,2}(?:<TRADE>)
    <I> (?:currently |now |both )?(?:live|work|teach|commute|volunteer|study|reside) (?!out\b|on (?:this|that)\b)(?:in|
        on|at|as|for(?! (?:this|that|it)\b)|near|with|from|by|nights?|part|full|shifts|alone|together|close|next|
        opposite|above|remotely|to|\w+ (?:at|in|shifts))
    <I> (?:grew up|was born|were born|come from|own|speak (?-i:[A-Z])\w+|play(?! (?:an? |the )?(?:game|character|role|
        video|song|part))|drive|collect|run a|rent|study|suffer from)\b(?! (?:it|this|that|him|her|them|you|
        the (?:game|map|file|text))\b)
    <I> (?:have|'ve got|have got|'ve had|had)(?: got)? (?:an? |one |two |three |four |five |no |\d+ |several |severe |
        mild |chronic )?(?:\w+ ){0,2}?<HAD>
    (?:i|we)'ve (?:got )?(?:an? |two |three |four |\d+ )?(?!(?:the|this|that|my|your)\b)(?:\w+ ){0,2}<HAD>
    <I> (?:don't|do not) (?:own|have) (?:an? |any )?(?:\w+ )?<HAD>
    <I> (?:wear|take) (?:size|glasses|contact lenses|hearing aids|medication|insulin|antidepressants|blood thinners|
        statins|the pill|beta.?blockers)
    <I> use (?-i:[A-Z])\w+
    i had my \w+(?: \w+)? (?:out|removed|replaced)
    <AM> (?:currently )?(?:training|studying|saving|learning|preparing for|renovating|doing (?:a|my) (?:phd|master\w*|
        degree|apprenticeship)|working on my (?:phd|thesis|dissertation))\b(?! (?:this|that|it)\b)
    <AM> (?:travel(?:l)?ing|flying|leaving|moving|getting married|visiting|going|starting|running|planning (?:my|
        our) (?:wedding|move|trip|holiday)|having \w+ surgery)\b[^,.;]{0,60}\b(?:on|in|from|
        at the end of) (?:the )?<DAY>
    <I> (?!need|want|have to|wonder|ask|was|were|am|will|leave|arrive|\w+ed\b)(?![^.;?]*\b(?:scripts?|tests?|commands?|
        code|query|program|app|it)\b)(?:\w+ ){1,4}(?:on|every) <DAY>
    (?:my|our) (?:\w+ )?<EVENT> (?:is|are|leaves?|departs?|starts?|begins?|ends?|expires?)\b[^,.;]{0,40}\b(?:on|at|in|
        from|until|by) (?:the )?<DAY>
    (?:my|our) (?:\w+ ){0,2}?(?:<KIN>|<OWN>)(?:'s (?:birthday|name|surname))?,? (?:(?-i:[A-Z])\w+(?: \w+)?,? |
        \w+,? )?(?:is|are|was (?:born|built|bought)|has|have|works?|lives?|visits?|turns|starts|comes|goes to|gets|
        faces|needs|studies|attends|teaches|plays|is called)\b(?! (?:it|this|that|not sure|driving me|asking|
        always asking|been asking|wrong|here|coming (?:over|round)|to|terrified|scared|afraid|mad|obsessed|crazy|
        allergic|vegan|vegetarian|a (?:vegan|vegetarian|fan|coeliac)|into|fond|keen|so|too|very|really|\w+ing (?:me|
        us)|being|annoying|angry|begging|complaining|nagging|trying|broken|about|late|on sick|gone|stuck|awesome|
        amazing|great|wonderful|lovely|my|always|everything|been|there)\b)
""")
TASTE_OF_OTHERS = phrases(r"""
    (?:my|our) (?:\w+ ){1,3}(?:loves?|likes?|hates?|prefers?|enjoys?|wants?|thinks?|dislikes?|detests?|can't|cannot|
        won't|avoids?|adores?|refuses?|only (?:eats|drinks|wears))
    (?:my|our) (?!name's)(?:\w+ )?\w+'s (?!birthday|name|surname|called|named|all?ergic|coeliac|celiac|diabetic|
        intolerant|asthmatic|autistic|lactose|gluten)\w+
""")

HEDGED = anywhere(
    r"\b(?:i think|i believe|kind of|sort of|somewhat|probably|sometimes|a bit|mostly|usually|often|tend to|trying)\b"
)
