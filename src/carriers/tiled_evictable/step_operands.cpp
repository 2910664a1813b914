// Operands of steps: which tiles they need, and where their windows lie in memory.
#include <algorithm>

#include "carriers/tiled_evictable/direct.hpp"
#include "operation/gradient.hpp"
#include "orlop/base/parallel.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

ProgressReport::ProgressReport(std::string operation, std::string phase, Index steps,
                               std::vector<Ref<TiledEvictable>> carriers)
    : callback_(streaming::progress_callback()),
      progress_{std::move(operation), std::move(phase), 0, steps, 0},
      carriers_(std::move(carriers)) {}

void ProgressReport::advance() {
  ++progress_.step;
  check_interrupts();
  tell();
}

void ProgressReport::tell() const {
  if (!callback_) return;
  streaming::TiledProgress now = progress_;
  for (const Ref<TiledEvictable>& carrier : carriers_) now.primary_bytes += carrier->primary_bytes();
  callback_(now);
}

HostSlots::HostSlots(const Tensor& tensor) : slot_bytes_(tensor.carrier()->dtype().slot_bytes()) {
  const Carrier& carrier = *tensor.carrier();
  if (const std::byte* slots = carrier.host_data()) {
    data_ = slots;
    held_ = carrier.host_memory();
    return;
  }
  first_ = tensor.offset();
  copy_.resize(slots_to_bytes(carrier.dtype(), tensor.layout().cosize()));
  carrier.read_span(first_, tensor.layout().cosize(), copy_.data());
  data_ = copy_.data();
}

StepOperands::StepOperands(std::vector<Tensor> tensors, std::vector<Ref<TiledEvictable>> carriers)
    : tensors_(std::move(tensors)), carriers_(std::move(carriers)) {
  for (const Tensor& tensor : tensors_) {
    sources_.emplace_back();
    TiledEvictable* const carrier = tiled_carrier(tensor);
    if (carrier == nullptr) continue;
    const auto known = std::ranges::find(carriers_, carrier, &Ref<TiledEvictable>::get);
    sources_.back() = static_cast<std::size_t>(known - carriers_.begin());
    if (known == carriers_.end()) carriers_.emplace_back(carrier);
  }
}

StepOperand StepOperands::geometry(std::size_t operand) const {
  const Tensor& tensor = tensors_[operand];
  if (!is_tiled(operand)) return StepOperand::dense(tensor.layout(), tensor.offset());
  const TileGrid& grid = tiled_carrier(tensor)->grid();
  return StepOperand::tiled(tensor.layout(), grid.grid_shape(), grid.tile_shape());
}

std::vector<TileWork::Source> StepOperands::sources(const StepSequence& sequence) const {
  const bool is_shared = size() == 2 && is_tiled(0) && sources_[0] == sources_[1];
  std::vector<TileWork::Source> sources;
  sources.reserve(carriers_.size());
  for (const Ref<TiledEvictable>& carrier : carriers_)
    sources.push_back({carrier, std::nullopt, is_shared && sequence.pairs_different_tiles() ? 2 : 1});
  return sources;
}

StepOperands::Refs StepOperands::refs(const Step& step) const {
  Refs refs;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_tiled(i)) continue;
    const TileWork::TileRef ref{*sources_[i], step.tiles[i]};
    if (std::find(refs.begin(), refs.end(), ref) == refs.end()) refs.push_back(ref);
  }
  return refs;
}

void StepOperands::enter(const TileWork& work, const Step& step) {
  for (std::size_t i = 0; i < size(); ++i) {
    if (!is_tiled(i)) continue;
    const TileWork::TileRef ref{*sources_[i], step.tiles[i]};
    tiles_[i] = work.tile(ref);
    arrivals_[i] = work.arrival(ref);
    slots_[i] = HostSlots();
  }
}

Tensor StepOperands::window(std::size_t operand, const Window& window) const {
  const Tensor& tensor = current(operand);
  // A dense operand's windows count from its carrier's first slot, a tile's from its own.
  const Index offset = (is_tiled(operand) ? tensor.offset() : 0) + window.offset;
  return Tensor::trusted(tensor.carrier(), offset, window.layout);
}

void StepOperands::load() {
  for (std::size_t i = 0; i < size(); ++i) {
    current(i).carrier()->require_live();  // others may have run since the last step
    if (!slots_[i]) slots_[i] = HostSlots(current(i));
  }
}

KernelOperand StepOperands::input(std::size_t operand, const Window& window, StorageType computed) const {
  const Tensor& tensor = current(operand);
  const Index offset = (is_tiled(operand) ? tensor.offset() : 0) + window.offset;
  return {slots_[operand].at(offset), tensor.carrier()->dtype().storage_type(), computed, &window.layout};
}

bool StepOperands::is_held() const {
  for (std::size_t i = 0; i < size(); ++i)
    if (!is_tiled(i) && !slots_[i].is_held()) return false;
  return true;
}

KernelScope::KernelScope(StepOperands& operands, double elements) {
  operands.load();
  if (elements >= 2.0 * parallel_grain && operands.is_held()) others_run_.emplace();
}

Tensor in_canonical_layout(const Tensor& tensor) {
  if (tensor.layout().is_canonical()) return tensor;
  return copy_to_layout(tensor, Layout::canonical(tensor.layout().shape()));
}

}  // namespace orlop::inline v0
