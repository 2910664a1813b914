// Whether a layout maps two ordinals to one index: an exact decision that never lists the ordinals.
#include <numeric>

#include "orlop/layout/layout.hpp"

namespace orlop::inline v0 {

namespace {

// Two ordinals share an index iff Σ d·stride = 0 has a solution d ≠ 0 with |d| < extent in every leaf. Leaves
// are taken by ascending stride; `reach[i]` is the greatest sum that the leaves below i can make, and
// `step[i]` the divisor of all such sums, so that only few d per leaf come into question.
class CollisionSearch {
 public:
  explicit CollisionSearch(const Layout& layout) {
    for (std::size_t i = 0; i < layout.extents().size(); ++i)
      if (layout.extents()[i] > 1) leaves_.push_back({layout.strides()[i], layout.extents()[i]});
    std::sort(leaves_.begin(), leaves_.end(),
              [](const Leaf& a, const Leaf& b) { return a.stride < b.stride; });
    Index reach = 0;
    Index step = 0;
    for (Leaf& leaf : leaves_) {
      leaf.reach_below = reach;
      leaf.step_below = step;
      reach += (leaf.extent - 1) * leaf.stride;  // at most cosize - 1
      step = std::gcd(step, leaf.stride);
    }
  }

  [[nodiscard]] bool found() const {
    if (!leaves_.empty() && leaves_[0].stride == 0) return true;
    for (std::size_t top = 1; top < leaves_.size();
         ++top) {  // the highest leaf with d != 0, by symmetry d > 0
      const Leaf& leaf = leaves_[top];
      const Index most = std::min(leaf.extent - 1, leaf.reach_below / leaf.stride);
      const Index period = leaf.step_below / std::gcd(leaf.step_below, leaf.stride);
      for (Index d = period; d <= most; d += period)
        if (makes(top, d * leaf.stride)) return true;
    }
    return false;
  }

 private:
  struct Leaf {
    Index stride;
    Index extent;
    Index reach_below = 0;
    Index step_below = 0;
  };

  // Whether the leaves below `end` can make `sum`, 0 <= sum <= their reach.
  [[nodiscard]] bool makes(std::size_t end, Index sum) const {
    if (end == 0) return sum == 0;
    const Leaf& leaf = leaves_[end - 1];
    if (end == 1) return sum % leaf.stride == 0 && sum / leaf.stride < leaf.extent;
    // |sum - d·stride| <= reach_below bounds d on both sides.
    const Index excess = sum - leaf.reach_below;
    const Index least = excess <= 0 ? -std::min(leaf.extent - 1, -excess / leaf.stride)
                                    : excess / leaf.stride + (excess % leaf.stride != 0 ? 1 : 0);
    const Index most = std::min(leaf.extent - 1, leaf.reach_below / leaf.stride + sum / leaf.stride + 1);
    Index d = least;
    Index period = 1;
    if (!first_divisible(leaf, sum, d, period)) return false;
    for (; d <= most; d += period) {
      const Index rest = sum - d * leaf.stride;
      if (rest < -leaf.reach_below) return false;
      if (makes(end - 1, rest < 0 ? -rest : rest)) return true;
    }
    return false;
  }

  // Moves d up to the first value for which step_below divides sum - d·stride, and finds the distance of the
  // next.
  static bool first_divisible(const Leaf& leaf, Index sum, Index& d, Index& period) {
    const Index divisor = std::gcd(leaf.step_below, leaf.stride);
    if (sum % divisor != 0) return false;
    period = leaf.step_below / divisor;
    if (period == 1) return true;
    // Solve d·(stride/divisor) ≡ sum/divisor (mod period).
    const Index wanted =
        multiply_modulo(sum / divisor % period, inverse(leaf.stride / divisor % period, period), period);
    Index ahead = (wanted - d % period) % period;
    if (ahead < 0) ahead += period;
    d += ahead;
    return true;
  }

  static Index multiply_modulo(Index a, Index b, Index modulus) {
    __extension__ using Wide = __int128;
    return static_cast<Index>(Wide{a} * b % modulus);
  }

  // The inverse of a unit modulo `modulus`, by Euclid's algorithm.
  static Index inverse(Index unit, Index modulus) {
    Index r0 = modulus, r1 = unit, t0 = 0, t1 = 1;
    while (r1 != 0) {
      const Index quotient = r0 / r1;
      r0 = std::exchange(r1, r0 - quotient * r1);
      t0 = std::exchange(t1, t0 - quotient * t1);
    }
    return t0 < 0 ? t0 + modulus : t0;
  }

  std::vector<Leaf> leaves_;
};

}  // namespace

bool Layout::is_injective() const {
  signed char known = data_->is_injective.load(std::memory_order_relaxed);
  if (known < 0) {
    // More ordinals than indices must collide.
    known = size() <= cosize() && !CollisionSearch(*this).found() ? 1 : 0;
    data_->is_injective.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

}  // namespace orlop::inline v0
