"""Memories of many people: a pool of their files for a service, and building with Ray Data."""

from epic_scale.building import build
from epic_scale.lease import LeaseError
from epic_scale.pool import MemoryPool
from epic_scale.processor import EpicProcessorConfig, build_processor
from epic_scale.remote import ConflictError
from epic_scale.reports import Forgotten, PoolHealth, ScaleReport, Visits
from epic_scale.roots import name_of

__all__ = [
    "ConflictError",
    "EpicProcessorConfig",
    "Forgotten",
    "LeaseError",
    "MemoryPool",
    "PoolHealth",
    "ScaleReport",
    "Visits",
    "build",
    "build_processor",
    "name_of",
]
