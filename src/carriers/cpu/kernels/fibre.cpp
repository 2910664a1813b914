// The baseline unit of the loops of reductions, and the choice among the units.
#include "carriers/cpu/kernels/fibre.hpp"

#include "carriers/cpu/kernels/fibre_unit.hpp"
#include "operation/processor.hpp"

namespace orlop::inline v0 {

#if defined(__x86_64__)
namespace x86_64_v3 {
const FibreKernels* fibre_unit();
}
namespace x86_64_v4 {
const FibreKernels* fibre_unit();
}
#endif

const FibreKernels& fibre_kernels() {
#if defined(__x86_64__)
  static const FibreKernels* const chosen =
      native_of(baseline::fibre_unit, x86_64_v3::fibre_unit, x86_64_v4::fibre_unit)();
  return *chosen;
#else
  return *baseline::fibre_unit();
#endif
}

}  // namespace orlop::inline v0
