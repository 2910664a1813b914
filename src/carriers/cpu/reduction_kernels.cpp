// CPU reductions: blocks of terms in memory order, combined as a balanced tree.
//
// A fibre is reduced on its own where its terms lie together; where neighbouring fibres do, many of them are
// reduced side by side, row by row.
#include <array>
#include <vector>

#include "carriers/cpu/fibre_loops.hpp"
#include "carriers/cpu/kernels.hpp"
#include "operation/exact_integer.hpp"
#include "operation/reduction_loops.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_terms = 1024;  // consecutive terms that are summed by lanes
constexpr Index block_rows = 128;    // rows that are summed one after the other
constexpr Index row_width = 1024;    // fibres reduced side by side

/// Sums of equal blocks as a balanced tree: the rounding error grows with the logarithm of their number.
/// `Value` has `add(other)`.
template <class Value>
class SumTree {
 public:
  void add(Value value) {
    std::size_t level = 0;
    for (; (count_ >> level & 1U) != 0; ++level) value.add(levels_[level]);
    levels_[level] = std::move(value);
    ++count_;
  }
  /// Adds everything to `total`, the smallest sums first.
  void add_to(Value& total) const {
    for (std::size_t level = 0; level < levels_.size(); ++level)
      if ((count_ >> level & 1U) != 0) total.add(levels_[level]);
  }

 private:
  std::array<Value, 48> levels_{};  // level n holds 2^n blocks where bit n of the count is set
  std::size_t count_ = 0;
};

template <class Accumulator>
struct OneSum {
  Accumulator value{};
  void add(const OneSum& other) { value += other.value; }
};

template <class Accumulator>
struct RowSum {
  std::vector<Accumulator> values;
  void add(const RowSum& other) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  }
};

/// Consecutive elements: in place where they lie so, otherwise copied to `buffer`.
template <class T>
const T* consecutive(const T* first, Index step, Index count, T* buffer) {
  if (step == 1) return first;
  for (Index i = 0; i < count; ++i) buffer[i] = first[i * step];
  return buffer;
}

/// Calls `body(terms, count, offsets)` for the terms of one fibre in blocks; offsets are those of a block's
/// first.
template <class T, class Body>
void for_each_block(const T* fibre, const StridedLoop& reduced, Body body) {
  std::array<T, block_terms> buffer;
  SmallVector<Index, 2> at(reduced.operands);
  for_each_run(reduced, 0, reduced.size, [&](std::span<const Index> offsets, Index count) {
    for (Index first = 0; first < count; first += block_terms) {
      const Index terms = std::min(block_terms, count - first);
      for (std::size_t operand = 0; operand < at.size(); ++operand)
        at[operand] = offsets[operand] + first * reduced.step(operand);
      body(consecutive(fibre + at[0], reduced.step(0), terms, buffer.data()), terms,
           std::span<const Index>(at));
    }
  });
}

/// Calls `body(rows, count, ordinal)` for the reduced coordinates of `width` neighbouring fibres, up to
/// `block_rows` at once; ordinal is the number of the first row.
template <class T, class Body>
void for_each_row_block(const T* first, Index step, Index width, const StridedLoop& reduced, Body body) {
  std::array<const T*, block_rows> rows;
  std::vector<T> buffer(step == 1 ? 0 : static_cast<std::size_t>(block_rows * width));
  Index filled = 0;
  Index ordinal = 0;
  const auto flush = [&] {
    if (filled > 0) body(rows.data(), filled, ordinal);
    ordinal += filled;
    filled = 0;
  };
  for_each_run(reduced, 0, reduced.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i) {
      T* const copy = buffer.data() + (step == 1 ? 0 : filled * width);
      rows[static_cast<std::size_t>(filled)] =
          consecutive(first + offsets[0] + i * reduced.step(0), step, width, copy);
      if (++filled == block_rows) flush();
    }
  });
  flush();
}

/// Whether neighbouring fibres are better reduced side by side than one after the other.
bool prefers_rows(const ReductionLoops& loops) {
  if (loops.kept.rank() == 0 || loops.reduced.rank() == 0 || loops.kept.extents[0] < 16) return false;
  return loops.kept.step(0) < loops.reduced.step(0) || loops.reduced.extents[0] < 16;
}

/// Runs a reduction. A `Method` reduces one fibre, `fibre(first)`, or several side by side, `rows(first,
/// step, width, out, out_step)`.
template <class Method, class T, class Result>
void reduce(const KernelCall& call, const ReductionLoops& loops) {
  const Method method(call, loops);
  const auto* const data = reinterpret_cast<const T*>(call.operands[0].data);
  auto* const result = reinterpret_cast<Result*>(call.result);
  const StridedLoop& kept = loops.kept;
  const bool by_rows = prefers_rows(loops);
  for_each_run(kept, 0, kept.size, [&](std::span<const Index> offsets, Index count) {
    const T* const first = data + offsets[0];
    Result* const out = result + offsets[1];
    if (!by_rows) {
      for (Index i = 0; i < count; ++i) out[i * kept.step(1)] = method.fibre(first + i * kept.step(0));
      return;
    }
    for (Index i = 0; i < count; i += row_width)
      method.rows(first + i * kept.step(0), kept.step(0), std::min(row_width, count - i),
                  out + i * kept.step(1), kept.step(1));
  });
}

/// What a sum is stored as.
float stored(std::string_view, float sum) { return sum; }
float stored(std::string_view, double sum) { return static_cast<float>(sum); }
std::int32_t stored(std::string_view operation, std::int64_t sum) { return checked_int32(operation, sum); }

template <class T, class Accumulator, class Result>
class Sum {
 public:
  Sum(const KernelCall& call, const ReductionLoops& loops)
      : operation_(call.plan.operation), reduced_(loops.reduced) {}

  [[nodiscard]] Result fibre(const T* first) const {
    SumTree<OneSum<Accumulator>> tree;
    OneSum<Accumulator> total;
    for_each_block(first, reduced_, [&](const T* terms, Index count, std::span<const Index>) {
      tree.add({fibre_loops::sum<Accumulator>(terms, count)});
    });
    tree.add_to(total);
    return stored(operation_, total.value);
  }

  void rows(const T* first, Index step, Index width, Result* out, Index out_step) const {
    using Row = RowSum<Accumulator>;
    const Row zeros{std::vector<Accumulator>(static_cast<std::size_t>(width))};
    SumTree<Row> tree;
    for_each_row_block(first, step, width, reduced_, [&](const T* const* rows, Index count, Index) {
      Row block = zeros;
      fibre_loops::add_rows(block.values.data(), rows, count, width);
      tree.add(std::move(block));
    });
    Row total = zeros;
    tree.add_to(total);
    for (Index i = 0; i < width; ++i)
      out[i * out_step] = stored(operation_, total.values[static_cast<std::size_t>(i)]);
  }

 private:
  std::string_view operation_;
  const StridedLoop& reduced_;
};

void reduce_sum(const KernelCall& call) {
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory);
  // Sums of up to 2^32 Int32 values fit 64 bits.
  constexpr Index max_terms = Index{1} << 32;
  if (call.operands[0].stored == StorageType::int32) {
    if (loops.reduced.size > max_terms)
      reference_kernels().find("reduce_sum")(call);
    else
      reduce<Sum<std::int32_t, std::int64_t, std::int32_t>, std::int32_t, std::int32_t>(call, loops);
  } else if (call.plan.accumulator_dtype == &dtypes::Float64) {
    reduce<Sum<float, double, float>, float, float>(call, loops);
  } else {
    reduce<Sum<float, float, float>, float, float>(call, loops);
  }
}

/// The extremum of one fibre term by term: the rule itself (P10), for the fibres in which a NaN was met.
template <bool IsMinimum, class T>
T extremum_in_order(const T* first, const StridedLoop& in_order) {
  T best = *first;
  for_each_run(in_order, 0, in_order.size, [&](std::span<const Index> offsets, Index count) {
    for (Index i = 0; i < count; ++i)
      if (const T x = first[offsets[0] + i * in_order.step(0)]; beats<IsMinimum>(x, best)) best = x;
  });
  return best;
}

template <bool IsMinimum, class T>
class Extremum {
 public:
  Extremum(const KernelCall& call, const ReductionLoops& loops)
      : reduced_(loops.reduced), in_order_(reduction_loops(call, ReducedOrder::ordinal).reduced) {}

  [[nodiscard]] T fibre(const T* first) const {
    fibre_loops::Extremum<T> best{*first, false};
    for_each_block(first, reduced_, [&](const T* terms, Index count, std::span<const Index>) {
      const fibre_loops::Extremum<T> block = fibre_loops::extremum<IsMinimum>(terms, count);
      if (fibre_loops::is_better<IsMinimum>(block.value, best.value)) best.value = block.value;
      best.has_nan = best.has_nan || block.has_nan;
    });
    if (best.has_nan) return extremum_in_order<IsMinimum>(first, in_order_);
    if constexpr (std::is_same_v<T, float>)
      if (best.value == 0) return zero_of(first);
    return best.value;
  }

  void rows(const T* first, Index step, Index width, T* out, Index out_step) const {
    const T* const start = first;
    std::vector<T> best(static_cast<std::size_t>(width));
    std::vector<std::int32_t> is_nan(best.size());
    for (Index i = 0; i < width; ++i) best[static_cast<std::size_t>(i)] = start[i * step];
    for_each_row_block(first, step, width, reduced_, [&](const T* const* rows, Index count, Index) {
      for (Index row = 0; row < count; ++row)
        fibre_loops::extremum_row<IsMinimum>(best.data(), is_nan.data(), rows[row], width);
    });
    for (std::size_t i = 0; i < best.size(); ++i) {
      const auto at = static_cast<Index>(i);
      out[at * out_step] =
          is_nan[i] != 0 ? extremum_in_order<IsMinimum>(first + at * step, in_order_) : best[i];
    }
  }

 private:
  /// The extremum of a fibre whose extremum equals zero: of the preferred sign if any of its zeros is.
  [[nodiscard]] T zero_of(const T* first) const {
    const T preferred = IsMinimum ? static_cast<T>(-0.0F) : T{0};
    bool is_met = false;
    for_each_block(first, reduced_, [&](const T* terms, Index count, std::span<const Index>) {
      is_met = is_met || fibre_loops::contains_bits(terms, count, preferred);
    });
    return is_met ? preferred : -preferred;
  }

  const StridedLoop& reduced_;
  StridedLoop in_order_;
};

template <bool IsMinimum, class T>
class Position {
 public:
  Position(const KernelCall& call, const ReductionLoops& loops)
      : reduced_(loops.reduced), in_order_(reduction_loops(call, ReducedOrder::ordinal).reduced) {}

  [[nodiscard]] std::int32_t fibre(const T* first) const {
    fibre_loops::Extremum<T> best{*first, false};
    Index ordinal = in_order_.size;
    for_each_block(first, reduced_, [&](const T* terms, Index count, std::span<const Index> offsets) {
      const fibre_loops::Extremum<T> block = fibre_loops::extremum<IsMinimum>(terms, count);
      best.has_nan = best.has_nan || block.has_nan;
      const bool is_better = fibre_loops::is_better<IsMinimum>(block.value, best.value);
      if (best.has_nan || (!is_better && block.value != best.value)) return;
      const Index met = offsets[1] + fibre_loops::find(terms, count, block.value) * reduced_.step(1);
      ordinal = is_better ? met : std::min(ordinal, met);
      best.value = block.value;
    });
    return static_cast<std::int32_t>(best.has_nan ? first_nan(first) : ordinal);
  }

  void rows(const T* first, Index step, Index width, std::int32_t* out, Index out_step) const {
    std::vector<T> best(static_cast<std::size_t>(width));
    std::vector<std::int32_t> positions(best.size());
    for (Index i = 0; i < width; ++i) best[static_cast<std::size_t>(i)] = first[i * step];
    // In ordinal order, so that the first of equal terms stays.
    for_each_row_block(first, step, width, in_order_, [&](const T* const* rows, Index count, Index ordinal) {
      for (Index row = 0; row < count; ++row)
        fibre_loops::position_row<IsMinimum>(best.data(), positions.data(), rows[row],
                                             static_cast<std::int32_t>(ordinal + row), width);
    });
    for (std::size_t i = 0; i < positions.size(); ++i) out[static_cast<Index>(i) * out_step] = positions[i];
  }

 private:
  [[nodiscard]] Index first_nan(const T* first) const {
    Index ordinal = 0;
    Index met = in_order_.size;
    for_each_run(in_order_, 0, in_order_.size, [&](std::span<const Index> offsets, Index count) {
      for (Index i = 0; i < count; ++i, ++ordinal) {
        const T x = first[offsets[0] + i * in_order_.step(0)];
        if (x != x && met == in_order_.size) met = ordinal;
      }
    });
    return met;
  }

  const StridedLoop& reduced_;
  StridedLoop in_order_;
};

template <bool IsMinimum>
void reduce_extremum(const KernelCall& call) {
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory);
  if (call.operands[0].stored == StorageType::float32)
    reduce<Extremum<IsMinimum, float>, float, float>(call, loops);
  else
    reduce<Extremum<IsMinimum, std::int32_t>, std::int32_t, std::int32_t>(call, loops);
}

template <bool IsMinimum>
void reduce_position(const KernelCall& call) {
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory_with_ordinal);
  if (call.operands[0].stored == StorageType::float32)
    reduce<Position<IsMinimum, float>, float, std::int32_t>(call, loops);
  else
    reduce<Position<IsMinimum, std::int32_t>, std::int32_t, std::int32_t>(call, loops);
}

}  // namespace

KernelList cpu_reduction_kernels() {
  static constexpr KernelEntry list[] = {
      {"reduce_sum", reduce_sum},
      {"reduce_max", reduce_extremum<false>},
      {"reduce_min", reduce_extremum<true>},
      {"argmax", reduce_position<false>},
      {"argmin", reduce_position<true>},
  };
  return list;
}

}  // namespace orlop::inline v0
