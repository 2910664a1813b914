// Reference matmul: each sum in ordinal order, unfused, from zero.
#include <algorithm>
#include <vector>

#include "operation/exact_integer.hpp"
#include "operation/matrix.hpp"
#include "operation/reference/kernels.hpp"

namespace orlop::inline v0 {

namespace {

/// Every sum in its own `Accumulator`, to which products of `Factor` are added; `store` makes a result of it.
template <class Operand, class Factor, class Accumulator, class Result, class Store>
void contract(const KernelCall& call, Result* result, Store store) {
  const Matrix lhs(call.operands[0]);
  const Matrix rhs(call.operands[1]);
  const auto copied = [](const Matrix& matrix) {
    std::vector<Operand> elements(static_cast<std::size_t>(matrix.rows() * matrix.terms()));
    matrix.copy(matrix.all(), elements.data());
    return elements;
  };
  const std::vector<Operand> left = copied(lhs);
  const std::vector<Operand> right = copied(rhs);
  std::vector<Accumulator> sums(static_cast<std::size_t>(lhs.rows()));
  for (Index j = 0; j < rhs.rows(); ++j) {
    std::fill(sums.begin(), sums.end(), Accumulator{0});
    const Operand* column = left.data();
    for (Index k = 0; k < lhs.terms(); ++k) {
      const Factor factor{right[static_cast<std::size_t>(j + k * rhs.rows())]};
      for (Accumulator& sum : sums) sum += Factor{*column++} * factor;
    }
    result = std::transform(sums.begin(), sums.end(), result, store);
  }
}

void matmul(const KernelCall& call) {
  auto* const floats = reinterpret_cast<float*>(call.result);
  if (call.plan.accumulator_dtype == &dtypes::Float64)
    contract<float, double, double>(call, floats, [](double sum) { return static_cast<float>(sum); });
  else if (call.plan.accumulator_dtype == &dtypes::Float32)
    contract<float, float, float>(call, floats, [](float sum) { return sum; });
  else
    contract<std::int32_t, std::int64_t, Int128>(
        call, reinterpret_cast<std::int32_t*>(call.result),
        [&](Int128 sum) { return checked_int32(call.plan.operation, sum); });
}

}  // namespace

KernelList reference_contraction_kernels() {
  static constexpr KernelEntry list[] = {{"matmul", matmul}};
  return list;
}

}  // namespace orlop::inline v0
