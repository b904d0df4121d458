"""EpicReranker over any retriever's nodes: untrained it keeps their order, trained it changes it, async equal."""

from __future__ import annotations

from llama_index.core.schema import NodeWithScore, TextNode

from epic_llamaindex import EpicReranker
from epic_memory import EpicMemory, Settings
from epic_rerank import LearnedReranker
from epic_rerank.features import NAMES
from helpers import HashEncoder

TEXTS = ("A long note on tea, with much more to say about it than others have.", "Tea.", "Bread and tea.")


async def test_nodes_come_in_the_learnt_order() -> None:
    nodes = [NodeWithScore(node=TextNode(id_=str(place), text=text), score=0.5) for place, text in enumerate(TEXTS)]
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(coarse=False, fine=False))
    plain = EpicReranker(memory=memory, top_n=2).postprocess_nodes(nodes, query_str="tea")
    assert [node.node_id for node in plain] == ["0", "1"]
    learnt = LearnedReranker()
    for name in ("W1", "W2", "W3"):
        learnt.weights[name][:] = 0.0
    learnt.weights["W1"][NAMES.index("length"), 0] = learnt.weights["W2"][0, 0] = 1.0
    learnt.weights["w3"][0] = -100.0  # short texts first
    reranker = EpicReranker(memory=memory, reranker=learnt)
    found = reranker.postprocess_nodes(nodes, query_str="tea")
    assert [node.node_id for node in found] == ["1", "2", "0"]
    again = await reranker.apostprocess_nodes(nodes, query_str="tea")
    assert [node.node_id for node in again] == ["1", "2", "0"]
    assert found[0].score == 0.5
    assert found[0].node.metadata["epic_rank_probability"] > 0.5
    assert not nodes[1].node.metadata
    assert [node.node_id for node in reranker.postprocess_nodes(nodes)] == ["0", "1", "2"]
