"""The tests, and what they drive the service with."""

from pkgutil import iter_modules

import pytest

# Kits, seeds and drivers assert outside of test files; a failure there tells what it saw as well.
pytest.register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
