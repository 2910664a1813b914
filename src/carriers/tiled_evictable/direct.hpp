// Direct operations on tiled carriers, and their gradients: the parts that both share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "carriers/tiled_evictable/steps.hpp"
#include "carriers/tiled_evictable/tile_work.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/carriers/tiled_evictable/streaming.hpp"
#include "orlop/operation/invocation_executor.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0 {

/// What runs the direct operations (X61-X63, X65, X106-X110): the executor of TiledEvictable's definition.
[[nodiscard]] const InvocationExecutor& direct_executor();

/// The carrier of a tiled Tensor, or null.
[[nodiscard]] inline TiledEvictable* tiled_carrier(const Tensor& tensor) {
  return dynamic_cast<TiledEvictable*>(tensor.carrier().get());
}

/// Tells the innermost progress callback of the thread, if there is one (X116).
class ProgressReport {
 public:
  ProgressReport(std::string operation, std::string phase, Index steps,
                 std::vector<Ref<TiledEvictable>> carriers);
  /// Before the first step.
  void start() const { tell(); }
  /// After each. Throws what the callback does, and what an interrupted user wants thrown.
  void advance();

 private:
  void tell() const;

  streaming::ProgressCallback callback_;
  streaming::TiledProgress progress_;
  std::vector<Ref<TiledEvictable>> carriers_;
};

/// The slots that a dense Tensor means, in host memory: in place, or from a copy.
class HostSlots {
 public:
  HostSlots() = default;
  explicit HostSlots(const Tensor& tensor);
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Slot `slot` of the Tensor's carrier.
  [[nodiscard]] const std::byte* at(Index slot) const { return data_ + (slot - first_) * slot_bytes_; }
  /// Whether the memory stays valid although other threads run.
  [[nodiscard]] bool is_held() const noexcept { return held_ != nullptr || !copy_.empty(); }

 private:
  const std::byte* data_ = nullptr;
  Index first_ = 0;
  Index slot_bytes_ = 0;
  std::vector<std::byte> copy_;
  std::shared_ptr<const void> held_;
};

/// The operands of a sequence of steps: tiled Tensors, of which a step has one tile each, and dense ones.
class StepOperands {
 public:
  /// In the order of the sequence's operands. Tiled carriers are numbered from those of `carriers` on.
  explicit StepOperands(std::vector<Tensor> tensors, std::vector<Ref<TiledEvictable>> carriers = {});

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  [[nodiscard]] const Tensor& tensor(std::size_t operand) const { return tensors_[operand]; }
  [[nodiscard]] bool is_tiled(std::size_t operand) const { return sources_[operand].has_value(); }
  /// Which of the carriers; nothing for a dense operand.
  [[nodiscard]] std::optional<std::size_t> source(std::size_t operand) const { return sources_[operand]; }
  /// The operand as steps see it.
  [[nodiscard]] StepOperand geometry(std::size_t operand) const;
  /// The distinct tiled carriers, in operand order.
  [[nodiscard]] const std::vector<Ref<TiledEvictable>>& carriers() const noexcept { return carriers_; }
  /// The same for TileWork, with what a step of `sequence` needs of each.
  [[nodiscard]] std::vector<TileWork::Source> sources(const StepSequence& sequence) const;

  using Refs = SmallVector<TileWork::TileRef, 2>;
  /// The tiles that a step needs, each once.
  [[nodiscard]] Refs refs(const Step& step) const;
  /// Takes the tiles of the step that `work` has begun.
  void enter(const TileWork& work, const Step& step);
  /// What the operand's present tile is to be read through while it is on its way; otherwise null.
  [[nodiscard]] Arrival* arrival(std::size_t operand) const { return arrivals_[operand].get(); }
  void forget_arrivals() noexcept { arrivals_ = {}; }
  /// A window of the operand as an ordinary Tensor.
  [[nodiscard]] Tensor window(std::size_t operand, const Window& window) const;
  /// Makes the slots of the step's operands readable in host memory, for `input`.
  void load();
  /// A window as a kernel reads it, converted to `computed`; valid until the next step, as long as the
  /// window.
  [[nodiscard]] KernelOperand input(std::size_t operand, const Window& window, StorageType computed) const;
  /// Whether the loaded memory stays valid although other threads run. Tiles do: the work pins them.
  [[nodiscard]] bool is_held() const;

 private:
  [[nodiscard]] const Tensor& current(std::size_t operand) const {
    return is_tiled(operand) ? tiles_[operand] : tensors_[operand];
  }

  std::vector<Tensor> tensors_;
  std::vector<std::optional<std::size_t>> sources_;  // which of the carriers
  std::vector<Ref<TiledEvictable>> carriers_;
  std::array<Tensor, 2> tiles_;
  std::array<std::shared_ptr<Arrival>, 2> arrivals_;
  std::array<HostSlots, 2> slots_;  // of the current Tensors, once they were asked for
};

/// Where a kernel is long, whoever may not wait for it goes on meanwhile (P46).
class KernelScope {
 public:
  /// Loads the operands of a step of so many elements or products.
  KernelScope(StepOperands& operands, double elements);

 private:
  std::optional<BlockingScope> others_run_;
};

/// Whether a step's kernel takes tiles that are still on their way.
enum class TileNeed : std::uint8_t { present, arriving };

/// Goes through all steps: brings the tiles in, calls `body(step)`, tells how far it is. Without `work` no
/// operand is tiled.
template <class Body>
void run_steps(const StepSequence& sequence, TileWork* work, StepOperands& operands, ProgressReport& progress,
               TileNeed need, Body body) {
  Step step = sequence.first();
  for (Index number = 0; number < sequence.count(); ++number) {
    Step next = step;
    const bool is_last = number + 1 == sequence.count();
    if (!is_last) sequence.advance(next);
    if (work != nullptr) {
      const auto now = operands.refs(step);
      const auto later = is_last ? StepOperands::Refs() : operands.refs(next);
      work->begin_step({now.data(), now.size()}, {later.data(), later.size()});
      if (need == TileNeed::present) work->complete_step();
      operands.enter(*work, step);
    }
    body(step);
    operands.forget_arrivals();
    if (work != nullptr) work->complete_step();
    progress.advance();
    step = next;
  }
}

/// `tensor` in the canonical layout of its shape; itself where it has that.
[[nodiscard]] Tensor in_canonical_layout(const Tensor& tensor);

/// The gradients of the differentiable operands of a direct operation (X63, X65, X112).
[[nodiscard]] Gradients direct_gradients(const VJPContext& context, const Tensor& cotangent);

}  // namespace orlop::inline v0
