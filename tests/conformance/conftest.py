"""The suite asks for a `dtype` where a rule holds for every dtype that the carrier stores."""

import pytest

pytest.register_assert_rewrite("storage_suite")


def pytest_generate_tests(metafunc):
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", metafunc.cls.record.dtypes, ids=lambda dtype: dtype.name)
