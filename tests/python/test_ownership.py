"""Exclusive ownership from Python: tokens, scopes, threads, and what an alias of an owned carrier may do (S201-S205)."""

import gc
import threading

import orlop
import pytest
from list_carrier import ListCarrier
from orlop import CPU, DType, Evictable, FileBacked, Generic, Layout, Shape, Stride, Tensor

FLOAT = DType.Float32


def makers():
    return [
        pytest.param(lambda: CPU(0).new_like([1.0, 2.0, 3.0]), id="CPU"),
        pytest.param(lambda: Generic([1.0, 2.0, 3.0], dtype=FLOAT), id="Generic"),
        pytest.param(lambda: FileBacked(dtype=FLOAT).new_like([1.0, 2.0, 3.0]), id="FileBacked"),
        pytest.param(lambda: ListCarrier([1.0, 2.0, 3.0]), id="Python"),
        pytest.param(
            lambda: Evictable(CPU(0).new_like([1.0, 2.0, 3.0]), FileBacked(dtype=FLOAT)),
            id="Evictable",
        ),
    ]


@pytest.fixture(params=makers())
def carrier(request):
    return request.param()


def flat(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def on_thread(call):
    """The result of `call` on another thread, or the exception it raised."""
    outcome = []

    def run():
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


def test_tokens_are_positive_and_never_used_again(carrier):
    seen = set()
    for _ in range(5):
        token = carrier._claim_ownership()
        assert token > 0
        seen.add(token)
        assert carrier.is_owned()
        carrier._relinquish_ownership(token)
        assert not carrier.is_owned()
    assert len(seen) == 5


def test_a_second_claim_is_refused(carrier):
    token = carrier._claim_ownership()
    with pytest.raises(RuntimeError, match="already owned"):
        carrier._claim_ownership()
    assert carrier.is_owned()
    carrier._relinquish_ownership(token)


def test_of_racing_claims_one_wins():
    carrier = CPU(1)
    barrier = threading.Barrier(8)
    tokens, errors = [], []

    def claim():
        barrier.wait()
        try:
            tokens.append(carrier._claim_ownership())
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(tokens), len(errors)) == (1, 7)


def test_a_released_carrier_cannot_be_claimed_but_relinquished(carrier):
    token = carrier._claim_ownership()
    carrier._begin_owner_access(token)
    carrier.release()
    carrier._end_owner_access(token)
    assert carrier.is_released() and carrier.is_owned()
    carrier._relinquish_ownership(token)
    with pytest.raises(RuntimeError, match="released"):
        carrier._claim_ownership()


@pytest.mark.parametrize("wrong", [0, 1, -1, 2**63, 2**64])
def test_a_wrong_token_changes_nothing(carrier, wrong):
    token = carrier._claim_ownership()
    for call in (carrier._relinquish_ownership, carrier._begin_owner_access, carrier._end_owner_access):
        with pytest.raises(RuntimeError, match="token"):
            call(wrong if wrong != 1 else token + 1)
        for word in ("1", None, True, 1.0):
            with pytest.raises(TypeError, match="token must be an integer"):
                call(word)
    assert carrier.is_owned() and not carrier._has_owner_access()
    carrier._relinquish_ownership(token)


def test_ownership_stays_while_a_scope_is_open(carrier):
    token = carrier._claim_ownership()
    carrier._begin_owner_access(token)
    with pytest.raises(RuntimeError, match="scope"):
        carrier._relinquish_ownership(token)
    assert "scope" in str(on_thread(lambda: carrier._relinquish_ownership(token)))
    assert carrier.is_owned()
    carrier._end_owner_access(token)
    carrier._relinquish_ownership(token)


def test_scopes_nest_on_their_thread_and_exclude_others(carrier):
    token = carrier._claim_ownership()
    carrier._begin_owner_access(token)
    carrier._begin_owner_access(token)
    assert isinstance(on_thread(lambda: carrier._begin_owner_access(token)), RuntimeError)
    assert isinstance(on_thread(lambda: carrier._end_owner_access(token)), RuntimeError)
    assert carrier._has_owner_access() and on_thread(carrier._has_owner_access) is False
    carrier._end_owner_access(token)
    assert carrier._has_owner_access()
    carrier._end_owner_access(token)
    assert not carrier._has_owner_access()
    with pytest.raises(RuntimeError):
        carrier._end_owner_access(token)
    assert on_thread(lambda: carrier._begin_owner_access(token)) is None
    # That thread is gone and its scope stays open; a later thread is never taken for it.
    assert not any(on_thread(carrier._has_owner_access) for _ in range(8))
    assert carrier.is_owned()


def test_only_the_owners_thread_may_write(carrier):
    token = carrier._claim_ownership()
    assert not carrier.is_mutable()
    carrier._begin_owner_access(token)
    assert carrier.is_mutable() and on_thread(carrier.is_mutable) is False
    before = carrier.version
    carrier[0] = 7.0
    assert "not mutable" in str(on_thread(lambda: carrier.__setitem__(0, 9.0)))
    assert (carrier[0], carrier.version) == (7.0, before + 1)
    carrier._end_owner_access(token)
    carrier._relinquish_ownership(token)


def test_an_alias_of_an_owned_carrier_is_readable_and_guarded(carrier):
    token = carrier._claim_ownership()
    version = carrier.version
    assert [carrier[i] for i in range(3)] == [1.0, 2.0, 3.0]
    assert (carrier.size(), carrier.dtype(), carrier.supports_storage_dtype(FLOAT)) == (3, FLOAT, True)
    assert carrier.new_like([4.0])[0] == 4.0 and carrier.allocate_like(2).size() == 2

    with pytest.raises(RuntimeError, match="not mutable"):
        carrier[0] = 5.0
    if type(carrier) is not ListCarrier:  # a direct call of an author's hook runs only the hook
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier.set_value(0, 5.0)
    with pytest.raises(RuntimeError, match="owned"):
        carrier._increment_version()
    with pytest.raises(RuntimeError, match="owned"):
        carrier.release()
    with pytest.raises(RuntimeError, match="owned by another carrier.*cannot be moved directly"):
        orlop.move(flat(carrier), CPU(3))
    with pytest.raises(RuntimeError, match="must be mutable"):
        orlop.move(flat(CPU(3)), carrier)
    with pytest.raises(RuntimeError, match="already owned"):
        Evictable(carrier, FileBacked(dtype=FLOAT))
    with pytest.raises(RuntimeError, match="already owned"):
        Evictable(CPU(3), carrier)
    assert (carrier.version, [carrier[i] for i in range(3)]) == (version, [1.0, 2.0, 3.0])
    assert not carrier.is_released() and carrier.is_owned()
    carrier._relinquish_ownership(token)


@pytest.mark.parametrize("make", [makers()[0], makers()[1]])
def test_scatter_onto_an_owned_alias_is_refused(make):
    carrier = make()
    token = carrier._claim_ownership()
    view = flat(carrier)
    with pytest.raises(RuntimeError, match="not mutable"):
        carrier.scatter(flat(CPU(3)), view, view.layout)
    carrier._relinquish_ownership(token)


def test_release_of_an_owned_carrier_is_refused_even_when_it_is_released():
    carrier = CPU(2)
    token = carrier._claim_ownership()
    carrier._begin_owner_access(token)
    carrier.release()
    carrier._end_owner_access(token)
    with pytest.raises(RuntimeError, match="owned"):
        carrier.release()


def test_an_alias_is_an_operand():
    primary = CPU(0).new_like([-1.0, 2.0])
    hierarchy = Evictable(primary, FileBacked(dtype=FLOAT))
    result = orlop.relu(flat(primary))
    assert type(result.carrier) is CPU and [result[0], result[1]] == [0.0, 2.0]
    assert hierarchy.version == 0


def test_storage_query_an_owned_mutable_tier():
    primary, secondary = CPU(2), FileBacked(dtype=FLOAT)
    hierarchy = Evictable(primary, secondary)
    for tier in (primary, secondary):
        assert tier.is_owned() is True
        assert tier.is_mutable() is False
    del hierarchy
    gc.collect()
    for tier in (primary, secondary):
        assert not tier.is_owned() and tier.is_mutable() and not tier.is_released()


def test_an_immutable_carrier_refuses_writes():
    hierarchy = Evictable(CPU(2, mutable=False), FileBacked(dtype=FLOAT))
    for carrier in (CPU(2, mutable=False), FileBacked(mutable=False, dtype=FLOAT).new_like([1.0], mutable=False), hierarchy):
        assert carrier.is_mutable() is False
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier[0] = 1.0
        with pytest.raises(RuntimeError, match="not mutable"):
            carrier.set_value(0, 1.0)
        assert carrier.version == 0


def test_pointers_and_files_bypass_the_guards():
    secondary = FileBacked(dtype=FLOAT).new_like([1.0])
    hierarchy = Evictable(CPU(1), secondary)
    secondary.path.write_bytes(b"\0\0\0@")
    assert secondary[0] == 2.0 and secondary.version == 0 and hierarchy.version == 0
