"""Ingestion: the step that keeps the nodes that matter, and the pipeline that runs it anew."""

from epic_llamaindex.ingestion.transform import EpicTransform

__all__ = ["EpicTransform"]
