// The CPU backend's kernel files, family by family.
#pragma once

#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

KernelList cpu_elementwise_kernels();
KernelList cpu_reduction_kernels();
KernelList cpu_scan_kernels();
KernelList cpu_contraction_kernels();
KernelList cpu_convolution_kernels();
KernelList cpu_indexing_kernels();
KernelList cpu_ordering_kernels();

}  // namespace orlop::inline v0
