"""Changes of mind: English patterns of what is taken back, ended, turned into something else, or brought up to date."""

from __future__ import annotations

import re

from epic_core.learning.vocabulary import phrases

UNDO = phrases(r"""
    turns out (?:that )?(?:i|we) (?:don't|do not|dont) mind [^.;?]{2,40}
    turns out (?:that )?(?:i|we) (?:do |quite |really )?(?:like|love|can (?:eat|drink|have)) [^.;?]{2,40} after all
    (?:i|we) (?:don't|do not|dont) mind [^.;?]{2,40} (?:after all|again|now|any ?more)
    (?:forget|ignore|disregard|never mind) (?:that |about |how )?(?:i|me|my)\b[^.;?]{3,80}
    (?:don't|do not|no need to) (?:bother|worry about) (?:keep|avoid|skip|leav|exclud|check|look)\w*\b[^.;?]{2,60}
    (?:scratch|scrap) (?:that|what i said|the|my)
    (?:forget|ignore|disregard|drop|delete|cancel|undo|strike) (?:what i (?:said|told)|that (?:about|thing|bit|rule)|
        my (?:rule|request|preference|wish|thing)|the (?:rule|thing|bit|part|no-))
    you can (?:use|suggest|offer|include|add|book|recommend|give|send|write|show|put|be) [\w' -]{2,30} (?:again|
        after all)
    you can (?:forget|drop|ditch|scrap|lose|bin|let go|stop)(?: with| of)? (?:the|my|all|that|it)\b
    (?:delete|bin|scrap|drop|forget|ditch|lose|erase|remove) (?:the|that|my|whatever|what|everything|
        all)\b [^.;?]{3,80}
    you (?:needn't|don't need to|don't have to|can stop|no longer need to) [^.;?]{3,80}
    [\w' -]{3,60} is (?:history|out of date|no longer true|wrong now)\b
    no (?:more )?need (?:for|to) [^.;?]{2,60}
    (?:i|we)(?:'ve| have)? (?:changed (?:my|our) minds?(?!.*\b(?:i|we) (?:now |quite |really |do )*(?:like|love|want|
        prefer))|take (?:that|it) back|take back)
    (?:you|there's|there is) (?:needn't|don't need to|don't have to|do not have to|need not|can stop|
        no (?:more )?need to|may stop) (?:avoid\w*|leav\w+|exclud\w*|skip\w*|worry\w* about|look\w* for|insist\w*|
        keep\w*|suggest\w*|recommend\w*|book\w*)
    (?:i|we)(?: do| really)? ?(?:don't|do not|no longer) (?:mind|care about|care|need|have to avoid|
        have to watch)\b(?=.*\b(?:<NO_MORE>|no longer|now|these days|nowadays)\b|(?<=longer mind))
    [\w' -]{2,40} (?:is|are) (?:fine|ok|okay|allowed|no problem)(?: (?:by|with|for) (?:me|us))? (?:again|now|
        after all|<NO_MORE>)
    (?:i|we)(?:'m| am|'re| are)? (?:can|allowed to|able to) (?:eat|have|drink|tolerate|run|
        drive) [\w -]{0,40}(?:again|now|after all)
""")
STOP = phrases(r"""
    sold (?:my|our) \w
    (?:i|we)(?:'ve| have)? (?:finally |just |recently )?(?:quit|gave up|given up|stopped|dropped|ditched|cut out|
        gone off|went off|fallen out of love with|had enough of|sold|cancelled|canceled|got rid of|sworn off|
        swore off|(?<='ve )left|(?<=have )left)\b(?! (?:it|this|that|here|there|reading|working on|by|at|off|out|over|
        the (?:house|office|room))\b)
    (?:i|we)(?:'ve| have)? (?:finally |just |recently )?finished (?:my|our|the) (?:course|degree|phd|studies|
        treatment|diet|training|exams|apprenticeship|antibiotics|pills|job)
    we(?:'ve| have)? (?:broke|broken|split) up
    (?:i|we)(?:'ve| have)? (?:sadly )?lost (?:our |my )?(?:old |dear |poor )?(?-i:[A-Z])\w+
    (?:i|we) had to (?:put|have) [\w' -]{2,30} (?:down|to sleep|put down)
    (?:my|our) (?:[\w-]+ )?(?-i:[A-Z])\w+(?: has|'s) (?:just )?(?:left|moved (?:out|away|on)|gone back|resigned)
    <AM> (?:so )?over (?!\d|the\b|it\b|there|here|my\b|here)[a-z]\w+
    <AM> off (?:the|my) (?!back|track|phone|clock)\w
    (?:i|we)(?:'m| am|'re| are)? no longer \w
    (?:i|we)(?:'m| am|'re| are)? ?(?:don't|do not|not|can't|cannot) [^,.;]{2,60} <NO_MORE>
    (?:i|we) (?:had to )?(?:give|gave) [\w' -]{2,30} away
    [\w' -]{2,40} (?:passed away|has died|died (?:on|in|last|this|yesterday))
    (?:[\w' -]{1,30} and i|me and (?-i:[A-Z])\w+) (?:have )?(?:split up|broken? up|separated|divorced|called it off)
""")
# What has ended, and what is in its place: "I've left Initech, I'm at Globex now".
INSTEAD = re.compile(
    r"[^,.;]{4,50}(?:,| and|;) (?:and |now )?(?:i|we)(?:'m|'re| am| are)? (?:now )?(?:at|with|in|on|work|drive|use|"
    r"go|live)\b",
    re.I,
)
TURN = phrases(r"""
    <AM> (?:eating|drinking|having|smoking|using|wearing|cooking|flying|driving|buying|taking) [^.;?]{2,30} again
    (?:i|we) (?:go|work|live|train|run|shop|read|watch|use|drive|take|study|sleep|get up|exercise|cook|
        fly) (?!now)[^.,;?]{2,60} (?:now|these days|nowadays|instead)(?= *(?:[.,;!]|$))
    <AM> back (?:to|on) (?!you|work|school|track|the)\w
    (?:i|we)(?:'ve| have) (?:swapped|traded|exchanged) [^.;?]{2,40} for \w
    put me down (?:as|for) [^.;?]{2,60}
    [\w' -]{2,40} (?:has|have) (?:won me (?:over|round)|grown on me)
    (?:switch|move|change|swap|put) me (?:over |back )?(?:from|to|on to|onto|off)\b[^.;?]{2,60}
    make (?:that|it|mine) [^.;?]{2,60}\b(?:instead|now|from now on)\b
    [\w' -]{2,40} (?:don't|doesn't|no longer|do not|does not) (?:suit|work for) (?:me|us)[\w ]{0,20} (?:now|any ?more|
        these days|any longer)
    [\w' -]{2,40} (?:no longer) (?:suits?|works? for) (?:me|us)
    [\w' -]{2,40} (?:is|are) (?:fine|ok|okay|welcome|good) (?:by me |with me )?(?:these days|nowadays|from now on)
    (?:i|we)(?:'ve| have)? changed (?:my|our) minds? [^.;]{2,60}\b(?:i|we) (?:now |quite |really |do )*(?:like|love|
        want|prefer)\b.*
    [\w' -]{3,40} (?:is|are|suits?|works?) (?:me )?(?:better|best|nicer|fine) (?:for me )?(?:after all|now|these days)
    (?:i|we)(?:'ve| have)? (?:now |recently |just )?(?:come (?:round|around) to|come to (?:like|love|prefer|hate)|
        grown to \w+|warmed to|got(?:ten)? into|gone (?:vegan|vegetarian|off|back to)|(?:turned|
        become) (?:an? )?(?!<NUMBER>|it\b|this|that|them|him|her|my|the|out|up|around|into|to\b|back|on|off|in\b|
        down)\w+|switched (?:from [^,.;]{2,40} )?to|moved (?:on|over) to|taken (?:to|up)|started (?:eating|drinking|
        liking|having|taking|to (?:like|enjoy|love|appreciate))|developed|fallen (?:in love with|for))\b(?! (?:this|
        that|it)\b)
    (?:i|we) used to [^.;]{2,80}\b(?:but|now|these days)\b.*
    (?:these days|nowadays|lately),? (?:i|we) (?:eat|drink|like|love|prefer|go|take|have|want|always|never|only)
    (?:i|we) now (?:prefer|like|love|hate|eat|drink|avoid|want|always|only|never)\b<THING>
    (?:i|we) (?:eat|drink|like|love|have(?! to)|prefer|want(?! to)|enjoy|wear)\b<THING>[^,.;]{2,60}\b(?:again|now|
        after all|these days)
    (?:swap|change|replace|update|flip|reverse) (?:my|the|that) (?:rule|preference|wish|\w+ rule)
    [\w' -]{2,40} suits? me (?:more|better) now
    (?:i|we)(?:'d| would) rather [^.;]{2,60}\b(?:after all|now)
""")
UPDATE = phrases(r"""
    (?:i|we)(?:'ve| have)? (?:changed|switched|swapped) (?:my |our )?(?:jobs?|schools?|gyms?|banks?|doctors?|
        dentists?|compan(?:y|ies)|phones?|cars?|flats?|numbers?|names?)\b
    (?:i|we)(?:'ve| have)? (?:just |recently )?moved (?:house |back )?(?:to|into|in with) (?!this|that|the next)\w
    (?:the|my|our) [\w' -]{2,40} (?:has|have|was|were|is|got)(?: been| now)? (?:moved|changed|postponed|
        brought forward|rescheduled|put off|pushed back|shifted|renamed) (?:to|from|until|by)
    (?:my|our) new [\w' -]{2,40} (?:is|are)\b(?! (?:not|too|so|very|broken|making|driving))
    (?:my |our )?[\w' -]{2,40}? (?:has )?(?:just )?turned <NUMBER>
    (?:my|our) [\w' -]{2,40} (?:is|are|lives|works) now
    <AM> on (?:days|nights|earlies|lates) now
    <AM> now (?:an? |\d|living|working|based|married|divorced|the)\b
    (?:i|we) now (?:live|work|study|have)
    (?:i|we)(?:'ve| have)? (?:just )?got(?:ten)? (?:married|engaged|divorced|promoted)
    (?:i|we)(?:'ve| have)? (?:started|got|taken|accepted|landed) (?:an? |the |my )?(?:new )?(?:\w+ )?(?:job|position|
        post)(?! (?:interview|offer|application|advert|centre))
""")

# A word of change: a statement with one is of interest where it shares words with what is known.
SHIFT = phrases(
    r"""
    back on the menu|(?:has|have) grown on me|cut [\w ]{2,20} out|moved out|got (?:married|engaged)
    (?:has|have|i've|we've|was|were|been) (?:moved|postponed|brought forward) [^.;]{0,40}\bto (?:the )?<DAY>
    (?:i|me|my|we|us|our)\b[^.;?]{0,60} (?:nowadays|these days|no more|any ?more|instead)
    (?:nowadays|these days),? (?:i|we)
    will do me now
"""
)
