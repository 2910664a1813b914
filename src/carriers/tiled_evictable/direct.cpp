// Direct operations: a sequence of steps over tiles, each by the primary's own kernel, into a dense result.
#include "carriers/tiled_evictable/direct.hpp"

#include <algorithm>

#include "carriers/tiled_evictable/kernel_steps.hpp"
#include "carriers/tiled_evictable/tile_store.hpp"
#include "operation/definition.hpp"
#include "operation/kept_sums.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/layout/iteration.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

namespace {

bool is_sum(std::string_view name) { return name == "reduce_sum" || name == "matmul"; }

/// Writes the elements of `values`, one for each of the window's, into slots of `carrier`.
void store_window(Carrier& carrier, const Window& window, const Tensor& values) {
  const HostSlots slots(values);
  const Index bytes = carrier.dtype().slot_bytes();
  const std::byte* const first = slots.at(values.offset());
  if (std::byte* const memory = carrier.host_data())
    return copy_strided(first, values.layout(), memory + window.offset * bytes, window.layout, bytes);
  const Layout consecutive = Layout::canonical(window.layout.shape());
  std::vector<std::byte> in_order(static_cast<std::size_t>(window.layout.size() * bytes));
  copy_strided(first, values.layout(), in_order.data(), consecutive, bytes);
  const std::array<const Layout*, 2> layouts{&window.layout, &consecutive};
  const StridedLoop loop = coalesce_together(window.layout.extents(), layouts);
  for_each_run(loop, 0, loop.size, [&](std::span<const Index> offsets, Index count) {
    const std::byte* const run = in_order.data() + offsets[1] * bytes;
    if (count == 1 || loop.step(0) == 1) return carrier.write_span(window.offset + offsets[0], count, run);
    for (Index i = 0; i < count; ++i)
      carrier.write_span(window.offset + offsets[0] + i * loop.step(0), 1, run + i * bytes);
  });
}

/// One forward call.
class DirectCall {
 public:
  explicit DirectCall(const ResolvedInvocation& invocation)
      : name_(invocation.name()), layout_(invocation.results().front().layout), plan_(&invocation.plan()) {
    std::vector<Tensor> tensors;
    for (const Argument& operand : invocation.operands()) {
      if (const Tensor* tensor = operand.tensor())
        tensors.push_back(*tensor);
      else
        scalar_ = *operand.scalar();
    }
    operands_.emplace(std::move(tensors));
    if (plan_->builtin_number() != 0) return;
    // The mirror of a multiplication by a number is that multiplication.
    const std::array<PlanOperand, 2> swapped{std::cref(tensor(0).carrier()->dtype()), *scalar_};
    plan_ = &resolve_operation_plan(name_, swapped);
  }

  /// X107: a class without kernels of ours computes by its ordinary dispatch.
  [[nodiscard]] Tensor run() {
    // Before the steps are laid out, which takes the longer the more tiles there are.
    for (const Ref<TiledEvictable>& carrier : operands_->carriers()) carrier->tile_store().require_valid();
    const bool has_kernels = prototype().kernel_table() != nullptr;
    if (is_sum(name_)) return has_kernels ? sum_by_kernel() : sum_by_dispatch();
    return has_kernels ? compute_by_kernel() : compute_by_dispatch();
  }

 private:
  [[nodiscard]] const Tensor& tensor(std::size_t operand) const { return operands_->tensor(operand); }
  [[nodiscard]] const Carrier& prototype() const {
    return operands_->carriers().front()->primary_prototype();
  }

  [[nodiscard]] std::unique_ptr<StepSequence> pointwise_sequence() const {
    std::vector<StepOperand> geometries;
    geometries.reserve(operands_->size());
    for (std::size_t i = 0; i < operands_->size(); ++i) geometries.push_back(operands_->geometry(i));
    return pointwise_steps(layout_.shape(), geometries);
  }

  [[nodiscard]] Ref<Carrier> allocate_result(bool is_empty) const {
    return prototype().allocate_like(layout_.cosize(), {.dtype = plan_->output, .empty = is_empty});
  }

  /// Runs all steps with their tiles; the work ends with them.
  template <class Body>
  void run(const StepSequence& sequence, TileNeed need, Body body) {
    TileWork work(operands_->sources(sequence), Purpose::operation);
    ProgressReport progress(name_, "forward", sequence.count(), operands_->carriers());
    progress.start();
    run_steps(sequence, &work, *operands_, progress, need, body);
    work.finish();
  }

  /// Calls `body(piece, inputs)` for the pieces of a step, which has so many elements or products.
  template <class Body>
  void run_kernel(const StepSequence& sequence, const Step& step, double elements, Body body) {
    const KernelScope scope(*operands_, elements);
    sequence.for_each_piece(step, [&](const Piece& piece) {
      std::array<KernelOperand, 2> inputs;
      std::size_t count = 0;
      for (; count < operands_->size(); ++count)
        inputs[count] =
            operands_->input(count, piece.operands[count], plan_->operands[count].convert_to.storage_type());
      if (scalar_) inputs[count++] = encoded_scalar();
      body(piece, std::span<const KernelOperand>(inputs).first(count));
    });
  }

  [[nodiscard]] KernelOperand encoded_scalar() {
    const DType& dtype = plan_->operands[1].convert_to;
    encode_slot(dtype, *scalar_, encoded_.data());
    return {encoded_.data(), dtype.storage_type(), dtype.storage_type(), nullptr};
  }

  [[nodiscard]] Tensor compute_by_kernel() {
    const auto sequence = pointwise_sequence();
    const Kernel kernel = find_definition(name_)->kernel(*prototype().kernel_table());
    Ref<Carrier> result = allocate_result(true);
    std::byte* const slots = result->host_data();
    const double elements = static_cast<double>(layout_.size()) / static_cast<double>(sequence->count());
    run(*sequence, TileNeed::present, [&](const Step& step) {
      run_kernel(*sequence, step, elements, [&](const Piece& piece, std::span<const KernelOperand> inputs) {
        compute_piece(kernel, *plan_, inputs, piece.result, slots);
      });
    });
    return Tensor::trusted(std::move(result), 0, layout_);
  }

  [[nodiscard]] Tensor compute_by_dispatch() {
    const auto sequence = pointwise_sequence();
    const Ref<Carrier> result = allocate_result(true);
    run(*sequence, TileNeed::present, [&](const Step& step) {
      sequence->for_each_piece(step, [&](const Piece& piece) {
        std::vector<Argument> arguments;
        arguments.reserve(2);
        for (std::size_t i = 0; i < operands_->size(); ++i)
          arguments.emplace_back(operands_->window(i, piece.operands[i]));
        if (scalar_) arguments.emplace_back(*scalar_);
        store_window(*result, piece.result, dispatch(arguments));
      });
    });
    return Tensor::trusted(result, 0, layout_);
  }

  [[nodiscard]] Tensor sum_by_kernel() {
    const bool is_matmul = name_ == "matmul";
    const auto sequence = is_matmul ? matmul_steps(operands_->geometry(0), operands_->geometry(1))
                                    : reduction_steps(operands_->geometry(0));
    const Kernel kernel = kept_sums::kernel_of(*prototype().kernel_table(),
                                               is_matmul ? kept_sums::matmul : kept_sums::reduce_sum);
    Ref<Carrier> result = allocate_result(false);
    const kept_sums::Sums sums(*plan_, layout_.cosize(), result->host_data());
    const double rows = is_matmul ? static_cast<double>(layout_.size()) : 1.0;
    const double terms = static_cast<double>(is_matmul ? leaves_of_modes(tensor(0).layout(), 1, 2).size()
                                                       : tensor(0).layout().size());
    run(*sequence, is_matmul ? TileNeed::present : TileNeed::arriving, [&](const Step& step) {
      run_kernel(*sequence, step, rows * terms / static_cast<double>(sequence->count()),
                 [&](const Piece& piece, std::span<const KernelOperand> inputs) {
                   add_piece(kernel, *plan_, inputs, piece.result, sums.data(), sums.slot_bytes(),
                             operands_->arrival(0));
                 });
    });
    sums.store();
    return Tensor::trusted(std::move(result), 0, layout_);
  }

  /// One step that needs every tile: the operands whole, on the primary's class.
  [[nodiscard]] Tensor sum_by_dispatch() {
    std::vector<TileWork::Source> sources;
    std::vector<TileWork::TileRef> refs;
    for (const Ref<TiledEvictable>& carrier : operands_->carriers()) {
      for (Index tile = 0; tile < carrier->grid().tile_count(); ++tile)
        refs.push_back({sources.size(), tile});
      sources.push_back({carrier, std::nullopt, carrier->grid().tile_count()});
    }
    TileWork work(std::move(sources), Purpose::operation);
    ProgressReport progress(name_, "forward", 1, operands_->carriers());
    progress.start();
    work.enter_step(refs, {});
    std::vector<Ref<Carrier>> whole;
    whole.reserve(operands_->carriers().size());
    for (std::size_t i = 0; i < operands_->carriers().size(); ++i) whole.push_back(gather(work, i));
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < operands_->size(); ++i) {
      const Tensor& operand = tensor(i);
      const auto source = operands_->source(i);
      arguments.emplace_back(source ? Tensor::trusted(whole[*source], operand.offset(), operand.layout())
                                    : operand);
    }
    Tensor result = dispatch(arguments);
    progress.advance();
    work.finish();
    return result;
  }

  /// All tiles of a carrier as one, slot by slot.
  [[nodiscard]] Ref<Carrier> gather(const TileWork& work, std::size_t source) const {
    const TiledEvictable& tiled = *operands_->carriers()[source];
    Ref<Carrier> whole =
        prototype().allocate_like(tiled.grid().size(), {.dtype = tiled.dtype(), .empty = true});
    for (Index number = 0; number < tiled.grid().tile_count(); ++number) {
      const Tensor tile = work.tile({source, number});
      const HostSlots slots(tile);
      const Index run = tiled.grid().run();
      for (Index position = 0; position < tiled.grid().tile_size(); position += run)
        whole->write_span(tiled.grid().slot({number, position}), run, slots.at(tile.offset() + position));
    }
    return whole;
  }

  [[nodiscard]] Tensor dispatch(std::span<const Argument> arguments) const {
    const Ref<Operation> operation = arguments.front().tensor()->carrier()->dispatch_op(name_);
    if (!is_sum(name_) || plan_->accumulator_dtype == nullptr) return operation->execute_lowered(arguments);
    const OperationExecutionOptions options(name_, plan_->accumulator_dtype);
    return operation->execute_lowered(arguments, &options);
  }

  std::string name_;
  Layout layout_;  // of the result
  const OperationPlan* plan_;
  std::optional<Scalar> scalar_;
  std::optional<StepOperands> operands_;
  alignas(std::int32_t) std::array<std::byte, sizeof(std::int32_t)> encoded_{};
};

/// X65: whether ordinary dense Tensors may stand beside tiled ones.
bool takes_dense_operands(std::string_view name) { return name != "reduce_sum" && name != "relu"; }

/// X61: every tiled operand means all of its tiles, in an order that follows them.
void check_geometry(const ResolvedInvocation& invocation) {
  for (const Argument& operand : invocation.operands()) {
    const Tensor* tensor = operand.tensor();
    const TiledEvictable* carrier = tensor == nullptr ? nullptr : tiled_carrier(*tensor);
    if (carrier == nullptr) continue;
    const std::vector<Index>& logical = carrier->grid().logical_shape();
    const Layout& layout = tensor->layout();
    bool is_full = layout.rank() == logical.size();
    ModeLeaves modes(layout);
    for (std::size_t mode = 0; is_full && mode < logical.size(); ++mode)
      is_full = modes.next().size() == logical[mode];
    if (!is_full)
      throw UnsupportedOperationPlan(
          RefusalKind::Invocation, carrier->carrier_class(), invocation.plan(),
          text('[', invocation.name(), "] a tiled operand must have the full geometry of its carrier: got ",
               layout.shape(), "; modes of the sizes ", Shape::flat(logical),
               " are allowed; project() the tiles of a part"));
    carrier->grid().check_layout(invocation.name(), layout, tensor->offset());
  }
}

class DirectExecutor final : public InvocationExecutor {
 public:
  void check_name(const Carrier& carrier, const OperationDefinition& definition) const override {
    if (!carrier.operation_capabilities(definition.name()).empty()) return;
    throw UnsupportedOperationPlan(RefusalKind::Operation, carrier.carrier_class(),
                                   text("[TiledEvictable] does not support ", definition.name(),
                                        " on all tiles at once; project() the tiles it needs"));
  }

  void check_operands(const Carrier& carrier, const BoundOperationCall& call) const override {
    const std::string& name = call.definition().name();
    const CarrierClass primary =
        dynamic_cast<const TiledEvictable&>(carrier).primary_prototype().carrier_class();
    for (const Argument& operand : call.operands()) {
      const Tensor* tensor = operand.tensor();
      if (tensor == nullptr) continue;
      if (const TiledEvictable* tiled = tiled_carrier(*tensor)) {
        if (tiled->primary_prototype().carrier_class() != primary)
          raise<TypeError>(name, "all tiled operands must have one primary class: got ", primary, " and ",
                           tiled->primary_prototype().carrier_class());
      } else if (!takes_dense_operands(name) || tensor->carrier_type() != primary) {
        raise<TypeError>(name, "beside tiled operands a Tensor must live on their primary's class ", primary,
                         ": got one on ", tensor->carrier_type(), "; move it first");
      }
    }
  }

  void require_plan(const Carrier& carrier, const ResolvedInvocation& invocation) const override {
    carrier.require_operation_plan(invocation.plan());
  }

  [[nodiscard]] std::vector<CarrierClass> result_carriers(const Carrier& carrier,
                                                          const ResolvedInvocation&) const override {
    return {dynamic_cast<const TiledEvictable&>(carrier).primary_prototype().carrier_class()};
  }

  [[nodiscard]] std::function<std::vector<Tensor>()> prepare(
      Carrier&, const ResolvedInvocation& invocation) const override {
    check_geometry(invocation);
    return [call = std::make_shared<DirectCall>(invocation)] { return std::vector<Tensor>{call->run()}; };
  }

  [[nodiscard]] std::optional<Gradients> gradients(const VJPContext& context,
                                                   Cotangents cotangents) const override {
    if (cotangents.front()) return direct_gradients(context, *cotangents.front());
    const ResolvedInvocation& invocation = context.invocation();
    return Gradients(invocation.definition().differentiable_operands(invocation.call()).size());
  }

  [[nodiscard]] bool is_shipped() const noexcept override { return true; }
};

}  // namespace

const InvocationExecutor& direct_executor() {
  static const DirectExecutor executor;
  return executor;
}

}  // namespace orlop::inline v0
