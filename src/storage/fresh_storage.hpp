// Fresh storage from a carrier's factory, checked before slots are written.
#pragma once

#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

/// What `prototype.allocate_like` makes for `slots` slots of `options.dtype`. A factory from outside may make
/// anything: another class or dtype is a TypeError, fewer slots are a ValueError.
[[nodiscard]] Ref<Carrier> fresh_storage(const Carrier& prototype, Index slots,
                                         const AllocateOptions& options);

}  // namespace orlop::inline v0
