"""What all tests share: failing assertions in the modules beside them show their values too."""

import pytest

pytest.register_assert_rewrite("helpers", "lm_servers", "scripted")
