// CPU scans and products. Every fibre is walked in ordinal order, step by step, as the reference kernels do
// it: several fibres at once hide how long one step takes, many that lie side by side go row by row. Only a
// lone binary64 sum takes two steps at once.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/ordered_result.hpp"
#include "operation/exact_integer.hpp"
#include "operation/modes.hpp"
#include "operation/reduction_loops.hpp"
#include "operation/rounds.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index row_width = 1024;  // fibres that go row by row together
constexpr Index least_width = 16;  // fewer go on their own
constexpr std::size_t lanes = 8;   // fibres on their own at once

/// How a scan goes on: from `start`, `next(accumulated, element)`, of which `stored` is written.
struct FloatingSum {
  using Element = float;
  using Accumulated = double;
  static constexpr double start = 0;
  static double next(double sum, float term) { return sum + double{term}; }
  static float stored(double sum) { return static_cast<float>(sum); }
};

struct SequentialSum {
  using Element = float;
  using Accumulated = float;
  static constexpr float start = 0;
  static float next(float sum, float term) { return sum + term; }
  static float stored(float sum) { return sum; }
};

struct SequentialProduct {
  using Element = float;
  using Accumulated = float;
  static constexpr float start = 1;
  static float next(float product, float factor) { return product * factor; }
  static float stored(float product) { return product; }
};

struct IntegerSum {
  using Element = std::int32_t;
  using Accumulated = std::int64_t;
  static constexpr std::int64_t start = 0;
  static std::int64_t next(std::int64_t sum, std::int32_t term) { return sum + term; }
  static std::int32_t stored(std::int64_t sum) { return static_cast<std::int32_t>(sum); }
};

struct IntegerProduct {
  using Element = std::int32_t;
  using Accumulated = std::int64_t;
  static constexpr std::int64_t start = 1;
  static std::int64_t next(std::int64_t product, std::int32_t factor) { return multiply(product, factor); }
};

/// The elements of a canonical layout: `size` along the axis, `inner` before it, `outer` after it.
struct Extents {
  Index inner;
  Index size;
  Index outer;
};

/// The next `size` elements of `Count` fibres from `source` to `result`, which may be one, in steps of `step`
/// elements: from `begins` on, where `sums` has been accumulated. Whether all that was stored is exact.
template <class Rule, bool IsExclusive, std::size_t Count>
bool scan_fibres(const typename Rule::Element* source, typename Rule::Element* result,
                 std::array<Index, Count>& begins, Index size, Index step,
                 std::array<typename Rule::Accumulated, Count>& sums) {
  using Accumulated = Rule::Accumulated;
  std::array<Index, Count> at = begins;
  std::array<Accumulated, Count> accumulated = sums;
  Accumulated lost = 0;
  for (Index i = 0; i < size; ++i)
    for (std::size_t lane = 0; lane < Count; ++lane) {
      const Accumulated next = Rule::next(accumulated[lane], source[at[lane]]);
      const auto stored = Rule::stored(IsExclusive ? accumulated[lane] : next);
      if constexpr (std::is_integral_v<Accumulated>) lost |= next ^ stored;
      result[at[lane]] = stored;
      at[lane] += step;
      accumulated[lane] = next;
    }
  begins = at;
  sums = accumulated;
  return lost == 0;
}

/// The same for a lone fibre whose order of additions is free (P10): each second sum adds a pair.
template <>
bool scan_fibres<FloatingSum, false, 1>(const float* source, float* result, std::array<Index, 1>& begins,
                                        Index size, Index step, std::array<double, 1>& sums) {
  source += begins[0];
  result += begins[0];
  double sum = sums[0];
  Index i = 0;
  for (; i + 2 <= size; i += 2) {
    const double first{source[i * step]};
    const double second{source[(i + 1) * step]};
    result[i * step] = static_cast<float>(sum + first);
    sum += first + second;
    result[(i + 1) * step] = static_cast<float>(sum);
  }
  if (i < size) result[i * step] = static_cast<float>(sum += double{source[i * step]});
  begins[0] += size * step;
  sums[0] = sum;
  return true;
}

/// The next row of neighbouring fibres, in place. Whether all that was stored is exact.
template <class Rule, bool IsExclusive>
bool scan_row(typename Rule::Accumulated* accumulated, typename Rule::Element* row, Index width) {
  using Accumulated = Rule::Accumulated;
  Accumulated lost = 0;
  for (Index i = 0; i < width; ++i) {
    const Accumulated next = Rule::next(accumulated[i], row[i]);
    row[i] = Rule::stored(IsExclusive ? accumulated[i] : next);
    if constexpr (std::is_integral_v<Accumulated>) lost |= next ^ row[i];
    accumulated[i] = next;
  }
  return lost == 0;
}

template <class Rule, bool IsExclusive, bool IsBackward>
class Scan {
 public:
  using Element = Rule::Element;

  /// From `source` to `result`, which may be one.
  Scan(const Element* source, Element* result, const Extents& extents)
      : source_(source), result_(result), extents_(extents) {}

  /// Whether all that was stored is exact.
  [[nodiscard]] bool run() const {
    std::atomic<bool> is_exact = true;
    const Work fibre{extents_.size, least_width};
    parallel_for(extents_.inner * extents_.outer, fibre, [&](Index first, Index last) {
      const bool is_range_exact =
          extents_.inner < least_width ? scan_one_by_one(first, last) : scan_side_by_side(first, last);
      if (!is_range_exact) is_exact = false;
    });
    return is_exact;
  }

 private:
  /// The fibres `first` … `last - 1`.
  [[nodiscard]] bool scan_one_by_one(Index first, Index last) const {
    bool is_exact = true;
    for (; first + static_cast<Index>(lanes) <= last; first += static_cast<Index>(lanes))
      is_exact = scan<lanes>(first) && is_exact;
    for (; first < last; ++first) is_exact = scan<1>(first) && is_exact;
    return is_exact;
  }

  [[nodiscard]] bool scan_side_by_side(Index first, Index last) const {
    bool is_exact = true;
    while (first < last) {
      const Index inner = first % extents_.inner;
      const Index width = std::min({row_width, extents_.inner - inner, last - first});
      is_exact = scan_rows((first - inner) * extents_.size + inner, width) && is_exact;
      first += width;
    }
    return is_exact;
  }

  /// Number `i` of the axis in the order of the scan.
  [[nodiscard]] Index ordinal(Index i) const { return IsBackward ? extents_.size - 1 - i : i; }

  template <std::size_t Count>
  [[nodiscard]] bool scan(Index fibre) const {
    std::array<Index, Count> at;
    for (Index& first : at) {
      first = fibre / extents_.inner * extents_.size * extents_.inner + fibre % extents_.inner +
              ordinal(0) * extents_.inner;
      ++fibre;
    }
    std::array<typename Rule::Accumulated, Count> accumulated;
    accumulated.fill(Rule::start);
    bool is_exact = true;
    serial_for(extents_.size, Count, [&](Index first, Index last) {
      is_exact = scan_fibres<Rule, IsExclusive>(source_, result_, at, last - first,
                                                IsBackward ? -extents_.inner : extents_.inner, accumulated) &&
                 is_exact;
    });
    return is_exact;
  }

  [[nodiscard]] bool scan_rows(Index first, Index width) const {
    std::array<typename Rule::Accumulated, row_width> accumulated;
    std::fill_n(accumulated.begin(), width, Rule::start);
    bool is_exact = true;
    serial_for(extents_.size, width, [&](Index i, Index end) {
      for (; i < end; ++i) {
        const Index at = first + ordinal(i) * extents_.inner;
        if (source_ != result_)
          std::memcpy(result_ + at, source_ + at, static_cast<std::size_t>(width) * sizeof(Element));
        is_exact = scan_row<Rule, IsExclusive>(accumulated.data(), result_ + at, width) && is_exact;
      }
    });
    return is_exact;
  }

  const Element* source_;
  Element* result_;
  Extents extents_;
};

/// Scans the operand; where its layout is not canonical, a canonical copy that becomes the result.
template <class Rule, bool IsExclusive, bool IsBackward>
bool scan_operand(const KernelCall& call) {
  using Element = Rule::Element;
  const auto axis = static_cast<std::size_t>(call.parameters.axis);
  const KernelOperand& operand = call.operands[0];
  auto* const result = reinterpret_cast<Element*>(call.result);
  const auto* source = reinterpret_cast<const Element*>(operand.data);
  if (!operand.layout->is_canonical()) {
    copy_strided(operand.data, *operand.layout, call.result, call.layout, sizeof(Element));
    source = result;
  }
  return Scan<Rule, IsExclusive, IsBackward>(
             source, result,
             {leaves_of_modes(call.layout, 0, axis).size(),
              leaves_of_modes(call.layout, axis, axis + 1).size(),
              leaves_of_modes(call.layout, axis + 1, call.layout.rank()).size()})
      .run();
}

void cumsum(const KernelCall& call) {
  // Sums of up to 2^32 Int32 values fit 64 bits.
  constexpr Index max_terms = Index{1} << 32;
  if (call.operands[0].stored == StorageType::float32) {
    static_cast<void>(scan_operand<FloatingSum, false, false>(call));
    return;
  }
  // The reference kernel names the sum that leaves Int32.
  if (call.layout.size() > max_terms || !scan_operand<IntegerSum, false, false>(call))
    reference_kernels().find("cumsum")(call);
}

/// The scans of gradients.
template <class Rule>
void scan_sequentially(const KernelCall& call) {
  const KernelParameters& parameters = call.parameters;
  if (parameters.is_exclusive)
    parameters.is_backward ? scan_operand<Rule, true, true>(call) : scan_operand<Rule, true, false>(call);
  else
    parameters.is_backward ? scan_operand<Rule, false, true>(call) : scan_operand<Rule, false, false>(call);
}

void scan(const KernelCall& call) {
  if (call.plan.accumulation == Accumulation::SequentialBinary32Product)
    scan_sequentially<SequentialProduct>(call);
  else
    scan_sequentially<SequentialSum>(call);
}

/// The products of `Count` fibres that begin `step` elements apart.
template <class Rule, std::size_t Count>
void multiply_fibres(const typename Rule::Element* first, Index step, const StridedLoop& reduced,
                     typename Rule::Accumulated* products) {
  std::array<typename Rule::Accumulated, Count> product;
  product.fill(Rule::start);
  const auto multiply = [&](std::span<const Index> offsets, Index count) {
    const auto* factors = first + offsets[0];
    for (Index i = 0; i < count; ++i, factors += reduced.step(0))
      for (std::size_t lane = 0; lane < Count; ++lane)
        product[lane] = Rule::next(product[lane], factors[static_cast<Index>(lane) * step]);
  };
  for_each_run_in_rounds(reduced, Count, multiply);
  std::copy(product.begin(), product.end(), products);
}

/// The products of `width` neighbouring fibres, row by row.
template <class Rule>
void multiply_rows(const typename Rule::Element* first, Index width, const StridedLoop& reduced,
                   typename Rule::Accumulated* products) {
  std::fill_n(products, width, Rule::start);
  const auto multiply = [&](std::span<const Index> offsets, Index count) {
    const auto* row = first + offsets[0];
    const Index step = reduced.step(0);
    Index i = 0;
    for (; i + 4 <= count; i += 4, row += 4 * step)  // four rows for one pass over the products
      for (Index lane = 0; lane < width; ++lane) {
        const auto* const factor = row + lane;
        const auto two = Rule::next(Rule::next(products[lane], factor[0]), factor[step]);
        products[lane] = Rule::next(Rule::next(two, factor[2 * step]), factor[3 * step]);
      }
    for (; i < count; ++i, row += step)
      for (Index lane = 0; lane < width; ++lane) products[lane] = Rule::next(products[lane], row[lane]);
  };
  for_each_run_in_rounds(reduced, width, multiply);
}

/// Every fibre's product, as `stored` has it.
template <class Rule, class Stored>
void multiply_all(const KernelCall& call, Stored stored) {
  using Element = Rule::Element;
  const ReductionLoops loops = reduction_loops(call, ReducedOrder::memory);
  const StridedLoop reduced = reduction_loops(call, ReducedOrder::ordinal).reduced;
  const Index step = loops.fibres.step(0);
  const auto* const source = reinterpret_cast<const Element*>(call.operands[0].data);
  const OrderedResult<Element> result(reinterpret_cast<Element*>(call.result), loops.kept);
  const auto multiply_some = [&](const Element* first, Index fibres, Rule::Accumulated* products) {
    if (step == 1 && fibres >= least_width)
      multiply_rows<Rule>(first, fibres, reduced, products);
    else if (fibres == static_cast<Index>(lanes))
      multiply_fibres<Rule, lanes>(first, step, reduced, products);
    else
      for (Index fibre = 0; fibre < fibres; ++fibre)
        multiply_fibres<Rule, 1>(first + fibre * step, 0, reduced, products + fibre);
  };
  parallel_for(loops.kept.size, Work{reduced.size, least_width}, [&](Index begin, Index end) {
    std::array<typename Rule::Accumulated, row_width> products;
    for (; begin < end; begin += row_width) {
      const Index last = std::min(begin + row_width, end);
      auto* next = products.data();
      for_each_run(loops.fibres, begin, last, [&](std::span<const Index> offsets, Index count) {
        const Index together = step == 1 && count >= least_width ? count : static_cast<Index>(lanes);
        for (Index first = 0; first < count; first += together) {
          const Index fibres = std::min(together, count - first);
          multiply_some(source + offsets[0] + first * step, fibres, next);
          next += fibres;
        }
      });
      const auto* product = products.data();
      result.for_each_run(begin, last, [&](Element* slots, Index slot_step, Index, Index count) {
        for (Index i = 0; i < count; ++i) slots[i * slot_step] = stored(*product++);
      });
    }
  });
  result.finish();
}

void reduce_prod(const KernelCall& call) {
  if (call.operands[0].stored == StorageType::float32)
    multiply_all<SequentialProduct>(call, [](float product) { return product; });
  else
    multiply_all<IntegerProduct>(
        call, [&](std::int64_t product) { return checked_product(call.plan.operation, product); });
}

}  // namespace

KernelList cpu_scan_kernels() {
  static constexpr KernelEntry list[] = {{"cumsum", cumsum}, {"_scan", scan}, {"reduce_prod", reduce_prod}};
  return list;
}

}  // namespace orlop::inline v0
