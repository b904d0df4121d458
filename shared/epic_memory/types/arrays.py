"""Array types that the core passes on."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float32]
"""A float32 array; embeddings are `(n, d)` or `(d,)`."""
