// Metal: storage on an Apple accelerator. This build has no runtime for it, so that no instance exists.
#pragma once

#include "orlop/storage/carrier.hpp"

namespace orlop::inline v0 {

struct MetalOptions {
  bool is_mutable = true;
  DTypeRef dtype = dtypes::Float32;
  bool empty = false;  ///< slots may start unwritten
};

/// Typed accelerator storage: Float32, Int32 and Bool.
class ORLOP_API Metal final : public Carrier {
 public:
  /// Checks its arguments first: ValueError for a negative size or a dtype that Metal does not store. Then
  /// RuntimeError, before any storage: there is no Metal runtime here.
  [[nodiscard]] static Ref<Metal> make(Index size, const MetalOptions& options = {});
};

}  // namespace orlop::inline v0
