// The handle of a tensor: what the null handle does, numbers as operands, operators.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "orlop/orlop.hpp"

namespace orlop {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Tensor vector(std::initializer_list<double> values) {
  const std::vector<Scalar> listed(values.begin(), values.end());
  return friendly::tensor(listed, friendly::column_major(std::array{static_cast<Index>(listed.size())}));
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> result;
  for (const Scalar& value : friendly::to_list(tensor)) result.push_back(value.to_binary64());
  return result;
}

TEST(Handle, TheNullHandleIsRefusedEverywhere) {
  const Tensor null;
  const Tensor x = vector({1, 2, 3});
  const std::map<std::string, std::function<void()>> calls{
      {"carrier", [&] { static_cast<void>(null.carrier()); }},
      {"layout", [&] { static_cast<void>(null.layout()); }},
      {"dtype", [&] { static_cast<void>(null.dtype()); }},
      {"size", [&] { static_cast<void>(null.size()); }},
      {"version", [&] { static_cast<void>(null.version()); }},
      {"version_token", [&] { static_cast<void>(null.version_token()); }},
      {"representation", [&] { static_cast<void>(null.representation()); }},
      {"is_mutable", [&] { static_cast<void>(null.is_mutable()); }},
      {"at", [&] { static_cast<void>(null.at(0)); }},
      {"set", [&] { null.set(0, 1.0); }},
      {"slice", [&] { static_cast<void>(null.slice({Index{0}})); }},
      {"add", [&] { add(x, null); }},
      {"relu", [&] { relu(null); }},
      {"matmul", [&] { matmul(null, null); }},
      {"reshape", [&] { static_cast<void>(reshape(null, Shape{3})); }},
      {"rearrange", [&] { rearrange(null, "a -> a"); }},
      {"einsum", [&] { einsum(null, x, "a b, c b -> a c"); }},
      {"sum", [&] { static_cast<void>(friendly::sum(null)); }},
      {"item", [&] { static_cast<void>(friendly::item(null)); }},
      {"to_list", [&] { static_cast<void>(friendly::to_list(null)); }},
      {"backward", [&] { backward(null); }},
      {"backward of", [&] { backward(x, null); }},
      {"grad", [&] { static_cast<void>(grad(x, std::vector{null}, x)); }},
      {"cotangents", [&] { static_cast<void>(grad(x, std::vector{x}, null)); }},
      {"gradient_of", [&] { static_cast<void>(gradient_of(null)); }},
      {"a missing gradient", [&] { mul(gradient_of(x), 2.0); }},
      {"autograd_node", [&] { static_cast<void>(autograd_node(null)); }},
      {"set_gradient", [&] { set_gradient(null, {}); }},
      {"set_autograd_node", [&] { set_autograd_node(null, {}); }},
      {"to_dlpack", [&] { static_cast<void>(to_dlpack(null)); }},
      {"move", [&] { move(null, CPU::make(3)); }},
      {"scatter", [&] { x.carrier()->scatter(null, null, x.layout(), 0); }},
      {"forward", [&] { x.carrier()->dispatch_op("neg")->forward(std::vector<Argument>{null}); }},
  };
  for (const auto& [name, call] : calls) EXPECT_THROW(call(), TypeError) << name;
  EXPECT_THAT([&] { relu(null); }, ThrowsMessage<TypeError>(HasSubstr("got a null handle")));
}

TEST(Operands, NumbersStandWhereTensorsDo) {
  const Tensor x = vector({1, 2, 3});
  EXPECT_EQ(numbers(mul(x, 2.0)), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(numbers(sub(1, x)), (std::vector<double>{0, -1, -2}));
  EXPECT_EQ(&add(vector({1}), true).dtype(), &dtypes::Float32);
  EXPECT_THROW(add(1, 2.0F), TypeError);  // one Tensor is needed
}

TEST(Operators, AreTheFunctionsOfTheirNames) {
  const Tensor x = vector({1, 2, 4});
  EXPECT_EQ(numbers(-(x * x) / 2 + 1), (std::vector<double>{0.5, -1, -7}));
  EXPECT_EQ(numbers(8 / x - x), (std::vector<double>{7, 2, -2}));
  EXPECT_EQ(numbers(2.0 * x), numbers(x + x));
  backward(friendly::sum(x * x));
  EXPECT_EQ(numbers(gradient_of(x)), (std::vector<double>{2, 4, 8}));
  EXPECT_TRUE(x == x);
  EXPECT_FALSE(x == vector({1, 2, 4}));  // identity
}

}  // namespace
}  // namespace orlop
