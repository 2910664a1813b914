// The values that describe block-scaled dtypes (M203).
#pragma once

#include "support.hpp"

namespace orlop::bindings {

/// Binds Level and SymbolicBits in the module _dtype.
void bind_dtype_values(nb::module_& native);

}  // namespace orlop::bindings
