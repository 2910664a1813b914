// Metal without a runtime: arguments are checked first, then construction says what it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "orlop/base/error.hpp"
#include "orlop/carriers/metal/metal.hpp"

namespace orlop {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Metal, ChecksItsArgumentsBeforeItsRuntime) {
  static_assert(std::is_final_v<Metal>);
  EXPECT_THAT([] { (void)Metal::make(-1); }, ThrowsMessage<ValueError>(HasSubstr("negative")));
  EXPECT_THAT([] { (void)Metal::make(1, {.dtype = dtypes::Float64}); },
              ThrowsMessage<ValueError>(HasSubstr("Float64")));
}

TEST(Metal, SaysWhatItNeeds) {
  for (const Index size : {0, 3})
    EXPECT_THAT([&] { (void)Metal::make(size, {.is_mutable = false, .dtype = dtypes::Bool, .empty = true}); },
                ThrowsMessage<RuntimeError>(HasSubstr("Apple silicon")));
}

}  // namespace
}  // namespace orlop
