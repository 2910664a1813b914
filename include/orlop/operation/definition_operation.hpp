// The operation that a carrier class with a definition dispatches: the one place for the call order, aliases,
// publication, effects and gradients of X27–X32. What computes is the class's InvocationExecutor.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "orlop/operation/invocation_executor.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/operation/operation_definition.hpp"
#include "orlop/operation/other_arguments.hpp"

namespace orlop::inline v0 {

/// One call of a definition on one carrier, and the autograd node of one of its results. Made by
/// `Carrier::dispatch_op`.
class ORLOP_API DefinitionOperation final : public Operation {
 public:
  /// `carrier` is the dispatching one.
  DefinitionOperation(Ref<Carrier> carrier, const OperationDefinition& definition);
  ~DefinitionOperation() override;

  [[nodiscard]] const OperationDefinition& definition() const noexcept { return definition_; }
  /// What is kept for backward; nothing where the call was not recorded.
  [[nodiscard]] const std::optional<ResolvedInvocation>& resolved_invocation() const noexcept {
    return invocation_;
  }

  /// RuntimeError where the definition has several results.
  Tensor forward(Sequence<Argument> inputs, const OperationExecutionOptions* options = nullptr) override;
  [[nodiscard]] std::vector<Tensor> forward_all(Sequence<Argument> inputs,
                                                const OperationExecutionOptions* options = nullptr) override;
  /// The same for a call that is resolved already (X25).
  [[nodiscard]] std::vector<Tensor> forward_invocation(const ResolvedInvocation& invocation);
  /// One gradient per differentiable operand. After lowered execution: one per Tensor operand, for the
  /// Tensors that store_inputs has put in their places (P43).
  Gradients backward(const Tensor& gradient) override;
  /// RuntimeError where an operand that the invocation saves was changed since; others may.
  void validate_input_versions() const override;
  [[nodiscard]] std::string implementation_name() const override;

  void visit_references(ReferenceVisitor& visitor) const override;

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;
  void on_release_autograd_state() noexcept override;

 private:
  [[nodiscard]] ResolvedInvocation resolve(std::span<const Argument> inputs,
                                           const OperationExecutionOptions* options) const;
  [[nodiscard]] std::vector<Tensor> run(const ResolvedInvocation& invocation, bool records);
  [[nodiscard]] std::vector<Tensor> execute(const InvocationExecutor& executor,
                                            const ResolvedInvocation& invocation);
  void check_carriers(const InvocationExecutor& executor, const BoundOperationCall& call) const;
  void record(const ResolvedInvocation& invocation, std::span<const Tensor> results);
  [[nodiscard]] Gradients lowered_gradients(const Tensor& gradient);
  [[nodiscard]] Gradients gradients(const ResolvedInvocation& invocation, std::span<const Tensor> outputs,
                                    std::span<const std::optional<Tensor>> cotangents) const;
  void keep(ResolvedInvocation invocation, std::span<const Tensor> results, std::size_t position);

  Ref<Carrier> carrier_;
  const OperationDefinition& definition_;
  // The state of a node.
  std::optional<ResolvedInvocation> invocation_;
  std::vector<Tensor> outputs_;  // the same storage, without graph: the results themselves hold this node
  std::vector<VersionToken> saved_versions_;
  std::size_t position_ = 0;  // of the result
  OtherArguments lowered_;    // of lowered execution, whose Tensors are somebody else's
};

/// A fresh, unstamped operation for a carrier whose class has a definition (X26). Errors: RuntimeError
/// ‹<Class> is released›, NotImplementedError for a name without a definition, and the executor's refusals.
[[nodiscard]] ORLOP_API Ref<Operation> dispatch_definition(Carrier& carrier, std::string_view name);

/// Runs a resolved invocation through a fresh operation of `carrier`.
[[nodiscard]] ORLOP_API std::vector<Tensor> execute_definition_invocation(
    Carrier& carrier, const ResolvedInvocation& invocation);

}  // namespace orlop::inline v0
