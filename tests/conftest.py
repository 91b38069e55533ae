"""How hypothesis runs: without deadlines, which a busy machine breaks, and from fixed seeds in CI, which repeat."""

import os

from hypothesis import settings

settings.register_profile("gpulsh", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("gpulsh")
