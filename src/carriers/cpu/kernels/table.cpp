// All CPU kernels in one table.
#include "carriers/cpu/kernels/kernels.hpp"

#include "orlop/carriers/cpu/cpu.hpp"

namespace orlop::inline v0 {

const KernelTable& cpu_kernels() {
  static const KernelTable table{cpu_elementwise_kernels(), cpu_reduction_kernels(),   cpu_scan_kernels(),
                                 cpu_contraction_kernels(), cpu_convolution_kernels(), cpu_indexing_kernels(),
                                 cpu_ordering_kernels()};
  return table;
}

}  // namespace orlop::inline v0
