// Reference matmul: each sum in ordinal order, unfused, from zero.
#include <vector>

#include "operation/kept_sums.hpp"
#include "operation/matrix.hpp"
#include "operation/reference/kernels.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

/// Every sum in its own `Accumulator`, to which products of `Factor` are added; it begins with what a kept
/// sum's slot holds, otherwise with zero.
template <class Operand, class Factor, class Accumulator, class Slot>
void contract(const KernelCall& call) {
  auto* const result = reinterpret_cast<Slot*>(call.result);
  const std::vector<Index> rows = offsets_of(leaves_of_modes(call.layout, 0, 1));
  const std::vector<Index> columns = offsets_of(leaves_of_modes(call.layout, 1, 2));
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
  const auto contract_column = [&](Index j) {
    Slot* const slots = result + columns[static_cast<std::size_t>(j)];
    const auto slot = [&](std::size_t i) -> Slot& { return slots[rows[i]]; };
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = kept_sums::start<Accumulator>(slot(i));
    const Operand* column = left.data();
    for (Index k = 0; k < lhs.terms(); ++k) {
      const Factor factor{right[static_cast<std::size_t>(j + k * rhs.rows())]};
      for (Accumulator& sum : sums) sum += Factor{*column++} * factor;
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
      slot(i) = kept_sums::finish<Slot>(call.plan.operation, sums[i]);
  };
  serial_for(rhs.rows(), lhs.rows() * lhs.terms(), [&](Index j, Index end) {
    for (; j < end; ++j) contract_column(j);
  });
}

void matmul(const KernelCall& call) {
  if (call.plan.accumulator_dtype == &dtypes::Float64)
    contract<float, double, double, float>(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float32)
    contract<float, float, float, float>(call);
  else
    contract<std::int32_t, std::int64_t, Int128, std::int32_t>(call);
}

void matmul_of_batches(const KernelCall& call) {
  multiply_entries(call, matmul, 0, leaves_of_modes(call.layout, 2, 3).size());
}

void add_to_kept_sums(const KernelCall& call) {
  using kept_sums::Kept;
  if (call.plan.accumulator_dtype == &dtypes::Float64)
    contract<float, double, double, Kept<double>>(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float32)
    contract<float, float, float, Kept<float>>(call);
  else
    contract<std::int32_t, std::int64_t, Int128, Kept<Int128>>(call);
}

}  // namespace

KernelList reference_contraction_kernels() {
  static constexpr KernelEntry list[] = {
      {"matmul", matmul}, {batch_matmul_kernel, matmul_of_batches}, {kept_sums::matmul, add_to_kept_sums}};
  return list;
}

}  // namespace orlop::inline v0
