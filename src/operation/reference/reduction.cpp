// Reference reductions: every fibre on its own, its terms in ordinal order, each step rounded.
#include "operation/kept_sums.hpp"
#include "operation/reduction_loops.hpp"
#include "operation/reference/kernels.hpp"
#include "operation/rounds.hpp"

namespace orlop::inline v0 {

namespace {

/// In the accumulator's type: FLOATING (P10) from +0.0, unfused, or over the integers. A kept sum goes on
/// from what its slot holds.
template <class T, class Accumulator, class Slot>
class Sum {
 public:
  explicit Sum(std::string_view operation, Accumulator start = 0) : operation_(operation), sum_(start) {}
  void add(T term) { sum_ += Accumulator{term}; }
  [[nodiscard]] Slot result() const { return kept_sums::finish<Slot>(operation_, sum_); }

 private:
  std::string_view operation_;
  Accumulator sum_;
};

class FloatProduct {
 public:
  explicit FloatProduct(std::string_view) {}
  void add(float factor) { product_ *= factor; }
  [[nodiscard]] float result() const { return product_; }

 private:
  float product_ = 1;
};

class IntegerProduct {
 public:
  explicit IntegerProduct(std::string_view operation) : operation_(operation) {}
  void add(std::int32_t factor) { product_ = multiply(product_, factor); }
  [[nodiscard]] std::int32_t result() const { return checked_product(operation_, product_); }

 private:
  std::string_view operation_;
  std::int64_t product_ = 1;
};

template <class T, bool IsMinimum>
class Extremum {
 public:
  explicit Extremum(std::string_view) {}
  void add(T term) {
    if (is_first_ || beats<IsMinimum>(term, best_)) best_ = term;
    is_first_ = false;
  }
  [[nodiscard]] T result() const { return best_; }

 private:
  T best_{};
  bool is_first_ = true;
};

template <class T, bool IsMinimum>
class ExtremumPosition {
 public:
  explicit ExtremumPosition(std::string_view) {}
  void add(T term) {
    if (ordinal_ == 0 || precedes<IsMinimum>(term, best_)) {
      best_ = term;
      position_ = ordinal_;
    }
    ++ordinal_;
  }
  [[nodiscard]] std::int32_t result() const { return static_cast<std::int32_t>(position_); }

 private:
  T best_{};
  Index ordinal_ = 0;
  Index position_ = 0;
};

/// Every fibre of elements `T` through a fresh `Fold`.
template <class T, class Fold>
void fold_fibres(const KernelCall& call) {
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::ordinal);
  const StridedLoop& kept = loops.kept;
  const StridedLoop& reduced = loops.reduced;
  const T* const data = reinterpret_cast<const T*>(call.operands[0].data);
  using Result = decltype(std::declval<const Fold&>().result());
  auto* const result = reinterpret_cast<Result*>(call.result);
  const auto begin = [&call](const Result& slot) {
    if constexpr (kept_sums::is_kept<Result>)
      return Fold(call.plan.operation, slot.value);
    else
      return Fold(call.plan.operation);
  };
  const auto fold_fibre = [&](const T* first, Result& slot) {
    Fold fold = begin(slot);
    for_each_run_in_rounds(reduced, 1, [&](std::span<const Index> offsets, Index count) {
      const T* const run = first + offsets[0];
      for (Index i = 0; i < count; ++i) fold.add(run[i * reduced.step(0)]);
    });
    slot = fold.result();
  };
  for_each_run_in_rounds(kept, reduced.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i)
      fold_fibre(data + offsets[0] + i * kept.step(0), result[offsets[1] + i * kept.step(1)]);
  });
}

bool is_float(const KernelCall& call) { return call.operands[0].stored == StorageType::float32; }

void reduce_sum(const KernelCall& call) {
  if (!is_float(call))
    fold_fibres<std::int32_t, Sum<std::int32_t, Int128, std::int32_t>>(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float64)
    fold_fibres<float, Sum<float, double, float>>(call);
  else
    fold_fibres<float, Sum<float, float, float>>(call);
}

void add_to_kept_sums(const KernelCall& call) {
  using kept_sums::Kept;
  if (Arrival* const arrival = kept_sums::arrival_of(call)) arrival->require_all();
  if (!is_float(call))
    fold_fibres<std::int32_t, Sum<std::int32_t, Int128, Kept<Int128>>>(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float64)
    fold_fibres<float, Sum<float, double, Kept<double>>>(call);
  else
    fold_fibres<float, Sum<float, float, Kept<float>>>(call);
}

void reduce_prod(const KernelCall& call) {
  if (is_float(call))
    fold_fibres<float, FloatProduct>(call);
  else
    fold_fibres<std::int32_t, IntegerProduct>(call);
}

template <template <class, bool> class Fold, bool IsMinimum>
void reduce_extremum(const KernelCall& call) {
  if (is_float(call))
    fold_fibres<float, Fold<float, IsMinimum>>(call);
  else
    fold_fibres<std::int32_t, Fold<std::int32_t, IsMinimum>>(call);
}

}  // namespace

KernelList reference_reduction_kernels() {
  static constexpr KernelEntry list[] = {
      {"reduce_sum", reduce_sum},
      {kept_sums::reduce_sum, add_to_kept_sums},
      {"reduce_prod", reduce_prod},
      {"reduce_max", reduce_extremum<Extremum, false>},
      {"reduce_min", reduce_extremum<Extremum, true>},
      {"argmax", reduce_extremum<ExtremumPosition, false>},
      {"argmin", reduce_extremum<ExtremumPosition, true>},
  };
  return list;
}

}  // namespace orlop::inline v0
