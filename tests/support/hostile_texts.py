"""Texts that try to break out of what shows them: a page, a terminal, a model's context."""

from hypothesis import strategies as st

from tables import table

# Any text, and text that is rich in what the chunkers look at.
ANY_TEXT = st.text(max_size=400) | st.lists(
    st.sampled_from(
        ["word", "你好", "ไทย", "🚆", ".", "。", "!", "?", "…", '"', ")", " ", "  ", "\n", "\n\n", "\r\n", "。」"]
    ),
    max_size=120,
).map("".join)

HOSTILE = [*table(__file__, "texts"), "casino " * 20_000, "Z" + "\u0300" * 500]
