"""LangChain's own suites for embeddings, as they are, on `EpicEmbeddings`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from epic_langchain import EpicEmbeddings
from helpers import HashEncoder


class _OfTheEmbedded:
    @property
    def embeddings_class(self) -> type[EpicEmbeddings]:
        return EpicEmbeddings


class _OfAnotherEncoder(_OfTheEmbedded):
    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"encoder": HashEncoder(64)}


class TestUnit(_OfTheEmbedded, EmbeddingsUnitTests):
    pass


class TestIntegration(_OfTheEmbedded, EmbeddingsIntegrationTests):
    pass


class TestUnitWithAnEncoder(_OfAnotherEncoder, EmbeddingsUnitTests):
    pass


class TestIntegrationWithAnEncoder(_OfAnotherEncoder, EmbeddingsIntegrationTests):
    pass
