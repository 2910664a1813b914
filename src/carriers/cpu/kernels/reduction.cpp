// CPU reductions: blocks of terms in memory order, combined as a balanced tree.
//
// A fibre is reduced on its own where its terms lie together; where neighbouring fibres do, many of them are
// reduced side by side, row by row. Threads share the fibres or, where these are few, parts of every fibre.
// What is computed depends on neither the number of threads nor the processor.
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "carriers/cpu/kernels/fibre.hpp"
#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/ordered_result.hpp"
#include "operation/kept_sums.hpp"
#include "operation/reduction_loops.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index block_terms = 4096;  // consecutive terms that are reduced by lanes
constexpr Index block_rows = 256;    // rows that are reduced one after the other
constexpr Index row_width = 2048;    // fibres reduced side by side

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

/// What is computed side by side for up to `row_width` fibres, in whole cache lines. It lies half a page
/// beside the terms: where both had one place in their pages, a read of terms would wait for the write of
/// what was computed just before.
template <class T>
class Columns {
 public:
  explicit Columns(const void* terms) {
    const auto distance =
        reinterpret_cast<std::uintptr_t>(terms) + page / 2 - reinterpret_cast<std::uintptr_t>(room_.data());
    columns_ = room_.data() + distance % page / line * line / sizeof(T);
  }
  Columns(const Columns&) = delete;
  Columns& operator=(const Columns&) = delete;

  [[nodiscard]] T* data() { return columns_; }
  [[nodiscard]] T* begin() { return columns_; }
  T& operator[](std::size_t i) { return columns_[i]; }

 private:
  static constexpr std::uintptr_t page = 4096;
  static constexpr std::uintptr_t line = 64;

  alignas(line) std::array<T, row_width + page / sizeof(T)> room_;
  T* columns_;
};

template <class Accumulator>
struct RowSum {
  std::vector<Accumulator> values;
  void add(const RowSum& other) {
    std::transform(values.begin(), values.end(), other.values.begin(), values.begin(), std::plus());
  }
};

/// Consecutive elements: in place where they lie so, otherwise copied to `buffer`.
template <class T>
const T* consecutive(const T* first, Index step, Index count, T* buffer) {
  if (step == 1) return first;
  for (Index i = 0; i < count; ++i) buffer[i] = first[i * step];
  return buffer;
}

/// The ordinals of the reduced coordinates that one part covers.
struct Part {
  Index first;
  Index last;
};

/// Whether a part of a fibre is one block of consecutive terms.
bool is_one_block(const StridedLoop& reduced, Part part) {
  return part.last - part.first <= block_terms && reduced.is_contiguous(0);
}

/// Calls `body(terms, count, offsets)` for the terms of one fibre in blocks; offsets are those of a block's
/// first.
template <class T, class Body>
void for_each_block(const T* fibre, const StridedLoop& reduced, Part part, Body body) {
  std::array<T, block_terms> buffer;
  std::array<Index, 2> at{};
  const auto run = [&](const auto& offsets, Index count) {
    for (Index first = 0; first < count; first += block_terms) {
      const Index terms = std::min(block_terms, count - first);
      for (std::size_t operand = 0; operand < reduced.operands; ++operand)
        at[operand] = offsets[operand] + first * reduced.step(operand);
      body(consecutive(fibre + at[0], reduced.step(0), terms, buffer.data()), terms, at);
    }
  };
  if (reduced.rank() > 1) return for_each_run(reduced, part.first, part.last, run);
  std::array<Index, 2> start{};
  for (std::size_t operand = 0; operand < reduced.operands; ++operand)
    start[operand] = part.first * reduced.step(operand);
  run(start, part.last - part.first);
}

/// Calls `body(rows, count, ordinal)` for the reduced coordinates of `width` neighbouring fibres, up to
/// `block_rows` at once; ordinal is the number of the first row.
template <class T, class Body>
void for_each_row_block(const T* first, Index step, Index width, const StridedLoop& reduced, Part part,
                        Body body) {
  std::array<const T*, block_rows> rows;
  const Index copied = step == 1 ? 0 : std::min(block_rows, part.last - part.first);
  std::vector<T> buffer(static_cast<std::size_t>(copied * width));
  Index filled = 0;
  Index ordinal = part.first;
  const auto flush = [&] {
    if (filled > 0) body(rows.data(), filled, ordinal);
    ordinal += filled;
    filled = 0;
  };
  for_each_run(reduced, part.first, part.last, [&](std::span<const Index> offsets, Index count) {
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
  if (loops.fibres.rank() == 0 || loops.fibres.extents[0] < 16) return false;
  return loops.reduced.rank() == 0 || loops.fibres.step(0) < loops.reduced.step(0) ||
         loops.reduced.extents[0] < 16;
}

/// How many parts each fibre is cut into: more than one where the fibres are too few to share. Rounded sums
/// are cut without regard to the number of threads.
Index part_count(const ReductionLoops& loops, bool by_rows, bool is_rounded) {
  constexpr Index most_parts = 32;
  constexpr Index least_terms = Index{1} << 17;  // of all fibres together
  const Index many_fibres = by_rows ? row_width : most_parts;
  const Index least_length = by_rows ? block_rows / 2 : 2 * block_terms;
  if (loops.kept.size >= many_fibres) return 1;
  // Fewer fibres than `many_fibres`: the product fits.
  const Index parts =
      std::min(loops.kept.size * loops.reduced.size / least_terms, loops.reduced.size / least_length);
  return std::clamp<Index>(parts, 1, is_rounded ? most_parts : std::min(most_parts, 4 * thread_count()));
}

/// Runs a reduction. A `Method` says what a part of a fibre comes to, `fibre(first, part)`, or the same part
/// of several fibres side by side, `rows(first, step, width, part, out)`; what two parts come to, `merge(sum,
/// next)`; whether that depends on how fibres are cut, `is_rounded`; and what becomes of the result's slots,
/// `store(slots, step, sums, count, first, fibre_step)`.
template <class Method, class T, class Result>
void reduce(const KernelCall& call, const ReductionLoops& loops) {
  using Partial = Method::Partial;
  const Method method(call, loops);
  const auto* const data = reinterpret_cast<const T*>(call.operands[0].data);
  const OrderedResult<Result> result(reinterpret_cast<Result*>(call.result), loops.kept,
                                     !kept_sums::is_kept<Result>);
  const StridedLoop& kept = loops.kept;
  const bool by_rows = prefers_rows(loops);

  // The fibres `first` to `last` - 1.
  const auto reduce_part = [&](Index first, Index last, Part part, Partial* out) {
    const Index step = loops.fibres.step(0);
    for_each_run(loops.fibres, first, last, [&](std::span<const Index> offsets, Index count) {
      const T* const fibre = data + offsets[0];
      if (by_rows)
        for (Index i = 0; i < count; i += row_width)
          method.rows(fibre + i * step, step, std::min(row_width, count - i), part, out + i);
      else
        for (Index i = 0; i < count; ++i) out[i] = method.fibre(fibre + i * step, part);
      out += count;
    });
  };
  const auto finish = [&](Index first, Index last, const Partial* partials) {
    result.for_each_run(first, last, [&](Result* slots, Index step, Index offset, Index count) {
      method.store(slots, step, partials, count, data + offset, kept.step(0));
      partials += count;
    });
  };

  const Index terms = loops.reduced.size;
  const Index parts = part_count(loops, by_rows, Method::is_rounded);
  if (parts == 1) {
    // Long pieces of rows are read faster than short ones.
    const Index least = by_rows ? std::clamp<Index>(kept.size / thread_count(), 512, row_width) : 1;
    parallel_for(kept.size, Work{terms, least}, [&](Index first, Index last) {
      std::vector<Partial> partials(static_cast<std::size_t>(std::min(last - first, row_width)));
      for (; first < last; first += row_width) {
        const Index end = std::min(first + row_width, last);
        reduce_part(first, end, {0, terms}, partials.data());
        finish(first, end, partials.data());
      }
    });
    return result.finish();
  }
  std::vector<Partial> partials(static_cast<std::size_t>(parts * kept.size));
  parallel_for(parts, Work{terms / parts * kept.size}, [&](Index first, Index last) {
    for (; first < last; ++first)
      reduce_part(0, kept.size,
                  {terms / parts * first, first + 1 == parts ? terms : terms / parts * (first + 1)},
                  partials.data() + first * kept.size);
  });
  for (Index part = 1; part < parts; ++part) {
    const Partial* const next = partials.data() + part * kept.size;
    for (Index i = 0; i < kept.size; ++i) method.merge(partials[static_cast<std::size_t>(i)], next[i]);
  }
  finish(0, kept.size, partials.data());
  result.finish();
}

/// `Slot`: what the sum is stored in, or the kept sum that it is added to.
template <class T, class Accumulator, class Slot>
class Sum {
 public:
  using Partial = Accumulator;
  static constexpr bool is_rounded = std::is_floating_point_v<Accumulator>;

  Sum(const KernelCall& call, const ReductionLoops& loops)
      : operation_(call.plan.operation), reduced_(loops.reduced) {
    if constexpr (kept_sums::is_kept<Slot>) arrival_ = kept_sums::arrival_of(call);
    const bool reads_in_place = prefers_rows(loops) ? loops.fibres.step(0) == 1 : reduced_.is_contiguous(0);
    if (arrival_ == nullptr || reads_in_place) return;
    arrival_->require_all();
    arrival_ = nullptr;
  }

  [[nodiscard]] Accumulator fibre(const T* first, Part part) const {
    require(first + part.first, first + part.last);
    if (is_one_block(reduced_, part)) return loops_.sum(first + part.first, part.last - part.first);
    SumTree<OneSum<Accumulator>> tree;
    OneSum<Accumulator> total;
    for_each_block(first, reduced_, part,
                   [&](const T* terms, Index count, const auto&) { tree.add({loops_.sum(terms, count)}); });
    tree.add_to(total);
    return total.value;
  }

  void rows(const T* first, Index step, Index width, Part part, Accumulator* out) const {
    using Row = RowSum<Accumulator>;
    SumTree<Row> tree;
    Columns<Accumulator> sums(first);
    const bool is_one_block = part.last - part.first <= block_rows;
    for_each_row_block(first, step, width, reduced_, part, [&](const T* const* rows, Index count, Index) {
      std::fill_n(sums.begin(), width, Accumulator{});
      add_rows(sums.data(), rows, count, width);
      if (!is_one_block) tree.add({std::vector<Accumulator>(sums.begin(), sums.begin() + width)});
    });
    if (is_one_block) {
      std::copy_n(sums.data(), width, out);
      return;
    }
    Row total{std::vector<Accumulator>(static_cast<std::size_t>(width))};
    tree.add_to(total);
    std::copy(total.values.begin(), total.values.end(), out);
  }

  void merge(Accumulator& sum, Accumulator next) const { sum += next; }
  void store(Slot* slots, Index step, const Accumulator* sums, Index count, const T*, Index) const {
    for (Index i = 0; i < count; ++i) kept_sums::store(operation_, slots[i * step], sums[i]);
  }

 private:
  /// Rows on their way are added while they are in the caches: a few at once, which gives the same sums.
  void add_rows(Accumulator* sums, const T* const* rows, Index count, Index width) const {
    const Index at_once = arrival_ == nullptr ? count : block_rows / 2;
    for (Index first = 0; first < count; first += at_once) {
      const Index added = std::min(at_once, count - first);
      for (Index row = first; row < first + added; ++row) require(rows[row], rows[row] + width);
      loops_.add_rows(sums, rows + first, added, width);
    }
  }

  /// Waits for consecutive terms.
  void require(const T* first, const T* last) const {
    if (arrival_ != nullptr)
      arrival_->require(reinterpret_cast<const std::byte*>(first), reinterpret_cast<const std::byte*>(last));
  }

  std::string_view operation_;
  const StridedLoop& reduced_;
  Arrival* arrival_ = nullptr;  // where terms are read in place and may be on their way
  const SumLoops<Accumulator, T>& loops_ = fibre_kernels().sums<Accumulator>();
};

// Sums of up to 2^32 Int32 values fit 64 bits.
constexpr Index max_integer_terms = Index{1} << 32;

void reduce_sum(const KernelCall& call) {
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory);
  if (call.operands[0].stored == StorageType::int32) {
    if (loops.reduced.size > max_integer_terms)
      reference_kernels().find("reduce_sum")(call);
    else
      reduce<Sum<std::int32_t, std::int64_t, std::int32_t>, std::int32_t, std::int32_t>(call, loops);
  } else if (call.plan.accumulator_dtype == &dtypes::Float64) {
    reduce<Sum<float, double, float>, float, float>(call, loops);
  } else {
    reduce<Sum<float, float, float>, float, float>(call, loops);
  }
}

void add_to_kept_sums(const KernelCall& call) {
  using kept_sums::Kept;
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory);
  if (call.operands[0].stored == StorageType::int32) {
    if (loops.reduced.size > max_integer_terms)
      reference_kernels().find(kept_sums::reduce_sum)(call);
    else
      reduce<Sum<std::int32_t, std::int64_t, Kept<Int128>>, std::int32_t, Kept<Int128>>(call, loops);
  } else if (call.plan.accumulator_dtype == &dtypes::Float64) {
    reduce<Sum<float, double, Kept<double>>, float, Kept<double>>(call, loops);
  } else {
    reduce<Sum<float, float, Kept<float>>, float, Kept<float>>(call, loops);
  }
}

/// The extremum of one fibre term by term: the rule itself (P10), for the fibres that may have a NaN.
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
bool is_better(T x, T best) {
  return IsMinimum ? x < best : x > best;
}

/// Whether `does` holds for one of the values, without branches: several are looked at together.
template <class T, class Does>
bool holds_for_any(const T* values, Index count, Does does) {
  std::int32_t found = 0;
  for (Index i = 0; i < count; ++i) found |= does(values[i]) ? 1 : 0;
  return found != 0;
}

template <bool IsMinimum, class T>
class Extremum {
 public:
  /// A NaN where a term may be one. A zero is of the preferred sign if any zero is.
  using Partial = T;
  static constexpr bool is_rounded = false;

  Extremum(const KernelCall& call, const ReductionLoops& loops)
      : reduced_(loops.reduced), in_order_(reduction_loops(call, ReducedOrder::ordinal).reduced) {}

  [[nodiscard]] T fibre(const T* first, Part part) const {
    const TermExtremum<T> best = is_one_block(reduced_, part)
                                     ? loops_.extremum(first + part.first, part.last - part.first)
                                     : of_blocks(first, part);
    if constexpr (std::is_same_v<T, float>) {
      if (best.may_have_nan) return std::numeric_limits<T>::quiet_NaN();
      if (best.value == 0) return zero_of(first, part);
    }
    return best.value;
  }

  void rows(const T* first, Index step, Index width, Part part, T* out) const {
    Columns<T> best(first);
    bool may_have_nan = false;
    for_each_row_block(first, step, width, reduced_, part, [&](const T* const* rows, Index count, Index row) {
      if (row == part.first) std::copy_n(rows[0], width, best.data());
      may_have_nan = loops_.update_rows(best.data(), rows, count, width) || may_have_nan;
    });
    std::copy_n(best.data(), width, out);
    if constexpr (std::is_same_v<T, float>) {
      if (holds_for_any(out, width, [](T value) { return value == 0; }))
        set_zeros(first, step, width, part, out);
      if (may_have_nan) find_nans(first, step, width, part, out);
    }
  }

  void merge(T& best, T next) const {
    // Without branches. Of equal values other than zeros it does not matter which is taken.
    const bool is_preferred = std::signbit(static_cast<float>(next)) == IsMinimum;
    const bool takes = is_better<IsMinimum>(next, best) | (next == best && is_preferred) | (next != next);
    best = takes && best == best ? next : best;
  }
  void store(T* slots, Index step, const T* best, Index count, const T* first, Index fibre_step) const {
    const bool has_nan = holds_for_any(best, count, [](T value) { return value != value; });
    for (Index i = 0; i < count; ++i)
      slots[i * step] = has_nan && best[i] != best[i]
                            ? extremum_in_order<IsMinimum>(first + i * fibre_step, in_order_)
                            : best[i];
  }

 private:
  static constexpr T preferred_zero = IsMinimum ? static_cast<T>(-0.0F) : T{0};

  [[nodiscard]] TermExtremum<T> of_blocks(const T* first, Part part) const {
    TermExtremum<T> best{};
    bool is_first = true;
    for_each_block(first, reduced_, part, [&](const T* terms, Index count, const auto&) {
      const TermExtremum<T> block = loops_.extremum(terms, count);
      if (is_first || is_better<IsMinimum>(block.value, best.value)) best.value = block.value;
      best.may_have_nan = best.may_have_nan || block.may_have_nan;
      is_first = false;
    });
    return best;
  }

  /// The extremum of a part whose extremum equals zero.
  [[nodiscard]] T zero_of(const T* first, Part part) const {
    bool is_met = false;
    for_each_block(first, reduced_, part, [&](const T* terms, Index count, const auto&) {
      is_met = is_met || fibre_kernels().contains_bits(terms, count, preferred_zero);
    });
    return is_met ? preferred_zero : -preferred_zero;
  }

  /// Columns with a NaN have one as their sum.
  void find_nans(const T* first, Index step, Index width, Part part, T* out) const {
    Columns<float> sums(first);
    std::fill_n(sums.begin(), width, 0.0F);
    for_each_row_block(first, step, width, reduced_, part, [&](const T* const* rows, Index count, Index) {
      fibre_kernels().sums<float>().add_rows(sums.data(), rows, count, width);
    });
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
      if (sums[i] != sums[i]) out[i] = std::numeric_limits<T>::quiet_NaN();
  }

  void set_zeros(const T* first, Index step, Index width, Part part, T* out) const {
    std::vector<std::int32_t> is_met(static_cast<std::size_t>(width));
    for_each_row_block(first, step, width, reduced_, part, [&](const T* const* rows, Index count, Index) {
      fibre_kernels().find_bits(is_met.data(), rows, count, width, preferred_zero);
    });
    for (std::size_t i = 0; i < is_met.size(); ++i)
      if (out[i] == 0) out[i] = is_met[i] != 0 ? preferred_zero : -preferred_zero;
  }

  const StridedLoop& reduced_;
  StridedLoop in_order_;
  const ExtremumLoops<T>& loops_ = fibre_kernels().extremum<T>(IsMinimum);
};

template <bool IsMinimum, class T>
class Position {
 public:
  struct Partial {
    T value;
    bool may_have_nan;
    std::int32_t ordinal;  // of the first such value
  };
  static constexpr bool is_rounded = false;

  Position(const KernelCall& call, const ReductionLoops& loops)
      : reduced_(loops.reduced), in_order_(reduction_loops(call, ReducedOrder::ordinal).reduced) {}

  [[nodiscard]] Partial fibre(const T* first, Part part) const {
    if (is_one_block(reduced_, part)) {
      const T* const terms = first + part.first;
      const Index count = part.last - part.first;
      const TermExtremum<T> block = loops_.extremum(terms, count);
      const Index met = block.may_have_nan ? 0 : fibre_kernels().find(terms, count, block.value);
      return {block.value, block.may_have_nan,
              static_cast<std::int32_t>((part.first + met) * reduced_.step(1))};
    }
    Partial best{};
    bool is_first = true;
    for_each_block(first, reduced_, part, [&](const T* terms, Index count, const auto& offsets) {
      const TermExtremum<T> block = loops_.extremum(terms, count);
      best.may_have_nan = best.may_have_nan || block.may_have_nan;
      const bool is_improved = is_first || is_better<IsMinimum>(block.value, best.value);
      is_first = false;
      if (best.may_have_nan || (!is_improved && block.value != best.value)) return;
      const auto met = static_cast<std::int32_t>(
          offsets[1] + fibre_kernels().find(terms, count, block.value) * reduced_.step(1));
      best.ordinal = is_improved ? met : std::min(best.ordinal, met);
      best.value = block.value;
    });
    return best;
  }

  // In ordinal order, so that the first of equal terms stays.
  void rows(const T* first, Index step, Index width, Part part, Partial* out) const {
    Columns<T> best(first);
    Columns<float> traces(first);
    Columns<std::int32_t> positions(first);
    std::fill_n(traces.begin(), width, 0.0F);
    std::fill_n(positions.begin(), width, static_cast<std::int32_t>(part.first));
    for_each_row_block(first, step, width, in_order_, part,
                       [&](const T* const* rows, Index count, Index row) {
                         if (row == part.first) std::copy_n(rows[0], width, best.data());
                         loops_.locate_rows(best.data(), positions.data(), traces.data(), rows, count,
                                            static_cast<std::int32_t>(row), width);
                       });
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i)
      out[i] = {best[i], traces[i] != traces[i], positions[i]};
  }

  void merge(Partial& best, const Partial& next) const {
    const bool is_improved = is_better<IsMinimum>(next.value, best.value);
    const bool may_have_nan = best.may_have_nan || next.may_have_nan;
    if (is_improved || (next.value == best.value && next.ordinal < best.ordinal)) best = next;
    best.may_have_nan = may_have_nan;
  }
  void store(std::int32_t* slots, Index step, const Partial* best, Index count, const T* first,
             Index fibre_step) const {
    for (Index i = 0; i < count; ++i)
      slots[i * step] = best[i].may_have_nan ? position_in_order(first + i * fibre_step) : best[i].ordinal;
  }

 private:
  /// The rule itself, term by term.
  [[nodiscard]] std::int32_t position_in_order(const T* first) const {
    T best = *first;
    Index position = 0;
    Index ordinal = 0;
    for_each_run(in_order_, 0, in_order_.size, [&](std::span<const Index> offsets, Index count) {
      for (Index i = 0; i < count; ++i, ++ordinal) {
        const T x = first[offsets[0] + i * in_order_.step(0)];
        if (!precedes<IsMinimum>(x, best)) continue;
        best = x;
        position = ordinal;
      }
    });
    return static_cast<std::int32_t>(position);
  }

  const StridedLoop& reduced_;  // operands: the source, the ordinal
  StridedLoop in_order_;
  const ExtremumLoops<T>& loops_ = fibre_kernels().extremum<T>(IsMinimum);
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
      {kept_sums::reduce_sum, add_to_kept_sums},
      {"reduce_max", reduce_extremum<false>},
      {"reduce_min", reduce_extremum<true>},
      {"argmax", reduce_position<false>},
      {"argmin", reduce_position<true>},
  };
  return list;
}

}  // namespace orlop::inline v0
