// Naming and replacing top-level modes.
#include "operation/modes.hpp"

#include <optional>

#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

std::size_t to_mode(std::string_view operation, std::string_view argument, const Scalar& given,
                    std::size_t rank) {
  const auto modes = static_cast<Index>(rank);
  const std::optional<Index> mode = given.as_integer();
  if (!mode || *mode < -modes || *mode >= modes)
    raise<ValueError>(operation, argument, " must be a top-level mode: got ", given, " for ", modes,
                      " modes; from ", -modes, " to ", modes - 1, " is allowed");
  return static_cast<std::size_t>(*mode < 0 ? *mode + modes : *mode);
}

Shape with_mode_replaced(const Shape& shape, std::size_t mode, const Shape& replacement) {
  SmallVector<std::size_t, 8> before, after;
  for (std::size_t other = 0; other < shape.rank(); ++other)
    if (other != mode) (other < mode ? before : after).push_back(other);
  return Shape::concat(Shape::concat(shape.select(before), replacement), shape.select(after));
}

}  // namespace orlop::inline v0
