"""How tests wait for what the background does after those who waited for its work go on."""

import gc
import time

PATIENCE = 60  # seconds after which a test that waits has failed


def eventually(holds):
    """Whether `holds()` came to be true in time."""
    deadline = time.monotonic() + PATIENCE
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return held


def are_collected(*references):
    """Whether all that the weak references lead to came to be collected in time."""

    def are_gone():
        gc.collect()
        return all(reference() is None for reference in references)

    return eventually(are_gone)
