// Operation: one stateful invocation of a named operation, and the autograd node of its result (P40-P46).
#pragma once

#include <any>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "orlop/base/sequence.hpp"
#include "orlop/operation/options.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

/// One positional argument: a Tensor, a real number, or anything else (shapes, axes, keys, Python objects).
class ORLOP_API Argument {
 public:
  Argument(Tensor tensor) : value_(std::move(tensor)) {}
  Argument(Scalar scalar) : value_(scalar) {}
  /// A real number: `mul(tensor, 2.0)`.
  template <class T>
    requires(std::is_arithmetic_v<T> && std::is_constructible_v<Scalar, T>)
  Argument(T number) : value_(Scalar(number)) {}
  /// `type_name` is what messages call a value of this type.
  template <class T>
  [[nodiscard]] static Argument of(T value, std::string type_name = "another value") {
    return Argument(Other{std::any(std::move(value)), std::move(type_name)});
  }

  [[nodiscard]] const Tensor* tensor() const noexcept { return std::get_if<Tensor>(&value_); }
  [[nodiscard]] const Scalar* scalar() const noexcept { return std::get_if<Scalar>(&value_); }
  /// The other value of exact type `T`, or null.
  template <class T>
  [[nodiscard]] const T* get() const noexcept {
    const auto* other = std::get_if<Other>(&value_);
    return other != nullptr ? std::any_cast<T>(&other->value) : nullptr;
  }
  /// What kind of value it is, for messages.
  [[nodiscard]] std::string_view type_name() const noexcept {
    const auto* other = std::get_if<Other>(&value_);
    return other != nullptr ? std::string_view(other->type_name) : tensor() != nullptr ? "Tensor" : "number";
  }
  /// Reports what the argument holds, for the cycle collector.
  void visit_references(ReferenceVisitor& visitor) const;

 private:
  struct Other {  // keeps std::any's conversions from everything out of overload resolution
    std::any value;
    std::string type_name;
  };
  explicit Argument(Other other) : value_(std::move(other)) {}

  std::variant<Tensor, Scalar, Other> value_;
};

namespace detail {
struct ProfiledCall;  // operation/profiler.hpp
/// How a binding reports the objects of its own that an Argument holds; called once.
ORLOP_API void install_foreign_visitor(void (*visit)(const std::any& value,
                                                     ReferenceVisitor& visitor)) noexcept;
}  // namespace detail

/// One gradient per saved input, in saved order; nothing where there is none.
using Gradients = std::vector<std::optional<Tensor>>;

/// Base of all operations; open to C++ and Python authors (P44): implement `forward_impl` and `backward`.
class ORLOP_API Operation : public Object {
 public:
  Operation() noexcept;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() override;

  /// Runs the operation; records it as the result's autograd node where gradients are wanted (P42).
  virtual Tensor forward(Sequence<Argument> inputs, const OperationExecutionOptions* options = nullptr);
  /// The same for an operation that may have several results (X25): one Tensor for each.
  [[nodiscard]] virtual std::vector<Tensor> forward_all(Sequence<Argument> inputs,
                                                        const OperationExecutionOptions* options = nullptr);
  /// `forward` without recording anything: for an operation nested in another (P43).
  Tensor execute_lowered(Sequence<Argument> inputs, const OperationExecutionOptions* options = nullptr);
  /// The vector-Jacobian product. Default: RuntimeError.
  virtual Gradients backward(const Tensor& gradient);
  /// The same where nobody asks for the gradients of saved inputs that are not `wanted`: they may be missing.
  /// Default: backward.
  virtual Gradients partial_backward(const Tensor& gradient, const std::vector<bool>& wanted);

  /// The instance's own state, for authors.
  [[nodiscard]] std::map<std::string, std::any>& ctx();
  /// One entry of ctx, or null; makes nothing.
  [[nodiscard]] const std::any* find_context(const std::string& key) const;
  /// Keeps these tensors with fresh version tokens, replacing what was kept.
  void store_inputs(Sequence<Tensor> inputs);
  [[nodiscard]] const std::vector<Tensor>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<VersionToken>& input_versions() const noexcept { return versions_; }
  /// RuntimeError when a kept tensor was mutated since.
  virtual void validate_input_versions() const;

  /// Empty before dispatch.
  [[nodiscard]] const std::string& operation_name() const noexcept { return name_; }
  /// Null before dispatch.
  [[nodiscard]] CarrierClass dispatch_carrier_class() const noexcept { return dispatch_class_; }
  [[nodiscard]] const OperationExecutionOptions* execution_options() const noexcept { return options_.get(); }
  /// The operation's own class, for profiles.
  [[nodiscard]] virtual std::string implementation_name() const;

  [[nodiscard]] bool autograd_state_freed() const noexcept { return freed_; }
  /// Empties inputs, versions, ctx and options; the node stays on its result.
  void release_autograd_state() noexcept;
  [[nodiscard]] bool is_dispatched() const noexcept { return static_cast<bool>(dispatch_class_); }

  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

 protected:
  /// Computes the result. Never called directly.
  virtual Tensor forward_impl(std::span<const Argument> inputs) = 0;
  /// Whether a compound tensor may be an argument (the views; P42 step 2).
  [[nodiscard]] virtual bool accepts_compound() const;
  /// The Tensor at a position of `inputs`; TypeError where there is none.
  [[nodiscard]] static const Tensor& tensor_argument(std::span<const Argument> inputs, std::size_t position);
  /// Drops state of a subclass with the rest; called by release_autograd_state.
  virtual void on_release_autograd_state() noexcept {}

  // For operations whose calls go another way than `forward` above.
  /// P42 steps 1 and 2, and RuntimeError where the operation is a node already.
  void check_forward(std::span<const Argument> inputs, const OperationExecutionOptions* options) const;
  /// Makes the operation the autograd node of `result`.
  void become_node_of(const Tensor& result);
  /// Gives the operation the name and the class that `other` was dispatched with.
  void dispatch_as(const Operation& other);
  /// RuntimeError for the saved input at `position`, a changed one.
  [[noreturn]] void refuse_changed_input(std::size_t position, const Tensor& input) const;
  /// What a profiler's event says about the call.
  [[nodiscard]] detail::ProfiledCall profiled_call() const;

 private:
  friend class Carrier;  // dispatch_op stamps the name and the class
  void check_call(std::span<const Argument> inputs, const OperationExecutionOptions* options) const;
  Tensor run(std::span<const Argument> inputs, const OperationExecutionOptions* options);
  void clear_inputs() noexcept;

  std::string name_;
  CarrierClass dispatch_class_;
  std::vector<Tensor> inputs_;
  std::vector<VersionToken> versions_;
  std::unique_ptr<std::map<std::string, std::any>> ctx_;
  std::unique_ptr<OperationExecutionOptions> options_;
  bool freed_ = false;
  bool is_node_ = false;  // some result's autograd node
};

/// The base path of execute_lowered, whatever a subclass shadows.
ORLOP_API Tensor execute_lowered_operation(Operation& operation, Sequence<Argument> inputs,
                                           const OperationExecutionOptions* options = nullptr);

/// A fresh undispatched operation of the central table (P45), for a carrier's `make_operation`. Unknown name:
/// NotImplementedError.
[[nodiscard]] ORLOP_API Ref<Operation> table_operation(std::string_view name);
/// The same for storage that computes nothing: only the views (P70), null for every other name.
[[nodiscard]] ORLOP_API Ref<Operation> view_operation(std::string_view name);

}  // namespace orlop::inline v0
