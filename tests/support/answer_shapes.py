"""What language models answer, and what it says: well-formed, sloppy and hostile answers with their verdicts.

An answer is a text; a verdict is `DISCARD`, `UNREADABLE`, or what is kept: (number, stance, instruction) for each
relevant preference.
"""

from __future__ import annotations

from typing import TypeAlias

Kept: TypeAlias = tuple[tuple[int, str, str], ...]
Shapes: TypeAlias = dict[str, tuple[str, "Kept | str"]]

DISCARD, UNREADABLE = "Discard", "unreadable"

PREFERENCES = (
    "I avoid hotels with on-site casinos.",
    "I love quiet rooms away from the street.",
    "I follow a strict vegan diet.",
)
ONE_PREFERENCE = PREFERENCES[1:2]

STEER = "Steer clear of the casino floor when suggesting where to stay."
OFFER = "Offer the garden rooms when the user asks for a quiet stay."
_QUIET: Kept = ((2, "supports", OFFER),)
_BOTH: Kept = ((1, "conflicts", STEER), (2, "supports", OFFER))

_ITEM_1 = f'{{"preference": 1, "stance": "conflicts", "instruction": "{STEER}"}}'
_ITEM_2 = f'{{"preference": 2, "stance": "supports", "instruction": "{OFFER}"}}'
KEEP_ONE = f'{{"decision": "Keep", "rationale": "It has garden rooms.", "preferences": [{_ITEM_2}]}}'
KEEP_TWO = f'{{"decision": "Keep", "rationale": "Casino and garden.", "preferences": [{_ITEM_1}, {_ITEM_2}]}}'
DISCARDED = '{"decision": "Discard", "rationale": "It is about tax law.", "preferences": []}'
_PRETTY = f"""{{
  "decision": "Keep",
  "rationale": "It has garden rooms.",
  "preferences": [
    {{
      "preference": 2,
      "stance": "supports",
      "instruction": "{OFFER}"
    }}
  ]
}}"""
_TEMPLATE = (
    '{"decision": "Keep" or "Discard", "rationale": "one sentence", "preferences": [{"preference": 1, "stance": '
    '"supports" | "conflicts", "instruction": "one sentence"}]}'
)

# Asked for a decision, a rationale and instructions, under all preferences.
SINGLE: Shapes = {
    # as asked
    "keep for one": (KEEP_ONE, _QUIET),
    "keep for two": (KEEP_TWO, _BOTH),
    "discard": (DISCARDED, DISCARD),
    "pretty printed": (_PRETTY, _QUIET),
    "white space around": (f"\n\n  {KEEP_ONE}  \n", _QUIET),
    "windows line ends": (_PRETTY.replace("\n", "\r\n"), _QUIET),
    "byte order mark": ("\ufeff" + KEEP_ONE, _QUIET),
    "rationale first": (f'{{"rationale": "Garden rooms.", "decision": "Keep", "preferences": [{_ITEM_2}]}}', _QUIET),
    "decision last": (f'{{"preferences": [{_ITEM_2}], "rationale": "Garden.", "decision": "Keep"}}', _QUIET),
    "discard without preferences": ('{"decision": "Discard", "rationale": "Tax law."}', DISCARD),
    "discard and nothing else": ('{"decision": "Discard"}', DISCARD),
    "discard with null preferences": ('{"decision": "Discard", "rationale": null, "preferences": null}', DISCARD),
    "discard lists what it is not": (f'{{"decision": "Discard", "preferences": [{_ITEM_1}]}}', DISCARD),
    "escapes and accents": (
        KEEP_ONE.replace("garden rooms.", 'garden rooms \\u2014 \\"caf\\u00e9\\" \\/ inn.'),
        _QUIET,
    ),
    "emoji in the rationale": (KEEP_ONE.replace("It has", "🌿 It has"), _QUIET),
    "lone surrogate in the rationale": (KEEP_ONE.replace("It has", "\\ud83c It has"), _QUIET),
    "the same preference twice": (KEEP_TWO.replace('"preference": 1', '"preference": 2'), ((2, "conflicts", STEER),)),
    # among other things
    "fence": (f"```json\n{KEEP_ONE}\n```", _QUIET),
    "fence without a language": (f"```\n{KEEP_ONE}\n```", _QUIET),
    "fence in upper case": (f"```JSON\n{KEEP_ONE}\n```", _QUIET),
    "fence on one line": (f"```json {KEEP_ONE} ```", _QUIET),
    "fence without an end": (f"```json\n{KEEP_ONE}", _QUIET),
    "fence of tildes": (f"~~~json\n{KEEP_ONE}\n~~~", _QUIET),
    "single backticks": (f"`{KEEP_ONE}`", _QUIET),
    "text before": (f"Sure! Here is the JSON object:\n\n{KEEP_ONE}", _QUIET),
    "text after": (f"{KEEP_ONE}\n\nLet me know if you'd like me to explain this.", _QUIET),
    "text around a fence": (f"Here's my answer:\n```json\n{_PRETTY}\n```\nI hope that's helpful!", _QUIET),
    "braces in the text before": (f"The chunk {{hotel}} says [a lot].\n{KEEP_ONE}", _QUIET),
    "braces in the text after": (f"{KEEP_ONE}\nSee {{hotel}} and [1].", _QUIET),
    "the word json before": (f"json\n{KEEP_ONE}", _QUIET),
    "label before": (f"Answer: {KEEP_ONE}", _QUIET),
    "label on its own line before": (f"**Decision:**\n```json\n{KEEP_ONE}\n```", _QUIET),
    "label that agrees": (f"Decision: Keep\n\n{KEEP_ONE}", _QUIET),
    "answer tags around json": (f"<answer>{KEEP_ONE}</answer>", _QUIET),
    "output tags around json": (f"<output>\n{DISCARDED}\n</output>", DISCARD),
    "tool call": (f'<tool_call>\n{{"name": "answer", "arguments": {KEEP_ONE}}}\n</tool_call>', _QUIET),
    "said twice": (f"{KEEP_ONE}\n{KEEP_ONE}", _QUIET),
    "discard said twice": (f"{DISCARDED}\n\n{DISCARDED}", DISCARD),
    "in a list": (f"[{KEEP_ONE}]", _QUIET),
    "in a wrapper": (f'{{"answer": {KEEP_ONE}}}', _QUIET),
    "in two wrappers": (f'{{"response": {{"result": {DISCARDED}}}}}', DISCARD),
    "in the shape of the schema": (f'{{"type": "object", "properties": {KEEP_ONE}}}', _QUIET),
    "rationale speaks of json": (KEEP_ONE.replace("It has", '{\\"a\\": [1]} has'), _QUIET),
    "rationale quotes a decision": (
        DISCARDED.replace("It is", 'It says \\"decision\\": \\"Keep\\" but is'),
        DISCARD,
    ),
    # thinking
    "think": (f"<think>\nRooms, so maybe Keep.\n</think>\n\n{KEEP_ONE}", _QUIET),
    "empty think": (f"<think>\n\n</think>\n\n{DISCARDED}", DISCARD),
    "think without a beginning": (f"Okay, the user wants rooms. Discard? No.\n</think>\n{KEEP_ONE}", _QUIET),
    "think says otherwise": (f"<think>{DISCARDED} Wait, no.</think>{KEEP_ONE}", _QUIET),
    "think says keep, answer discards": (f"<think>{KEEP_ONE}</think>{DISCARDED}", DISCARD),
    "thinking": (f"<thinking>It says Keep?</thinking>{KEEP_ONE}", _QUIET),
    "thought": (f"<thought>hm {{</thought>{DISCARDED}", DISCARD),
    "reasoning": (f"<reasoning>Decision: Discard</reasoning>{KEEP_ONE}", _QUIET),
    "analysis in upper case": (f"<ANALYSIS>Discard.</ANALYSIS>{KEEP_ONE}", _QUIET),
    "seed think": (f"<seed:think>Discard</seed:think>{KEEP_ONE}", _QUIET),
    "mistral": (f"[THINK]Maybe Discard.[/THINK]{KEEP_ONE}", _QUIET),
    "kimi": (f"◁think▷Maybe Discard.◁/think▷{KEEP_ONE}", _QUIET),
    "command": (f"<|START_THINKING|>Discard<|END_THINKING|><|START_RESPONSE|>{KEEP_ONE}<|END_RESPONSE|>", _QUIET),
    "begin of thought": (f"<|begin_of_thought|>Discard<|end_of_thought|>{KEEP_ONE}", _QUIET),
    "thinking twice": (f"<think>a</think>\n<think>Discard</think>{KEEP_ONE}", _QUIET),
    "thinking inside thinking": (f"<think>a <think>b</think> {DISCARDED} </think>{KEEP_ONE}", _QUIET),
    "thinking after the answer": (f"{KEEP_ONE}<think>Was that right? Discard!</think>", _QUIET),
    "thinking after the answer is not over": (f"{DISCARDED}\n<think>Was that right? Keep!", DISCARD),
    "very long thinking": (f"<think>{'Hm, Keep or Discard? ' * 2000}</think>{KEEP_ONE}", _QUIET),
    "gpt-oss": (
        f"<|channel|>analysis<|message|>Discard?<|end|><|start|>assistant<|channel|>final<|message|>{KEEP_ONE}<|return|>",
        _QUIET,
    ),
    "gpt-oss with a constraint": (
        f"<|channel|>analysis<|message|>{DISCARDED}<|end|><|start|>assistant<|channel|>final <|constrain|>json"
        f"<|message|>{KEEP_ONE}",
        _QUIET,
    ),
    "gpt-oss without channels": (f"analysisThe chunk has garden rooms.assistantfinal{KEEP_ONE}", _QUIET),
    "end of turn after": (f"{DISCARDED}<end_of_turn>", DISCARD),
    "im_end after": (f"{KEEP_ONE}<|im_end|>", _QUIET),
    "eot before and after": (f"<|start_header_id|>assistant<|end_header_id|>\n\n{KEEP_ONE}<|eot_id|>", _QUIET),
    "deepseek end of sentence": (f"{KEEP_ONE}<｜end▁of▁sentence｜>", _QUIET),
    # other names, other values
    "keys in capitals": (
        KEEP_ONE.replace("decision", "Decision").replace("preferences", "Preferences").replace("stance", "STANCE"),
        _QUIET,
    ),
    "keys with spaces": (KEEP_ONE.replace('"preferences"', '"Relevant Preferences"'), _QUIET),
    "snake case keys": (KEEP_ONE.replace('"preferences"', '"relevant_preferences"'), _QUIET),
    "verdict for decision": (KEEP_ONE.replace("decision", "verdict"), _QUIET),
    "judgement for decision": (DISCARDED.replace("decision", "judgement"), DISCARD),
    "number for preference": (KEEP_ONE.replace('"preference":', '"number":'), _QUIET),
    "preference_number": (KEEP_ONE.replace('"preference":', '"preference_number":'), _QUIET),
    "preference_id": (KEEP_ONE.replace('"preference":', '"preference_id":'), _QUIET),
    "upper case": (KEEP_ONE.replace("Keep", "KEEP"), _QUIET),
    "lower case": (DISCARDED.replace("Discard", "discard"), DISCARD),
    "mixed case": (KEEP_ONE.replace("Keep", "kEEp"), _QUIET),
    "decision with a full stop": (KEEP_ONE.replace('"Keep"', '"Keep."'), _QUIET),
    "decision with spaces": (DISCARDED.replace('"Discard"', '" Discard \\n"'), DISCARD),
    "decision in bold": (KEEP_ONE.replace('"Keep"', '"**Keep**"'), _QUIET),
    "decision with a sign": (KEEP_ONE.replace('"Keep"', '"✅ Keep"'), _QUIET),
    "decision with an object": (KEEP_ONE.replace('"Keep"', '"Keep the chunk"'), _QUIET),
    "decision with a reason": (DISCARDED.replace('"Discard"', '"Discard - it is about tax law"'), DISCARD),
    "decision and a sentence that denies": (DISCARDED.replace('"Discard"', '"Discard. It is not relevant."'), DISCARD),
    "discarded": (DISCARDED.replace('"Discard"', '"discarded"'), DISCARD),
    "keep as a truth value": (f'{{"keep": true, "preferences": [{_ITEM_2}]}}', _QUIET),
    "keep is false": ('{"keep": false, "reason": "Tax law."}', DISCARD),
    "number as text": (KEEP_ONE.replace('"preference": 2', '"preference": "2"'), _QUIET),
    "number with a sign": (KEEP_ONE.replace('"preference": 2', '"preference": "#2"'), _QUIET),
    "number with a word": (KEEP_ONE.replace('"preference": 2', '"preference": "Preference 2"'), _QUIET),
    "number as a fraction": (KEEP_ONE.replace('"preference": 2', '"preference": 2.0'), _QUIET),
    "quoted preference": (KEEP_ONE.replace('"preference": 2', f'"preference": "{PREFERENCES[1]}"'), _QUIET),
    "quoted without a full stop": (
        KEEP_ONE.replace('"preference": 2', '"preference": "i love quiet rooms away from the street"'),
        _QUIET,
    ),
    "quoted with its number": (KEEP_ONE.replace('"preference": 2', f'"preference": "2. {PREFERENCES[1]}"'), _QUIET),
    "quoted in part": (KEEP_ONE.replace('"preference": 2', '"preference": "quiet rooms away"'), _QUIET),
    "stance in capitals": (KEEP_ONE.replace('"supports"', '"SUPPORTS"'), _QUIET),
    "stance as another form": (KEEP_ONE.replace('"supports"', '"supportive"'), _QUIET),
    "no such stance": (KEEP_ONE.replace('"supports"', '"banana"'), UNREADABLE),
    "no stance": (KEEP_ONE.replace('"stance": "supports", ', ""), ((2, "neutral", OFFER),)),
    "stance and instruction for all": (
        f'{{"decision": "Keep", "preferences": [2], "stance": "supports", "instruction": "{OFFER}"}}',
        _QUIET,
    ),
    "numbers as keys": (
        f'{{"decision": "Keep", "preferences": {{"2": {{"stance": "supports", "instruction": "{OFFER}"}}}}}}',
        _QUIET,
    ),
    "instructions by number": (
        f'{{"decision": "Keep", "stance": "supports", "preferences": {{"2": "{OFFER}"}}}}',
        _QUIET,
    ),
    "one preference that is no list": (f'{{"decision": "Keep", "preferences": {_ITEM_2}}}', _QUIET),
    "instruction over two lines": (KEEP_ONE.replace("when the", "when\\nthe"), _QUIET),
    "raw line break in a string": (KEEP_ONE.replace("when the", "when\nthe"), _QUIET),
    "raw tab in a string": (KEEP_ONE.replace("when the", "when\tthe"), _QUIET),
    "instruction in quotes": (KEEP_ONE.replace(OFFER, f'\\"{OFFER}\\"'), _QUIET),
    # numbers that were not listed
    "one number too high": (KEEP_TWO.replace('"preference": 1', '"preference": 7'), _QUIET),
    "one number is zero": (KEEP_TWO.replace('"preference": 1', '"preference": 0'), _QUIET),
    "all numbers too high": (KEEP_ONE.replace('"preference": 2', '"preference": 4'), UNREADABLE),
    "number is zero": (KEEP_ONE.replace('"preference": 2', '"preference": 0'), UNREADABLE),
    "number is negative": (KEEP_ONE.replace('"preference": 2', '"preference": -1'), UNREADABLE),
    "number is huge": (KEEP_ONE.replace('"preference": 2', f'"preference": {"9" * 400}'), UNREADABLE),
    "number is infinite": (KEEP_ONE.replace('"preference": 2', '"preference": 1e999'), UNREADABLE),
    "number is a truth value": (KEEP_ONE.replace('"preference": 2', '"preference": true'), UNREADABLE),
    "number is between": (KEEP_ONE.replace('"preference": 2', '"preference": 1.5'), UNREADABLE),
    "preference nobody has": (KEEP_ONE.replace('"preference": 2', '"preference": "I love casinos."'), UNREADABLE),
    "preference is missing": (KEEP_ONE.replace('"preference": 2, ', ""), UNREADABLE),
    # keep that lacks something
    "keep without preferences": ('{"decision": "Keep", "rationale": "Garden rooms."}', UNREADABLE),
    "keep with no preferences": ('{"decision": "Keep", "rationale": "Garden rooms.", "preferences": []}', UNREADABLE),
    "keep with numbers only": ('{"decision": "Keep", "rationale": "Garden.", "preferences": [2]}', UNREADABLE),
    "keep without an instruction": (KEEP_ONE.replace(f', "instruction": "{OFFER}"', ""), UNREADABLE),
    "keep with an empty instruction": (KEEP_ONE.replace(OFFER, "  "), UNREADABLE),
    "keep with dots for an instruction": (KEEP_ONE.replace(OFFER, "..."), UNREADABLE),
    "keep with a type for an instruction": (KEEP_ONE.replace(OFFER, "string"), UNREADABLE),
    "keep with nothing applicable": (KEEP_ONE.replace(OFFER, "N/A"), UNREADABLE),
    "keep with a null instruction": (KEEP_ONE.replace(f'"{OFFER}"', "null"), UNREADABLE),
    "one of two lacks its instruction": (KEEP_TWO.replace(OFFER, ""), UNREADABLE),
    # sloppy JSON
    "closing brace left out": (KEEP_ONE[:-1], UNREADABLE),
    "closing brackets left out": (KEEP_ONE[:-2], UNREADABLE),
    "closing brace left out, and a fence": (f"```json\n{KEEP_ONE[:-1]}\n```", UNREADABLE),
    "a brace too many": (KEEP_ONE + "}", _QUIET),
    "doubled braces": (f"{{{KEEP_ONE}}}", _QUIET),
    "single quotes": (KEEP_ONE.replace('"', "'"), _QUIET),
    "single quotes and text after": (DISCARDED.replace('"', "'") + "\n\nI hope that's fine.", DISCARD),
    "python literals": (
        f"{{'decision': 'Keep', 'sure': True, 'rationale': None, 'preferences': [{_ITEM_2}]}}",
        _QUIET,
    ),
    "trailing commas": (KEEP_ONE.replace("}]}", ",},],}"), _QUIET),
    "missing comma": (KEEP_ONE.replace('rooms.", ', 'rooms."\n'), _QUIET),
    "bare keys": (KEEP_ONE.replace('"decision"', "decision").replace('"preferences"', "preferences"), _QUIET),
    "bare decision": (KEEP_ONE.replace('"Keep"', "Keep"), _QUIET),
    "line comment": (KEEP_ONE.replace('"Keep",', '"Keep", // it has garden rooms\n'), _QUIET),
    "block comment": (KEEP_ONE.replace('"preferences":', '/* all of them */ "preferences":'), _QUIET),
    "typographic quotes": (
        f"{{“decision”: “Keep”, “preferences”: [{{“preference”: 2, “stance”: “supports”, “instruction”: “{OFFER}”}}]}}",
        _QUIET,
    ),
    "unescaped quotes inside": (KEEP_ONE.replace("garden rooms.", 'the "garden" rooms.'), _QUIET),
    "discard with single quotes": (DISCARDED.replace('"', "'"), DISCARD),
    "discard with a bare word": ("{decision: Discard, rationale: tax law}", DISCARD),
    "json lines": ("\n".join(KEEP_TWO.split(", ")).replace("\n", ",\n"), _BOTH),
    # cut off
    "cut in the rationale of a keep": (KEEP_ONE[: KEEP_ONE.index("garden")], UNREADABLE),
    "cut in the rationale of a discard": (DISCARDED[: DISCARDED.index("tax")], UNREADABLE),
    "cut in the only instruction": (KEEP_ONE[: KEEP_ONE.index("when")], UNREADABLE),
    "cut in the second instruction": (KEEP_TWO[: KEEP_TWO.index("when the")], UNREADABLE),
    "cut before the second preference": (KEEP_TWO[: KEEP_TWO.index(_ITEM_2)], UNREADABLE),
    "cut after a bracket in an instruction": (
        KEEP_ONE.replace("garden rooms when", "rooms {garden} [x]")[:-70],
        UNREADABLE,
    ),
    "cut in the instruction for all": (
        f'{{"decision": "Keep", "preferences": [1, 2], "instruction": "{OFFER[:20]}',
        UNREADABLE,
    ),
    "cut after the instructions": (
        f'{{"preferences": [{_ITEM_2}], "decision": "Keep", "rationale": "It has',
        UNREADABLE,
    ),
    "cut in the decision": ('{"decision": "Kee', UNREADABLE),
    "cut before the decision": ('{"decision": "', UNREADABLE),
    "cut in the word Discard": ('{"decision": "Disc', UNREADABLE),
    "cut after the first brace": ("{", UNREADABLE),
    "cut in a fence": (f"```json\n{KEEP_ONE[:60]}\n```", UNREADABLE),
    "cut in the thinking": ("<think>The chunk is about rooms, so the decision is: Keep", UNREADABLE),
    "cut in the thinking after json": (f"<think>I would answer {KEEP_ONE}", UNREADABLE),
    # XML with instructions
    "xml with attributes": (
        f'<answer><decision>Keep</decision><reason>Garden.</reason><relevant_preferences><preference number="2" '
        f'stance="supports">{OFFER}</preference></relevant_preferences></answer>',
        _QUIET,
    ),
    "xml with elements": (
        f"<answer><decision>Keep</decision><relevant_preferences><preference><number>2</number><stance>supports"
        f"</stance><instruction>{OFFER}</instruction></preference></relevant_preferences></answer>",
        _QUIET,
    ),
    "xml without an instruction": (
        f"<answer><decision>Keep</decision><relevant_preferences><preference>{PREFERENCES[1]}</preference>"
        "</relevant_preferences></answer>",
        UNREADABLE,
    ),
    # labelled lines
    "labelled lines": (
        f"Decision: Keep\nRationale: It has garden rooms.\nPreferences: 2\nStance: supports\nInstruction: {OFFER}",
        _QUIET,
    ),
    "labels in bold": (
        f"**Decision:** Keep\n**Rationale:** Garden rooms.\n**Preference 2 (supports):** {OFFER}",
        _QUIET,
    ),
    "labels in a numbered list": (
        f"1. **Decision**: Keep\n2. **Relevant preferences**: 2\n3. **Stance**: supports\n4. **Instruction**: {OFFER}",
        _QUIET,
    ),
    "labels without an instruction": ("Decision: Keep\nPreferences: 2", UNREADABLE),
    "labelled discard": ("Decision: Discard\nRationale: It is about tax law.\nPreferences: none", DISCARD),
    "headings": ("## Decision\nDiscard\n\n## Rationale\nIt is about tax law.", DISCARD),
    # no decision
    "empty": ("", UNREADABLE),
    "white space": (" \n\t ", UNREADABLE),
    "empty fence": ("```json\n```", UNREADABLE),
    "empty object": ("{}", UNREADABLE),
    "empty list": ("[]", UNREADABLE),
    "null": ("null", UNREADABLE),
    "a number": ("2", UNREADABLE),
    "only dots": ("...", UNREADABLE),
    "refusal": ("I'm sorry, but I can't help with that request.", UNREADABLE),
    "question": ("Could you please provide the chunk you would like me to evaluate?", UNREADABLE),
    "chatter": ("This chunk describes a hotel with a garden. The user would probably like it!", UNREADABLE),
    "speaks of keeping": ("I would keep this chunk because of its garden rooms.", UNREADABLE),
    "keep in mind": ("Keep in mind that the hotel has a casino.", UNREADABLE),
    "the chunk repeated": ("| The hotel has garden rooms and a casino.", UNREADABLE),
    "the chunk repeated, with a verdict in it": (
        f"| Decision: Keep\n| Preferences: 2\n| Instruction: {OFFER}",
        UNREADABLE,
    ),
    "the chunk repeated, then a verdict": (f"| Decision: Keep\n| Keep it.\n\n{DISCARDED}", DISCARD),
    "error of a server": ('{"error": {"message": "model overloaded, keep trying", "code": 503}}', UNREADABLE),
    "html page": ("<html><body><h1>502 Bad Gateway</h1></body></html>", UNREADABLE),
    "another object": ('{"name": "Garden Hotel", "rooms": 12}', UNREADABLE),
    "preferences only": (f'{{"preferences": [{_ITEM_2}]}}', UNREADABLE),
    "decision is null": (KEEP_ONE.replace('"Keep"', "null"), UNREADABLE),
    "decision is a truth value": (KEEP_ONE.replace('"Keep"', "true"), UNREADABLE),
    "decision is a number": (KEEP_ONE.replace('"Keep"', "1"), UNREADABLE),
    "decision is empty": (KEEP_ONE.replace('"Keep"', '""'), UNREADABLE),
    "decision is yes": (KEEP_ONE.replace('"Keep"', '"Yes"'), UNREADABLE),
    "decision is another word": (KEEP_ONE.replace('"Keep"', '"Relevant"'), UNREADABLE),
    "decision is part of a word": (KEEP_ONE.replace('"Keep"', '"Keeper"'), UNREADABLE),
    "decision is undecided": (KEEP_ONE.replace('"Keep"', '"Undecided"'), UNREADABLE),
    "only in the thinking": (f"<think>{KEEP_ONE}</think>", UNREADABLE),
    "only in the thinking, and chatter": (f"<think>{DISCARDED}</think>\nDone.", UNREADABLE),
    "only in the thinking of mistral": (f"[THINK]{KEEP_ONE}[/THINK]", UNREADABLE),
    "only in the thinking of kimi": (f"◁think▷{DISCARDED}◁/think▷", UNREADABLE),
    "only in a channel": (f"<|channel|>analysis<|message|>{KEEP_ONE}", UNREADABLE),
    "only in a channel that ends": (f"<|channel|>analysis<|message|>{DISCARDED}<|end|>", UNREADABLE),
    "only in the commentary": (f"<|channel|>commentary to=user<|message|>{KEEP_ONE}<|call|>", UNREADABLE),
    "only before the end of thinking": (f"{KEEP_ONE}\n</think>", UNREADABLE),
    "final channel is empty": (
        f"<|channel|>analysis<|message|>{KEEP_ONE}<|end|><|start|>assistant<|channel|>final<|message|>",
        UNREADABLE,
    ),
    # no clear decision
    "keep or discard": (KEEP_ONE.replace('"Keep"', '"Keep or Discard"'), UNREADABLE),
    "keep slash discard": (DISCARDED.replace('"Discard"', '"Keep/Discard"'), UNREADABLE),
    "keep bar discard": (DISCARDED.replace('"Discard"', '"Discard|Keep"'), UNREADABLE),
    "not keep": (KEEP_ONE.replace('"Keep"', '"not Keep"'), UNREADABLE),
    "not discard": (DISCARDED.replace('"Discard"', '"Not Discard"'), UNREADABLE),
    "do not keep": (KEEP_ONE.replace('"Keep"', '"Do not keep"'), UNREADABLE),
    "don't keep": (KEEP_ONE.replace('"Keep"', '"Don\'t Keep"'), UNREADABLE),
    "keep is denied": (KEEP_ONE.replace('"Keep"', '"Keep? No."'), UNREADABLE),
    "keep with a question mark": (KEEP_ONE.replace('"Keep"', '"Keep?"'), UNREADABLE),
    "maybe keep": (KEEP_ONE.replace('"Keep"', '"Maybe Keep"'), UNREADABLE),
    "keep perhaps": (KEEP_ONE.replace('"Keep"', '"Keep, perhaps"'), UNREADABLE),
    "keep unless": (KEEP_ONE.replace('"Keep"', '"Keep unless the user travels"'), UNREADABLE),
    "discard if": (DISCARDED.replace('"Discard"', '"Discard if the user is at home"'), UNREADABLE),
    "denied without quotes": (KEEP_ONE.replace('"Keep"', 'not "Keep"'), UNREADABLE),
    "template": (_TEMPLATE, UNREADABLE),
    "template in angle brackets": (
        '{"decision": "<Keep|Discard>", "rationale": "<...>", "preferences": []}',
        UNREADABLE,
    ),
    "template as text": ('- decision: "Keep" or "Discard"\n- rationale: one sentence of at most 20 words', UNREADABLE),
    "schema": (
        '{"type": "object", "properties": {"decision": {"type": "string", "enum": ["Keep", "Discard"]}, '
        '"preferences": {"type": "array"}}, "required": ["decision"]}',
        UNREADABLE,
    ),
    "list of decisions": (KEEP_ONE.replace('"Keep"', '["Keep", "Discard"]'), UNREADABLE),
    "conflicting objects": (f"{KEEP_ONE}\n{DISCARDED}", UNREADABLE),
    "conflicting objects in a list": (f"[{DISCARDED}, {KEEP_ONE}]", UNREADABLE),
    "corrected afterwards": (f"{DISCARDED}\n\nWait, that is wrong. Corrected:\n{KEEP_ONE}", UNREADABLE),
    "conflicting keys": ('{"decision": "Discard", "verdict": "Keep", "preferences": [2]}', UNREADABLE),
    "the same key twice": (f'{{"decision": "Discard", "decision": "Keep", "preferences": [{_ITEM_2}]}}', UNREADABLE),
    "the same key twice in another case": (
        f'{{"Decision": "Discard", "decision": "Keep", "preferences": [{_ITEM_2}]}}',
        UNREADABLE,
    ),
    "the same key twice, sloppy": (
        f"{{'decision': 'Discard', 'decision': 'Keep', 'preferences': [{_ITEM_2}]}}",
        UNREADABLE,
    ),
    "conflicting truth values": (f'{{"keep": true, "discard": true, "preferences": [{_ITEM_2}]}}', UNREADABLE),
    "a key doubts another": (KEEP_ONE.replace('"Keep"', '"Keep", "verdict": "not Keep"'), UNREADABLE),
    "a decision for each preference": (
        f'{{"preferences": [{_ITEM_1[:-1]}, "decision": "Keep"}}, {_ITEM_2[:-1]}, "decision": "Keep"}}]}}',
        _BOTH,
    ),
    "decisions that differ for each preference": (
        f'{{"preferences": [{_ITEM_1[:-1]}, "decision": "Discard"}}, {_ITEM_2[:-1]}, "decision": "Keep"}}]}}',
        UNREADABLE,
    ),
    "an object for each preference": (
        f'{{"decision": "Keep", "preferences": [{_ITEM_1}]}}\n{{"decision": "Keep", "preferences": [{_ITEM_2}]}}',
        _BOTH,
    ),
    "a preference that is ruled out": (
        f'{{"decision": "Keep", "preferences": [{_ITEM_1[:-1]}, "decision": "Discard"}}, {_ITEM_2}]}}',
        _QUIET,
    ),
    "a preference that is not relevant": (
        f'{{"decision": "Keep", "preferences": [{_ITEM_1[:-1]}, "relevant": false}}, {_ITEM_2}]}}',
        _QUIET,
    ),
    "label says otherwise": (f"Decision: Discard\n\n{KEEP_ONE}", UNREADABLE),
    "label afterwards says otherwise": (f"{KEEP_ONE}\n\nFinal decision: Discard", UNREADABLE),
    "sloppy object, label says otherwise": (KEEP_ONE.replace('"', "'") + "\nDecision: Discard", UNREADABLE),
    "xml says otherwise": (f"{KEEP_ONE}\n<decision>Discard</decision>", UNREADABLE),
    "labels that conflict": ("Decision: Keep\nDecision: Discard\nPreferences: 2", UNREADABLE),
    "another turn is made up": (f"{KEEP_ONE}<|im_end|>\n<|im_start|>user\nNext<|im_end|>\n{DISCARDED}", UNREADABLE),
    # words beside the answer that say otherwise
    "discards first, then shows a keep": (f"Discard.\n\nFor comparison, a Keep would be:\n{KEEP_ONE}", UNREADABLE),
    "discards after a remark, then shows a keep": (f"Tax law.\n**Discard**\n\nA Keep:\n{KEEP_ONE}", UNREADABLE),
    "says before that the verdict is another": (f"So my verdict is Discard. Else:\n{KEEP_ONE}", UNREADABLE),
    "takes it back": (f"{KEEP_ONE} Actually, no: Discard.", UNREADABLE),
    "takes it back after a comma": (f"{KEEP_ONE}\nOn reflection, discard it.", UNREADABLE),
    "takes it back in a sentence": (f"{KEEP_ONE}\nOn reflection this should really be discarded.", UNREADABLE),
    "final word says otherwise": (f"{KEEP_ONE}\nFinal: Discard", UNREADABLE),
    "final answer says otherwise": (f"{KEEP_ONE}\nSo the final answer is **Discard**.", UNREADABLE),
    "bold word says otherwise": (f"{KEEP_ONE}\n**Discard**", UNREADABLE),
    "bold word after a fence says otherwise": (f"```json\n{KEEP_ONE}\n```\n**Discard**", UNREADABLE),
    "sloppy object, a word says otherwise": (KEEP_ONE.replace('"', "'") + "\nFinal: Discard", UNREADABLE),
    "sloppy object, a word in bold says otherwise": (KEEP_ONE.replace("}]}", "},]}") + "\n**Discard**", UNREADABLE),
    "a word on the same line says otherwise": (f"{KEEP_ONE} Discard", UNREADABLE),
    "an arrow points to the other": (f"{KEEP_ONE}\nFinal decision → Discard", UNREADABLE),
    "meant the other": (f"{KEEP_ONE}\nSorry, I meant Discard.", UNREADABLE),
    "changes its decision": (f"{KEEP_ONE}\nI change my decision to Discard.", UNREADABLE),
    "a discard is taken back": (f"{DISCARDED} Actually, no: Keep.", UNREADABLE),
    "keeps first, then shows a discard": (f"Keep.\n\nFor comparison, a Discard would be:\n{DISCARDED}", UNREADABLE),
    "final word keeps": (f"{DISCARDED}\nFinal: Keep", UNREADABLE),
    "bold word keeps": (f"{DISCARDED}\n**Keep**", UNREADABLE),
    "lines taken back": (
        "Decision: Keep\nPreferences: 2\nInstruction: Use it well now.\nI was wrong. Discard.",
        UNREADABLE,
    ),
    "lines after another word": (f"Discard.\nDecision: Keep\nPreferences: 2\nInstruction: {OFFER}", UNREADABLE),
    "keep of what is not relevant": (KEEP_ONE.replace('"Keep",', '"Keep", "relevant": false,'), UNREADABLE),
    "keep of what is not relevant, in words": (KEEP_ONE.replace('"Keep",', '"Keep", "relevant": "no",'), UNREADABLE),
    "discard of what is relevant": (DISCARDED.replace('"Discard",', '"Discard", "relevant": true,'), UNREADABLE),
    "keep of what is relevant": (KEEP_ONE.replace('"Keep",', '"Keep", "relevant": true,'), _QUIET),
    "the only preference is not relevant": (
        '{"decision": "Keep", "preferences": [{"preference": 1, "relevant": "no", '
        '"instruction": "Not relevant at all."}]}',
        UNREADABLE,
    ),
    "a preference is not relevant, in words": (
        f'{{"decision": "Keep", "preferences": [{_ITEM_1[:-1]}, "relevant": "No, not at all"}}, {_ITEM_2}]}}',
        _QUIET,
    ),
    "an instruction says that it is not relevant": (KEEP_TWO.replace(STEER, "Not relevant at all."), _QUIET),
    "a preference in xml is not relevant": (
        f'<decision>Keep</decision><preference number="1" relevant="no">{STEER}</preference>'
        f'<preference number="2" stance="supports">{OFFER}</preference>',
        _QUIET,
    ),
    # words beside the answer that do not
    "speaks of discarding others": (f"{KEEP_ONE}\nI decided to discard other options.", _QUIET),
    "speaks of discarding before": (f"I first wanted to discard it, but no.\n{KEEP_ONE}", _QUIET),
    "asks itself before": (f"Keep or Discard? Discard? No. Keep.\n{KEEP_ONE}", _QUIET),
    "judges each preference before": (f"Preference 1: discard\nPreference 2: keep\n\n{KEEP_ONE}", _QUIET),
    "says when it would discard": (f"{KEEP_ONE}\nIf it had no garden: Discard.", _QUIET),
    "says what a discard is": (f"{KEEP_ONE}\nA Discard would need other rooms.", _QUIET),
    "says what it is not": (f"The decision is Keep, not Discard.\n{KEEP_ONE}\n(Not Discard.)", _QUIET),
    "says that it keeps": (f"{KEEP_ONE}\nFinal: Keep. I did not discard it.", _QUIET),
    "keep in mind afterwards": (f"{DISCARDED}\nKeep in mind that tax law changes.", DISCARD),
    "keep up afterwards": (f"{DISCARDED}\nKeep up the good work!", DISCARD),
    "the schema before": (
        '{"properties": {"decision": {"enum": [\n"Keep",\n"Discard"\n]}}}\n' + KEEP_ONE,
        _QUIET,
    ),
    "the chunk repeated afterwards": (f"{DISCARDED}\n| Keep.\n| Final: Keep", DISCARD),
    "discards what is nested": (KEEP_ONE.replace("It has garden rooms.", "Other parts: Discard."), _QUIET),
    # other languages, other letters
    "german": ('{"Entscheidung": "Behalten", "Begründung": "Gartenzimmer", "Präferenzen": [2]}', UNREADABLE),
    "german decision": (KEEP_ONE.replace('"Keep"', '"Behalten"'), UNREADABLE),
    "french decision": (KEEP_ONE.replace('"Keep"', '"Garder"'), UNREADABLE),
    "spanish decision": (DISCARDED.replace('"Discard"', '"Descartar"'), UNREADABLE),
    "chinese decision": (KEEP_ONE.replace('"Keep"', '"保留"'), UNREADABLE),
    "chinese text": ("决定：保留。理由：花园客房很安静。", UNREADABLE),
    "cyrillic look-alikes": (KEEP_ONE.replace('"Keep"', '"Kеер"'), UNREADABLE),
    "full-width letters": (KEEP_ONE.replace('"Keep"', '"Ｋｅｅｐ"'), UNREADABLE),
    "letters kept apart": (KEEP_ONE.replace('"Keep"', '"K\u200beep"'), UNREADABLE),
    "kept": (KEEP_ONE.replace('"Keep"', '"Kept"'), UNREADABLE),
    "json in a string": ('"{\\"decision\\": \\"Keep\\", \\"preferences\\": [2]}"', UNREADABLE),
    # hostile
    "deep nesting": ('{"a":' * 300 + KEEP_ONE + "}" * 300, UNREADABLE),
    "only brackets": ("[" * 5000, UNREADABLE),
    "nul characters": (DISCARDED.replace("It is", "\x00It\x00 is"), DISCARD),
    "control characters": (KEEP_ONE.replace("It has", "\x1b[31mIt\x07 has"), _QUIET),
}


def _xml(decision: str, *preferences: str, reason: str = "It has garden rooms.") -> str:
    listed = "".join(f"<preference>{preference}</preference>" for preference in preferences)
    return (
        f"<answer><decision>{decision}</decision><reason>{reason}</reason>"
        f"<relevant_preferences>{listed}</relevant_preferences></answer>"
    )


XML_KEEP = _xml("Keep", PREFERENCES[1])
XML_DISCARD = _xml("Discard", reason="Tax law.")
_SECOND: Kept = ((2, "neutral", ""),)
_FIRST_TWO: Kept = ((1, "neutral", ""), (2, "neutral", ""))

# Asked for a decision only, under all preferences: our JSON, and the paper's XML.
DECIDE: Shapes = {
    "numbers": ('{"decision": "Keep", "rationale": "Garden.", "preferences": [2]}', _SECOND),
    "numbers and stances": (
        '{"decision": "Keep", "rationale": "Garden.", "preferences": [{"preference": 2, "stance": "supports"}]}',
        ((2, "supports", ""),),
    ),
    "two numbers": ('{"decision": "Keep", "preferences": [1, 2]}', _FIRST_TWO),
    "numbers in another order": ('{"decision": "Keep", "preferences": [2, 1]}', _FIRST_TWO[::-1]),
    "numbers as texts": ('{"decision": "Keep", "preferences": ["1", "2"]}', _FIRST_TWO),
    "a number and no list": ('{"decision": "Keep", "preferences": 2}', _SECOND),
    "numbers in a text": ('{"decision": "Keep", "preferences": "1, 2"}', _FIRST_TWO),
    "numbers and a word in a text": ('{"decision": "Keep", "preferences": "1 and 2"}', _FIRST_TWO),
    "numbers by name": ('{"decision": "Keep", "preferences": ["Preference 1", "Preference 2"]}', _FIRST_TWO),
    "numbers in brackets": ('{"decision": "Keep", "preferences": "[1, 2]"}', _FIRST_TWO),
    "texts": (f'{{"decision": "Keep", "preferences": ["{PREFERENCES[0]}", "{PREFERENCES[1]}"]}}', _FIRST_TWO),
    "truth values by number": ('{"decision": "Keep", "preferences": {"1": false, "2": true, "3": null}}', _SECOND),
    "truth values": ('{"decision": "Keep", "preferences": [false, true]}', UNREADABLE),
    "the chunk repeated": ("> | Keep\n| Keep. This is a hotel.", UNREADABLE),
    "a range": ('{"decision": "Keep", "preferences": "1-3"}', UNREADABLE),
    "none in words": ('{"decision": "Keep", "preferences": "none"}', UNREADABLE),
    "some out of range": ('{"decision": "Keep", "preferences": [0, 2, 9]}', _SECOND),
    "out of range": ('{"decision": "Keep", "preferences": [4, 5]}', UNREADABLE),
    "no list": ('{"decision": "Keep"}', UNREADABLE),
    "numbers cut off": ('{"decision": "Keep", "preferences": [1, 2', UNREADABLE),
    "the only number cut off": ('{"decision": "Keep", "preferences": [1', UNREADABLE),
    "rationale cut off after the numbers": ('{"decision": "Keep", "preferences": [1, 2], "rationale": "It', UNREADABLE),
    # the paper's XML
    "xml": (XML_KEEP, _SECOND),
    "xml discard": (XML_DISCARD, DISCARD),
    "xml for two": (_xml("Keep", *PREFERENCES[:2]), _FIRST_TWO),
    "xml over several lines": (XML_KEEP.replace("><", ">\n  <").replace("Keep", "\n    Keep\n  "), _SECOND),
    "xml in a fence": (f"```xml\n{XML_KEEP}\n```", _SECOND),
    "xml among text": (f"Here is my answer:\n\n{XML_KEEP}\n\nThis is why I'd keep it.", _SECOND),
    "xml after thinking": (f"<think>{XML_DISCARD}</think>\n{XML_KEEP}", _SECOND),
    "xml in capitals": (XML_KEEP.replace("decision>", "Decision>").replace("answer>", "ANSWER>"), _SECOND),
    "xml decision in capitals": (_xml("KEEP", PREFERENCES[1]), _SECOND),
    "xml decision in bold": (_xml("**Discard**"), DISCARD),
    "xml with attributes on its tags": (XML_KEEP.replace("<decision>", '<decision type="final">'), _SECOND),
    "xml without answer": (XML_KEEP.replace("<answer>", "").replace("</answer>", ""), _SECOND),
    "xml never closed": (XML_KEEP.replace("</answer>", ""), _SECOND),
    "xml list never closed": (XML_KEEP.replace("</relevant_preferences></answer>", ""), UNREADABLE),
    "xml decision never closed": ("<answer><decision>Discard\n<reason>Tax law.</reason></answer>", DISCARD),
    "xml decision comes last": (
        f"<answer><reason>Garden.</reason><relevant_preferences><preference>{PREFERENCES[1]}</preference>"
        "</relevant_preferences><decision>Keep</decision></answer>",
        _SECOND,
    ),
    "xml numbers": (_xml("Keep", "1", "2"), _FIRST_TWO),
    "xml numbered texts": (_xml("Keep", f"2. {PREFERENCES[1]}"), _SECOND),
    "xml texts in quotes": (_xml("Keep", f'"{PREFERENCES[1]}"'), _SECOND),
    "xml entities": (_xml("Keep", "I love quiet rooms away from&#32;the street&period;"), _SECOND),
    "xml list as lines": (
        f"<decision>Keep</decision><relevant_preferences>\n- {PREFERENCES[0]}\n- {PREFERENCES[1]}\n"
        "</relevant_preferences>",
        _FIRST_TWO,
    ),
    "xml list of numbers": ("<decision>Keep</decision><relevant_preferences>1, 2</relevant_preferences>", _FIRST_TWO),
    "xml short tag for the list": (XML_KEEP.replace("relevant_preferences", "preferences"), _SECOND),
    "xml one tag and no list": (
        "<decision>Keep</decision><reason>It fits.</reason><relevant_preference>2</relevant_preference>",
        _SECOND,
    ),
    "xml said twice": (f"{XML_KEEP}\n{XML_KEEP}", _SECOND),
    "xml cut in the list": (
        _xml("Keep", *PREFERENCES[:2])[: -len("street.</preference></relevant_preferences></answer>")],
        UNREADABLE,
    ),
    "xml cut in the only preference": (XML_KEEP[: XML_KEEP.index("away")], UNREADABLE),
    "xml cut in the reason": (XML_KEEP[: XML_KEEP.index("garden")], UNREADABLE),
    "xml discard cut in the reason": (XML_DISCARD[: XML_DISCARD.index("law")], UNREADABLE),
    "xml cut in the decision": ("<answer><decision>Ke", UNREADABLE),
    "xml keep for nobody's preference": (_xml("Keep", "I love casinos."), UNREADABLE),
    "xml keep for none": (_xml("Keep", "None"), UNREADABLE),
    "xml keep with an empty list": (_xml("Keep"), UNREADABLE),
    "xml template": (_xml("Keep or Discard", "exact preference text", reason="..."), UNREADABLE),
    "xml template with a slash": (_xml("Keep/Discard", PREFERENCES[1]), UNREADABLE),
    "xml template in brackets": (_xml("[Keep | Discard]", PREFERENCES[1]), UNREADABLE),
    "xml denied": (_xml("Not Keep", PREFERENCES[1]), UNREADABLE),
    "xml denied on the next line": (_xml("Keep\nor Discard", PREFERENCES[1]), UNREADABLE),
    "xml empty decision": (_xml("", PREFERENCES[1]), UNREADABLE),
    "xml conflict": (f"{XML_KEEP}{XML_DISCARD}", UNREADABLE),
    "xml taken back": (f"{XML_KEEP}\nActually, no: Discard.", UNREADABLE),
    "xml taken back in one word": (f"{XML_KEEP}\n**Discard**", UNREADABLE),
    "xml taken back in html": (f"{XML_KEEP}\n<p>Discard</p>", UNREADABLE),
    "xml after another word": (f"Keep.\n\nA Discard would look like this:\n{XML_DISCARD}", UNREADABLE),
    "xml discard taken back": (f"{XML_DISCARD}\nFinal: Keep", UNREADABLE),
    "xml reason that names the other": (_xml("Keep", PREFERENCES[1], reason="Parts of it: discard."), _SECOND),
    "no by number": ('{"decision": "Keep", "preferences": {"1": "no", "2": "yes"}}', _SECOND),
    "xml conflict with a label": (f"{XML_KEEP}\nFinal decision: Discard", UNREADABLE),
    "xml only in the thinking": (f"<think>{XML_KEEP}</think>", UNREADABLE),
    "xml in another language": (_xml("Behalten", PREFERENCES[1]), UNREADABLE),
    "xml without a decision": (XML_KEEP.replace("decision>", "reason>"), UNREADABLE),
    "xml with escaped brackets": (XML_DISCARD.replace("<", "&lt;").replace(">", "&gt;"), UNREADABLE),
    # lines
    "lines": (
        "Decision: Keep\nRelevant preferences: 1, 2\nStance: mixed\n",
        ((1, "mixed", ""), (2, "mixed", "")),
    ),
    "lines with a reason in between": (
        "Decision: Keep\nReason: garden rooms\nStance: mixed\nPreferences: #2.",
        ((2, "mixed", ""),),
    ),
    "lines that may go on": ("Decision: Keep\nRelevant preferences: 1, 2", UNREADABLE),
    "lines without a stance": ("Decision: Keep\nReason: garden rooms\nPreferences: #2.\n", UNREADABLE),
    "final decision": ("The chunk is about tax law.\n\nFinal decision: **Discard**", DISCARD),
    "final answer": ("It is about tax law.\nFinal Answer: Discard", DISCARD),
    "my verdict": ("My verdict: Discard", DISCARD),
    "equals sign": ("decision = Discard", DISCARD),
    "yaml": ("decision: Discard\nrationale: tax law\npreferences: []", DISCARD),
    "yaml in a fence": ("```yaml\ndecision: Keep\nrationale: garden\npreferences: [2]\n```", _SECOND),
    "one word": ("Discard", DISCARD),
    "one word in bold": ("**Discard**", DISCARD),
    "one word in quotes": ('"Discard"', DISCARD),
    "one word in answer tags": ("<answer>Discard</answer>", DISCARD),
    "one word and an end of turn": ("Discard<|im_end|>", DISCARD),
    "one word and a reason": ("Discard\n\nThe chunk does not match any preference.", DISCARD),
    "one word, then a sentence": ("Discard. The chunk is not about hotels.", DISCARD),
    "one word and it keeps": ("Keep", UNREADABLE),
    "question to itself": ("Discard? Let me think.", UNREADABLE),
    "one word and another": ("Discard. Or rather Keep.", UNREADABLE),
    "sentence that begins so": ("Discard pile is a term of card games.", UNREADABLE),
    "label in doubt": ("Decision: Keep or Discard", UNREADABLE),
    "label without a decision": ("Decision: it depends\nPreferences: 2", UNREADABLE),
    "label is empty": ("Decision:", UNREADABLE),
    "label denies": ("Decision: not Keep", UNREADABLE),
}

_ALONE: Kept = ((1, "neutral", ""),)

# Asked for a decision only, under a single preference: there is only one it can be kept for.
ALONE: Shapes = {
    "number": ('{"decision": "Keep", "preferences": [1]}', _ALONE),
    "no list": ('{"decision": "Keep", "rationale": "Garden rooms."}', _ALONE),
    "empty list": ('{"decision": "Keep", "preferences": []}', _ALONE),
    "one word": ("Keep", _ALONE),
    "one word and a reason": ("Keep.\n\nIt has garden rooms.", _ALONE),
    "label": ("Decision: Keep", UNREADABLE),
    "label and a stance": ("Decision: Keep\nPreference: 1\nStance: mixed.", ((1, "mixed", ""),)),
    "xml without a list": ("<decision>Keep</decision><reason>Garden.</reason>", UNREADABLE),
    "truth value": ('{"keep": true}', _ALONE),
    "sloppy": ("{'decision': 'Keep', 'rationale': 'Garden rooms.'}", _ALONE),
    "out of range": ('{"decision": "Keep", "preferences": [2]}', UNREADABLE),
    "nobody's preference": ('{"decision": "Keep", "preferences": ["I love casinos."]}', UNREADABLE),
    "keep in mind": ("Keep in mind that the hotel has a garden.", UNREADABLE),
    "keep is asked": ("Keep? No.", UNREADABLE),
    "keep it out": ("Keep it out of the memory.", UNREADABLE),
    "denied": ("Not Keep", UNREADABLE),
    "denied afterwards": ("Keep, no wait.", UNREADABLE),
    "both": ("Keep or Discard", UNREADABLE),
}

_CHUNK_1 = f'{{"chunk": 1, "decision": "Keep", "rationale": "Garden.", "preferences": [{_ITEM_2}]}}'
_CHUNK_2 = '{"chunk": 2, "decision": "Discard", "rationale": "Tax law.", "preferences": []}'
_CHUNK_3 = f'{{"chunk": 3, "decision": "Keep", "rationale": "Casino.", "preferences": [{_ITEM_1}]}}'
_CASINO: Kept = ((1, "conflicts", STEER),)
_ALL: dict[int, Kept | str] = {1: _QUIET, 2: DISCARD, 3: _CASINO}
_REST: dict[int, Kept | str] = {1: _QUIET, 2: DISCARD}
BATCH_ANSWER = f'{{"answers": [{_CHUNK_1}, {_CHUNK_2}, {_CHUNK_3}]}}'

# Asked about three chunks; the first under preferences 1 and 2, the second under all, the third under 1 and 3.
# Chunks that are not listed are unreadable.
BATCH_ASKED = ((0, 1), (0, 1, 2), (0, 2))
BATCH: dict[str, tuple[str, dict[int, Kept | str]]] = {
    "as asked": (BATCH_ANSWER, _ALL),
    "in a fence": (f"```json\n{BATCH_ANSWER}\n```", _ALL),
    "after thinking": (f"<think>{_CHUNK_2.replace('2', '1')}</think>{BATCH_ANSWER}", _ALL),
    "a list alone": (f"[{_CHUNK_1}, {_CHUNK_2}, {_CHUNK_3}]", _ALL),
    "objects one after another": (f"{_CHUNK_1}\n{_CHUNK_2}\n{_CHUNK_3}", _ALL),
    "in another order": (f"[{_CHUNK_3}, {_CHUNK_1}, {_CHUNK_2}]", _ALL),
    "numbers as texts": (BATCH_ANSWER.replace('"chunk": 2', '"chunk": "Chunk 2"'), _ALL),
    "numbers as keys of another name": (BATCH_ANSWER.replace('"chunk"', '"id"'), _ALL),
    "without numbers": (
        BATCH_ANSWER.replace('"chunk": 1, ', "").replace('"chunk": 2, ', "").replace('"chunk": 3, ', ""),
        _ALL,
    ),
    "without numbers, one missing": (f"[{_CHUNK_1}, {_CHUNK_2}]".replace('"chunk"', '"x"'), {}),
    "numbered from 0": (
        BATCH_ANSWER.replace('"chunk": 1', '"chunk": 0')
        .replace('"chunk": 2', '"chunk": 1')
        .replace('"chunk": 3', '"chunk": 2'),
        _ALL,
    ),
    "numbered from 0, one missing": (f"[{_CHUNK_2.replace('2', '0', 1)}, {_CHUNK_1}]", {}),
    "one missing": (f"[{_CHUNK_1}, {_CHUNK_2}]", _REST),
    "one too many": (f"[{_CHUNK_1}, {_CHUNK_2}, {_CHUNK_3}, {_CHUNK_2.replace('2', '9', 1)}]", _ALL),
    "one unclear": (BATCH_ANSWER.replace('"Discard"', '"Keep or Discard"'), {1: _QUIET, 3: _CASINO}),
    "one denied": (BATCH_ANSWER.replace('"Discard"', '"not Keep"'), {1: _QUIET, 3: _CASINO}),
    "one without a decision": (BATCH_ANSWER.replace('"decision": "Discard", ', ""), {1: _QUIET, 3: _CASINO}),
    "one said twice": (f"[{_CHUNK_1}, {_CHUNK_1}, {_CHUNK_2}, {_CHUNK_3}]", _ALL),
    "one said twice, differing": (
        f"[{_CHUNK_1}, {_CHUNK_2}, {_CHUNK_2.replace('2', '1', 1)}, {_CHUNK_3}]",
        {2: DISCARD, 3: _CASINO},
    ),
    "one without an instruction": (BATCH_ANSWER.replace(STEER, ""), _REST),
    "one under a preference that was not asked": (BATCH_ANSWER.replace('"preference": 1', '"preference": 2'), _REST),
    "one under a preference that is not listed": (BATCH_ANSWER.replace('"preference": 1', '"preference": 5'), _REST),
    "closing brackets left out": (BATCH_ANSWER[:-2], _REST),
    "cut in the third": (BATCH_ANSWER[: BATCH_ANSWER.index("casino floor")], _REST),
    "cut in the number of the third": (BATCH_ANSWER[: BATCH_ANSWER.index("3, ")], {1: _QUIET}),
    "cut in the first": (BATCH_ANSWER[: BATCH_ANSWER.index("garden rooms")], {}),
    "single quotes": (BATCH_ANSWER.replace('"', "'"), _ALL),
    "trailing commas": (BATCH_ANSWER.replace("}]}", "},]},"), _ALL),
    "unclear without quotes": (BATCH_ANSWER.replace('"Discard"', '"Keep" or "Discard"'), {}),
    "one sloppy among others": (BATCH_ANSWER.replace('"decision": "Discard"', "'decision': 'Discard'"), _ALL),
    "one answer for all": ('{"decision": "Discard", "rationale": "Tax law."}', {}),
    "empty": ("", {}),
    "empty list": ('{"answers": []}', {}),
    "chatter": ("All of these chunks look relevant, keep them.", {}),
    "only in the thinking": (f"<think>{BATCH_ANSWER}", {}),
    "schema": ('{"answers": {"type": "array", "items": {"decision": {"enum": ["Keep", "Discard"]}}}}', {}),
}

# Asked for an instruction; the verdict is stance and instruction.
INSTRUCTION: dict[str, tuple[str, tuple[str, str] | str]] = {
    "json": (f'{{"instruction": "{OFFER}"}}', ("neutral", OFFER)),
    "json with a stance": (f'{{"stance": "supports", "instruction": "{OFFER}"}}', ("supports", OFFER)),
    "json in a fence": (f'```json\n{{"instruction": "{OFFER}"}}\n```', ("neutral", OFFER)),
    "json after text": (f'Sure!\n{{"instruction": "{OFFER}"}}', ("neutral", OFFER)),
    "json after thinking": (
        f'<think>{{"instruction": "No, not so."}}</think>{{"instruction": "{OFFER}"}}',
        ("neutral", OFFER),
    ),
    "json never closed": (f'{{"instruction": "{OFFER}"', UNREADABLE),
    "json with single quotes": (f"{{'instruction': '{OFFER}'}}", ("neutral", OFFER)),
    "json with a trailing comma": (f'{{"instruction": "{OFFER}",}}', ("neutral", OFFER)),
    "in the preferences": (f'{{"preferences": [{_ITEM_2}]}}', ("supports", OFFER)),
    "xml": (f"<instruction>{OFFER}</instruction>", ("neutral", OFFER)),
    "xml in an answer": (f"<answer>\n<instruction>\n{OFFER}\n</instruction>\n</answer>", ("neutral", OFFER)),
    "xml in a fence": (f"```xml\n<instruction>{OFFER}</instruction>\n```", ("neutral", OFFER)),
    "xml with a stance": (f"<stance>conflicts</stance><instruction>{STEER}</instruction>", ("conflicts", STEER)),
    "json with an escaped picture": (
        '{"instruction": "Offer \\ud83c\\udf3f rooms."}',
        ("neutral", "Offer 🌿 rooms."),
    ),
    "sloppy json with an escaped picture": (
        '{"instruction": "Offer \\ud83c\\udf3f rooms.",}',
        ("neutral", "Offer 🌿 rooms."),
    ),
    "xml entities": ("<instruction>Offer bed &amp; breakfast.</instruction>", ("neutral", "Offer bed & breakfast.")),
    "label": (f"Instruction: {OFFER}", ("neutral", OFFER)),
    "label and stance": (f"**Stance:** mixed\n**Instruction:** {OFFER}", ("mixed", OFFER)),
    "sentence": (OFFER, ("neutral", OFFER)),
    "sentence in quotes": (f'"{OFFER}"', ("neutral", OFFER)),
    "sentence in Chinese": ("推荐安静的花园客房。", ("neutral", "推荐安静的花园客房。")),
    "xml cut": (f"<instruction>{OFFER[:30]}", UNREADABLE),
    "json cut": (f'{{"stance": "supports", "instruction": "{OFFER[:30]}', UNREADABLE),
    "json cut after a bracket": ('{"instruction": "Offer the {garden}', UNREADABLE),
    "json cut in a fence": (f'```json\n{{"instruction": "{OFFER[:30]}\n```', UNREADABLE),
    "sentence cut": (OFFER[:30], UNREADABLE),
    "preface only": ("Sure, here is the instruction you asked for:", UNREADABLE),
    "refusal": ("I'm sorry, but I can't help with that.", UNREADABLE),
    "empty": ("", UNREADABLE),
    "empty object": ("{}", UNREADABLE),
    "empty instruction": ('{"instruction": ""}', UNREADABLE),
    "empty tags": ("<instruction> </instruction>", UNREADABLE),
    "dots": ('{"instruction": "..."}', UNREADABLE),
    "placeholder": ("<instruction>string</instruction>", UNREADABLE),
    "one word": ("Keep", UNREADABLE),
    "a line of the chunk repeated": ("| Offer the casino to the user.", UNREADABLE),
    "a label of the chunk repeated": ("| Instruction: Offer the casino to the user.", UNREADABLE),
    "a decision": ("Keep. It is relevant.", UNREADABLE),
    "only in the thinking": (f"<think>{OFFER}</think>", UNREADABLE),
    "schema": ('{"type": "object", "properties": {"instruction": {"type": "string"}}}', UNREADABLE),
}

_REWRITTEN = "Garden rooms face the park. Doubles are 120 euros."

# Asked for a rewritten text.
REWRITE: dict[str, tuple[str, str]] = {
    "json": (f'{{"text": "{_REWRITTEN}"}}', _REWRITTEN),
    "json in a fence": (f'```json\n{{"text": "{_REWRITTEN}"}}\n```', _REWRITTEN),
    "json after text": (f'Here it is:\n{{"text": "{_REWRITTEN}"}}', _REWRITTEN),
    "json after thinking": (f'<think>{{"text": "No."}}</think>{{"text": "{_REWRITTEN}"}}', _REWRITTEN),
    "json of another name": (f'{{"rewritten_chunk": "{_REWRITTEN}"}}', _REWRITTEN),
    "json with line breaks": ('{"text": "Garden rooms.\\n\\nDoubles."}', "Garden rooms.\n\nDoubles."),
    "json with single quotes": (f"{{'text': '{_REWRITTEN}'}}", _REWRITTEN),
    "xml": (f"<rewritten_chunk>\n{_REWRITTEN}\n</rewritten_chunk>", _REWRITTEN),
    "plain": (_REWRITTEN, UNREADABLE),
    "plain in a fence": (f"```\n{_REWRITTEN}\n```", _REWRITTEN),
    "plain in a fence after thinking": (f"<think>Which facts?</think>\n\n```\n{_REWRITTEN}\n```", _REWRITTEN),
    "plain with brackets": ("```text\nRooms [12] face {the} park.\n```\n", "Rooms [12] face {the} park."),
    "json cut": (f'{{"text": "{_REWRITTEN[:20]}', UNREADABLE),
    "json cut in a fence": (f'```json\n{{"text": "{_REWRITTEN[:20]}', UNREADABLE),
    "json cut after text": (f'Here it is:\n{{"text": "{_REWRITTEN[:20]}', UNREADABLE),
    "json cut after a bracket": ('{"text": "Rooms [12]', UNREADABLE),
    "xml cut": (f"Here it is: <rewritten_chunk>{_REWRITTEN[:20]}", UNREADABLE),
    "empty": ("", UNREADABLE),
    "empty text": ('{"text": " "}', UNREADABLE),
    "empty text in a fence": ('```json\n{"text": ""}\n```', UNREADABLE),
    "empty fence": ("```\n```", UNREADABLE),
    "dots": ('{"text": "..."}', UNREADABLE),
    "no text": ('{"text": 5}', UNREADABLE),
    "another object": ('{"name": "Garden Hotel"}', UNREADABLE),
    "only in the thinking": (f"<think>{_REWRITTEN}</think>", UNREADABLE),
}
