// What Metal computes: its kernels by operation name, and the plans that they carry out.
#pragma once

#include <memory>

#include "orlop/operation/capability.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

[[nodiscard]] const KernelTable& metal_kernels();
/// Every plan of the registry for which there is a kernel.
[[nodiscard]] std::shared_ptr<const CapabilitySet> metal_capabilities();

}  // namespace orlop::inline v0
