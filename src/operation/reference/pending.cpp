// CPU kernels that are still to come; each file that brings one takes its line away.
#include "carriers/cpu/kernels.hpp"
#include "operation/reference/kernels.hpp"

namespace orlop::inline v0 {

KernelList cpu_indexing_kernels() { return reference_indexing_kernels(); }

}  // namespace orlop::inline v0
