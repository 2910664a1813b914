"""TiledEvictable keeps the storage contract; test_tiled_evictable.py has what is its own."""

from storage_suite import ANY, FLOAT, INT, Record, StorageSuite

from orlop import CPU, FileBacked, TiledEvictable
from orlop.carriers.tiled_evictable import TileSet

# Storage of another size, which a fixed grid does not make, and moves, for which there is no route (X46); results on
# tiles, which are dense (X61).
ELSEWHERE = """test_a_failed_scatter_changes_nothing
test_of_two_wrong_arguments_scatter_names_the_first_in_its_order test_a_released_carrier_is_a_prototype
test_allocate_like_gives_zeros test_allocate_like_takes_another_dtype test_an_empty_allocation_is_writable
test_an_empty_carrier_grows_where_it_can test_an_owned_carrier_is_written_through_its_owner_only
test_caller_code_may_release_the_carrier_in_between test_growth test_new_like_keeps_the_dtype
test_operations_are_dispatched test_scatter test_values_are_normalized test_values_move_out_and_in
test_what_was_made_outlives_the_receiver test_what_writes_no_value_keeps_the_version""".split()


def over(secondary, dtypes):
    """Tiles of one slot, the first one evicted."""

    def make(values, dtype, mutable):
        primary = CPU(0, dtype=dtype).new_like(values, mutable=mutable)
        carrier = TiledEvictable(primary, secondary(dtype=dtype), (primary.size(),), (1,))
        if primary.size() > 1:
            carrier.evict(TileSet([(0,)]))
        return carrier

    return Record(make=make, dtypes=dtypes, zero_holes=True, computes=True, closed=True)


class TestTilesOverFileBacked(StorageSuite):
    record = over(FileBacked, (FLOAT, INT))
    locals().update(dict.fromkeys(ELSEWHERE))


class TestTilesOverCPU(StorageSuite):
    record = over(lambda dtype: CPU(0, dtype=dtype), ANY)
    locals().update(dict.fromkeys(ELSEWHERE))
