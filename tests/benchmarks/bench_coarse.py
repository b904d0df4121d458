"""Coarse filtering of 40,000 x 768 embeddings by 10 preferences, against the bare product and comparison."""

from __future__ import annotations

import numpy as np

from common import paired_seconds, unit
from epic_core.pipeline.coarse_filter import coarse_filter


def main() -> None:
    random = np.random.default_rng(0)
    items = unit(random.standard_normal((40_000, 768), dtype=np.float32))
    preferences = unit(random.standard_normal((10, 768), dtype=np.float32))
    for tau in (0.05, 0.1):
        ours, bare, ratio = paired_seconds(
            lambda tau=tau: coarse_filter(items, preferences, tau),
            lambda tau=tau: (items @ preferences.T) >= np.float32(tau),
            runs=31,
        )
        passed = len(coarse_filter(items, preferences, tau).passed) / len(items)
        print(
            f"tau {tau}: {passed:6.2%} pass; coarse_filter {ours * 1e3:.2f} ms, product and comparison"
            f" {bare * 1e3:.2f} ms, ratio {ratio:.2f} (at most 1.5)"
        )


if __name__ == "__main__":
    main()
