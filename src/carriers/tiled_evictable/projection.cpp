// Projection and scatter: the checks, the work in the background, the gradients.
//
// Who owns the bytes: while a projection runs it owns its destination, while a scatter runs it owns the
// compact carrier; the tiles stay their carrier's, pinned. Atomic: a result is published whole or not at all.
// A failed projection gives its destination back, emptied again if it had to grow; the version tells whether
// slots of it may have changed.
#include "orlop/carriers/tiled_evictable/projection.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "carriers/tiled_evictable/selected_tiles.hpp"
#include "carriers/tiled_evictable/tile_values.hpp"
#include "carriers/tiled_evictable/tile_work.hpp"
#include "operation/definition.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

ProjectionTask::~ProjectionTask() = default;
ProjectionOperation::~ProjectionOperation() = default;
ScatterOperation::~ScatterOperation() = default;

Ref<TiledEvictable> require_tiled(std::string_view what, std::string_view name, const Tensor& tensor) {
  if (!tensor) raise<TypeError>(what, name, " must be a Tensor: got none");
  auto* carrier = dynamic_cast<TiledEvictable*>(tensor.carrier().get());
  if (carrier == nullptr)
    raise<TypeError>(what, name, " must live on a TiledEvictable: got one on ", tensor.carrier_type());
  carrier->check_tensor(what, tensor);
  return carrier;
}

namespace {

/// Where projections and scatters run: their waits for tiles are those of another pool.
Executor& selection_pool() {
  constexpr int thread_limit = 4;
  static Executor& pool = Executor::make(thread_limit);
  return pool;
}

/// An ordinary carrier of exactly the primary's class, which compact Tensors live on.
void check_compute_class(std::string_view what, std::string_view name, const Carrier& carrier,
                         const TiledEvictable& tiled) {
  const CarrierClass wanted = tiled.primary()->carrier_class();
  if (carrier.carrier_class() != wanted)
    raise<TypeError>(what, name, " must be on exactly the primary's class ", wanted, ": got ",
                     carrier.carrier_class());
  if (carrier.is_released())
    raise<RuntimeError>(what, name, " is released: a ", carrier.carrier_class(), "; use a live one");
  if (carrier.is_owned())
    raise<RuntimeError>(what, name,
                        " is owned by another carrier or by work that has not ended; wait for it");
}

void check_dtype(std::string_view what, std::string_view name, const DType& dtype,
                 const TiledEvictable& tiled) {
  if (&dtype != &tiled.dtype())
    raise<TypeError>(what, name, " must have the tiles' dtype ", tiled.dtype().name(), ": got ",
                     dtype.name());
}

void check_destination(const Ref<Carrier>& destination, const TiledEvictable& tiled, Index slots) {
  constexpr std::string_view what = "project";
  check_compute_class(what, "destination", *destination, tiled);
  if (!destination->is_mutable())
    raise<RuntimeError>(what, "destination is not mutable; make it with mutable=True");
  check_dtype(what, "destination", destination->dtype(), tiled);
  const Index size = destination->size();
  if (size < slots && !(size == 0 && destination->is_growable()))
    raise<ValueError>(what, "destination is too small: ", slots, " slots are needed, it has ", size,
                      "; give a larger one, or an empty one that can grow");
}

/// Exclusive ownership of a carrier for the length of some work.
class Claim {
 public:
  explicit Claim(Ref<Carrier> carrier) : carrier_(std::move(carrier)), token_(carrier_->claim_ownership()) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    if (token_ != 0) carrier_->relinquish_ownership(token_);
  }
  [[nodiscard]] Carrier::OwnerToken token() const noexcept { return token_; }
  [[nodiscard]] const Ref<Carrier>& carrier() const noexcept { return carrier_; }
  void forget() noexcept {
    carrier_->forget_owner();
    token_ = 0;
  }

 private:
  Ref<Carrier> carrier_;
  Carrier::OwnerToken token_;
};

/// The carrier that a projection writes to: the caller's, or a fresh one.
class Destination {
 public:
  explicit Destination(Ref<Carrier> carrier)
      : claim_(std::in_place, std::move(carrier)), version_(claim_->carrier()->version()) {}
  /// Fresh, like the primary.
  Destination(const TiledEvictable& tiled, Index slots) : is_fresh_(true) {
    Ref<Carrier> carrier =
        tiled.primary_prototype().allocate_like(slots, {.dtype = tiled.dtype(), .empty = true});
    check_destination(carrier, tiled, slots);
    claim_.emplace(std::move(carrier));
  }
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;
  ~Destination() {
    if (claim_ && !is_done_) undo();
  }

  [[nodiscard]] const Ref<Carrier>& carrier() const noexcept { return claim_->carrier(); }
  void grow(Index slots) {
    if (carrier()->size() >= slots) return;
    const OwnerAccess access(*carrier(), claim_->token());
    has_grown_ = true;
    carrier()->allocate(slots);
    if (carrier()->size() < slots)
      raise<ValueError>("project", "destination is too small: it grew to ", carrier()->size(), " of ", slots,
                        " slots");
  }
  template <class Action>
  void write(Action action) {
    const OwnerAccess access(*carrier(), claim_->token());
    is_written_ = true;
    action(*carrier());
  }
  /// Whole: one more version of what the caller gave.
  void complete() {
    step_version();
    is_done_ = true;
  }
  void forget() noexcept { claim_->forget(); }

 private:
  void step_version() {
    if (is_fresh_ || carrier()->version() != version_) return;
    const OwnerAccess access(*carrier(), claim_->token());
    carrier()->increment_version();
  }
  void undo() noexcept {
    try {
      {
        const OwnerAccess access(*carrier(), claim_->token());
        if (is_fresh_) carrier()->release();
        if (has_grown_) carrier()->deallocate();
      }
      if (is_written_ && carrier()->size() != 0) step_version();
    } catch (...) {  // the first error is the one that counts
    }
  }

  std::optional<Claim> claim_;
  std::int64_t version_ = 0;
  bool is_fresh_ = false;
  bool has_grown_ = false;
  bool is_written_ = false;
  bool is_done_ = false;
};

std::vector<TileWork::Source> sources(const Ref<TiledEvictable>& tiled, const TileSelection& selection,
                                      bool is_read = true) {
  return {{.carrier = tiled, .required = selection.tile_set(), .is_read = is_read}};
}

/// Brings the chosen tiles in and calls `use(entry, tile)` for each: all in one step where nothing limits
/// them, otherwise one by one (X106).
template <class Use>
void for_each_tile(TileWork& work, const TiledEvictable& tiled, std::span<const SelectedTiles::Entry> entries,
                   Use use) {
  std::vector<TileWork::TileRef> refs;
  for (const SelectedTiles::Entry& entry : entries) refs.push_back({0, entry.tile});
  const std::span<const TileWork::TileRef> all(refs);
  const bool is_limited = tiled.primary_budget_bytes().has_value();
  if (!is_limited && !all.empty()) work.enter_step(all, {});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_limited) work.enter_step(all.subspan(i, 1), all.subspan(i + 1, i + 1 < all.size() ? 1 : 0));
    use(entries[i], work.tile(all[i]));
  }
}

// --- Projection

class Projection final : public ProjectionTask {
 public:
  Projection(const Tensor& source, const Ref<TiledEvictable>& tiled, const TileSelection& selection,
             const Ref<Carrier>& destination)
      : tiles_(tiled->grid(), tiled->dtype(), source.layout(), selection), tiled_(tiled) {
    const Index slots = tiles_.compact_layout().size();
    if (destination) {
      check_destination(destination, *tiled, slots);
      destination_.emplace(destination);
    }
    if (is_grad_enabled() && source.is_differentiable())
      node_ = make_ref<ProjectionOperation>(source, selection);
    work_.emplace(sources(tiled, selection), Purpose::projection);
    if (!destination_) destination_.emplace(*tiled, slots);
    destination_->grow(slots);
  }

  /// What is primary comes at once; the rest in the background.
  void start() {
    const auto use = [this](const SelectedTiles::Entry& entry, const Tensor& tile) { gather(entry, tile); };
    const ResidencyPlan& plan = work_->plan(0);
    for (const SelectedTiles::Entry& entry : tiles_.entries()) {
      if (!plan.promote.empty() || !work_->is_primary({0, entry.tile})) {
        missing_.push_back(entry);
        continue;
      }
      for_each_tile(*work_, *tiled_, {&entry, 1}, use);
    }
    if (missing_.empty() && plan.evict.empty()) return run();
    selection_pool().submit(Ref<Task>(this));
  }

 protected:
  void perform() override {
    try {
      for_each_tile(*work_, *tiled_, missing_,
                    [this](const SelectedTiles::Entry& entry, const Tensor& tile) { gather(entry, tile); });
      work_->finish();
      destination_->complete();
      Tensor result = Tensor::trusted(destination_->carrier(), 0, tiles_.compact_layout());
      if (node_) set_autograd_node(result, node_);
      end();
      set_result(std::move(result));
    } catch (...) {
      end();
      throw;
    }
  }
  void abandon() noexcept override { end(); }
  void forget() noexcept override {
    if (work_) work_->forget();
    if (destination_) destination_->forget();
  }

 private:
  void gather(const SelectedTiles::Entry& entry, const Tensor& tile) {
    destination_->write([&](Carrier& to) { tiles_.gather(tile, to, entry.slot); });
  }

  /// Tiles and destination are free before anyone can see that the work has ended.
  void end() noexcept {
    work_.reset();
    destination_.reset();
    node_.reset();
    tiled_.reset();
  }

  SelectedTiles tiles_;
  Ref<TiledEvictable> tiled_;
  std::optional<Destination> destination_;
  Ref<ProjectionOperation> node_;
  std::optional<TileWork> work_;
  std::vector<SelectedTiles::Entry> missing_;
};

}  // namespace

AwaitProjection project(const Tensor& tensor, const TileSelection& selection,
                        const Ref<Carrier>& destination) {
  const Ref<TiledEvictable> tiled = require_tiled("project", "tensor", tensor);
  selection.require_grid(tiled->grid().grid_shape());
  Ref<Projection> task = make_ref<Projection>(tensor, tiled, selection, destination);
  task->start();
  return AwaitProjection(std::move(task));
}

// --- Scatter

namespace {

/// What add_tiles would refuse, before anything has begun.
void check_addable(const Tensor& compact, Carrier& carrier) {
  static_cast<void>(carrier.dispatch_op("add"));
  const std::array<Argument, 2> arguments{Argument(compact), Argument(compact)};
  if (const OperationPlan* plan = plan_of_call("add", arguments, nullptr))
    carrier.require_operation_plan(*plan);
}

class Scatter final : public MoveTask {
 public:
  Scatter(const Tensor& compact, const Tensor& source, const Ref<TiledEvictable>& tiled,
          const TileSelection& selection, Reduction reduction)
      : tiles_(tiled->grid(), tiled->dtype(), source.layout(), selection),
        compact_(compact),
        layout_(source.layout()),
        tiled_(tiled),
        adds_(reduction == Reduction::add) {
    constexpr std::string_view what = "scatter";
    check_compute_class(what, "compact", *compact.carrier(), *tiled);
    check_dtype(what, "compact", compact.carrier()->dtype(), *tiled);
    if (!(compact.layout() == tiles_.compact_layout()))
      raise<ValueError>(what, "compact must have the dense layout of the selected tiles ",
                        tiles_.compact_layout(), ": got ", compact.layout());
    if (adds_) check_addable(compact, *compact.carrier());
    if (is_grad_enabled() && compact.is_differentiable())
      node_ = make_ref<ScatterOperation>(compact, source, selection, reduction);
    claim_.emplace(compact.carrier());
    work_.emplace(sources(tiled, selection, adds_), Purpose::scatter);
    result_ = tiled->make_like(false);
  }

  void start() { selection_pool().submit(Ref<Task>(this)); }

 protected:
  void perform() override {
    try {
      install_all();
      work_->finish();
      result_->advance();
      Tensor result = Tensor::trusted(result_, 0, layout_);
      if (node_) set_autograd_node(result, node_);
      end();
      set_result(std::move(result));
    } catch (...) {
      end();
      throw;
    }
  }
  void abandon() noexcept override { end(); }
  void forget() noexcept override {
    if (work_) work_->forget();
    if (claim_) claim_->forget();
  }

 private:
  void install_all() {
    if (adds_) {
      for_each_tile(*work_, *tiled_, tiles_.entries(),
                    [this](const SelectedTiles::Entry& entry, const Tensor& tile) { install(entry, tile); });
      return;
    }
    work_->enter_step({}, {});  // no tile is read, but the plan may promote some
    for (const SelectedTiles::Entry& entry : tiles_.entries()) {
      spread(entry, result_->start_tile(entry.tile));
      result_->finish_tile(entry.tile, true);
    }
  }
  void install(const SelectedTiles::Entry& entry, const Tensor& tile) {
    const Tensor part = fresh_tile(*result_);
    spread(entry, part);
    result_->install_tile(entry.tile, add_tiles(tile, part).carrier(), true);
  }
  void spread(const SelectedTiles::Entry& entry, const Tensor& tile) const {
    tiles_.spread(*compact_.carrier(), compact_.offset() + entry.slot, tile);
  }

  /// The inputs are free before anyone can see that the work has ended.
  void end() noexcept {
    work_.reset();
    claim_.reset();
    result_.reset();
    node_.reset();
    tiled_.reset();
    compact_ = Tensor();
  }

  SelectedTiles tiles_;
  Tensor compact_;
  Layout layout_;
  Ref<TiledEvictable> tiled_;
  bool adds_;
  Ref<ScatterOperation> node_;
  std::optional<Claim> claim_;
  std::optional<TileWork> work_;
  Ref<TiledEvictable> result_;
};

}  // namespace

AwaitMove scatter(const Tensor& compact, const Tensor& template_tensor, const TileSelection& selection,
                  Reduction reduction) {
  const Ref<TiledEvictable> tiled = require_tiled("scatter", "template", template_tensor);
  selection.require_grid(tiled->grid().grid_shape());
  if (!compact) raise<TypeError>("scatter", "compact must be a Tensor: got none");
  compact.require_single_subtensor("scatter");
  Ref<Scatter> task = make_ref<Scatter>(compact, template_tensor, tiled, selection, reduction);
  task->start();
  return AwaitMove(std::move(task));
}

// --- Gradients

namespace {

[[noreturn]] void refuse_forward(std::string_view name) {
  raise<RuntimeError>(name,
                      "the operation is made by the call whose result it belongs to, and has no forward; "
                      "call project() or scatter() again");
}

/// The carrier of the full Tensor that a node kept, also where it was released since.
const TiledEvictable& kept_carrier(const Operation& node, std::size_t input) {
  if (node.inputs().size() <= input)
    raise<RuntimeError>(node.implementation_name(),
                        "nothing is saved for backward any more; make the result again");
  return static_cast<const TiledEvictable&>(*node.inputs()[input].carrier());
}

void check_gradient(const Operation& node, const Tensor& gradient, const Layout& layout, const DType& dtype) {
  const std::string name = node.implementation_name();
  if (!gradient) raise<TypeError>(name, "gradient must be a Tensor: got none");
  gradient.require_single_subtensor("backward");
  gradient.carrier()->require_live();
  if (&gradient.dtype() != &dtype)
    raise<TypeError>(name, "gradient must have the result's dtype ", dtype.name(), ": got ",
                     gradient.dtype().name());
  if (!(gradient.layout() == layout))
    raise<ValueError>(name, "gradient must have the result's layout ", layout, ": got ", gradient.layout());
}

/// Writes some tiles of a fresh carrier from a Tensor that lies slot by slot as they do.
template <class Wants>
void fill_tiles(TiledEvictable& target, const Tensor& from, Wants wants) {
  for (Index tile = 0; tile < target.grid().tile_count(); ++tile) {
    if (!wants(tile) || is_implicit_zero(from, target, tile)) continue;
    read_tile(target.grid(), from, tile, target.start_tile(tile));
    target.finish_tile(tile, false);
  }
}

}  // namespace

ProjectionOperation::ProjectionOperation(const Tensor& source, TileSelection selection)
    : selection_(std::move(selection)) {
  store_inputs({source});
}

Tensor ProjectionOperation::forward_impl(std::span<const Argument>) { refuse_forward(implementation_name()); }

Gradients ProjectionOperation::backward(const Tensor& gradient) {
  const TiledEvictable& source = kept_carrier(*this, 0);
  const Layout& layout = inputs()[0].layout();
  const NoGrad no_grad;
  const SelectedTiles tiles(source.grid(), source.dtype(), layout, selection_);
  check_gradient(*this, gradient, tiles.compact_layout(), source.dtype());
  const Ref<TiledEvictable> result = source.make_like(true);
  for (const SelectedTiles::Entry& entry : tiles.entries()) {
    tiles.spread(*gradient.carrier(), gradient.offset() + entry.slot, result->start_tile(entry.tile));
    result->finish_tile(entry.tile, false);
  }
  return {Tensor::trusted(result, 0, layout)};
}

ScatterOperation::ScatterOperation(const Tensor& compact, const Tensor& template_tensor,
                                   TileSelection selection, Reduction reduction)
    : selection_(std::move(selection)), reduction_(reduction) {
  store_inputs(std::array{compact, template_tensor});
}

Tensor ScatterOperation::forward_impl(std::span<const Argument>) { refuse_forward(implementation_name()); }

Gradients ScatterOperation::backward(const Tensor& gradient) {
  const TiledEvictable& source = kept_carrier(*this, 1);
  const NoGrad no_grad;
  check_gradient(*this, gradient, inputs()[1].layout(), source.dtype());
  Ref<TiledEvictable> given(dynamic_cast<TiledEvictable*>(gradient.carrier().get()));
  const Layout& layout = inputs()[1].layout();
  if (!given || !has_same_tiles(*given, source)) {
    given = source.make_like(false);
    fill_tiles(*given, gradient, [](Index) { return true; });
  }
  const SelectedTiles tiles(source.grid(), source.dtype(), layout, selection_);
  const Index slots = tiles.compact_layout().size();
  const Ref<Carrier> chosen =
      source.primary_prototype().allocate_like(slots, {.dtype = source.dtype(), .empty = true});
  TileWork work(sources(given, selection_), Purpose::backward);
  for_each_tile(work, *given, tiles.entries(), [&](const SelectedTiles::Entry& entry, const Tensor& tile) {
    tiles.gather(tile, *chosen, entry.slot);
  });
  work.finish();
  Gradients gradients{Tensor(chosen, 0, tiles.compact_layout())};
  if (reduction_ == Reduction::add) {
    gradients.emplace_back(Tensor(given, 0, layout));
    return gradients;
  }
  const Ref<TiledEvictable> rest = source.make_like(true);
  const std::vector<Index> replaced = selection_.tile_set().numbers(source.grid().grid_shape());
  fill_tiles(*rest, Tensor(given, 0, layout),
             [&](Index tile) { return !std::ranges::binary_search(replaced, tile); });
  gradients.emplace_back(Tensor(rest, 0, layout));
  return gradients;
}

}  // namespace orlop::inline v0
