// The check of what factories make.
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

Ref<Carrier> fresh_storage(const Carrier& prototype, Index slots, const AllocateOptions& options) {
  Ref<Carrier> made = prototype.allocate_like(slots, options);
  const CarrierClass kind = prototype.carrier_class();
  if (kind.is_shipped() && !kind.is_dependent()) return made;
  if (!made || made->carrier_class() != kind)
    raise<TypeError>(kind.name(), "allocate_like() must return a carrier of its own exact class: got ",
                     made ? made->carrier_class().name() : "a null handle");
  const DType& dtype = options.dtype ? *options.dtype : prototype.dtype();
  if (&made->dtype() != &dtype)
    raise<TypeError>(kind.name(), "allocate_like() must return slots of ", dtype.name(), ": got ",
                     made->dtype().name());
  if (made->size() < slots)
    raise<ValueError>(kind.name(), "allocate_like() returned too few slots: ", slots, " asked for, ",
                      made->size(), " returned");
  return made;
}

}  // namespace orlop::inline v0
