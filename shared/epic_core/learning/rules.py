"""Rules: English patterns of what the assistant is told, or asked, to do for good."""

from __future__ import annotations

from epic_core.learning.vocabulary import front

# A rule in the form of a question.
ASKED = front(r"""
    <ASK>be (?:an? (?:bit|little) |much )?(?:more|less) [\w-]+ (?:with|in|about|when) (?:me|my|your|i|you)\b
    <ASK>(?:always|never|stop)\b
    <ASK>(?:please )?keep (?:your|the|all) (?:answers|replies|messages|explanations|summaries)\b
    <ASK>[^.,?;]{3,60}\b(?:always|every time|from now on|in future)\b
""")
# What the assistant is told to do for good: "never suggest ...", "no dairy in our family".
TOLD = front(r"""
    no [\w' -]{3,30} when(?:ever)? you \w
    stop (?:using|adding|giving|writing|sending|suggesting|recommending|putting|including|repeating|
        apologi[sz]ing)\b(?! (?:this|that|it)\b)
    (?:don't|do not|never) (?:give|send|show|write) me [\w' -]{3,40} (?:without|longer than|with more than)\b
    no more than [\w' -]{3,40} when(?:ever)? (?:i|you)\b
    (?:text|e-?mail|message) me,? (?:don't|do not|not|never|instead of|rather than)\b
    (?:use|speak|stick to) (?!this|that|the\b)[\w' -]{2,40} with (?:me|us)\b
    (?:stop|don't|do not|never) call(?:ing)? me \w
    correct (?:me|my \w+) (?:when|whenever|if) i \w
    tell me (?:when|if) you(?:'re| are) (?:not|un)
    [\w' -]{3,40} over [\w' -]{3,40},? any (?:day|time)\b
    (?:don't|dont|do not) (?:sugar-?coat|dumb|lecture|patroni[sz]e|flatter|baby)\b
    be (?:very |more |completely )?(?:direct|blunt|honest|brief|concise|frank|informal|formal|gentle) (?:with me|
        in general|in your (?:answers|replies))
    (?:in general|generally|as a rule|by default),? (?:please )?(?:keep|give|answer|use|write|be|reply|show|make|
        send)\b
    (?:keep|give|answer|use|write|be|reply|show|make|send)\b [^.?;]{2,50} (?:in general|as a rule|by default)\b
    when(?:ever)? i (?:ask|say|write|want|need|tell)\b[^.?]{2,50}, (?:please )?(?:give|use|answer|remember|assume|show|
        send|keep|write|reply|make|explain|include|stick|always|never|don't|skip)\b
    explain (?:things|everything|stuff|it all)? ?(?:to me )?(?:like|as if|as though) (?:i'm|i am|i were|you)\b
    (?:answer|reply|respond|talk to me|speak to me|write to me)(?: me)? in (?-i:[A-Z])\w+(?= *(?:[.,;!]|$| from| only|
         please| always))
    always (?:cite|link|check|ask|start|end|begin|round|convert|sign|keep|put|format|spell|translate|double-check|
        assume|prefer)\b
    (?:use|give|write|keep|show|make|answer|reply|send|put|explain) [^.?;]{2,60} (?:for everything|everywhere|
        in everything|every time|each time|all the time|whenever possible|by default|at all times)\b
    [\w' -]{3,40}(?<! as) always(?=,? (?:thanks|thank you|thx|please|pls)|[.!]|$)
    <ASK>(?:always|never) \w
    no [\w' -]{2,30} ever\b
    only [\w' -]{2,30} for <US>\b
    (?!(?:how|what|which|why|who|where|when)\b)[\w' ,-]{5,80}, (?:house|family) rule\b
    (?:don't|dont|do not|never) (?:use|write|say|add|put|include|send|give)\b[^.?;]{3,60} when(?:ever)? you \w
    when(?:ever)? you <HELPS>\b[^.?]{0,60}, [^.?]{3,60} (?:please|pls)\b
    spare me (?:the|any|your|all)\b
    [\w' -]{3,40} over [\w' -]{3,40}, (?:any \w+ of the \w+|any day|any time|every time|always)\b
    give me [\w' -]{2,40} (?:over [\w' -]{2,40} any (?:day|time)|and (?:i'm|i am) (?:happy|set|content))
    anything with \w+ and i'm \w
    nothing (?:with|over|under|after|before) [\w' -]{2,30}(?: for (?:me|us|my|our)\b|, (?=i |we ))
    (?:skip|avoid|leave out|steer clear of|keep away from|rule out) (?:anything|everything|all|any) (?:with|that|made|
        on|in|over|under|after)\b(?! (?:this|that|the)\b)
    keep (?:your (?:answers?|replies|responses|messages|explanations|emails)|(?:the|all) (?:answers|replies)) (?!as|
        in the|for)\w
    address me (?:as|by|in|informally|formally)\b
    talk to me (?:like|in|as)\b
    call me (?:(?-i:[A-Z])|(?!back|later|when|if|an?\b|tomorrow|at)\w)
    when(?:ever)? you <HELPS>\b[^,.?]{0,60}(?:, ?\w| (?:i want|i'd like|please|use|keep|always|never)\b)
    (?:(?:for|with|in|on) )(?!this|that|the|my|example|instance|what)(?:\w+ ){0,2}<KINDS>[:,] (?!i\b|we\b|is|are|what|
        how|can|could|do|does|which|where)\w
    [\w' -]{3,40} everywhere, please
    (?!the\b|this|that|it\b)[\w -]{3,30} only,? please\b
    (?:don't|do not) [\w' -]{5,60}, ever\b
    (?:don't|dont|do not|never|stop) (?!worry|bother)\w+ (?:\w+ ){1,5}(?:with|to|at|on) <US>(?= *(?:[.,;!]|pls|please|
        ok|thanks|$))
    (?:could|can|would|will) you (?:please )?stop \w+ing [\w' -]{0,40}\b(?:every|each|all|always|any)\b
    (?:write|answer|reply|give me|use|show me|tell me|add) [^?.,]{3,60}\bwhen(?:ever)? you (?!are done|have)\w
    (?:don't|do not) (?:suggest|recommend|book|offer|serve) (?:me )?(?:anything|any|\w+s)\b<THING>
    never (?!mind\b|give\b|heard|seen|been|got|had|thought|knew|did)\w+ (?:me|my|any|an?)\b
    (?:never|always|don't ever|do not ever) (?:ever )?(?!give up)(?:<HELPS>|include|put me|seat|use|add|call me|buy|
        assume|tell)\b<THING>
    no (?!problem|worries|idea|need|rush|matter|one|more|way|thanks|offen[sc]e|it|i|that|doubt|longer|change|luck|news|
        but)[\w -]{2,40}? (?:for <US>|in (?:our|this|my) (?:family|house|home|household|kitchen)|ever)\b
    no (?!problem|worries|idea|need|rush|one|way)[\w' -]{2,40}, (?:ever|period|full stop|at all)\b
    [\w -]{3,40}, (?:please, )?always\b(?:, please)?[.!]*$
    [\w -]{3,40} please, always\b
    (?!(?:how|what|which|why|who|where|when|should|can|could|is|are|do|does|
        will)\b)[\w' ,-]{5,80}(?:,? <FOR_GOOD>)(?= *(?:[.,;!]|$|rather than|instead of|please))
    (?:from now on|going forward|(?:for|in) (?:the )?future(?: reference)?),? (?:please |always |never |don't |do not |
        no |only |use |give |answer |reply |respond |speak |talk |explain |treat |write |keep |call |book |show |
        short |long |more |less |fewer |<NUMBER> )[\w ]
""")
