// Evictable: a two-tier hierarchy whose values live in the primary or, evicted, in the secondary.
//
// Who owns the bytes: the hierarchy owns both tiers exclusively from construction to release; aliases of a
// tier may read, never write. Atomic: a transition commits only after the copy is complete; until then the
// old tier holds every value, so a failure or an exception changes nothing. Durable: what the tiers make
// durable; a crash in a transition leaves at most what the secondary's own clean-up removes. Transitions are
// no value mutations: the version stays.
#pragma once

#include <atomic>

#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

class ORLOP_API Evictable final : public DependentCarrier {
 public:
  /// Takes ownership of two live, unowned tiers of one dtype; the secondary must be mutable, the primary hold
  /// at least one slot. The checks and their order are those of S301.
  [[nodiscard]] static Ref<Evictable> make(const Ref<Carrier>& primary, const Ref<Carrier>& secondary);
  ~Evictable() override;

  [[nodiscard]] const Ref<Carrier>& primary() const noexcept { return primary_.carrier; }
  [[nodiscard]] const Ref<Carrier>& secondary() const noexcept { return secondary_.carrier; }
  [[nodiscard]] bool is_evicted() const noexcept { return is_evicted_; }
  /// Moves the values to the secondary and releases the primary; nothing where they are there already (S306).
  /// RuntimeError while another transition of this hierarchy runs.
  void evict();
  /// Moves the values back to the primary.
  void promote();

  [[nodiscard]] Index size() const override { return is_released() ? 0 : size_; }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override;
  void set_value(Index index, const Scalar& value) override;
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values,
                                      const NewLikeOptions& options = {}) const override;
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options = {}) const override;
  void scatter(const Tensor& to_scatter, const Tensor& scatter_onto, const Layout& mapping,
               Index mapping_offset = 0) override;
  void read_span(Index first, Index count, void* out) const override;
  void write_span(Index first, Index count, const void* in) override;
  [[nodiscard]] std::byte* host_data() const noexcept override;
  [[nodiscard]] const KernelTable* kernel_table() const noexcept override;
  [[nodiscard]] bool holes_are_zero() const noexcept override { return primary()->holes_are_zero(); }
  [[nodiscard]] std::string_view residency() const noexcept override;

  /// A fresh promoted hierarchy over `primary`, which it takes over, with an empty secondary like this one's
  /// (S310).
  [[nodiscard]] Ref<Evictable> hierarchy_over(const Ref<Carrier>& primary) const;
  /// RuntimeError ‹released›, or ‹evicted› ‹promote›.
  void require_promoted() const;
  void require_reachable() const override { require_promoted(); }

  void visit_references(ReferenceVisitor& visitor) const override;

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  [[nodiscard]] bool stores(const DType& dtype) const override;
  [[nodiscard]] Ref<Operation> make_operation(std::string_view operation_name) override;
  void on_release() override;

 private:
  struct Tier {
    Ref<Carrier> carrier;
    OwnerToken token = 0;
  };

  Evictable(const Ref<Carrier>& primary, const Ref<Carrier>& secondary);
  template <class T, class... Args>
  friend Ref<T> make_ref(Args&&... args);
  [[nodiscard]] static Ref<Evictable> make_unsized(const Ref<Carrier>& primary,
                                                   const Ref<Carrier>& secondary);
  class Exclusive;
  void transfer(Tier& from, Tier& to, bool evicts);
  [[nodiscard]] Tier provide(const Tier& tier) const;
  static void discard(Tier tier) noexcept;

  Tier primary_;
  Tier secondary_;
  const DType* dtype_;
  Index size_;
  bool is_mutable_;
  std::atomic<bool> is_evicted_ = false;
  std::atomic<bool> is_changing_ = false;  // a transition or the release runs
};

/// The composite adapter of one dispatched operation on Evictable Tensors: lowers the operands to their
/// primaries, runs the primary's own operation once, and restores result and gradients to hierarchies of the
/// same classes.
class ORLOP_API EvictableOperation final : public Operation {
 public:
  /// `primary_operation` is the fresh operation that the promoted primary dispatched.
  explicit EvictableOperation(Ref<Operation> primary_operation);
  ~EvictableOperation() override;

  [[nodiscard]] const Ref<Operation>& primary_operation() const noexcept { return primary_operation_; }
  Gradients backward(const Tensor& gradient) override;
  [[nodiscard]] std::string implementation_name() const override { return "EvictableOperation"; }
  void visit_references(ReferenceVisitor& visitor) const override;

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;
  [[nodiscard]] bool accepts_compound() const override { return false; }
  void on_release_autograd_state() noexcept override;

 private:
  Ref<Operation> primary_operation_;
  bool was_run_ = false;
};

}  // namespace orlop::inline v0
