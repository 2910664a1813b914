// CPU matmul: BLAS where the operands lie as it wants them, otherwise on packed copies; exact integers and
// the Float64 accumulator in blocks of doubles.
#include <algorithm>
#include <cmath>
#include <vector>

#include "carriers/cpu/kernels/blas.hpp"
#include "carriers/cpu/kernels/fibre.hpp"
#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/parts.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/kept_sums.hpp"
#include "operation/matrix.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/layout/iteration.hpp"

namespace orlop::inline v0 {

namespace {

/// Where each matrix of a batch lies; a single one where there is no batch.
std::vector<Index> entries_of(const Layout& layout) {
  return layout.rank() < 3 ? std::vector<Index>{0} : offsets_of(leaves_of_modes(layout, 2, 3));
}

/// The matrices of an operand as BLAS reads them, from a copy where its layout does not fit.
class BlasOperand {
 public:
  explicit BlasOperand(const KernelOperand& operand) : entries_(entries_of(*operand.layout)) {
    const Leaves row_leaves = leaves_of_modes(*operand.layout, 0, 1);
    const Leaves term_leaves = leaves_of_modes(*operand.layout, 1, 2);
    if (operand.stored == StorageType::float32)
      if (const auto matrix = blas_matrix(operand.data, row_leaves, term_leaves)) {
        matrix_ = *matrix;
        return;
      }
    const Index rows = row_leaves.size();
    const Index terms = term_leaves.size();
    packed_ = Scratch<float>(operand.layout->size());
    if (operand.stored == StorageType::float32) {
      copy_strided(operand.data, *operand.layout, packed_.bytes(), Layout::canonical(operand.layout->shape()),
                   sizeof(float));
    } else {
      float* next = packed_.data();
      for (const Index entry : entries_) {
        KernelOperand one = operand;
        one.data += entry * static_cast<Index>(sizeof(std::int32_t));
        const Matrix matrix(one);
        matrix.copy(matrix.all(), next);
        next += rows * terms;
      }
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = static_cast<Index>(i) * rows * terms;
    matrix_ = {packed_.data(), rows, terms, rows, false};
  }
  [[nodiscard]] BlasMatrix<float> matrix(std::size_t entry = 0) const {
    BlasMatrix<float> matrix = matrix_;
    matrix.data += entries_[entry];
    return matrix;
  }

 private:
  std::vector<Index> entries_;
  Scratch<float> packed_;
  BlasMatrix<float> matrix_{};  // of offset 0
};

/// The result, or the first of a batch, as BLAS writes it; nothing where its layout does not fit.
std::optional<BlasMatrix<float>> target_of(const KernelCall& call) {
  return blas_matrix(call.result, leaves_of_modes(call.layout, 0, 1), leaves_of_modes(call.layout, 1, 2));
}

/// `multiply` by whole panels of the longer side of c for each thread.
void multiply_in_panels(const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta, float* c,
                        Index leading) {
  constexpr Index panel = 16;
  const bool splits_rhs = b.rows >= a.rows;
  const Index rows = splits_rhs ? b.rows : a.rows;
  const double work =
      static_cast<double>(splits_rhs ? a.rows : b.rows) * static_cast<double>(a.terms) * panel;
  const Index panels = (rows - 1) / panel + 1;
  // Each range arranges all of the other operand for itself: one for each thread is enough.
  const Index grain =
      std::max(items_of(std::min(a.rows, b.rows) == 1 ? 0x1p18 : 0x1p20, work), panels / thread_count());
  parallel_for(panels, grain, [&](Index first, Index last) {
    const Index row = first * panel;
    const Index count = std::min(last * panel, rows) - row;
    if (splits_rhs)
      multiply(a, b.some_rows(row, count), beta, c + row * leading, leading);
    else
      multiply(a.some_rows(row, count), b, beta, c + row, leading);
  });
}

/// At most `most` of `rows` rows, that make parts about equally long.
Index rows_of_part(Index rows, double most) {
  constexpr Index together = 64;  // as BLAS arranges them
  const Index parts = std::max<Index>(static_cast<Index>(std::ceil(static_cast<double>(rows) / most)), 1);
  return ((rows - 1) / parts / together + 1) * together;
}

/// The same in parts as in_parts() makes them: nearly squares, for each arranges its rows of both operands
/// anew.
void multiply_in_parts(const BlasMatrix<float>& a, const BlasMatrix<float>& b, float beta, float* c,
                       Index leading) {
  const double most = part_work * static_cast<double>(thread_count()) / static_cast<double>(a.terms);
  const Index left = rows_of_part(a.rows, std::max(std::sqrt(most), most / static_cast<double>(b.rows)));
  const Index right = rows_of_part(b.rows, most / static_cast<double>(std::min(left, a.rows)));
  for (Index j = 0; j < b.rows; j += right)
    for (Index i = 0; i < a.rows; i += left) {
      if (i + j > 0) check_interrupts();
      multiply_in_panels(a.some_rows(i, std::min(left, a.rows - i)),
                         b.some_rows(j, std::min(right, b.rows - j)), beta, c + i + j * leading, leading);
    }
}

/// result += product, where the result's layout is none that BLAS could write.
void add_product(const KernelCall& call, const BlasMatrix<float>& a, const BlasMatrix<float>& b) {
  const Scratch<float> product(a.rows * b.rows);
  multiply_in_parts(a, b, 0.0F, product.data(), a.rows);
  const float* next = product.data();
  auto* const result = reinterpret_cast<float*>(call.result);
  const std::vector<Index> rows = offsets_of(leaves_of_modes(call.layout, 0, 1));
  for (const Index column : offsets_of(leaves_of_modes(call.layout, 1, 2)))
    for (const Index row : rows) result[row + column] += *next++;
}

/// result = product + beta · result, for every matrix of a batch.
void matmul_float(const KernelCall& call, float beta) {
  const BlasOperand lhs(call.operands[0]);
  const BlasOperand rhs(call.operands[1]);
  const auto target = target_of(call);
  if (!target) return add_product(call, lhs.matrix(), rhs.matrix());
  const BlasOperand& left = target->is_transposed ? rhs : lhs;
  const BlasOperand& right = target->is_transposed ? lhs : rhs;
  auto* const result = reinterpret_cast<float*>(call.result);
  const std::vector<Index> entries = entries_of(call.layout);
  const auto count = static_cast<Index>(entries.size());
  const double work = static_cast<double>(call.layout.size()) / static_cast<double>(count) *
                      static_cast<double>(left.matrix().terms);
  const bool is_one_by_one = count < 2 * thread_count() || work > part_work;
  const auto multiply_all = [&](auto multiply_one, Index first, Index last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i)
      multiply_one(left.matrix(i), right.matrix(i), beta, result + entries[i], target->leading);
  };
  in_parts(count, work, [&](Index begin, Index end) {
    if (is_one_by_one) return multiply_all(multiply_in_parts, begin, end);
    constexpr void (*multiply_one)(const BlasMatrix<float>&, const BlasMatrix<float>&, float, float*, Index) =
        multiply;
    parallel_for(end - begin, items_of(0x1p20, work),
                 [&](Index first, Index last) { multiply_all(multiply_one, begin + first, begin + last); });
  });
}

// --- In blocks of doubles

constexpr Index block_rows = 256;
constexpr Index block_columns = 512;
constexpr Index block_terms = 512;

/// How operands become doubles.
enum class Digits {
  binary32,  ///< as they are, each rounded to Float32 first (P10)
  whole,     ///< as they are
  halves,  ///< x = low + 2^16 high as the three planes low, high and low + high, at most 2^15, 2^15 and 2^16
};

Index planes_of(Digits digits) { return digits == Digits::halves ? 3 : 1; }

/// One plane after the other, rows fastest.
std::vector<BlasMatrix<double>> split(const Matrix& matrix, const MatrixPart& part, Digits digits,
                                      Scratch<double>& buffer) {
  constexpr Index apart = 8;  // terms of a row that share the places of one cache set are slow to read
  const Index leading = part.rows() + apart;
  const Index size = leading * part.terms();
  double* const low = buffer.reserve(planes_of(digits) * size);
  if (digits == Digits::halves)
    matrix.for_each<std::int64_t>(part, leading, [=](std::int64_t value, Index position) {
      const auto low_half = static_cast<std::int16_t>(value & 0xffff);
      const std::int64_t high_half = (value - low_half) >> 16;
      double* const here = low + position;
      here[0] = low_half;
      here[size] = static_cast<double>(high_half);
      here[2 * size] = static_cast<double>(low_half + high_half);
    });
  else if (digits == Digits::binary32)
    matrix.for_each<float>(part, leading, [=](float value, Index position) { low[position] = value; });
  else
    matrix.for_each<double>(part, leading, [=](double value, Index position) { low[position] = value; });
  std::vector<BlasMatrix<double>> matrices;
  matrices.reserve(3);
  for (Index plane = 0; plane < planes_of(digits); ++plane)
    matrices.push_back({low + plane * size, part.rows(), part.terms(), leading, false});
  return matrices;
}

/// Sums of products, plane by plane. Doubles hold every integer up to 2^53, and in halves a product is at
/// most 2^16 · 2^16: after 2^20 terms, that is sums of at most 2^52, they are carried over.
class ProductBlock {
 public:
  ProductBlock(Index rows, Index columns, Digits digits)
      : rows_(rows),
        size_(static_cast<std::size_t>(rows * columns)),
        is_whole_(planes_of(digits) == 1),
        sums_(rows * columns * planes_of(digits)) {}

  void add_products(const std::vector<BlasMatrix<double>>& a, const std::vector<BlasMatrix<double>>& b) {
    constexpr Index most_terms = Index{1} << 20;
    if (!is_whole_ && terms_ + a.front().terms > most_terms) carry();
    for (std::size_t plane = 0; plane < a.size(); ++plane)
      multiply(a[plane], b[plane], terms_ == 0 ? 0.0 : 1.0, sums_.data() + plane * size_, rows_);
    terms_ += a.front().terms;
  }
  /// The sum, where operands are whole.
  [[nodiscard]] double value(std::size_t position) const { return sums_.data()[position]; }
  /// The exact integer.
  [[nodiscard]] Int128 integer(std::size_t position) const {
    return (carried_.empty() ? Int128{0} : carried_[position]) + integer_of_sums(position);
  }

 private:
  [[nodiscard]] Int128 integer_of_sums(std::size_t position) const {
    const auto sum = [&](std::size_t plane) {
      return static_cast<std::int64_t>(value(plane * size_ + position));
    };
    // Σ (low + high) · (low + high) is the cross products and both squares.
    return sum(0) + Int128{sum(2) - sum(0) - sum(1)} * 65536 + (Int128{sum(1)} << 32);
  }
  /// Leaves the sums empty for further terms.
  void carry() {
    carried_.resize(size_);
    for (std::size_t position = 0; position < size_; ++position)
      carried_[position] += integer_of_sums(position);
    terms_ = 0;
  }

  Index rows_;
  std::size_t size_;
  bool is_whole_;
  Scratch<double> sums_;
  Index terms_ = 0;  // in the sums
  std::vector<Int128> carried_;
};

/// Contracts block by block; `store(slot, block, position)` puts a finished sum into its slot of the result.
template <class Slot, class Store>
void contract_blocks(const KernelCall& call, const Matrix& lhs, const Matrix& rhs, Digits digits,
                     Store store) {
  auto* const result = reinterpret_cast<Slot*>(call.result);
  const std::vector<Index> rows = offsets_of(leaves_of_modes(call.layout, 0, 1));
  const std::vector<Index> columns = offsets_of(leaves_of_modes(call.layout, 1, 2));
  const Index row_blocks = (lhs.rows() - 1) / block_rows + 1;
  const Index column_blocks = (rhs.rows() - 1) / block_columns + 1;
  // BLAS multiplies half as many doubles in the same time.
  const double work = 2.0 * static_cast<double>(planes_of(digits) * block_rows * block_columns) *
                      static_cast<double>(lhs.terms());
  const auto run_tasks = [&](Index first, Index last) {
    Scratch<double> left, right;
    for (Index task = first; task < last; ++task) {
      const Index i = task % row_blocks * block_rows;
      const Index j = task / row_blocks * block_columns;
      const Index last_row = std::min(i + block_rows, lhs.rows());
      const Index last_column = std::min(j + block_columns, rhs.rows());
      ProductBlock block(last_row - i, last_column - j, digits);
      for (Index k = 0; k < lhs.terms(); k += block_terms) {
        const Index last_term = std::min(k + block_terms, lhs.terms());
        block.add_products(split(lhs, {i, last_row, k, last_term}, digits, left),
                           split(rhs, {j, last_column, k, last_term}, digits, right));
      }
      std::size_t position = 0;
      for (Index column = j; column < last_column; ++column)
        for (Index row = i; row < last_row; ++row)
          store(result[rows[static_cast<std::size_t>(row)] + columns[static_cast<std::size_t>(column)]],
                block, position++);
    }
  };
  in_parts(row_blocks * column_blocks, work, [&](Index begin, Index end) {
    parallel_for(end - begin, 1, [&](Index first, Index last) { run_tasks(begin + first, begin + last); });
  });
}

template <class Slot>
void matmul_in_double(const KernelCall& call) {
  contract_blocks<Slot>(call, Matrix(call.operands[0]), Matrix(call.operands[1]), Digits::binary32,
                        [&](Slot& slot, const ProductBlock& block, std::size_t position) {
                          kept_sums::store(call.plan.operation, slot, block.value(position));
                        });
}

double greatest_magnitude(const Matrix& matrix) {
  std::int32_t least = 0;
  std::int32_t greatest = 0;
  matrix.for_each<std::int32_t>(matrix.all(), matrix.rows(), [&](std::int32_t value, Index) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  });
  return std::max(-static_cast<double>(least), static_cast<double>(greatest));
}

template <class Slot>
void matmul_integer(const KernelCall& call) {
  const Matrix lhs(call.operands[0]);
  const Matrix rhs(call.operands[1]);
  // Doubles hold every integer up to 2^53, and so does any partial sum of whole products below this bound.
  const double bound = greatest_magnitude(lhs) * greatest_magnitude(rhs) * static_cast<double>(lhs.terms());
  if (bound < 0x1p53)
    contract_blocks<Slot>(
        call, lhs, rhs, Digits::whole, [&](Slot& slot, const ProductBlock& block, std::size_t position) {
          kept_sums::store(call.plan.operation, slot, static_cast<std::int64_t>(block.value(position)));
        });
  else
    contract_blocks<Slot>(call, lhs, rhs, Digits::halves,
                          [&](Slot& slot, const ProductBlock& block, std::size_t position) {
                            kept_sums::store(call.plan.operation, slot, block.integer(position));
                          });
}

/// Products too few to be worth any preparation.
bool is_tiny(const KernelCall& call) {
  constexpr Index max_products = 4096;
  const Index terms = leaves_of_modes(*call.operands[0].layout, 1, 2).size();
  return call.layout.size() <= max_products && call.layout.size() * terms <= max_products;
}

void matmul(const KernelCall& call) {
  use_one_blas_thread();
  if (call.plan.accumulator_dtype == &dtypes::Float32)
    matmul_float(call, 0.0F);
  else if (is_tiny(call))
    reference_kernels().find("matmul")(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float64)
    matmul_in_double<float>(call);
  else
    matmul_integer<std::int32_t>(call);
}

/// Whether a batch's entries lie side by side.
bool is_batch_fastest(const Layout& layout) {
  const Leaves batch = leaves_of_modes(layout, 2, 3);
  const std::array strides{batch.strides};
  return coalesce_strides(batch.extents, strides).is_contiguous(0);
}

/// Products of matrices with few rows on one side, of a batch whose entries lie side by side: these are what
/// a vector holds. To copy the matrices out of the batch would take longer.
class SideBySide {
 public:
  [[nodiscard]] static bool fits(const KernelCall& call) {
    constexpr Index most_rows = 8;
    constexpr Index least_batch = 16;
    const Index rows = leaves_of_modes(call.layout, 0, 1).size();
    const Index columns = leaves_of_modes(call.layout, 1, 2).size();
    return std::min(rows, columns) <= most_rows && leaves_of_modes(call.layout, 2, 3).size() >= least_batch &&
           is_batch_fastest(call.layout) &&
           std::ranges::all_of(call.operands, [](const KernelOperand& operand) {
             return operand.stored == StorageType::float32 && is_batch_fastest(*operand.layout);
           });
  }

  explicit SideBySide(const KernelCall& call)
      : lhs_(reinterpret_cast<const float*>(call.operands[0].data), *call.operands[0].layout),
        rhs_(reinterpret_cast<const float*>(call.operands[1].data), *call.operands[1].layout),
        result_(reinterpret_cast<float*>(call.result), call.layout),
        count_(leaves_of_modes(call.layout, 2, 3).size()) {}

  void run() const {
    const auto pairs = static_cast<Index>(result_.rows.size() * result_.terms.size());
    const Index some = std::max<Index>(most_sums / count_, 1);
    const double work = static_cast<double>(some * count_) * static_cast<double>(lhs_.terms.size());
    in_parts((pairs - 1) / some + 1, work, [&](Index begin, Index end) {
      parallel_for(end - begin, items_of(0x1p18, work), [&](Index first, Index last) {
        for (Index part = begin + first; part < begin + last; ++part)
          sum(part * some, std::min((part + 1) * some, pairs));
      });
    });
  }

 private:
  static constexpr Index most_sums = Index{1} << 14;  // they stay in the first cache

  template <class Slot>
  struct Matrices {
    Matrices(Slot* data, const Layout& layout)
        : data(data),
          rows(offsets_of(leaves_of_modes(layout, 0, 1))),
          terms(offsets_of(leaves_of_modes(layout, 1, 2))) {}
    [[nodiscard]] Slot* at(std::size_t row, std::size_t term) const { return data + rows[row] + terms[term]; }

    Slot* data;
    std::vector<Index> rows, terms;
  };

  /// Some pairs of a row of each side, those of the lhs fastest.
  void sum(Index first, Index last) const {
    for (std::size_t term = 0; term < lhs_.terms.size(); ++term)
      for (auto pair = static_cast<std::size_t>(first); pair < static_cast<std::size_t>(last); ++pair) {
        const std::size_t row = pair % lhs_.rows.size();
        const std::size_t column = pair / lhs_.rows.size();
        float* const sums = result_.at(row, column);
        if (term == 0) std::fill_n(sums, count_, 0.0F);
        fibre_kernels().products.add_products(sums, lhs_.at(row, term), rhs_.at(column, term), count_);
      }
  }

  Matrices<const float> lhs_, rhs_;
  Matrices<float> result_;
  Index count_;  // of the batch
};

void matmul_of_batches(const KernelCall& call) {
  use_one_blas_thread();
  if (call.plan.accumulator_dtype != &dtypes::Float32) {
    const Index count = leaves_of_modes(call.layout, 2, 3).size();
    const double work = 2.0 * static_cast<double>(call.layout.size()) / static_cast<double>(count) *
                        static_cast<double>(leaves_of_modes(*call.operands[0].layout, 1, 2).size());
    const Index grain = work > part_work ? count : 1;  // long ones take all threads, one by one
    in_parts(count, work, [&](Index begin, Index end) {
      parallel_for(end - begin, grain, [&](Index first, Index last) {
        multiply_entries(call, matmul, begin + first, begin + last);
      });
    });
    return;
  }
  if (SideBySide::fits(call)) return SideBySide(call).run();
  if (target_of(call)) return matmul_float(call, 0.0F);
  const Scratch<float> products(call.layout.size());
  const Layout layout = Layout::canonical(call.layout.shape());
  matmul_float({call.plan, call.operands, products.bytes(), layout, call.parameters}, 0.0F);
  copy_strided(products.bytes(), layout, call.result, call.layout, sizeof(float));
}

void add_to_kept_sums(const KernelCall& call) {
  use_one_blas_thread();
  if (call.plan.accumulator_dtype == &dtypes::Float32)
    matmul_float(call, 1.0F);
  else if (is_tiny(call))
    reference_kernels().find(kept_sums::matmul)(call);
  else if (call.plan.accumulator_dtype == &dtypes::Float64)
    matmul_in_double<kept_sums::Kept<double>>(call);
  else
    matmul_integer<kept_sums::Kept<Int128>>(call);
}

}  // namespace

KernelList cpu_contraction_kernels() {
  static constexpr KernelEntry list[] = {
      {"matmul", matmul}, {batch_matmul_kernel, matmul_of_batches}, {kept_sums::matmul, add_to_kept_sums}};
  return list;
}

}  // namespace orlop::inline v0
