"""EpicCompressor over any retriever's nodes: what a question or a preference needs stays whole, async equal."""

from __future__ import annotations

from llama_index.core.schema import NodeWithScore, TextNode

from epic_llamaindex import EpicCompressor
from epic_memory import EpicMemory

TEXTS = (
    "The lentil soup takes half an hour. Admission is free.",
    "Nobody came to the meeting. The new cafe has a vegan menu.",
    "The tug of war ended in a draw.",
)


async def test_what_is_needed_stays_whole() -> None:
    nodes = [NodeWithScore(node=TextNode(id_=str(place), text=text), score=0.5) for place, text in enumerate(TEXTS)]
    compressor = EpicCompressor(memory=EpicMemory(["I follow a strict vegan diet."]))
    asked = "How long does the lentil soup take?"
    found = compressor.postprocess_nodes(nodes, query_str=asked)
    assert [node.text for node in found] == ["The lentil soup takes half an hour.", "The new cafe has a vegan menu."]
    assert [node.node_id for node in found] == ["0", "1"]
    assert found[0].score == 0.5
    assert found[0].metadata == {"epic_dropped_sentences": 1}
    again = await compressor.apostprocess_nodes(nodes, query_str=asked)
    assert [(node.node_id, node.text) for node in again] == [(node.node_id, node.text) for node in found]
    assert [node.text for node in nodes] == list(TEXTS)
    assert not nodes[0].node.metadata
    assert "The new cafe has a vegan menu." in [node.text for node in compressor.postprocess_nodes(nodes)]
