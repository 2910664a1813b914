// All reference kernels in one table.
#include "operation/reference/kernels.hpp"

namespace orlop::inline v0 {

const KernelTable& reference_kernels() {
  static const KernelTable table{reference_elementwise_kernels(), reference_reduction_kernels(),
                                 reference_scan_kernels(),        reference_contraction_kernels(),
                                 reference_convolution_kernels(), reference_indexing_kernels(),
                                 reference_ordering_kernels()};
  return table;
}

}  // namespace orlop::inline v0
