"""Manners: English patterns of how the assistant is to answer, such as "Don't use emojis" and "Use metric units"."""

from __future__ import annotations

from epic_core.learning.vocabulary import anywhere, define, front

# STYLE is what answers are made of. END keeps out what is about one text: "Use metric units in this recipe".
define(
    r"""
    ANSWERS = answers|replies|responses|explanations|messages|summaries|sentences|paragraphs|descriptions
    SHORT = shorter|longer|short|brief|briefer|concise|simple|simpler|clear|clearer|plain|direct|detailed|precise|
        honest|straight|quick|formal|informal
    TONE = brief|concise|direct|blunt|frank|formal|informal|casual|precise|succinct|critical|verbose|wordy|chatty|
        thorough|polite|nice|cheerful|vague|pushy|dramatic|enthusiastic|apologetic
    STYLE = (?:(?!the|this|that|it|on|to|of|for)[\w-]+ ){0,2}?(?:emojis?|emoticons|smileys|jargon|slang|acronyms|
        abbreviations|buzzwords|clich\w+|filler|fluff|waffle|preambles?|intros?|introductions?|pleasantries|small talk|
        flattery|praise|compliments|apologies|disclaimers?|caveats|bullets?|bullet points?|lists|headings?|headers|
        tables|markdown|bold|bold text|italics|capitals|all caps|footnotes|citations|sources|references|links|
        (?:exclamation|question) (?:marks?|points?)|dashes|semicolons|commas?|swear ?words|swearing|metaphors|analogies|
        examples|follow-?ups|(?:follow-up|clarifying|rhetorical) questions|explanations|code blocks|comments|
        type hints|tabs|spaces|voice|tense|words|spelling|language|tone|humou?r|jokes|sarcasm|puns|greetings|
        sign-?offs|working|reasoning|pronouns|sentences|paragraphs)
    UNITS = (?:the )?(?:metric|imperial|si|us)(?: units| system| measure\w*)?|units|celsius|centigrade|fahrenheit|
        kilomet(?:re|er)s?|km|miles|kilos?|kilograms?|grams|tonnes|lit(?:re|er)s|feet|inches|euros?|dollars?|pounds|francs|
        (?:the )?(?:24|12)[- ]?h(?:our)?(?: clock| times?| format)?|iso (?:dates|format)|utc
    TONGUE = (?:british|american|canadian|australian|uk|us) (?:english|spellings?)|(?:an? )?(?:\w+ )?(?:plain|simple|
        simpler|easy|everyday|formal|informal|inclusive|gender-neutral|polite|friendly|neutral|serious|professional)
         (?:english|language|words|terms|tone|style)|(?-i:English|German|French|Spanish|Italian|Dutch|Portuguese|
        Polish|Turkish|Greek|Swedish|Danish|Norwegian|Finnish|Czech|Russian|Ukrainian|Arabic|Hebrew|Hindi|Chinese|
        Japanese|Korean|Irish|Welsh)
    MEASURES = temperatures?|prices?|dates?|times?|distances?|weights?|measure\w*|amounts?|quantities|numbers|costs?|
        sizes
    BRIEFLY = briefly|concisely|simply|plainly|directly|bluntly|frankly|formally|informally|politely|casually|
        honestly|step[- ]by[- ]step|in detail|in (?:prose|full sentences|complete sentences|bullet points|lists)
    EXPLAIN = answer|reply|respond|write|talk|speak|explain (?:things|everything|stuff|concepts)|address me|put things
    END = (?= *(?:[.;!?]|$|please\b|pls\b|thanks|thank you|, ?(?:please|pls|thanks|ok|then|not|never|i|i'm|we|my|it|
        it's|they|more|less|no|just|only|so)\b|(?:and|because|unless|instead of|rather than|not|at all|at the end|ever|
        only|when|whenever|where|to me|with me|from now on)\b|(?:in|for|with|to|on) (?!(?:this|that|these|those|the|it|
        an?|his|her|their|both|each|my|section|chapter|question|table|part)\b)[a-z]))
    """
)
MANNER = front(r"""
    (?:<ASK>)?(?:don't|do not|dont|never|stop|quit|avoid|no|no more|no need for|less|fewer|skip|drop|leave out|
        cut(?: out)?|enough|go easy on|spare me|i (?:don't|do not) (?:want|need))(?: ever)?(?: (?:us|add|includ|
        putt?|writ|giv|send|ask)(?:e|ing)?(?: me)?)? (?:any |so many |so much |the |all |all the |your |of the |
        with the |in |with )?
        <STYLE><END>
    (?:<ASK>)?(?:always |only |just )?(?:use|add|include|put|prefer|stick (?:to|with)|switch (?:me )?to|cite|
        (?:write|work|answer|reply|respond|talk|speak)(?: only)? in|i(?:'d| would) (?:like|prefer)|i prefer|i want|
        (?:give|show)(?= me (?:more|fewer|only)\b|.*\balways\b| your\b))(?: me)? (?:only |more |fewer |some |your )?
        (?:<UNITS>|<TONGUE>|<STYLE>)<END>
    always (?:show|give|explain) your \w
    (?:always )?(?:use|give|show|write|quote|state|format|put|express|convert|round|list|tell me)(?: me)? (?:all |any |
        your )?<MEASURES> (?:in|as|with|to|including|without|excluding|using|the \w+ way|like)\b
        (?! (?:this|that|the)\b)
    <MEASURES> (?:(?:should|must) (?:always )?be \w|(?:always )?(?:in|as|with) (?!the\b|this\b)[\w/-]+(?=,? please|
        [.!]|$))
    (?:(?:always )?(?:give|write|keep|make|send|use|i(?:'d| would) (?:like|prefer)|i want|i prefer)(?: me)? )?(?:much |
        even |rather )?(?:your |more |less )?<SHORT> <ANSWERS>(?: only)?<END>
    be (?:an? (?:bit|little) |much )?(?:more|less|always) <TONE>(?= *(?:[.;!]|$|please|with me|in your|in general))
    (?:stop being|don't be|do not be) (?:so |too |that )?<TONE>\b
    (?:<ASK>)?(?:always )?<EXPLAIN>(?: to me| me)? (?:only |always |more |very )*(?:<BRIEFLY>|without <STYLE>)<END>
    <EXPLAIN>(?: to me| me)? (?:like|as if|as though|as to|as you) \w
    (?:don't|do not|dont|never|stop) (?:guess|waffl|rambl|hedg|apologi[sz]|morali[sz]|preach|lectur|repeat(?:ing)?
         (?:yourself|my)|mak(?:e|ing) things up|assum)(?:e|ing)?<END>
    (?:never|don't|do not|dont|stop) (?:start|begin|open|end|finish|clos)(?:e|n?ing)?(?: (?:your|an|the|every) \w+)?
         with\b
    (?:give me|start with|put|lead with|begin with) the (?:short )?(?:answer|conclusion|result|bottom line|gist|code)
         (?:first|up front)\b
    (?:ask|check with|warn) me (?:first )?before you (?:assume|guess)\b
    use (?:\w+/\w+ for me|my (?:first |last |full )?name)\b
    your <ANSWERS> are (?:\w+ )?too \w
""")
# Where these stand beside it, a manner holds for good; else it may be for what is asked for in the same turn.
LASTING = anywhere(
    r"\b(?:always|never|ever|every|all|any more|in general|from now on|in future|your|answers|replies|"
    r"when(?:ever)? you)\b"
)
FORBIDDEN = front(r"(?:don't|do not|dont|never|stop|quit|avoid|no)\b")
# A request for a text: how it is to be written is said for once.
TASK = anywhere(r"""
    \b(?:write|draft|compose|rewrite|rephrase|translate|summari[sz]e|shorten|make|create|generate|prepare|convert|list|
        describe|turn|edit|correct|format|plan|design|explain)\b(?! (?:in|with|without|like|things|everything|simply|
        briefly|short\w*)\b)
""")
