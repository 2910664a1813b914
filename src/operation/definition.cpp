// The table of definitions, and how one call runs through it (P50).
#include "operation/definition.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "operation/gradient.hpp"
#include "operation/plan_table.hpp"
#include "operation/unattended.hpp"
#include "orlop/storage/normalize.hpp"
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

const OperationSpec* Definition::spec() const {
  const OperationSpec* spec = spec_.load(std::memory_order_acquire);
  if (spec == nullptr) {
    spec = &table_spec(name_);
    spec_.store(spec, std::memory_order_release);
  }
  return spec;
}

Resolution Definition::resolve(std::span<const Argument>, const OperationPlan&) const {
  raise<NotImplementedError>(name_, "the definition makes no result of its own");
}

void Definition::check_values(std::span<const Argument>, std::span<const KernelOperand>) const {}

Tensor Definition::view(std::span<const Argument>) const {
  raise<NotImplementedError>(name_, "the definition is no view");
}

Gradients Definition::gradients(const GradientContext&) const {
  raise<RuntimeError>(name_, "the operation has no gradient: its result is not differentiable");
}

KernelFunction Definition::kernel(const KernelTable& table) const noexcept {
  const Remembered* const newest = remembered_.load(std::memory_order_acquire);
  for (const Remembered* entry = newest; entry != nullptr; entry = entry->older)
    if (entry->table == &table) return entry->kernel;
  KernelFunction found = table.find(kernel_name_);
  if (found == nullptr) found = reference_kernels().find(kernel_name_);
  try {
    // Entries are few (backends) and live as long as the table of definitions.
    auto entry = std::make_unique<Remembered>(Remembered{&table, found, newest});
    const Remembered* expected = newest;
    if (remembered_.compare_exchange_strong(expected, entry.get(), std::memory_order_acq_rel)) {
      [[maybe_unused]] const Remembered* kept = entry.release();
    }
  } catch (const std::bad_alloc&) {  // found again by the next call
  }
  return found;
}

const Definition* find_definition(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const Definition*> all;
    for (const DefinitionList family :
         {arithmetic_definitions(), unary_definitions(), activation_definitions(), comparison_definitions(),
          reduction_definitions(), scan_definitions(), contraction_definitions(), convolution_definitions(),
          indexing_definitions(), ordering_definitions(), ternary_definitions(), view_definitions()})
      for (const Definition* definition : family) all.emplace(definition->name(), definition);
    return all;
  }();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

namespace {

constexpr std::size_t max_operands = 4;

void require_operands(std::string_view name, std::span<const Argument> arguments,
                      CarrierClass dispatch_class) {
  for (const Argument& argument : arguments)
    if (const Tensor* tensor = argument.tensor()) tensor->carrier()->require_live();
  for (const Argument& argument : arguments)
    if (const Tensor* tensor = argument.tensor();
        tensor != nullptr && tensor->carrier_type() != dispatch_class)
      raise<TypeError>(name, "every Tensor operand must live on the dispatching class ", dispatch_class,
                       ": got one on ", tensor->carrier_type(), "; move it first");
}

const Tensor& first_tensor(std::span<const Argument> arguments) {
  for (const Argument& argument : arguments)
    if (const Tensor* tensor = argument.tensor()) return *tensor;
  raise<TypeError>("operation", "needs at least one Tensor operand: got none");
}

/// Operands as a kernel reads them: in place where the slots are host memory, otherwise from a copy.
class KernelInputs {
 public:
  // In every definition the plan's operands come first.
  KernelInputs(std::span<const Argument> arguments, const OperationPlan& plan) {
    for (std::size_t i = 0; i < plan.operands.size(); ++i)
      add(arguments[i], plan.operands[i].convert_to.storage_type());
  }

  [[nodiscard]] std::span<const KernelOperand> operands() const { return {operands_.data(), count_}; }
  /// Of the largest operand.
  [[nodiscard]] Index most_elements() const { return most_elements_; }

  /// Keeps the operands valid even where another thread releases their carriers; false where that is not
  /// possible.
  bool hold(std::span<const Argument> arguments) {
    std::size_t held = 0;
    for (const Argument& argument : arguments) {
      const Tensor* tensor = argument.tensor();
      if (tensor == nullptr || tensor->carrier()->host_data() == nullptr) continue;  // a copy
      if (held == max_operands) return false;
      held_[held] = tensor->carrier()->host_memory();
      if (!held_[held++]) return false;
    }
    return true;
  }

 private:
  void add(const Argument& argument, StorageType computed) {
    KernelOperand& operand = operands_[count_];
    operand.computed = computed;
    if (const Tensor* tensor = argument.tensor()) {
      const DType& dtype = tensor->carrier()->dtype();
      most_elements_ = std::max(most_elements_, tensor->layout().size());
      operand.stored = dtype.storage_type();
      operand.layout = &tensor->layout();
      if (const std::byte* data = tensor->carrier()->host_data()) {
        operand.data = data + tensor->offset() * dtype.slot_bytes();
      } else {
        std::vector<std::byte>& copy = copies_[count_];
        copy.resize(slots_to_bytes(dtype, tensor->layout().cosize()));
        tensor->carrier()->read_span(tensor->offset(), tensor->layout().cosize(), copy.data());
        operand.data = copy.data();
      }
    } else {
      operand.stored = computed;
      operand.layout = nullptr;
      operand.data = scalars_[count_].data();
      const DType& dtype = computed == StorageType::float32 ? static_cast<const DType&>(dtypes::Float32)
                                                            : static_cast<const DType&>(dtypes::Int32);
      encode_slot(dtype, *argument.scalar(), scalars_[count_].data());
    }
    ++count_;
  }

  std::array<KernelOperand, max_operands> operands_{};
  std::size_t count_ = 0;
  alignas(std::int32_t) std::array<std::array<std::byte, 4>, max_operands> scalars_{};
  std::array<std::vector<std::byte>, max_operands> copies_;
  std::array<std::shared_ptr<const void>, max_operands> held_;
  Index most_elements_ = 0;
};

const OperationPlan& resolve_plan(const OperationSpec& spec, std::span<const Argument> arguments,
                                  const OperationExecutionOptions* options) {
  const auto* positions = spec.dtype_operand_positions();
  const auto is_operand = [](const Argument& argument) { return argument.tensor() || argument.scalar(); };
  const std::size_t count = positions != nullptr
                                ? positions->size()
                                : static_cast<std::size_t>(std::ranges::count_if(arguments, is_operand));
  if (count > max_operands)
    raise<TypeError>(spec.name(), "takes at most ", max_operands, " operands: got ", count);
  const PlanOperand unused = std::cref<DType>(dtypes::Float32);
  std::array<PlanOperand, max_operands> operands{unused, unused, unused, unused};
  for (std::size_t i = 0; i < count; ++i) {
    const Argument& argument = arguments[positions != nullptr ? (*positions)[i] : i];
    if (const Tensor* tensor = argument.tensor())
      operands[i] = std::cref(tensor->carrier()->dtype());
    else
      operands[i] = *argument.scalar();
  }
  return spec.resolve({operands.data(), count}, options != nullptr ? options->accumulator_dtype() : nullptr);
}

}  // namespace

void Definition::check_cotangent(const GradientContext& context) const {
  const Tensor& cotangent = context.cotangent();
  if (cotangent.carrier_type() != context.carrier_class())
    raise<TypeError>(name_, "the cotangent must live on ", context.carrier_class(), ": got one on ",
                     cotangent.carrier_type());
  if (&cotangent.dtype() != &dtypes::Float32)
    raise<TypeError>(name_, "the cotangent must be Float32: got ", cotangent.dtype().name());
  cotangent.carrier()->require_live();
  const OperationPlan& plan = resolve_plan(*spec(), context.arguments(), context.options());
  const Shape expected = resolve(context.arguments(), plan).layout.shape();
  if (!(cotangent.layout().shape() == expected))
    raise<ValueError>(name_, "the cotangent must have the result's shape ", expected, ": got ",
                      cotangent.layout().shape());
}

const OperationPlan* plan_of_call(std::string_view name, std::span<const Argument> arguments,
                                  const OperationExecutionOptions* options) {
  const OperationSpec* spec = find_operation_spec(name);
  if (spec == nullptr) return nullptr;
  if (const Definition* definition = find_definition(name)) definition->check_arguments(arguments);
  return &resolve_plan(*spec, arguments, options);
}

Tensor run_kernel(const Definition& definition, const OperationPlan& plan,
                  std::span<const Argument> arguments, const Resolution& resolution) {
  Carrier& prototype = *first_tensor(arguments).carrier();
  KernelInputs inputs(arguments, plan);
  const Index slots = resolution.layout.cosize();
  const bool is_unattended = is_long(std::max(slots, inputs.most_elements())) && inputs.hold(arguments);
  if (definition.checks_values()) {
    const UnattendedWork work(is_unattended);
    definition.check_values(arguments, inputs.operands());
  }
  Ref<Carrier> carrier = fresh_storage(prototype, slots, {.dtype = plan.output, .empty = true});
  const KernelTable* table = prototype.kernel_table();
  KernelFunction kernel = table != nullptr ? definition.kernel(*table) : nullptr;
  if (kernel == nullptr) kernel = reference_kernels().find(definition.kernel_name());
  std::vector<std::byte> staged;
  std::byte* result = carrier->host_data();
  if (result == nullptr) {
    staged.resize(slots_to_bytes(plan.output, slots));
    result = staged.data();
  }
  {
    const UnattendedWork work(is_unattended);
    kernel({plan, inputs.operands(), result, resolution.layout, resolution.parameters});
  }
  if (!staged.empty()) carrier->write_span(0, slots, result);
  return Tensor::trusted(std::move(carrier), 0, resolution.layout);
}

Tensor run_definition(const Definition& definition, std::span<const Argument> arguments,
                      const OperationExecutionOptions* options, CarrierClass dispatch_class, bool is_gated) {
  definition.check_arguments(arguments);
  require_operands(definition.name(), arguments, dispatch_class);
  if (definition.is_view()) return definition.view(arguments);

  const OperationPlan& plan = resolve_plan(*definition.spec(), arguments, options);
  const Resolution resolution = definition.resolve(arguments, plan);
  if (is_gated) first_tensor(arguments).carrier()->require_operation_plan(plan);
  return run_kernel(definition, plan, arguments, resolution);
}

}  // namespace orlop::inline v0
