// Plans and their enumerations across the language border.
#pragma once

#include <string_view>

#include "orlop/operation/plan.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The OperationExecutionOptions behind `value`; null for None; otherwise TypeError.
const OperationExecutionOptions* to_options(nb::handle value, std::string_view what);
/// An OperationPlan, or TypeError.
const OperationPlan& to_plan(nb::handle value, std::string_view what);

}  // namespace orlop::bindings
