// Reference orders: every fibre on its own, a stable sort of its positions, and its way back for gradients.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "operation/axis_loops.hpp"
#include "operation/reference/kernels.hpp"

namespace orlop::inline v0 {

namespace {

/// Whether `x` is less than `y`: NaN is the greatest, all NaNs are equal, and so are both zeros (P69).
bool is_less(float x, float y) { return x < y || (std::isnan(y) && !std::isnan(x)); }
bool is_less(std::int32_t x, std::int32_t y) { return x < y; }

/// Writes for every fibre of elements `T` what `written(elements, position)` gives for its positions in
/// order, as many as the result has.
template <class T, class Result, class Written>
void order_fibres(const KernelCall& call, Written written) {
  const AxisLoops loops = axis_loops(call);
  const Index count = call.layout.size() / loops.fibres.size;
  std::vector<T> fibre(static_cast<std::size_t>(loops.along.size));
  std::vector<std::int32_t> positions(fibre.size());
  const auto precedes = [&](std::int32_t a, std::int32_t b) {
    if (call.parameters.is_descending) std::swap(a, b);
    return is_less(fibre[static_cast<std::size_t>(a)], fibre[static_cast<std::size_t>(b)]);
  };
  const auto precedes_or_was_first = [&](std::int32_t a, std::int32_t b) {
    return precedes(a, b) || (!precedes(b, a) && a < b);
  };
  for_each_fibre(loops, [&](std::span<const Index> at) {
    read_fibre(loops, 0, reinterpret_cast<const T*>(call.operands[0].data) + at[0], fibre.data());
    std::iota(positions.begin(), positions.end(), 0);
    if (count == loops.along.size)
      std::stable_sort(positions.begin(), positions.end(), precedes);
    else
      std::partial_sort(positions.begin(), positions.begin() + count, positions.end(), precedes_or_was_first);
    Result* const result = reinterpret_cast<Result*>(call.result) + at[1];
    for (Index i = 0; i < count; ++i)
      result[i * loops.result_step] = written(fibre, positions[static_cast<std::size_t>(i)]);
  });
}

template <class T>
void order_values_of(const KernelCall& call) {
  order_fibres<T, T>(call, [](const std::vector<T>& fibre, std::int32_t position) {
    return fibre[static_cast<std::size_t>(position)];
  });
}

template <class T>
void order_indices_of(const KernelCall& call) {
  order_fibres<T, std::int32_t>(call, [](const std::vector<T>&, std::int32_t position) { return position; });
}

bool is_float(const KernelCall& call) { return call.operands[0].stored == StorageType::float32; }

void order_values(const KernelCall& call) {
  is_float(call) ? order_values_of<float>(call) : order_values_of<std::int32_t>(call);
}

void order_indices(const KernelCall& call) {
  is_float(call) ? order_indices_of<float>(call) : order_indices_of<std::int32_t>(call);
}

/// (positions, elements): each element at its position in the fibre of the result, zero elsewhere.
void unorder(const KernelCall& call) {
  const AxisLoops loops = axis_loops(call);
  auto* const result = reinterpret_cast<float*>(call.result);
  std::fill_n(result, call.layout.cosize(), 0.0F);
  std::vector<std::int32_t> positions(static_cast<std::size_t>(loops.along.size));
  std::vector<float> elements(positions.size());
  for_each_fibre(loops, [&](std::span<const Index> at) {
    read_fibre(loops, 0, reinterpret_cast<const std::int32_t*>(call.operands[0].data) + at[0],
               positions.data());
    read_fibre(loops, 1, reinterpret_cast<const float*>(call.operands[1].data) + at[1], elements.data());
    for (std::size_t i = 0; i < positions.size(); ++i)
      result[at[2] + positions[i] * loops.result_step] = elements[i];
  });
}

}  // namespace

KernelList reference_ordering_kernels() {
  static constexpr KernelEntry list[] = {{"_sort_values", order_values},
                                         {"_sort_indices", order_indices},
                                         {"_topk_values", order_values},
                                         {"_topk_indices", order_indices},
                                         {"_unorder", unorder}};
  return list;
}

}  // namespace orlop::inline v0
