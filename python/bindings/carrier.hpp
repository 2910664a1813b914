// Carriers across the language border: as arguments, made over Python values, and by their items.
#pragma once

#include <string_view>

#include "dtype.hpp"
#include "orlop/storage/carrier.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// A number of slots by Python's integer-index protocol; ValueError for a negative one, OverflowError beyond
/// 64 bits.
Index to_size(nb::handle value, std::string_view what, bool allow_bool = false);

/// The carrier in `value`, or TypeError ‹<name> must be a Carrier›.
Ref<Carrier> to_carrier(nb::handle value, std::string_view what, std::string_view name);

/// Fresh storage of the prototype's kind holding `values`: what `new_like` and the constructors over values
/// do.
Ref<Carrier> new_like(const Carrier& prototype, nb::handle values, bool is_mutable, DTypeRef dtype);

/// `carrier[slot]` and `carrier[slot] = value` with the checks of S104.
nb::object carrier_item(Carrier& carrier, Index slot);
void set_carrier_item(Carrier& carrier, Index slot, nb::handle value);

/// `carrier.scatter(…)` with the checks of S112.
void scatter(Carrier& carrier, nb::handle to_scatter, nb::handle scatter_onto, nb::handle mapping,
             nb::handle offset);

}  // namespace orlop::bindings
