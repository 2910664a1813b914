// What every error about temporary files advises.
#pragma once

#include <string_view>

namespace orlop::inline v0::detail {

inline constexpr std::string_view kAnotherPlace = "choose another place with ORLOP_TMPDIR";

}  // namespace orlop::inline v0::detail
