"""EPIC for LlamaIndex: what `epic_llamaindex` exports, under the name that integrations have."""

import epic_llamaindex
from epic_llamaindex import *  # noqa: F403

__all__ = epic_llamaindex.__all__
