// Gradients of direct operations: each tile of a gradient from the cotangent and the tiles of the other
// operand that meet it, one after the other.
#include <algorithm>

#include "carriers/tiled_evictable/direct.hpp"
#include "carriers/tiled_evictable/kernel_steps.hpp"
#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/kept_sums.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

constexpr Index float_bytes = sizeof(float);

/// The gradient of one operand while it is made: tile by tile like the operand, or dense and canonical.
class GradientTarget {
 public:
  /// `sums`: the plan of sums that are kept until a tile is whole, or null.
  GradientTarget(const Tensor& operand, const Carrier& prototype, const OperationPlan* sums)
      : operand_(operand), sums_plan_(sums) {
    if (const TiledEvictable* carrier = tiled_carrier(operand)) {
      tiled_ = carrier->make_like(false, dtypes::Float32);
      size_ = carrier->grid().tile_size();
      return;
    }
    size_ = operand.layout().size();
    storage_ = Tensor::trusted(prototype.allocate_like(size_, {.dtype = dtypes::Float32}), 0,
                               Layout::canonical(operand.layout().shape()));
    open();
  }

  [[nodiscard]] bool is_tiled() const noexcept { return static_cast<bool>(tiled_); }
  [[nodiscard]] StepOperand geometry() const {
    if (!is_tiled()) return StepOperand::dense(Layout::canonical(operand_.layout().shape()));
    return StepOperand::tiled(operand_.layout(), tiled_->grid().grid_shape(), tiled_->grid().tile_shape());
  }

  /// What comes next belongs to this tile; all of a tile comes together.
  void enter(Index tile) {
    if (!is_tiled() || tile == tile_) return;
    close();
    tile_ = tile;
    storage_ = tiled_->start_tile(tile);
    open();
  }
  /// Zero-filled slots of Float32 that windows count from.
  [[nodiscard]] std::byte* slots() const noexcept { return slots_; }
  [[nodiscard]] const kept_sums::Sums& sums() const noexcept { return *sums_; }

  [[nodiscard]] Tensor finish() {
    close();
    if (!is_tiled()) return storage_;
    return Tensor::trusted(tiled_, operand_.offset(), operand_.layout());
  }

 private:
  void open() {
    slots_ = storage_.carrier()->host_data();
    if (slots_ != nullptr) {
      slots_ += storage_.offset() * float_bytes;
    } else {
      aside_.resize(static_cast<std::size_t>(size_ * float_bytes));
      slots_ = aside_.data();
    }
    std::fill_n(slots_, size_ * float_bytes, std::byte{0});
    if (sums_plan_ != nullptr) sums_.emplace(*sums_plan_, size_, slots_);
  }
  void close() {
    if (slots_ == nullptr) return;
    if (sums_) sums_->store();
    if (!aside_.empty()) storage_.carrier()->write_span(storage_.offset(), size_, slots_);
    slots_ = nullptr;
    if (is_tiled()) tiled_->finish_tile(tile_, false);
  }

  Tensor operand_;
  const OperationPlan* sums_plan_;
  Ref<TiledEvictable> tiled_;
  Index size_ = 0;  // of a tile
  Index tile_ = -1;
  Tensor storage_;
  std::byte* slots_ = nullptr;
  std::vector<std::byte> aside_;  // where storage is not host memory
  std::optional<kept_sums::Sums> sums_;
};

/// The leaves of `layout` in which the window of a target moves, then those in which it stands still: what is
/// added up to one of its elements.
struct WidenedSplit {
  Layout terms;   // of the source: (kept, summed)
  Layout target;  // of the kept leaves
};

WidenedSplit split_widened(const Layout& source, const Layout& target) {
  SmallVector<Index, 8> kept, kept_strides, target_strides, summed, summed_strides;
  for (std::size_t leaf = 0; leaf < source.extents().size(); ++leaf) {
    const bool is_kept = target.strides()[leaf] != 0;
    (is_kept ? kept : summed).push_back(source.extents()[leaf]);
    (is_kept ? kept_strides : summed_strides).push_back(source.strides()[leaf]);
    if (is_kept) target_strides.push_back(target.strides()[leaf]);
  }
  const auto mode = [](SmallVector<Index, 8> extents, SmallVector<Index, 8> strides) {
    if (extents.empty()) {
      extents.push_back(1);
      strides.push_back(0);
    }
    return Layout(Shape::flat(extents), Stride::flat(strides));
  };
  return {Layout::append(Layout::append(Layout(), mode(kept, kept_strides)), mode(summed, summed_strides)),
          mode(kept, target_strides)};
}

/// Where the window of a result is in the canonical cotangent.
Window in_cotangent(const Tensor& cotangent, const Window& result) {
  return {cotangent.offset() + result.offset, result.layout};
}

/// One gradient: its target, the steps to it, and the other operand.
class GradientPart {
 public:
  GradientPart(const VJPContext& context, const Tensor& cotangent, std::size_t position,
               const std::vector<Ref<TiledEvictable>>& carriers)
      : name_(context.invocation().name()),
        operand_(*context.invocation().tensor(position)),
        cotangent_(cotangent),
        kernels_(cotangent.carrier()->kernel_table() != nullptr ? *cotangent.carrier()->kernel_table()
                                                                : reference_kernels()) {
    for (std::size_t i = 0; i < context.invocation().operands().size(); ++i)
      if (i != position) other_ = context.invocation().operands()[i];
    plan_ = plan_of_factors(context.invocation().plan());
    target_.emplace(operand_, *cotangent.carrier(), name_ == "matmul" ? plan_ : nullptr);
    std::vector<Tensor> tensors{cotangent_};
    if (name_ == "matmul" && position == 1) tensors[0] = transposed(cotangent_);
    if (name_ == "relu") tensors.push_back(operand_);
    if (name_ != "add" && other_ && other_->tensor() != nullptr) tensors.push_back(*other_->tensor());
    operands_.emplace(std::move(tensors), carriers);
    sequence_ = make_sequence();
  }

  [[nodiscard]] Index steps() const noexcept { return sequence_->count(); }

  [[nodiscard]] Tensor run(TileWork* work, ProgressReport& progress) {
    const bool has_tiles = operands_->size() == 2 && operands_->is_tiled(1);
    const double elements = work_of_a_step();
    run_steps(*sequence_, has_tiles ? work : nullptr, *operands_, progress, TileNeed::present,
              [&](const Step& step) {
                target_->enter(step.tiles[0]);
                if (name_ == "relu") return follow_relu(step);
                const KernelScope scope(*operands_, elements);
                sequence_->for_each_piece(step, [&](const Piece& piece) {
                  if (name_ == "matmul")
                    add_products(piece);
                  else if (name_ == "reduce_sum")
                    repeat(piece);
                  else if (is_widened())
                    add_widened(piece);
                  else
                    scale(piece);
                });
              });
    return target_->finish();
  }

 private:
  /// g · other: of the cotangent and what it is multiplied by. Null where there is nothing to multiply.
  [[nodiscard]] const OperationPlan* plan_of_factors(const OperationPlan& forward) const {
    if (!other_ || name_ == "add") return nullptr;
    const PlanOperand other = other_->tensor() != nullptr
                                  ? PlanOperand(std::cref(other_->tensor()->carrier()->dtype()))
                                  : PlanOperand(*other_->scalar());
    const std::array<PlanOperand, 2> factors{std::cref<DType>(dtypes::Float32), other};
    if (name_ == "matmul")
      return &resolve_operation_plan(name_, factors, {.accumulator_dtype = forward.accumulator_dtype});
    return &resolve_operation_plan("mul", factors);
  }

  [[nodiscard]] static Tensor transposed(const Tensor& tensor) {
    constexpr std::size_t order[] = {1, 0};
    return Tensor::trusted(tensor.carrier(), tensor.offset(), tensor.layout().select(order));
  }

  [[nodiscard]] std::unique_ptr<StepSequence> make_sequence() const {
    const StepOperand target = target_->geometry();
    if (name_ == "reduce_sum") return reduction_steps(target);
    if (name_ == "matmul") {
      const StepOperand other = operands_->geometry(1).transposed();
      return target_->is_tiled() ? matmul_into_tiles(operands_->geometry(0), other, target)
                                 : matmul_steps(operands_->geometry(0), other);
    }
    std::vector<StepOperand> geometries{target};
    if (operands_->size() == 2) geometries.push_back(operands_->geometry(1));
    return pointwise_steps(cotangent_.layout().shape(), geometries);
  }

  [[nodiscard]] double work_of_a_step() const {
    const double all = static_cast<double>(cotangent_.layout().size()) *
                       (name_ == "matmul" ? static_cast<double>(operand_.layout().mode(1).size()) : 1.0);
    return all / static_cast<double>(sequence_->count());
  }

  [[nodiscard]] bool is_widened() const { return operand_.layout().size() != cotangent_.layout().size(); }

  /// Σ g · other.
  void add_products(const Piece& piece) const {
    const std::array inputs{operands_->input(0, piece.operands[0], StorageType::float32),
                            operands_->input(1, piece.operands[1], StorageType::float32)};
    const kept_sums::Sums& sums = target_->sums();
    add_piece(kept_sums::kernel_of(kernels_, kept_sums::matmul), *plan_, inputs, piece.result, sums.data(),
              sums.slot_bytes());
  }

  /// g at every term of its sum.
  void repeat(const Piece& piece) const {
    const Window& target = piece.operands[0];
    const Window source = in_cotangent(cotangent_, piece.result);
    detail::Nest strides = target.layout.stride().nest();
    const auto kept = source.layout.strides();
    std::fill(std::copy(kept.begin(), kept.end(), strides.leaves.begin()), strides.leaves.end(), 0);
    copy_strided(operands_->input(0, source, StorageType::float32).data,
                 Layout(target.layout.shape(), Stride(std::move(strides))),
                 target_->slots() + target.offset * float_bytes, target.layout, float_bytes);
  }

  /// The inputs of g · other, of which the second is missing where there is nothing to multiply by.
  struct Factors {
    Window cotangent;
    std::array<KernelOperand, 2> inputs;
    alignas(float) std::array<std::byte, sizeof(float)> scalar;
  };
  void find_factors(const Piece& piece, Factors& factors) const {
    factors.cotangent = in_cotangent(cotangent_, piece.result);
    factors.inputs[0] = operands_->input(0, factors.cotangent, StorageType::float32);
    if (operands_->size() == 2) {
      factors.inputs[1] = operands_->input(1, piece.operands[1], StorageType::float32);
    } else if (plan_ != nullptr) {
      encode_slot(dtypes::Float32, *other_->scalar(), factors.scalar.data());
      factors.inputs[1] = {factors.scalar.data(), StorageType::float32, StorageType::float32, nullptr};
    }
  }

  /// g, or g · other, element by element.
  void scale(const Piece& piece) const {
    Factors factors;
    find_factors(piece, factors);
    const Window& target = piece.operands[0];
    if (plan_ != nullptr)
      return compute_piece(find_definition("mul")->kernel(kernels_), *plan_, factors.inputs, target,
                           target_->slots());
    copy_strided(factors.inputs[0].data, factors.cotangent.layout,
                 target_->slots() + target.offset * float_bytes, target.layout, float_bytes);
  }

  /// The same, summed over the leaves that the operation widened.
  void add_widened(const Piece& piece) const {
    Factors factors;
    find_factors(piece, factors);
    const std::byte* values = factors.inputs[0].data;
    Layout layout = factors.cotangent.layout;
    std::vector<std::byte> products;
    if (plan_ != nullptr) {
      layout = Layout::canonical(layout.shape());
      products.resize(static_cast<std::size_t>(layout.size() * float_bytes));
      compute_piece(find_definition("mul")->kernel(kernels_), *plan_, factors.inputs, {0, layout},
                    products.data());
      values = products.data();
    }
    const Window& target = piece.operands[0];
    const WidenedSplit split = split_widened(layout, target.layout);
    const std::array<PlanOperand, 1> terms{std::cref<DType>(dtypes::Float32)};
    const KernelOperand input{values, StorageType::float32, StorageType::float32, &split.terms};
    add_piece(kept_sums::kernel_of(kernels_, kept_sums::reduce_sum),
              resolve_operation_plan("reduce_sum", terms), {&input, 1}, {target.offset, split.target},
              target_->slots(), float_bytes);
  }

  /// By the rule of the operation itself, on the tile.
  void follow_relu(const Step& step) const {
    sequence_->for_each_piece(step, [&](const Piece& piece) {
      const Argument tile(operands_->window(1, piece.operands[1]));
      const Tensor cotangent = operands_->window(0, in_cotangent(cotangent_, piece.result));
      const Definition& relu = *find_definition(name_);
      const GradientContext rule(relu, {&tile, 1}, cotangent, cotangent.carrier_type(), nullptr);
      const Tensor values = *relu.gradients(rule).front();
      const Window& target = piece.operands[0];
      copy_strided(HostSlots(values).at(values.offset()), values.layout(),
                   target_->slots() + target.offset * float_bytes, target.layout, float_bytes);
    });
  }

  std::string name_;
  Tensor operand_;
  Tensor cotangent_;
  std::optional<Argument> other_;
  const KernelTable& kernels_;
  const OperationPlan* plan_ = nullptr;
  std::optional<GradientTarget> target_;
  std::optional<StepOperands> operands_;  // the cotangent, then what it is combined with
  std::unique_ptr<StepSequence> sequence_;
};

/// P65: on the primary's class, Float32, of the result's shape.
void check_cotangent_of(const ResolvedInvocation& invocation, const Tensor& output, const Tensor& cotangent) {
  if (cotangent.carrier_type() != output.carrier_type())
    raise<TypeError>(invocation.name(), "the cotangent must be dense, on ", output.carrier_type(),
                     " as the result: got one on ", cotangent.carrier_type());
  if (&cotangent.dtype() != &dtypes::Float32)
    raise<TypeError>(invocation.name(), "the cotangent must be Float32: got ", cotangent.dtype().name());
  cotangent.carrier()->require_live();
  const Shape& shape = invocation.results().front().shape;
  if (!(cotangent.layout().shape() == shape))
    raise<ValueError>(invocation.name(), "the cotangent must have the result's shape ", shape, ": got ",
                      cotangent.layout().shape());
}

/// The carriers of what backward reads, in operand order.
std::vector<Ref<TiledEvictable>> saved_carriers(const VJPContext& context) {
  std::vector<Ref<TiledEvictable>> carriers;
  for (const Tensor& saved : context.saved_operands()) {
    TiledEvictable* const carrier = tiled_carrier(saved);
    if (carrier != nullptr &&
        std::ranges::find(carriers, carrier, &Ref<TiledEvictable>::get) == carriers.end())
      carriers.emplace_back(carrier);
  }
  return carriers;
}

}  // namespace

Gradients direct_gradients(const VJPContext& context, const Tensor& cotangent) {
  const ResolvedInvocation& invocation = context.invocation();
  check_cotangent_of(invocation, context.outputs().front(), cotangent);
  const Tensor dense = in_canonical_layout(cotangent);
  const std::vector<Ref<TiledEvictable>> carriers = saved_carriers(context);

  std::vector<std::unique_ptr<GradientPart>> parts;
  Index steps = 0;
  for (const std::size_t position : invocation.definition().differentiable_operands(invocation.call())) {
    parts.emplace_back();
    if (!invocation.tensor(position)->is_differentiable()) continue;
    parts.back() = std::make_unique<GradientPart>(context, dense, position, carriers);
    steps += parts.back()->steps();
  }

  std::optional<TileWork> work;
  if (!carriers.empty()) {
    std::vector<TileWork::Source> sources;
    sources.reserve(carriers.size());
    for (const Ref<TiledEvictable>& carrier : carriers) sources.push_back({carrier, std::nullopt, 1});
    work.emplace(std::move(sources), Purpose::backward);
  }
  ProgressReport progress(invocation.name(), "backward", steps, carriers);
  progress.start();
  Gradients gradients;
  for (const std::unique_ptr<GradientPart>& part : parts) {
    gradients.emplace_back();
    if (part) gradients.back() = part->run(work ? &*work : nullptr, progress);
  }
  if (work) work->finish();
  return gradients;
}

}  // namespace orlop::inline v0
