// The traversal: iterative, topological, published only as a whole.
#include "orlop/operation/autograd.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "operation/definition.hpp"
#include "operation/dispatch.hpp"
#include "operation/gradient.hpp"
#include "orlop/base/blocking.hpp"
#include "orlop/operation/table_operation.hpp"
#include "orlop/storage/normalize.hpp"
#include "storage/fresh_storage.hpp"

namespace orlop::inline v0 {

namespace {

void require_differentiable(const Tensor& tensor, std::string_view what) {
  if (!tensor.is_differentiable())
    raise<RuntimeError>(what, "only Float32 and Floating Tensors are differentiable: the dtype is ",
                        tensor.dtype().name());
}

Operation* node_of(const Tensor& tensor) {
  return static_cast<Operation*>(tensor.require_object().autograd_node.get());
}

/// While it lives no other thread reads or sets a `.grad`: threads that share a leaf add to it at once.
class GradientAccess {
 public:
  GradientAccess() {
    while (!lock_.try_lock()) {
      const BlockingScope blocking;  // whoever has the lock may need the interpreter to count a reference
      std::this_thread::yield();
    }
  }

 private:
  static std::mutex mutex_;
  std::unique_lock<std::mutex> lock_{mutex_, std::defer_lock};
};

std::mutex GradientAccess::mutex_;

}  // namespace

Ref<Operation> autograd_node(const Tensor& tensor) { return Ref<Operation>(node_of(tensor)); }

void set_autograd_node(const Tensor& tensor, Ref<Operation> node) {
  if (node) require_differentiable(tensor, "autograd_ctx");
  release_iteratively(std::exchange(tensor.require_object().autograd_node, Ref<Object>(std::move(node))));
}

Tensor gradient_of(const Tensor& tensor) {
  require_differentiable(tensor, "grad");
  const TensorObject& object = tensor.require_object();
  const GradientAccess access;
  return object.gradient;
}

void set_gradient(const Tensor& tensor, Tensor gradient) {
  if (gradient) require_differentiable(tensor, "grad");
  TensorObject& object = tensor.require_object();
  const GradientAccess access;
  std::swap(object.gradient, gradient);  // what was there is let go without the lock
}

void retain_grad(const Tensor& tensor, bool retain) {
  require_differentiable(tensor, "retain_grad");
  tensor.require_object().retains_gradient = retain;
}

void check_cotangent(const Tensor& target, const Tensor& cotangent) {
  if (&cotangent.dtype() != &target.dtype())
    raise<TypeError>("backward", "the cotangent must have the Tensor's dtype ", target.dtype().name(),
                     ": got ", cotangent.dtype().name());
  cotangent.carrier()->require_live();
  const Layout& layout = target.layout();
  if (layout.is_injective()) {
    if (!(cotangent.layout() == layout))
      raise<ValueError>("backward", "the cotangent must have the Tensor's layout ", layout, ": got ",
                        cotangent.layout());
    return;
  }
  if (!layout.is_broadcast_aliasing())
    raise<ValueError>("backward",
                      "elements of the Tensor share slots in a way no gradient can follow: ", layout,
                      "; only modes of stride 0 may repeat slots");
  if (!(cotangent.layout().shape() == layout.shape()) || !cotangent.layout().is_injective())
    raise<ValueError>("backward", "the cotangent must have shape ", layout.shape(),
                      " in an injective layout: got ", cotangent.layout());
}

namespace {

/// The sum as the carrier of `first` makes it, or the null handle where it leaves that to the table.
Tensor carriers_sum(const Tensor& first, const Tensor* second) {
  Ref<Carrier> sum = first.carrier()->sum_gradients(first, second);
  return sum ? Tensor::trusted(std::move(sum), first.offset(), first.layout()) : Tensor();
}

/// Sum of two gradients of one shape, in the layout of the first; one that was set by hand may repeat slots.
Tensor add_gradients(const Tensor& a, const Tensor& b) {
  if (Tensor sum = carriers_sum(a, &b)) return sum;
  if (Tensor sum = carriers_sum(b, &a)) return sum;
  const Tensor other = a.carrier_type() == b.carrier_type() ? b : copy_to_carrier(b, *a.carrier());
  const std::array<Argument, 2> arguments{Argument(a), Argument(other)};
  const Tensor sum = run_definition(*find_definition("add"), arguments, nullptr, a.carrier_type(), false);
  const Layout layout = gradient_layout(a.layout());
  return sum.layout() == layout ? sum : copy_to_layout(sum, layout);
}

/// The total that reached `target`. What an author's operation made may be memory that others write.
struct Arrival {
  Tensor target;
  Tensor cotangent;
  bool is_built_in;  // made by the table's operations
};

/// Whether the tensor fills storage that nobody else has, in this layout.
bool is_unshared(const Tensor& tensor, const Layout& layout) {
  return tensor.object()->reference_count() == 1 && tensor.carrier()->reference_count() == 1 &&
         tensor.offset() == 0 && tensor.layout() == layout && tensor.carrier()->size() == layout.size();
}

/// What `.grad` stores for the arrived cotangent of a target, in storage of its own; where slots repeat by
/// stride 0, each coordinate holds the sum over all coordinates of its slot (P86).
Tensor stored_gradient(const Arrival& arrival) {
  const Layout& layout = arrival.target.layout();
  const Tensor& arrived = arrival.cotangent;
  if (layout.is_injective()) {
    if (Tensor own = carriers_sum(arrived, nullptr)) return own;
    if (arrival.is_built_in && is_unshared(arrived, layout))
      return Tensor::trusted(arrived.carrier(), 0, layout);
    return copy_to_layout(arrived, layout);
  }
  detail::Nest distinct = layout.shape().nest();
  distinct.size = 1;
  for (std::size_t i = 0; i < distinct.leaves.size(); ++i) {
    if (layout.strides()[i] == 0) distinct.leaves[i] = 1;
    distinct.size *= distinct.leaves[i];
  }
  const Tensor sum = sum_to_shape(arrived, Shape(std::move(distinct)));
  const Tensor spread =
      Tensor::trusted(sum.carrier(), sum.offset(), sum.layout().broadcast_to(layout.shape()));
  return copy_to_layout(spread, Layout::canonical(layout.shape()));
}

class Traversal {
 public:
  /// Finds every node below `root` in topological order, consumers first. Where `leaves` are given, the
  /// gradients of other leaves need not be computed.
  explicit Traversal(Operation* root, std::optional<std::span<const Tensor>> leaves = {}) : leaves_(leaves) {
    if (root == nullptr) return;
    struct Frame {
      Operation* node;
      std::size_t next;
    };
    std::vector<Frame> stack{{root, 0}};
    std::unordered_set<Operation*> seen{root};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.next == frame.node->inputs().size()) {
        order_.emplace_back(frame.node);
        stack.pop_back();
        continue;
      }
      Operation* below = node_of(frame.node->inputs()[frame.next++]);
      if (below != nullptr && seen.insert(below).second) stack.push_back({below, 0});
    }
  }

  /// One more contribution to the cotangent of `target`.
  void deliver(const Tensor& target, const Tensor& cotangent, bool is_built_in = false) {
    auto [entry, is_first] = arrived_.try_emplace(target.object(), Arrival{target, cotangent, is_built_in});
    if (is_first) {
      arrival_order_.push_back(target.object());
      if (Operation* node = node_of(target)) results_[node].push_back(target.object());
    } else {
      entry->second.cotangent = add_gradients(entry->second.cotangent, cotangent);
    }
  }

  void run() {
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      const auto results = results_.find(node->get());
      if (results == results_.end()) continue;
      Tensor cotangent;
      for (TensorObject* result : results->second) {
        const Tensor& contribution = arrived_.at(result).cotangent;
        cotangent = cotangent ? add_gradients(cotangent, contribution) : contribution;
      }
      step(**node, cotangent);
    }
  }

  /// Runs one node and delivers what it returns.
  void step(Operation& node, const Tensor& cotangent) {
    if (node.autograd_state_freed())
      raise<RuntimeError>("backward", "the graph of ", subject_of(node),
                          " was already released by an earlier "
                          "backward; pass retain_graph=True there to go through it again, or compute what "
                          "both share under no_grad");
    node.validate_input_versions();
    const std::vector<Tensor> inputs = node.inputs();
    std::vector<bool> wanted;
    wanted.reserve(inputs.size());
    for (const Tensor& input : inputs) wanted.push_back(is_wanted(input));
    const Gradients gradients = node.partial_backward(cotangent, wanted);
    if (gradients.size() != inputs.size())
      raise<ValueError>("backward", subject_of(node),
                        " must return one gradient or None per saved input: ", inputs.size(), " expected, ",
                        gradients.size(), " returned");
    const bool is_built_in = dynamic_cast<const TableOperation*>(&node) != nullptr;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!gradients[i] || !inputs[i].is_differentiable()) continue;
      check_cotangent(inputs[i], *gradients[i]);
      deliver(inputs[i], *gradients[i], is_built_in);
    }
  }

  /// What reached `tensor`, or null.
  [[nodiscard]] const Arrival* arrived(const Tensor& tensor) const {
    const auto found = arrived_.find(tensor.object());
    return found == arrived_.end() ? nullptr : &found->second;
  }

  /// Adds to `.grad` of leaves and retaining Tensors; everything is computed before anything is set (P87).
  void publish() {
    std::vector<std::pair<Tensor, Tensor>> arrivals;
    for (TensorObject* object : arrival_order_) {
      const Arrival& arrival = arrived_.at(object);
      if (node_of(arrival.target) != nullptr && !object->retains_gradient) continue;
      arrivals.emplace_back(arrival.target, stored_gradient(arrival));
    }
    std::vector<Update> updates;
    // What other threads have added while the sums were computed is added to.
    do {
      updates.clear();
      for (const auto& [target, arrived] : arrivals) {
        const Tensor before = gradient_of(target);
        updates.push_back({target.object(), before, before ? add_gradients(before, arrived) : arrived});
      }
    } while (!set_all(updates));
  }

  void release_nodes() {
    for (const Ref<Operation>& node : order_) node->release_autograd_state();
  }

 private:
  [[nodiscard]] bool is_wanted(const Tensor& input) const {
    return !leaves_ || node_of(input) != nullptr ||
           std::find(leaves_->begin(), leaves_->end(), input) != leaves_->end();
  }

  struct Update {
    TensorObject* object;
    Tensor before;
    Tensor after;
  };

  /// False, with nothing set, where a gradient is another one than before.
  static bool set_all(std::vector<Update>& updates) {
    const GradientAccess access;
    if (!std::ranges::all_of(updates, [](const Update& u) { return u.object->gradient == u.before; }))
      return false;
    for (Update& update : updates) std::swap(update.object->gradient, update.after);
    return true;
  }

  std::vector<Ref<Operation>> order_;  // producers first
  std::unordered_map<TensorObject*, Arrival> arrived_;
  std::vector<TensorObject*> arrival_order_;
  std::unordered_map<Operation*, std::vector<TensorObject*>> results_;
  std::optional<std::span<const Tensor>> leaves_;
};

Tensor one_like(const Tensor& tensor) {
  const Layout& layout = tensor.layout();
  if (layout.rank() != 1 || !layout.is_leaf() || layout.size() != 1)
    raise<ValueError>("backward", "only a Tensor of shape (1,) can start without a gradient: its shape is ",
                      layout.shape(), "; pass gradient=");
  const DType& dtype = tensor.carrier()->dtype();
  if (dtype.storage_type() == StorageType::other)  // Floating
    return Tensor::trusted(tensor.carrier()->new_like(std::array{Scalar(1.0)}), 0, layout);
  Ref<Carrier> carrier = fresh_storage(*tensor.carrier(), layout.cosize(), {.dtype = dtype});
  const float one = 1.0F;
  carrier->write_span(0, 1, &one);
  return Tensor::trusted(std::move(carrier), 0, layout);
}

}  // namespace

void backward(const Tensor& tensor, const std::optional<Tensor>& gradient, BackwardOptions options) {
  tensor.require_single_subtensor("backward");
  require_differentiable(tensor, "backward");
  if (gradient) check_cotangent(tensor, *gradient);
  const NoGrad no_grad;
  const Tensor cotangent = gradient ? *gradient : one_like(tensor);
  Traversal traversal(node_of(tensor));
  traversal.deliver(tensor, cotangent);
  traversal.run();
  traversal.publish();
  if (!options.retain_graph) traversal.release_nodes();
}

void backwards_traversal(const Tensor& gradient, const Ref<Operation>& operation, BackwardOptions options) {
  if (!operation) return;
  const NoGrad no_grad;
  Traversal traversal(operation.get());
  traversal.step(*operation, gradient);
  traversal.run();
  traversal.publish();
  if (!options.retain_graph) traversal.release_nodes();
}

namespace {

std::vector<std::optional<Tensor>> unbatched_grad(const Tensor& output, std::span<const Tensor> inputs,
                                                  const Tensor& cotangent, bool retain_graph) {
  Traversal traversal(node_of(output), inputs);
  traversal.deliver(output, cotangent);
  traversal.run();
  std::vector<std::optional<Tensor>> gradients;
  for (const Tensor& input : inputs) {
    const Arrival* arrival = traversal.arrived(input);
    gradients.push_back(arrival != nullptr ? std::optional(stored_gradient(*arrival)) : std::nullopt);
  }
  if (!retain_graph) traversal.release_nodes();
  return gradients;
}

/// One Tensor whose first mode counts the entries of `parts`, all of one layout and zero where there is none
/// (P91); nothing where all are none.
std::optional<Tensor> stack(const std::vector<std::optional<Tensor>>& parts) {
  const auto first = std::ranges::find_if(parts, [](const auto& entry) { return entry.has_value(); });
  if (first == parts.end()) return std::nullopt;
  const Layout& part = (*first)->layout();
  const Index span = part.cosize();
  const auto count = static_cast<Index>(parts.size());
  const Layout layout = Layout::concat(Layout::leaf(count, span), part);
  Carrier& prototype = *(*first)->carrier();
  Ref<Carrier> carrier = fresh_storage(prototype, count * span, {.dtype = prototype.dtype()});
  std::vector<std::byte> slots(slots_to_bytes(prototype.dtype(), span));
  for (Index k = 0; k < count; ++k) {
    const std::optional<Tensor>& entry = parts[static_cast<std::size_t>(k)];
    if (!entry) continue;
    entry->carrier()->read_span(entry->offset(), span, slots.data());
    carrier->write_span(k * span, span, slots.data());
  }
  return Tensor::trusted(std::move(carrier), 0, layout);
}

}  // namespace

std::vector<std::optional<Tensor>> grad(const Tensor& output, Sequence<Tensor> inputs,
                                        const Tensor& cotangents, GradOptions options) {
  output.require_single_subtensor("grad");
  require_differentiable(output, "grad");
  for (const Tensor& input : inputs) {
    input.require_single_subtensor("grad");
    if (!input.is_differentiable())
      raise<ValueError>("grad", "every input must be differentiable: one has dtype ", input.dtype().name());
  }
  const NoGrad no_grad;
  if (!options.batched) {
    check_cotangent(output, cotangents);
    return unbatched_grad(output, inputs, cotangents, options.retain_graph);
  }
  const Layout& layout = cotangents.layout();
  if (layout.rank() < 1 || !layout.mode(0).is_leaf())
    raise<ValueError>("grad", "batched cotangents need one leaf batch mode before output's modes: got ",
                      layout);
  const Index count = layout.shape().mode(0).size();
  std::vector<std::size_t> rest(layout.rank() - 1);
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = i + 1;
  const Layout slice = layout.select(rest);
  const Index step = layout.strides()[0];
  std::vector<std::vector<std::optional<Tensor>>> parts(inputs.size());
  for (Index k = 0; k < count; ++k) {
    const Tensor cotangent = Tensor::trusted(cotangents.carrier(), cotangents.offset() + k * step, slice);
    check_cotangent(output, cotangent);
    const bool retain = options.retain_graph || k + 1 < count;
    const auto gradients = unbatched_grad(output, inputs, cotangent, retain);
    for (std::size_t i = 0; i < inputs.size(); ++i) parts[i].push_back(gradients[i]);
  }
  std::vector<std::optional<Tensor>> stacked;
  stacked.reserve(parts.size());
  for (const auto& entries : parts) stacked.push_back(stack(entries));
  return stacked;
}

}  // namespace orlop::inline v0
