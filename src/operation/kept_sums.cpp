// Where sums are kept between kernel calls, and how they become results.
#include "operation/kept_sums.hpp"

#include "orlop/base/parallel.hpp"

namespace orlop::inline v0::kept_sums {

Sums::Sums(const OperationPlan& plan, Index count, std::byte* result)
    : plan_(plan), count_(count), result_(result), data_(result), slot_bytes_(sizeof(float)) {
  const auto size = static_cast<std::size_t>(count);
  if (plan.accumulator_dtype == &dtypes::Float64) {
    doubles_ = std::make_unique<double[]>(size);
    data_ = reinterpret_cast<std::byte*>(doubles_.get());
    slot_bytes_ = sizeof(double);
  } else if (plan.accumulation == Accumulation::ExactInteger) {
    integers_ = std::make_unique<Int128[]>(size);
    data_ = reinterpret_cast<std::byte*>(integers_.get());
    slot_bytes_ = sizeof(Int128);
  }
}

template <class Accumulator, class Result>
void Sums::store_all() const {
  const auto* const sums = reinterpret_cast<const Accumulator*>(data_);
  auto* const results = reinterpret_cast<Result*>(result_);
  parallel_for(count_, parallel_grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) results[i] = as_result(plan_.operation, sums[i]);
  });
}

void Sums::store() const {
  if (doubles_)
    store_all<double, float>();
  else if (integers_)
    store_all<Int128, std::int32_t>();
}

}  // namespace orlop::inline v0::kept_sums
