// What the elementwise kernels of all backends share and need not inline.
#include "operation/elementwise_kernels.hpp"

namespace orlop::inline v0 {

void raise_int32_overflow(const KernelCall& call, Index ordinal) {
  raise<OverflowError>(
      call.plan.operation, "the exact result leaves Int32 at element ", ordinal,
      "; it must lie in -2147483648 to 2147483647; convert an operand to Float32 to compute in "
      "floating point");
}

}  // namespace orlop::inline v0
