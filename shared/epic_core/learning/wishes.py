"""Wishes: English patterns of what is wanted or is so for once, such as "Tonight I fancy something greasy"."""

from __future__ import annotations

from epic_core.learning.vocabulary import anywhere, phrases

# These count only where an end is said or implied.
WISH = phrases(r"""
    <AM> broke (?:until|till)\b
    <I> (?:can't|cannot|can only|mustn't|must not|shouldn't|'m not allowed to|am not allowed to) (?:use|lift|eat|drink|
        drive|walk|run|swim|chew|have|stand|do|fly|work|spend|bend|type|shower)\b
    <I> (?:don't|do not|dont) want (?:to (?:spend|eat|drink|cook|drive|go out|travel|see|do)|any|anything)\b
    <I> have (?:my |our )?(?:exams?|guests?|visitors|builders|deadlines?|family|friends)\b
    <AM> (?:eating|drinking|skipping|avoiding|cutting out|fasting|dieting|detoxing)\b
    <AM> at (?:my|our|the|a|an)\b
    (?:the|our) (?:oven|boiler|fridge|freezer|hob|cooker|kitchen|shower|bath|wifi|internet|washing machine|dishwasher|
        lift|heating|car|shop)(?:'s| is) (?:\w+ )?(?:broken|out|off|down|closed|shut|gone|unusable|being \w+)
    (?:on|doing) (?:nights|earlies|lates|days|call) (?:until|till|this|for)\b
    money(?:'s| is) tight (?:until|till|this)\b
    (?:i|we) want you to \w
    only (?:need|want) (?!to\b|you\b|the\b|this\b|it\b)\w
    <AM> (?:working(?! on)|living|staying|house-?sitting|dog-?sitting|cat-?sitting|visiting|away|travel(?:l)?ing) \w
    <AM> without \w
    <AM> in (?:quarantine|hospital|bed|isolation|a cast)
    <AM> not (?:buying|eating|drinking|spending|cooking|flying|driving) \w
    (?:my|our) \w+(?: \w+)?(?:'s| is| are) (?:in|at|being|out|off|under|with) \w
    (?:keep|make) (?:it|things|everything|dinner|lunch) (?!for\b)\w
    (?:answer|reply|write) (?:me )?in \w
    be (?:very |extra |more |especially )?(?:formal|informal|brief|gentle|strict|polite|casual|funny)
    (?:something|anything) (?:without|with|light|simple|quick|vegan|vegetarian|warm|cold|easy)\b
    (?:leave out|use|put) (?!(?:it|this|that|the following)\b)\w[^.;?]{2,40}
    give me only \w
    <I> (?:fancy|feel like|want|need|only want|would like|am after|'m after|crave)\b(?! (?:to (?!be\b|eat\b|drink\b|
        stay\b)|you|help|it|this|that|your|(?:an? |some |the )?(?:\w+ ){0,2}<ASKED>s?)\b)
    (?:i|we)(?:'d| would) (?:like|love|rather|prefer)\b(?! (?:to (?!be\b|eat\b|drink\b|stay\b)|you|it|this|that|your|
        (?:an? |some |the )?(?:\w+ ){0,2}<ASKED>s?)\b)
    (?:for this (?:trip|one|time)|this time|just this once|just for (?:today|once|now)),? (?!(?:can|could|would|what|
        how|is|are|do|does|which|where|why|i|we)\b)\w
    (?:let's|let us) (?:keep|skip|stay|stick to|avoid|have|go|make it|do|eat)
    (?:don't|dont|do not) (?:put|book|send|call|give|schedule|show|suggest|ask|ring|disturb)\b[^.;?]{2,60}
    [\w' -]{2,40} only\b
    (?:make|write|keep|do|answer|reply)(?: me)? [^,.;?]{2,40}, just (?:this|for)\b
    (?:no|nothing|only|skip|make it) (?!problem|worries|idea|need|rush|matter|one|way|thanks)\w
    (?:an? |the )?(?!(?:it|this|that|what|which) )[\w' -]{3,40} (?:will do|would be (?:nice|good|great|lovely))
    (?:keep|make|book|leave|skip|use|cook|pick|choose|take) [^,.;?]{2,50}(?= (?:this (?:time|once)|
        just (?:for )?(?:today|once))\b)
    <AM> (?!just|trying|looking|asking|wondering|thinking|making|writing)(?:[\w']+ ){1,6}(?:today|tonight|until|till|
        this (?:week|evening|weekend|month)|at the moment|right now|for the next|over (?:the|half|christmas|easter))
    (?:the|my|our) [\w' -]{2,30} (?:is|are) (?:staying|visiting|here|away|with (?:me|us))\b
    my \w+(?:'s| is| are) (?:broken|down|out of order|closed|away|ill|sick)
    <AM> (?:off|on|not|only|in (?-i:[A-Z])\w+|at (?-i:[A-Z])\w+|staying)
    (?:no|nothing) (?!problem|worries|idea|need|rush|matter|one|way|thanks)[\w' -]{2,40}
    (?:<I> (?:have|'ve got|have got|had)|(?:i|we)'ve(?: got)?) (?:an? |the )?<ILL>
""")
# States are facts; "I'm off dairy this week" is a wish.
STATE = anywhere(r"""
    ^(?!(?:i'm|i am|we're|we are) (?:off(?! (?:sick|work|school|duty))|not)\b)(?:.*\b)?(?:(?:i'm|i am|we're|
        we are) (?:in|at|staying|on(?! an? (?:[\w-]+ ){0,2}(?:diet|budget))|working from|travell?ing|home|visiting|
        [a-z]+-?sitting|away)|<ILL>)\b
    ^<AM> (?:parked|stuck|(?!eating|drinking|skipping|avoiding|cutting|fasting|dieting|detoxing|trying|keeping|
        spending|buying|cooking|doing|having|going (?:without|easy|meat|veg))\w+ing) \w
    ^(?:i|we)(?:'ve| have)? (?:only |just )?got (?:an? |the )\w
    ^(?:the|my|our) [\w' -]{2,30} (?:is|are) (?:staying|visiting|here|away|with (?:me|us))\b
    (?:my|our) \w+(?: \w+)?(?:'s| is| are) (?:in|at|being|out|off|under|with|broken|closed)\b
    \b(?:i|we) have (?:my |our )?(?:exams?|guests?|visitors|builders|deadlines?)\b
    ^(?:on|doing) (?:nights|earlies|lates|days|call)\b
    \bthe (?:\w+ )?\w+(?:'s| is) (?:broken|out|off|down|closed|shut|being)\b
    \bmy \w+ in an? (?:cast|sling|plaster|splint|brace|boot)\b
""")
