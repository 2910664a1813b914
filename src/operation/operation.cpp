// The life of one operation: call checks, recording, lowered execution, release of autograd state.
#include "orlop/operation/operation.hpp"

#include <algorithm>

#include "operation/dispatch.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

namespace {
thread_local bool grad_enabled = true;
}

bool is_grad_enabled() noexcept { return grad_enabled; }
void set_grad_enabled(bool enabled) noexcept { grad_enabled = enabled; }

namespace {
void (*foreign_visitor)(const std::any&, ReferenceVisitor&) = nullptr;
}

void detail::install_foreign_visitor(void (*visit)(const std::any&, ReferenceVisitor&)) noexcept {
  foreign_visitor = visit;
}

void Argument::visit_references(ReferenceVisitor& visitor) const {
  if (const Tensor* held = tensor()) return visitor.visit(held->ref());
  if (const auto* carrier = get<Ref<Carrier>>()) return visitor.visit(*carrier);
  const auto* other = std::get_if<Other>(&value_);
  if (other != nullptr && foreign_visitor != nullptr) foreign_visitor(other->value, visitor);
}

Operation::Operation() noexcept = default;
Operation::~Operation() { clear_inputs(); }

std::string Operation::implementation_name() const { return "Operation"; }

bool Operation::accepts_compound() const {
  static constexpr std::string_view views[] = {"as_strided", "broadcast_to", "permute", "reshape",
                                               "squeeze",    "unsqueeze",    "view"};
  return std::find(std::begin(views), std::end(views), name_) != std::end(views);
}

const Tensor& Operation::tensor_argument(std::span<const Argument> inputs, std::size_t position) {
  if (position >= inputs.size())
    raise<TypeError>("forward", "argument ", position, " is missing: got ", inputs.size());
  if (const Tensor* tensor = inputs[position].tensor()) return *tensor;
  raise<TypeError>("forward", "argument ", position, " must be a Tensor: got ", inputs[position].type_name());
}

void Operation::check_call(std::span<const Argument> inputs, const OperationExecutionOptions* options) const {
  if (options != nullptr && is_dispatched() && options->operation() != name_)
    raise<ValueError>(subject_of(*this), "the options are bound to another operation: ", options->operation(),
                      "; make them with operation_execution_options(\"", name_, "\", …)");
  if (accepts_compound()) return;
  for (const Argument& input : inputs)
    if (const Tensor* tensor = input.tensor()) tensor->require_single_subtensor("operation execution");
}

InputShapes shapes_of(std::span<const Argument> inputs) {
  InputShapes shapes;
  for (const Argument& input : inputs)
    shapes.push_back(input.tensor() != nullptr ? std::optional(input.tensor()->layout().shape())
                                               : std::nullopt);
  return shapes;
}

detail::ProfiledCall Operation::profiled_call() const {
  return {name_, dispatch_class_, ImplementationType(*this, implementation_name())};
}

Tensor Operation::run(std::span<const Argument> inputs, const OperationExecutionOptions* options) {
  detail::ProfiledSpan span(
      is_dispatched(), [this] { return profiled_call(); }, [&] { return shapes_of(inputs); });
  if (options != nullptr)
    options_ = std::make_unique<OperationExecutionOptions>(*options);
  else
    options_.reset();
  Tensor result = forward_impl(inputs);
  if (!result) raise<TypeError>(subject_of(*this), "forward must return a Tensor: got none");
  span.succeed();
  return result;
}

void Operation::check_forward(std::span<const Argument> inputs,
                              const OperationExecutionOptions* options) const {
  check_call(inputs, options);
  if (is_node_)
    raise<RuntimeError>(subject_of(*this),
                        "the operation is already the autograd node of a result; dispatch a fresh one");
}

void Operation::become_node_of(const Tensor& result) {
  release_iteratively(std::exchange(result.object()->autograd_node, Ref<Object>(this)));
  is_node_ = true;
}

void Operation::dispatch_as(const Operation& other) {
  name_ = other.name_;
  dispatch_class_ = other.dispatch_class_;
}

std::vector<Tensor> Operation::forward_all(Sequence<Argument> inputs,
                                           const OperationExecutionOptions* options) {
  return {forward(inputs, options)};
}

Tensor Operation::forward(Sequence<Argument> inputs, const OperationExecutionOptions* options) {
  check_forward(inputs, options);
  clear_inputs();
  bool wants_graph = false;
  if (is_grad_enabled())
    for (const Argument& input : inputs)
      if (const Tensor* tensor = input.tensor()) wants_graph = wants_graph || tensor->is_differentiable();
  try {
    if (wants_graph) {
      inputs_.reserve(inputs.size());
      versions_.reserve(inputs.size());
      for (const Argument& input : inputs) {
        const Tensor* tensor = input.tensor();
        if (tensor == nullptr) continue;
        inputs_.push_back(*tensor);
        versions_.push_back(tensor->version_token());
      }
    }
    Tensor result = run(inputs, options);
    if (wants_graph && result.is_differentiable()) {
      for (const Argument& input : inputs)
        if (const Tensor* tensor = input.tensor(); tensor != nullptr && *tensor == result)
          raise<ValueError>(subject_of(*this),
                            "forward returned one of its own arguments; return a new Tensor, a view for "
                            "example, so that the graph stays free of loops");
      become_node_of(result);
    } else {
      clear_inputs();
    }
    return result;
  } catch (...) {
    clear_inputs();
    throw;
  }
}

Tensor Operation::execute_lowered(Sequence<Argument> inputs, const OperationExecutionOptions* options) {
  check_call(inputs, options);
  const NoGrad no_grad;
  Tensor result = run(inputs, options);
  // One that has a node is somebody's, an argument for example, and keeps it.
  return result.object()->autograd_node ? Tensor::from_representation(result.representation()) : result;
}

Tensor execute_lowered_operation(Operation& operation, Sequence<Argument> inputs,
                                 const OperationExecutionOptions* options) {
  return operation.execute_lowered(inputs, options);
}

Gradients Operation::backward(const Tensor&) {
  raise<RuntimeError>(subject_of(*this),
                      "the operation implements no backward; override it to make it differentiable");
}

Gradients Operation::partial_backward(const Tensor& gradient, const std::vector<bool>&) {
  return backward(gradient);
}

std::map<std::string, std::any>& Operation::ctx() {
  if (!ctx_) ctx_ = std::make_unique<std::map<std::string, std::any>>();
  return *ctx_;
}

const std::any* Operation::find_context(const std::string& key) const {
  if (!ctx_) return nullptr;
  const auto found = ctx_->find(key);
  return found == ctx_->end() ? nullptr : &found->second;
}

void Operation::store_inputs(Sequence<Tensor> inputs) {
  std::vector<Tensor> kept(inputs.begin(), inputs.end());
  std::vector<VersionToken> versions;
  versions.reserve(kept.size());
  for (const Tensor& tensor : kept) versions.push_back(tensor.version_token());
  clear_inputs();
  inputs_ = std::move(kept);
  versions_ = std::move(versions);
}

void Operation::validate_input_versions() const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!(inputs_[i].version_token() == versions_[i])) refuse_changed_input(i, inputs_[i]);
}

void Operation::refuse_changed_input(std::size_t position, const Tensor& input) const {
  raise<RuntimeError>(subject_of(*this), "saved input ", position,
                      " was modified in-place since the forward call: its version is ", input.version(),
                      "; do not write to it before backward, or write to a copy");
}

namespace {
void release_all(std::vector<Tensor> tensors) noexcept {
  for (Tensor& tensor : tensors) release_iteratively(tensor.detach());
}
}  // namespace

void Operation::clear_inputs() noexcept {
  if (inputs_.empty()) return;
  release_all(std::exchange(inputs_, {}));
  versions_.clear();
}

void Operation::release_autograd_state() noexcept {
  clear_inputs();
  ctx_.reset();
  options_.reset();
  freed_ = true;
  on_release_autograd_state();
}

void Operation::visit_references(ReferenceVisitor& visitor) const {
  for (const Tensor& tensor : inputs_) visitor.visit(tensor.ref());
}

void Operation::drop_references() noexcept { release_autograd_state(); }

}  // namespace orlop::inline v0
