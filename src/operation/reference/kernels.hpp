// The reference backend's kernel files, family by family.
#pragma once

#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

KernelList reference_elementwise_kernels();
KernelList reference_reduction_kernels();
KernelList reference_scan_kernels();
KernelList reference_contraction_kernels();
KernelList reference_convolution_kernels();
KernelList reference_indexing_kernels();
KernelList reference_ordering_kernels();

}  // namespace orlop::inline v0
