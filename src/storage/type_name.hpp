// Names of C++ types for messages.
#pragma once

#include <string>
#include <typeinfo>

namespace orlop::inline v0 {

/// The name without its namespaces.
[[nodiscard]] std::string short_name(const std::type_info& type);

}  // namespace orlop::inline v0
